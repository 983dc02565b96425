"""How far a target is: which transactions it has, written in the same target transaction as their changes.

*Invariant.* `claim` runs first in a target transaction. It returns False for a transaction that the target has. Where
it returns True, no other process can commit the same transaction: the row of its position is locked until this one
ends, and a writer that waited for it finds another position than it had read.

With `order="commit"` one row of each source says the last transaction of each log; of other orders each transaction has
a row.
"""

from __future__ import annotations

import hashlib
import json

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from thence.tables.sources import WholeTransaction
from thence.tables.sources.commits import LogPosition

_LENGTH = 190  # a primary key of two such columns fits every engine of MySQL


def positions_table(name: str, metadata: sa.MetaData) -> sa.Table:
    """Describe the table of positions."""
    schema, _, table = name.rpartition(".")
    return sa.Table(
        table,
        metadata,
        sa.Column("source", sa.String(_LENGTH), primary_key=True),
        sa.Column("log", sa.String(_LENGTH), primary_key=True),
        sa.Column("place", sa.String(_LENGTH), nullable=False),
        sa.Column("transaction_id", sa.String(_LENGTH)),
        sa.Column("transactions", sa.BigInteger, nullable=False),
        schema=schema or None,
    )


def changes_table(name: str, metadata: sa.MetaData, transaction: str, *others: sa.Column[str]) -> sa.Table:
    """Describe a table of the changes of transactions, numbered in each; `transaction` is the column that names it."""
    schema, _, table = name.rpartition(".")
    return sa.Table(
        table,
        metadata,
        sa.Column("source", sa.String(_LENGTH), primary_key=True),
        sa.Column(transaction, sa.String(_LENGTH), primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("change", sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb"), nullable=False),
        *others,
        schema=schema or None,
    )


class Positions:
    """Reads and writes the table."""

    def __init__(self, table: sa.Table) -> None:
        """Work on this table."""
        self.table = table

    def claim(self, connection: sa.Connection, unit: WholeTransaction) -> bool:
        """Note that the target has a transaction from now on; False if it has it already."""
        place = _place(unit)
        if place is not None:
            return self._advance(connection, unit, place)
        return self._insert(connection, unit, _name(unit), "")

    def has(self, connection: sa.Connection, unit: WholeTransaction) -> bool:
        """Tell whether the target has a transaction."""
        place = _place(unit)
        found = self._found(connection, unit.source, _name(unit) if place is None else place.log)
        if found is None or place is None:
            return found is not None
        return LogPosition(place.log, tuple(json.loads(found))).reaches(place)

    def _found(self, connection: sa.Connection, source: str, log: str) -> str | None:
        table = self.table.c
        here = (table.source == source) & (table.log == _short(log))
        return connection.execute(sa.select(table.place).where(here)).scalar()

    def _advance(self, connection: sa.Connection, unit: WholeTransaction, place: LogPosition) -> bool:
        table, log = self.table.c, _short(place.log)
        here = (table.source == unit.source) & (table.log == log)
        while True:
            found = self._found(connection, unit.source, place.log)
            if found is None:
                return self._insert(connection, unit, log, json.dumps(place.number))
            if LogPosition(place.log, tuple(json.loads(found))).reaches(place):
                return False
            values = {"place": json.dumps(place.number), "transaction_id": _short(str(unit.id))}
            moved = sa.update(self.table).where(here, table.place == found)
            # Another process may have moved it since it was read; then look again.
            if connection.execute(moved.values(**values, transactions=table.transactions + 1)).rowcount:
                return True

    def _insert(self, connection: sa.Connection, unit: WholeTransaction, log: str, place: str) -> bool:
        if self._found(connection, unit.source, log) is not None:
            return False
        values = {"source": unit.source, "log": _short(log), "place": place, "transactions": 1}
        connection.execute(sa.insert(self.table).values(**values, transaction_id=_short(str(unit.id or unit.name))))
        return True

    def since(self, connection: sa.Connection, source: str) -> int | str | None:
        """Return the place of the last transaction, as `since=` takes it."""
        table = self.table.c
        rows = connection.execute(sa.select(table.log, table.place, table.transaction_id).where(table.source == source))
        for log, place, transaction_id in rows:
            if log.startswith("offset "):
                return f"offset {json.loads(place)[0]}"
            if place:
                return int(json.loads(place)[0]) if log == "lsn" else str(transaction_id)
        return None


def _place(unit: WholeTransaction) -> LogPosition | None:
    """Return where a transaction lies in a log of which one row says how far the target is."""
    return unit.place if unit.kind == "transaction" and unit.order == "commit" else None


def _name(unit: WholeTransaction) -> str:
    return unit.kind if unit.kind == "snapshot" else f"{unit.kind} {unit.id or unit.name}"


def _short(text: str) -> str:
    if len(text) <= _LENGTH:
        return text
    return f"{text[:140]}#{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"
