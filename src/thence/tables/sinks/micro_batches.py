"""Micro-batches of delivered rows into a database, as whole transactions: the sink behind a stream that cuts them.

*Invariant.* A transaction may lie in several micro-batches. Changes whose END has not come are rows of a table in the
target (`open_changes`), committed before the micro-batch counts as written; those of an applied transaction are
deleted afterwards. A micro-batch that is written again, whole or not, changes nothing: an applied transaction is known
by its position, an open change by its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from thence.errors import MisuseError, TraceError
from thence.tables.delivery.outcome import PLACED, Kind
from thence.tables.sinks.positions import changes_table, stored_name
from thence.tables.sinks.sql_sink import OnRefusal, sql
from thence.tables.sinks.target import TargetTables
from thence.tables.sources import Record, WholeTransaction
from thence.tables.sources.commits import since_mark
from thence.tables.sources.debezium import value_of
from thence.tables.sources.whole import Units

Delivered = Mapping[str, Any]
Name = tuple[str, str]
"""source and transaction"""
CHANGE_COLUMNS = ("value", "topic", "partition", "offset", "destination", "transaction", "message", "kind", "note")
STAGED = (*CHANGE_COLUMNS, "key")
"""what is kept of a change; `key` only where the records have it"""


class MicroBatchSink:
    """Applies whole transactions, and keeps in the target what is not whole yet."""

    def __init__(
        self,
        engine: sa.Engine,
        tables: TargetTables,
        *,
        positions: str = "thence_positions",
        open_changes: str = "thence_open_changes",
        refused: OnRefusal = "stop",
        dead_letters: str = "thence_dead_letters",
        since: int | str | None = None,
    ) -> None:
        """Connect, check the target, and create the tables that the sink keeps.

        Args:
            engine: SQLAlchemy's, for the target.
            tables: the tables, as in `sql`.
            positions: the table that says how far the target is.
            open_changes: the table of changes whose transaction has not ended.
            refused: what happens if the target refuses a row, as in `sql`.
            dead_letters: the table of refused transactions.
            since: the one that was passed to `from_changes`.
        """
        self._engine, self._since = engine, None if since is None else since_mark(since)
        own = sa.MetaData()
        self._open = changes_table(open_changes, own, "transaction_name")
        self.sink = sql(engine, tables, positions=positions, refused=refused, dead_letters=dead_letters)
        own.create_all(engine)

    def write(self, rows: Iterable[Delivered]) -> int:
        """Write a micro-batch; return how many transactions were applied.

        Args:
            rows: what `deliver` gave for rows of `from_changes(order="commit")`, those of a source by their positions.
        """
        placed = [row for row in rows if row["outcome"] in PLACED]
        if any(row["kind"] == "snapshot" for row in placed):
            raise MisuseError(
                "a row of a snapshot: no record says how many rows it has, so a stream cannot apply it whole. Load the "
                "snapshot as a batch (from_changes(..., whole=True) and thence.sinks.sql), and stream what follows it"
            )
        self._refuse_late(placed)
        ended = {_name(row) for row in placed if row["kind"] == "end"}
        units, applied, begun = Units("commit", since=self._since), 0, self._begun()
        for row in self._with_earlier(placed, ended, begun):
            place = row.get("topic"), row.get("partition"), row.get("offset")
            for unit in units.add(row, value_of(row["value"]) or {}, Record(None, row.get("key"), *place)):
                applied += self.sink.apply(unit)
                if _stored(unit.source, unit.name) in begun:
                    self._forget(_stored(unit.source, unit.name))
            # Before the next one is applied: behind it, this one would be taken for one that the target has.
            if row["kind"] == "end" and _name(row) in units.open:
                self._refuse_part(units.open[_name(row)])
        still = [row for row in placed if row["transaction"] is not None and _name(row) not in ended]
        self._keep([row for row in still if row["kind"] != "begin"])
        return applied

    def close(self) -> None:
        """Close the connection to the target."""
        self.sink.close()

    def _refuse_late(self, placed: list[Delivered]) -> None:
        """Refuse an END that others did not wait for: behind them it would be taken for one that the target has."""
        for row in placed:
            if row["kind"] == "end" and row["outcome"] == Kind.LATE:
                source, name = _name(row)
                raise TraceError(
                    f"{name} comes after transactions behind it: its END was given up. The target may have those, and "
                    "applies transactions in the order of commits. Deliver without a policy that gives causes up; or "
                    f"apply {name} by hand, and start a new checkpoint with since={self.sink.since(source)!r}"
                )

    def _refuse_part(self, unit: WholeTransaction) -> None:
        """Refuse a transaction that has ended and is not whole."""
        if not self.sink.has(unit):  # else a micro-batch is written again, and its earlier part is forgotten
            raise TraceError(
                f"{unit.name} ({unit.id}) has ended and {len(unit)} of its changes are here: a policy released its "
                "END without the others. Deliver without a policy that gives causes up, or skip the transaction"
            )

    def _with_earlier(self, placed: list[Delivered], ended: set[Name], begun: set[Name]) -> Iterator[Delivered]:
        """Yield the rows of transactions that end here, behind the rows of them that earlier micro-batches kept."""
        kept: dict[Name, set[str]] = {}
        for row in placed:
            name = _name(row)
            if row["transaction"] is None:
                yield row
            elif name in ended:
                if name not in kept:
                    earlier = self._kept(_stored(*name)) if _stored(*name) in begun else []
                    kept[name] = {each["message"] for each in earlier}
                    yield from earlier
                if row["message"] not in kept[name]:
                    yield row

    # -- changes of transactions that have not ended -----------------------------------------------------------------

    def _begun(self) -> set[Name]:
        """Return the transactions of which changes are kept, by their stored names."""
        table = self._open.c
        with self._engine.connect() as connection:
            return {(a, b) for a, b in connection.execute(sa.select(table.source, table.transaction_name).distinct())}

    def _kept(self, name: Name) -> list[Delivered]:
        table = self._open.c
        here = (table.source == name[0]) & (table.transaction_name == name[1])
        with self._engine.connect() as connection:
            found = connection.execute(sa.select(table.change).where(here).order_by(table.number)).scalars()
            return [_unpacked(each) for each in found]

    def _keep(self, rows: list[Delivered]) -> None:
        """Commit changes whose END has not come, each once."""
        if not rows:
            return
        table = self._open.c
        with self._engine.begin() as connection:
            there: dict[Name, set[int]] = {}
            for row in rows:
                source, transaction = name = _stored(*_name(row))
                if name not in there:
                    here = (table.source == source) & (table.transaction_name == transaction)
                    there[name] = set(connection.execute(sa.select(table.number).where(here)).scalars())
                number = int(str(row["message"]).rpartition("/")[2])
                if number not in there[name]:
                    there[name].add(number)
                    values = {"source": source, "transaction_name": transaction, "number": number}
                    connection.execute(sa.insert(self._open).values(**values, change=_packed(row)))

    def _forget(self, name: Name) -> None:
        table = self._open.c
        with self._engine.begin() as connection:
            here = (table.source == name[0]) & (table.transaction_name == name[1])
            connection.execute(sa.delete(self._open).where(here))


def _name(row: Delivered) -> Name:
    return str(row["destination"]), str(row["transaction"])


def _stored(source: str, transaction: str) -> Name:
    return stored_name(source), stored_name(transaction)


def _packed(row: Delivered) -> str:
    found = {name: row.get(name) for name in STAGED}
    return json.dumps({n: {"hex": v.hex()} if isinstance(v, bytes | bytearray) else v for n, v in found.items()})


def _unpacked(text: str) -> Delivered:
    found = json.loads(text).items()
    return {n: bytes.fromhex(v["hex"]) if isinstance(v, dict) and set(v) == {"hex"} else v for n, v in found}
