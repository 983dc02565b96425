"""Changes behind the rows they refer to: what foreign keys and the identity of a row say, and nothing more.

Invariant: in the order of the log, a change waits for the latest earlier change of the same row, and for the latest
earlier change of each row that its foreign keys name; where there is none, for the first later one in the same
transaction (constraints can be checked at its end). A delete, and an update that gives a row another key, waits for the
changes that named the row before, and for those that made rows name another or none: `before` need not say what a row
named (PostgreSQL writes only its key), so the latest earlier change of the row does. A parent that the records do not
hold is waited for by name, `row/customer[7]`; if the reading starts in mid-topic it counts as delivered. Two changes
that no key connects do not wait for each other, whatever transactions they are of.

A row is known by its record's key, and by the values of each set of columns that a foreign key refers to. A change with
neither is known by nothing, and waits only for its parents.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from thence.core.model.plain import Fields
from thence.errors import MisuseError
from thence.tables.sources.arrival import Record
from thence.tables.sources.commits import binlog, commit_mark
from thence.tables.sources.debezium import DebeziumArrival, ReadChange, record_key

Identity = tuple[str, tuple[str, ...], tuple[str, ...]]
"""a table, columns of it, and their values as texts"""
_TOUCHING = ("create", "update", "delete", "snapshot", "incremental")


class ForeignKey(NamedTuple):
    """Columns of a table that refer to columns of another."""

    child: str
    columns: tuple[str, ...]
    parent: str
    referred: tuple[str, ...]


class Touch(NamedTuple):
    """The identities of the row of one change, and of the rows that it refers to."""

    row: DebeziumArrival
    own: frozenset[Identity]
    lost: frozenset[Identity]
    """identities that the row has no more"""
    parents: frozenset[Identity]
    named: frozenset[Identity]
    """parents after and before the change"""


def foreign_keys_of(columns: Mapping[str, str]) -> list[ForeignKey]:
    """Read foreign keys as the user writes them: `{"line.shop,number": "orders.shop,number"}`."""
    found = []
    for child, parent in columns.items():
        key = ForeignKey(*_columns(child), *_columns(parent))
        if len(key.columns) != len(key.referred):
            raise MisuseError(f"foreign key {child!r} has {len(key.columns)} columns, {parent!r} {len(key.referred)}")
        found.append(key)
    return found


def _check_names(reads: list[ReadChange], keys: list[ForeignKey]) -> None:
    """Refuse columns that no row of their table has; log tables that do not occur, which may have had no changes."""
    found: dict[str, set[str]] = defaultdict(set)
    short: set[str] = set()
    for _, body, row in reads:
        if row["kind"] in _TOUCHING and body.get("after"):
            names = _tables(body.get("source") or {})
            short.add(min(names, key=len))
            for name in names:
                found[name] |= body["after"].keys()
    for key in keys:
        for table, columns in ((key.child, key.columns), (key.parent, key.referred)):
            if table in found and (unknown := [column for column in columns if column not in found[table]]):
                known = ", ".join(sorted(found[table]))
                raise MisuseError(f"foreign_keys: {table} has no column {unknown[0]!r}; found: {known}")
            if found and table not in found:
                known = ", ".join(sorted(short))
                logging.getLogger("thence.sources").warning(
                    "foreign_keys: the records hold no rows of a table %s; found: %s", table, known
                )


def _columns(names: str) -> tuple[str, tuple[str, ...]]:
    first, *more = (part.strip() for part in names.split(","))
    table, _, column = first.rpartition(".")
    if not table or not column or not all(more):
        raise MisuseError(f"foreign key {names!r}; table.column or table.column,column is accepted")
    return table, (column, *more)


def behind_keys(
    reads: list[ReadChange],
    foreign_keys: Mapping[str, str],
    started_late: bool,
    places: Mapping[str, tuple[int, ...]],
) -> None:
    """Set `depends_on` of the changes of one connector, in place.

    `places`: where each transaction committed, for changes that do not name their own place in the log.
    """
    keys = foreign_keys_of(foreign_keys)
    _check_names(reads, keys)
    touches = [_touch(read, keys) for read in _in_order_of_the_log(reads, places)]
    latest: dict[Identity, str] = {}
    naming: dict[Identity, list[str]] = defaultdict(list)
    refers: dict[Identity, frozenset[Identity]] = {}  # the parents that a row named last
    later = _first_in_transaction(touches)
    for touch in touches:
        if touch.row["kind"] == "snapshot":
            latest |= dict.fromkeys(touch.own, str(touch.row["message"]))
    for touch in touches:
        me = str(touch.row["message"])
        causes = [] if touch.row["kind"] == "snapshot" else [latest.get(each) for each in sorted(touch.own)]
        causes += [_parent(each, touch, latest, later, started_late) for each in sorted(touch.parents - touch.own)]
        for each in sorted(touch.lost):
            causes += naming.pop(each, [])
        touch.row["depends_on"] = [*dict.fromkeys(cause for cause in causes if cause is not None and cause != me)]
        latest |= dict.fromkeys(touch.own, me)
        for each in touch.named.union(*(refers.get(own, ()) for own in touch.own)):
            naming[each].append(me)
        refers |= dict.fromkeys(touch.own, touch.parents)


def _parent(
    parent: Identity, touch: Touch, latest: Mapping[Identity, str], later: Mapping[Identity, dict[str, str]], late: bool
) -> str | None:
    found = latest.get(parent) or later.get(parent, {}).get(str(touch.row["transaction"]))
    if found is not None or late:
        return found
    table, _, values = parent
    return f"row/{table}[{','.join(values)}]"


def _first_in_transaction(touches: list[Touch]) -> dict[Identity, dict[str, str]]:
    found: dict[Identity, dict[str, str]] = defaultdict(dict)
    for touch in touches:
        if touch.row["transaction"] is not None:
            for each in touch.own:
                found[each].setdefault(touch.row["transaction"], str(touch.row["message"]))
    return found


def _touch(read: ReadChange, keys: list[ForeignKey]) -> Touch:
    record, body, row = read
    source: Fields = body.get("source") or {}
    tables = _tables(source)
    images = [body.get("before") or {}, body.get("after") or {}]
    before, after = (set(_identities(image, tables, keys, parent=True)) for image in images)
    named = [set(_identities(image, tables, keys, parent=False)) for image in images]
    own = before | after | set(_by_key(record, tables))
    kept = set() if row["kind"] == "delete" else after
    return Touch(row, frozenset(own), frozenset(before - kept), frozenset(named[1]), frozenset(named[0] | named[1]))


def _tables(source: Fields) -> set[str]:
    """Return the names of a change's table, without and with its schema."""
    return {str(source.get("table")), f"{source.get('schema') or source.get('db')}.{source.get('table')}"}


def _identities(image: Fields, tables: set[str], keys: list[ForeignKey], *, parent: bool) -> Iterator[Identity]:
    """Yield what a row is known by as a parent, or the parents that it names; a null names nothing."""
    for key in keys:
        if (key.parent if parent else key.child) in tables:
            values = [image.get(column) for column in (key.referred if parent else key.columns)]
            if all(value is not None for value in values):
                yield key.parent, key.referred, tuple(map(_text, values))


def _by_key(record: Record, tables: set[str]) -> Iterator[Identity]:
    if record.key is not None:
        yield min(tables), ("record key",), (_text(record_key(record.key)),)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _in_order_of_the_log(reads: list[ReadChange], places: Mapping[str, tuple[int, ...]]) -> list[ReadChange]:
    """Return the changes that touch a row: snapshots, then transactions in the order of their commits."""
    commits = {
        row["transaction"]: mark.number
        for _, body, row in reads
        if row["kind"] == "end" and (mark := commit_mark(str(body["id"])))
    }
    far = (1 << 70,)

    def place(read: ReadChange) -> tuple[object, ...]:
        _, body, row = read
        source, transaction = body.get("source") or {}, body.get("transaction") or {}
        in_log = binlog(source.get("file"), source.get("pos")) or _lsn(source)
        if source.get("lsn") is not None:
            commit = commits.get(row["transaction"], far)
        else:
            commit = in_log if any(in_log) else places.get(str(row["transaction"]), far)
        number = int(transaction.get("total_order") or source.get("event_serial_no") or 0)
        return row["kind"] != "snapshot", commit, number, in_log, int(source.get("row") or 0)

    return sorted((read for read in reads if read.row["message"] and read.row["kind"] in _TOUCHING), key=place)


def _lsn(source: Fields) -> tuple[int, ...]:
    """Return the commit LSN of SQL Server, or the LSN of PostgreSQL, as numbers."""
    mark = commit_mark(str(source.get("commit_lsn")))
    return mark.number if mark is not None else (int(source.get("lsn") or 0),)
