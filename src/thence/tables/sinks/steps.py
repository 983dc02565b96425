"""The changes of a transaction as statements for its target, in an order that its constraints allow.

*Invariant.* Changes are applied in their own order. What differs from it: truncated tables are emptied children first;
rows of a snapshot go parents first, because a snapshot has no order of its own; and a delete followed at once by a
create in the same table under another key, at the same place in the source's log, is one update of the key, which is
how Debezium writes such an update. A delete would take the row's children along, or be refused because of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cache, wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from thence.core.model.plain import Fields
from thence.errors import MisuseError
from thence.tables.sinks.target import Target, nullable
from thence.tables.sinks.values import UNAVAILABLE, Unusable, converted
from thence.tables.sources import WholeTransaction

MANY = 1000
"""rows of one statement"""
PLACES = (("lsn",), ("file", "pos", "row"))
"""fields of a change's `source` with its place in the log: of PostgreSQL, and of MySQL and MariaDB"""
Action = Literal["upsert", "update", "delete", "empty"]
Values = dict[str, Any]
"""values by the parameters of a statement"""


@dataclass(slots=True)
class TableStep:
    """Rows of one table that one statement changes; `numbers` are the places of their changes, from 1."""

    action: Action
    table: sa.Table
    columns: tuple[str, ...]
    rows: list[Values] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


def steps(unit: WholeTransaction, target: Target) -> Iterator[TableStep]:
    """Return the statements that apply a transaction."""
    if unit.kind == "snapshot":
        return _runs(_snapshot(unit, target))
    return _runs(_each(_numbered(unit), target))


def _numbered(unit: WholeTransaction) -> Iterator[tuple[int, Fields]]:
    return enumerate(unit, 1)


def _runs(single: Iterable[TableStep]) -> Iterator[TableStep]:
    """Join neighbours that one statement can serve."""
    run: TableStep | None = None
    for step in single:
        same = run is not None and (run.action, run.table, run.columns) == (step.action, step.table, step.columns)
        if run is not None and same and len(run.rows) < MANY:
            run.rows += step.rows
            run.numbers += step.numbers
        else:
            if run is not None:
                yield run
            run = step
    if run is not None:
        yield run


def _each(changes: Iterable[tuple[int, Fields]], target: Target) -> Iterator[TableStep]:
    held: tuple[int, Fields, sa.Table] | None = None  # a delete that may be half of an update of its key
    emptied: list[TableStep] = []
    for number, change in changes:
        op, table = change.get("op"), target.table(change) if change.get("op") != "m" else None
        if held is not None:
            before, held = held, None
            moves = op == "c" and table is before[2] and not _apart(before[1], change)
            if moves and (step := _new_key(number, before[1], change, before[2])) is not None:
                yield step
                continue
            yield _delete(*before)
        if op == "t" and table is not None:
            emptied.append(TableStep("empty", table, (), [{}], [number]))
            continue
        yield from _children_first(emptied, target)
        emptied = []
        if table is None:
            continue
        if op == "d":
            held = number, change, table
        elif op == "u":
            yield _update(number, change, table)
        else:
            yield _upsert(number, change, table)
    if held is not None:
        yield _delete(*held)
    yield from _children_first(emptied, target)


def _children_first(emptied: list[TableStep], target: Target) -> list[TableStep]:
    return sorted(emptied, key=lambda step: -target.order.get(step.table, 0))


def _snapshot(unit: WholeTransaction, target: Target) -> Iterator[TableStep]:
    """Yield the rows parents first; foreign keys on a cycle that cannot be deferred are filled in at the end."""
    late = _late_columns(target)
    for table in target.order:
        for number, change in _numbered(unit):
            if target.table(change) is table:
                step = _upsert(number, change, table)
                step.rows[0] |= {_parameters(table)[name]: None for name in late.get(table, ()) if name in step.columns}
                yield step
    for table, names in late.items():
        for number, change in _numbered(unit):
            after = change.get("after") or {}
            if target.table(change) is table and any(after.get(name) is not None for name in names):
                yield _update(number, change, table)


def _late_columns(target: Target) -> dict[sa.Table, set[str]]:
    """Return the columns, by table, that are null at first: those of cycles that cannot be deferred."""
    for key in target.unbroken():
        raise MisuseError(
            f"the snapshot cannot be written: foreign key {target.shown(key)} stands on a cycle of which none can be "
            "deferred or takes nulls. Declare one DEFERRABLE, or let its column take nulls"
        )
    found: dict[sa.Table, set[str]] = {}
    for key in target.cyclic():
        found.setdefault(key.table, set()).update(nullable(key))
    return found


# -- one change --------------------------------------------------------------------------------------------------------


def _values(image: Fields, table: sa.Table) -> Values:
    columns = _columns(table)
    strange = [name for name in image if name not in columns]
    if strange:
        raise Unusable(f"table {table.fullname} has no column {', '.join(strange)}; it has {', '.join(columns)}")
    return {
        name: converted(value, columns[name])
        for name, value in image.items()
        if value != UNAVAILABLE and columns[name].computed is None
    }


@cache
def _parameters(table: sa.Table) -> dict[str, str]:
    """Return the parameter of each column; the names of columns are not safe, as SQLAlchemy takes a.b for a_b."""
    return {column.name: f"value_{at}" for at, column in enumerate(table.columns)}


@cache
def _key_parameters(table: sa.Table) -> dict[str, str]:
    """Return the parameter of each column of the primary key, for the old key of a row."""
    return {name: f"key_{at}" for at, name in enumerate(_key_names(table))}


@cache
def _columns(table: sa.Table) -> dict[str, sa.Column[Any]]:
    return {column.name: column for column in table.columns}


@cache
def _key_names(table: sa.Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.primary_key.columns)


def _key(change: Fields, table: sa.Table, *images: str) -> Values | None:
    """Return the primary key as the first of these images has it."""
    names = _key_names(table)
    for image in images:
        found = change.get(image)
        if isinstance(found, Mapping) and all(found.get(name) is not None for name in names):
            return {_key_parameters(table)[name]: converted(found[name], _columns(table)[name]) for name in names}
    return None


def _known_key(change: Fields, table: sa.Table, *images: str) -> Values:
    key = _key(change, table, *images)
    if key is None:
        raise Unusable(f"it has no value for the primary key of {table.fullname}: {', '.join(_key_names(table))}")
    return key


Of = ParamSpec("Of")
MadeStatements = TypeVar("MadeStatements")


def _of_change(make: Callable[Concatenate[int, Of], MadeStatements]) -> Callable[Concatenate[int, Of], MadeStatements]:
    """Add the number of the change, the first argument, to errors about unusable values."""

    @wraps(make)
    def numbered(number: int, /, *args: Of.args, **options: Of.kwargs) -> MadeStatements:
        try:
            return make(number, *args, **options)
        except Unusable as error:
            error.number = number
            raise

    return numbered


@_of_change
def _upsert(number: int, change: Fields, table: sa.Table) -> TableStep:
    _known_key(change, table, "after")
    return _changed("upsert", table, {}, change["after"], number)


@_of_change
def _update(number: int, change: Fields, table: sa.Table) -> TableStep:
    key = _known_key(change, table, "before", "after")
    return _changed("update", table, key, change.get("after") or {}, number)


@_of_change
def _delete(number: int, change: Fields, table: sa.Table) -> TableStep:
    return TableStep("delete", table, (), [_known_key(change, table, "before", "key")], [number])


@_of_change
def _new_key(number: int, before: Fields, change: Fields, table: sa.Table) -> TableStep | None:
    old, new = _key(before, table, "before", "key"), _key(change, table, "after")
    if old is None or new is None or old == new:
        return None
    return _changed("update", table, old, change["after"], number)


def _changed(action: Action, table: sa.Table, key: Values, image: Fields, number: int) -> TableStep:
    values, parameters = _values(image, table), _parameters(table)
    row = key | {parameters[name]: value for name, value in values.items()}
    return TableStep(action, table, tuple(values), [row], [number])


def _apart(before: Fields, change: Fields) -> bool:
    """Return whether two changes lie at two places in the log, so that no one statement of one row wrote both."""
    old, new = before.get("source") or {}, change.get("source") or {}
    return any(
        all(source.get(name) is not None for source in (old, new) for name in names)
        and any(old[name] != new[name] for name in names)
        for names in PLACES
    )


def _type(column: sa.Column[Any]) -> Any:
    """Return the type of a column; a null in one of JSON is a null, not JSON's."""
    if not isinstance(column.type, sa.JSON):
        return column.type
    kind = copy(column.type)
    kind.none_as_null = True
    return kind


# -- statements --------------------------------------------------------------------------------------------------------


class Statements:
    """Runs steps in the dialect of a target."""

    def __init__(self, dialect: str) -> None:
        """Choose the dialect's upsert."""
        self._insert: Callable[[sa.Table], Any] | None = {
            "postgresql": postgresql.insert,
            "sqlite": sqlite.insert,
        }.get(dialect)
        self._made: dict[tuple[str, str, tuple[str, ...]], Any] = {}

    def run(self, connection: sa.Connection, step: TableStep) -> None:
        """Run one step: upsert, update or delete its rows, or empty its table."""
        if step.action == "update":
            for row in step.rows:
                self._update(connection, step, row)
        elif step.action == "upsert" and self._insert is None:
            # ON DUPLICATE KEY UPDATE would also overwrite another row that has the same value in a unique column
            values = _parameters(step.table)
            for row in step.rows:
                key = {parameter: row[values[name]] for name, parameter in _key_parameters(step.table).items()}
                self._update(connection, step, row | key)
        else:
            _execute(connection, self._statement(step.action, step), step.rows)

    def _update(self, connection: sa.Connection, step: TableStep, row: Values) -> None:
        if not _execute(connection, self._statement("update", step), [row]).rowcount:
            parameters = _parameters(step.table)
            values = {parameters[name]: row[parameters[name]] for name in step.columns}
            _execute(connection, self._statement("insert", step), [values])

    def _statement(self, action: str, step: TableStep) -> Any:
        which = (action, step.table.fullname, step.columns)
        if which not in self._made:
            self._made[which] = self._build(action, step.table, step.columns)
        return self._made[which]

    def _build(self, action: str, table: sa.Table, names: tuple[str, ...]) -> Any:
        columns, key = _columns(table), _key_names(table)
        old, new = _key_parameters(table), _parameters(table)
        same = [columns[name] == sa.bindparam(old[name], type_=columns[name].type) for name in key]
        values = {columns[name]: sa.bindparam(new[name], type_=_type(columns[name])) for name in names}
        if action == "empty":
            return sa.delete(table)
        if action == "delete":
            return sa.delete(table).where(*same)
        if action == "update":
            return sa.update(table).where(*same).values(values)
        if action == "insert" or self._insert is None:
            return sa.insert(table).values(values)
        insert = self._insert(table).values(values)
        rest = {columns[name]: insert.excluded[columns[name].key] for name in names if name not in key}
        by = [columns[name] for name in key]
        if not rest:
            return insert.on_conflict_do_nothing(index_elements=by)
        return insert.on_conflict_do_update(index_elements=by, set_=rest)


def _execute(connection: sa.Connection, statement: Any, rows: list[Values]) -> sa.CursorResult[Any]:
    """Run a statement; a value that its driver does not take is unusable, as a row that the target refuses."""
    try:
        return connection.execute(statement, rows[0] if len(rows) == 1 else rows)
    except (TypeError, ValueError, OverflowError) as error:
        raise Unusable(f"the driver takes no such value: {error}") from error
    except sa.exc.StatementError as error:
        if isinstance(error, sa.exc.DBAPIError):
            raise
        raise Unusable(f"the driver takes no such value: {error.orig}") from error
