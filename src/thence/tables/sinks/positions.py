"""Positions of a target: the transactions it has applied, written in the same target transaction as their changes.

*Invariant.* `claim` runs first in a target transaction. It returns False for a transaction that the target has. Where
it returns True, no other process can commit the same transaction: the row of its position is locked until this one
ends, and a writer that waited for it finds another position than it had read.

With `order="commit"` one row of each source says the last transaction of each log; of other orders each transaction has
a row.
"""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from thence.errors import MisuseError
from thence.tables.sources import WholeTransaction
from thence.tables.sources.commits import LogPosition, commit_mark, since_mark

_LENGTH, _DIGESTED = 190, 173
"""Characters of a name, so that a primary key of two fits every engine of MySQL; and of one with a digest."""


RENEWED = "A source that was created again needs an empty target, also of positions, or a topic prefix of its own"


def _text() -> sa.types.TypeEngine[str]:
    """Return the type of a name, compared by its characters: by default MySQL takes `A` for `a`."""
    exact = mysql.VARCHAR(_LENGTH, charset="utf8mb4", collation="utf8mb4_bin")
    return sa.String(_LENGTH).with_variant(exact, "mysql", "mariadb")


def stored_name(text: str) -> str:
    """Return a name as the tables keep it: itself, or its beginning with a digest of it where it is too long.

    A name as long as those with a digest has one too, so that no two names are kept as one.
    """
    if len(text) <= _LENGTH and len(text) != _DIGESTED:
        return text
    return f"{text[:140]}#{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"


def positions_table(name: str, metadata: sa.MetaData) -> sa.Table:
    """Describe the table of positions."""
    schema, _, table = name.rpartition(".")
    return sa.Table(
        table,
        metadata,
        sa.Column("source", _text(), primary_key=True),
        sa.Column("log", _text(), primary_key=True),
        sa.Column("place", _text(), nullable=False),
        sa.Column("transaction_id", _text()),
        sa.Column("transactions", sa.BigInteger, nullable=False),
        schema=schema or None,
    )


def changes_table(name: str, metadata: sa.MetaData, transaction: str, *others: sa.Column[str]) -> sa.Table:
    """Describe a table of the changes of transactions, numbered in each; `transaction` is the column that names it."""
    schema, _, table = name.rpartition(".")
    return sa.Table(
        table,
        metadata,
        sa.Column("source", _text(), primary_key=True),
        sa.Column(transaction, _text(), primary_key=True),
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
        if self._has_by_other_order(connection, unit):
            return False
        place = _place(unit)
        if place is not None:
            return self._advance(connection, unit, place)
        return self._insert(connection, unit, _name(unit), "")

    def has(self, connection: sa.Connection, unit: WholeTransaction) -> bool:
        """Return whether the target has a transaction."""
        place = _place(unit)
        found = self._found(connection, unit.source, _name(unit) if place is None else place.log)
        there = found is not None and (place is None or found.reaches(unit, place))
        return there or self._has_by_other_order(connection, unit)

    def _has_by_other_order(self, connection: sa.Connection, unit: WholeTransaction) -> bool:
        """Return whether the target has a transaction from an earlier run that read with another `order`."""
        if unit.kind != "transaction" or unit.place is None:
            return False
        if unit.order == "commit":
            return self._found(connection, unit.source, _name(unit)) is not None
        found = self._found(connection, unit.source, unit.place.log)
        return found is not None and found.reaches(unit, unit.place)

    def _found(self, connection: sa.Connection, source: str, log: str, lock: bool = False) -> _Reached | None:
        return next(iter(self._reached(connection, source, log, lock)), None)

    def _reached(
        self, connection: sa.Connection, source: str, log: str | None = None, lock: bool = False
    ) -> list[_Reached]:
        """Return what the target has of a source, in one of its logs or in all; `lock`: as it is now."""
        table = self.table.c
        here = table.source == stored_name(source)
        if log is not None:
            here &= table.log == stored_name(log)
        read = sa.select(table.log, table.place, table.transaction_id).where(here)
        return [_Reached(*row) for row in connection.execute(read.with_for_update() if lock else read)]

    def _advance(self, connection: sa.Connection, unit: WholeTransaction, place: LogPosition) -> bool:
        table = self.table.c
        here = (table.source == stored_name(unit.source)) & (table.log == stored_name(place.log))
        again = False
        while True:
            # MySQL repeats what a transaction has read, but for a read that locks
            found = self._found(connection, unit.source, place.log, lock=again)
            if found is None:
                for other in self._reached(connection, unit.source):
                    other.check_other_log(unit, place)
                return self._insert(connection, unit, place.log, json.dumps(place.number))
            if found.reaches(unit, place):
                return False
            found.check_since(unit)
            values = {"place": json.dumps(place.number), "transaction_id": stored_name(str(unit.id))}
            moved = sa.update(self.table).where(here, table.place == found.place)
            if connection.execute(moved.values(**values, transactions=table.transactions + 1)).rowcount:
                return True
            again = True  # another process has moved it since it was read

    def _insert(self, connection: sa.Connection, unit: WholeTransaction, log: str, place: str) -> bool:
        if self._found(connection, unit.source, log) is not None:
            return False
        values = {"source": stored_name(unit.source), "log": stored_name(log), "place": place, "transactions": 1}
        values["transaction_id"] = stored_name(str(unit.id or unit.name))
        connection.execute(sa.insert(self.table).values(**values))
        return True

    def since(self, connection: sa.Connection, source: str) -> int | str | None:
        """Return the place of the last transaction, as `since=` takes it."""
        for found in self._reached(connection, source):
            if found.place:
                return found.since
        return None


class _Reached(NamedTuple):
    """The last transaction of a log that the target has, as its row says."""

    log: str
    place: str
    transaction_id: str

    @property
    def since(self) -> int | str:
        """Its place, as `since=` takes it."""
        number = json.loads(self.place)[0]
        if self.log.startswith("offset "):
            return f"offset {number}"
        return int(number) if self.log == "lsn" else self.transaction_id

    def reaches(self, unit: WholeTransaction, place: LogPosition) -> bool:
        """Return whether the target has a transaction of this log; reject one that contradicts its contents."""
        number = tuple(json.loads(self.place))
        if place.number > number:
            return False
        mark, last = commit_mark(str(unit.id)), commit_mark(self.transaction_id)
        if place.number == number and stored_name(str(unit.id)) != self.transaction_id:
            differs = "is another transaction"
        elif mark is not None and last is not None and mark.log == last.log and mark.number > last.number:
            differs = "committed later"
        else:
            return True
        raise MisuseError(
            f"{unit.name} ({unit.id}) of {unit.source} at {place.log} {place.number[0]} counts as one that the target "
            f"has, up to {self.transaction_id} at {number[0]}, but it {differs}: the log began again, or it is another "
            f"source of the same name. {RENEWED}"
        )

    def check_other_log(self, unit: WholeTransaction, place: LogPosition) -> None:
        """Refuse a transaction that the target has by another log: it would be applied again, over later ones."""
        mark, last = commit_mark(str(unit.id)), commit_mark(self.transaction_id)
        if self.place and self.log != stored_name(place.log) and last is not None and last.reaches(mark):
            raise MisuseError(
                f"{unit.name} ({unit.id}) of {unit.source} lies in the log {place.log}, and the target has it by the "
                f"log {self.log}, up to {self.transaction_id}: read the same topics as before, with offsets. {RENEWED}"
            )

    def check_since(self, unit: WholeTransaction) -> None:
        """Refuse to go on behind a place that the target has not reached: what lies between would be lost."""
        since = unit.since
        own = since_mark(self.since) if since is None or since.log == "offset" else commit_mark(self.transaction_id)
        if since is not None and own is not None and own.log == since.log and own.number < since.number:
            raise MisuseError(
                f"since= begins behind {since.log} {since.number[0]}, and the target has {unit.source} up to "
                f"{self.since!r} only: what lies between would be lost. Pass since={self.since!r}, or no since="
            )


def _place(unit: WholeTransaction) -> LogPosition | None:
    """Return where a transaction lies in a log of which one row says how far the target is."""
    return unit.place if unit.kind == "transaction" and unit.order == "commit" else None


def _name(unit: WholeTransaction) -> str:
    return unit.kind if unit.kind == "snapshot" else f"{unit.kind} {unit.id or unit.name}"
