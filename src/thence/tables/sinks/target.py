"""The tables of a target as it describes them: keys, order by foreign keys, and which constraints can be deferred."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

import sqlalchemy as sa

from thence.core.model.plain import Fields
from thence.errors import MisuseError

TargetTables = Iterable[str] | Mapping[str, str | sa.Table | None]


class Target:
    """Where the changes of each source table go."""

    def __init__(self, connection: sa.Connection, tables: TargetTables) -> None:
        """Reflect the tables that are named; a source table that maps to None is left out."""
        named: dict[str, str | sa.Table | None] = (
            dict(tables) if isinstance(tables, Mapping) else {str(name): str(name) for name in tables}
        )
        self.dialect = connection.dialect.name
        self.metadata = sa.MetaData()
        self.tables: dict[str, sa.Table | None] = {}
        for source, target in named.items():
            found = target if isinstance(target, sa.Table) else self._reflected(connection, target)
            if found is not None and not found.primary_key.columns:
                shown = found.fullname if target is found else target
                raise MisuseError(
                    f"table {shown!r} of the target has no primary key, so that no change of it finds its row"
                )
            self.tables[source] = found
        self.order = self._sorted()
        """position of each table, parents first"""

    def _reflected(self, connection: sa.Connection, name: str | None) -> sa.Table | None:
        if name is None:
            return None
        schema, _, table = name.rpartition(".")
        try:
            found = sa.Table(table, self.metadata, schema=schema or None, autoload_with=connection)
        except sa.exc.NoSuchTableError:
            known = ", ".join(sorted(sa.inspect(connection).get_table_names(schema=schema or None))) or "none"
            raise MisuseError(f"the target has no table {name!r}; its tables: {known}") from None
        return found

    def _sorted(self) -> dict[sa.Table, int]:
        """Sort by the foreign keys off every cycle, and those on one that must be met at once."""
        on_cycles = set(self._on_cycles())
        firm = {key for key in self.cyclic() if not nullable(key)}
        try:
            return self._by(lambda key: key not in on_cycles or key in firm)
        except CycleError:  # writing a snapshot raises the error
            return self._by(lambda key: key not in on_cycles)

    def _by(self, counts: Callable[[sa.ForeignKeyConstraint], bool]) -> dict[sa.Table, int]:
        tables = sorted(self._used(), key=lambda each: each.fullname)
        parents = {
            each: {key.referred_table for key in each.foreign_key_constraints if counts(key)} & set(tables)
            for each in tables
        }
        return {table: place for place, table in enumerate(TopologicalSorter(parents).static_order())}

    def _used(self) -> set[sa.Table]:
        return {table for table in self.tables.values() if table is not None}

    def _on_cycles(self) -> list[sa.ForeignKeyConstraint]:
        """Return the foreign keys that stand on a cycle, self references among them."""
        parents = {each: {key.referred_table for key in each.foreign_key_constraints} for each in self._used()}
        keys = [key for table in self._used() for key in table.foreign_key_constraints]
        return [key for key in keys if _reaches(parents, key.referred_table, key.table)]

    def table(self, change: Fields) -> sa.Table | None:
        """Return where a change goes, or None if it is left out."""
        source: Fields = change.get("source") or {}
        names = [f"{source.get(space)}.{source.get('table')}" for space in ("schema", "db") if source.get(space)]
        for name in (*names, str(source.get("table"))):
            if name in self.tables:
                return self.tables[name]
        known = ", ".join(sorted(self.tables))
        raise MisuseError(
            f"a change of {names[0] if names else source.get('table')}, which tables= does not name (it names {known})."
            " Name it; a table that maps to None is left out"
        )

    def cyclic(self) -> list[sa.ForeignKeyConstraint]:
        """Return the foreign keys that stand on a cycle and cannot be deferred here."""
        if self.dialect == "sqlite":  # PRAGMA defer_foreign_keys defers all of them
            return []
        return sorted((key for key in self._on_cycles() if not key.deferrable), key=self.shown)

    def unbroken(self) -> list[sa.ForeignKeyConstraint]:
        """Return the foreign keys of cycles on which none can be deferred, nor be null at first."""
        firm = [key for key in self.cyclic() if not nullable(key)]
        parents: dict[sa.Table, set[Any]] = {}
        for key in firm:
            parents.setdefault(key.table, set()).add(key.referred_table)
        return [key for key in firm if _reaches(parents, key.referred_table, key.table)]

    @staticmethod
    def shown(key: sa.ForeignKeyConstraint) -> str:
        """Return a foreign key as text: the table, its columns and the table it refers to."""
        columns = ", ".join(column.name for column in key.columns)
        return f"{key.table.fullname}({columns}) to {key.referred_table.fullname}"


def nullable(key: sa.ForeignKeyConstraint) -> list[str]:
    """Return the columns of a foreign key that take nulls; one null is enough for it to refer to nothing."""
    return [column.name for column in key.columns if column.nullable]


def _reaches(parents: Mapping[sa.Table, set[Any]], start: sa.Table, goal: sa.Table) -> bool:
    """Return whether a way of foreign keys leads from one table to another."""
    seen, stack = {start}, [start]
    while stack:
        table = stack.pop()
        if table is goal:
            return True
        fresh = parents.get(table, set()) - seen
        seen |= fresh
        stack += fresh
    return False
