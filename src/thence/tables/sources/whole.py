"""Whole transactions of a database: delivered changes, released once END and all changes of a transaction are there.

END waits for the last of its `event_count` changes, and each change for the one before (`debezium.py`). So a delivered
END says that all the changes of its transaction were delivered, by the one delivery rule; what is added here is that
the members leave together, with it.

*Invariant.* A transaction that leaves has its changes 1 to `event_count`, in this order, each once. With
`order="commit"` transactions leave in the order of their commits; with the other orders a transaction leaves after
those that its changes wait for.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Literal

from thence.core.model.plain import Fields
from thence.errors import MisuseError, PeerError, TraceError
from thence.tables.delivery import Orderer
from thence.tables.delivery.outcome import PLACED
from thence.tables.sources.arrival import Record
from thence.tables.sources.avro import Schemas
from thence.tables.sources.commits import LogPosition, commit_mark, since_mark
from thence.tables.sources.debezium import (
    MOST_CHANGES,
    ChangeOrder,
    DebeziumArrival,
    check_order,
    from_change,
    read_change,
    record_key,
    value_of,
)

IN_MEMORY = 100_000
"""changes of one transaction; those beyond it go to a file"""
SNAPSHOT = "snapshot"
SNAPSHOT_WHOLE = "snapshot/whole"
"""what transactions wait for while a snapshot is read"""
_CHANGES = frozenset(("create", "update", "delete", "truncate", "message"))
UnitKind = Literal["transaction", "snapshot", "change"]


class Changes:
    """The changes of one transaction, in their order; those beyond `in_memory` lie in an unnamed temporary file."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        """Begin without changes."""
        self.in_memory, self.spilled, self.count = in_memory, 0, 0
        self._recent: list[Fields] = []
        self._file: IO[bytes] | None = None

    def append(self, change: Fields) -> None:
        """Add the next change; beyond `in_memory` changes they go to a temporary file."""
        self.count += 1
        self._recent.append(change)
        if len(self._recent) > self.in_memory:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="thence-transaction-")  # noqa: SIM115 - closed with self
            for each in self._recent:
                pickle.dump(each, self._file, pickle.HIGHEST_PROTOCOL)
            self._file.flush()  # a full disk is an error here, not where the changes are read
            self.spilled += len(self._recent)
            self._recent = []

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Fields]:
        if self._file is not None:
            self._file.seek(0)
            for _ in range(self.spilled):
                yield pickle.load(self._file)
            self._file.seek(0, 2)
        yield from self._recent


@dataclass(slots=True)
class WholeTransaction:
    """A transaction with all its changes; also a whole snapshot, and a single change that no transaction numbers."""

    source: str
    """the connector's topic prefix"""
    name: str
    """as in the column `transaction`; `snapshot`; or the message id of the single change"""
    changes: Changes = field(default_factory=Changes)
    """payloads: `op`, `before`, `after`, `source`; of a delete also the record's `key`"""
    kind: UnitKind = "transaction"
    """a transaction, a snapshot or a single change"""
    id: str | None = None
    """as END writes it"""
    place: LogPosition | None = None
    """where END lies: its offset in the transaction topic, else its place in the database's log"""
    order: ChangeOrder = "commit"
    """in which transactions leave; with `transaction` nothing is known of two of them"""
    numbered: int = 0
    """changes that came in their order"""
    since: LogPosition | None = None
    """behind which the records are read"""

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[Fields]:
        return iter(self.changes)


def whole_transactions(
    rows: Iterable[Mapping[str, Any]], *, order: ChangeOrder, since: int | str | None = None, **limits: int
) -> Iterator[WholeTransaction]:
    """Group delivered rows into whole transactions: what `Orderer.deliver` gives for rows of `from_changes`.

    A transaction comes when its END does; rows that were not delivered and transactions that do not end are left out. A
    snapshot is one unit and comes before the first transaction.

    Args:
        rows: each has the record's value in the column `value`, and may have its `key`, `topic`, `partition` and
            `offset`.
        order: the one that was passed to `from_changes`.
        since: the one that was passed to `from_changes`; a sink refuses one that its target has not reached.
        limits: `in_memory` and `limit`, as in `WholeTransactions`.
    """
    check_order(order)
    units = Units(order, since=None if since is None else since_mark(since), **limits)
    for row in rows:
        if row["outcome"] in PLACED:
            place = row.get("topic"), row.get("partition"), row.get("offset")
            yield from units.add(row, value_of(row["value"]) or {}, Record(None, row.get("key"), *place))
    yield from units.end_snapshot()


class Units:
    """Transactions that have begun to leave the delivery rule and have not ended yet."""

    def __init__(
        self,
        order: ChangeOrder,
        in_memory: int = IN_MEMORY,
        limit: int = MOST_CHANGES,
        since: LogPosition | None = None,
    ) -> None:
        """Keep `in_memory` changes of a transaction in memory, and refuse more than `limit`; note `since`."""
        for name, value in (("in_memory", in_memory), ("limit", limit)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise MisuseError(f"{name} is {value!r}; a whole number from 1 is accepted")
        self.order, self.in_memory, self.limit, self.since = order, in_memory, limit, since
        self._last: dict[str, WholeTransaction] = {}  # by source
        self.open: dict[tuple[str, str], WholeTransaction] = {}
        self._passed: set[tuple[str, str]] = set()  # ended at or before since; their changes may come later

    def add(self, row: Mapping[str, Any], body: Fields, record: Record) -> Iterable[WholeTransaction]:
        """Take the next delivered row, what its record says, and where that lies; return what is whole now."""
        name = row["transaction"]
        if name is None or row["kind"] not in _CHANGES:
            return self._boundary(row, body, record)
        key = str(row["destination"]), name
        if key not in self._passed:
            unit = self.open.get(key)
            if unit is None:
                unit = self._unit(*key)
            if row["message"] == f"{name}/{unit.numbered + 1}":  # anything else is a gap, which END will find
                unit.numbered += 1
            self._append(unit, body, record)
        return ()

    def _boundary(self, row: Mapping[str, Any], body: Fields, record: Record) -> Iterator[WholeTransaction]:
        kind, source = row["kind"], str(row["destination"])
        if kind == "end":
            yield from self.end_snapshot(source)
            yield from self._end(source, row, body, record)
        elif kind == "begin":
            yield from self.end_snapshot(source)
        elif kind == "snapshot":
            unit = self._unit(source, SNAPSHOT)
            unit.kind = "snapshot"
            self._append(unit, body, record)
        else:
            alone = WholeTransaction(source, str(row["message"]), Changes(), "change", order=self.order)
            self._append(alone, body, record)
            yield alone

    def _unit(self, source: str, name: str) -> WholeTransaction:
        unit = self.open.get((source, name))
        if unit is None:
            unit = WholeTransaction(source, name, Changes(self.in_memory), order=self.order, since=self.since)
            self.open[source, name] = unit
        return unit

    def _append(self, unit: WholeTransaction, body: Fields, record: Record) -> None:
        if unit.changes.count >= self.limit:
            raise TraceError(
                f"transaction {unit.name} of {unit.source} has more than {self.limit} changes; "
                "pass a larger limit=, or let its writer commit more often"
            )
        if body.get("op") == "d" and record.key is not None:
            body = {**body, "key": record_key(record.key)}
        try:
            unit.changes.append(body)
        except OSError as error:
            where = f"transaction {unit.name} of {unit.source}: the changes beyond {self.in_memory} do not fit into"
            raise OSError(error.errno, f"{where} {tempfile.gettempdir()}: {error.strerror}") from error

    def _end(self, source: str, row: Mapping[str, Any], body: Fields, record: Record) -> Iterator[WholeTransaction]:
        name, count = str(row["transaction"]), int(body.get("event_count") or 0)
        if row["note"] is not None:  # at or before since
            self.open.pop((source, name), None)
            self._passed.add((source, name))
            return
        unit = self._unit(source, name)
        unit.id = str(body["id"])
        if record.offset is not None:
            unit.place = LogPosition(f"offset {record.topic}/{record.partition}", (int(record.offset),))
        else:
            unit.place = commit_mark(unit.id)
        if not unit.numbered == len(unit.changes) == count:
            return  # a policy released END without a change: it is not whole, and `waiting` names it
        del self.open[source, name]
        if self.order == "commit":
            self._check_commits(unit)
        yield unit

    def _check_commits(self, unit: WholeTransaction) -> None:
        """Refuse a transaction at an earlier place than the one before: a sink would take it for one that it has."""
        last = self._last.get(unit.source)
        if last is not None and last.place is not None and last.place.reaches(unit.place):
            raise TraceError(
                f"{unit.name} ({unit.id}) comes after {last.name} ({last.id}), and lies before it in the log: the rows "
                "are not in the order of commits. Pass the order that from_changes had, and records with their offsets"
            )
        self._last[unit.source] = unit

    def end_snapshot(self, source: str | None = None) -> Iterator[WholeTransaction]:
        """Yield the snapshot of a source, or of every source, which ends here."""
        for key in [key for key in self.open if key[1] == SNAPSHOT and source in (None, key[0])]:
            yield self.open.pop(key)


class WholeTransactions:
    """Turns records of Debezium's topics, pushed one at a time in any order, into whole transactions.

        transactions = WholeTransactions()
        for record in records:                      # Record(value, key, topic, partition, offset)
            for transaction in transactions.push(record):
                sink.apply(transaction)

    The order of commits is read from the offsets of the transaction topic, as `from_change` reads it.
    """

    def __init__(
        self,
        *,
        order: ChangeOrder = "commit",
        since: int | str | None = None,
        server: str | None = None,
        schemas: Schemas | None = None,
        snapshot: bool = False,
        in_memory: int = IN_MEMORY,
        limit: int = MOST_CHANGES,
        held_limit: int | None = None,
    ) -> None:
        """Configure how records are read.

        Args:
            order: how changes depend on each other: `commit` (in commit order), `transaction` (within one) or `keys`
                (by foreign keys).
            since: a position in the source's log; changes at or before it count as delivered.
            server: the connector's topic prefix, where neither a record nor its topic says it.
            schemas: Avro schemas by id, for values with the Confluent header.
            snapshot: the records begin with a snapshot. No record says how many rows it has, so transactions wait until
                `end_snapshot` is called.
            in_memory: how many changes of one transaction are kept in memory; the others are in a temporary file.
            limit: the most changes of one transaction.
            held_limit: the most records that may wait for others.
        """
        check_order(order)
        if order == "keys":
            raise MisuseError(
                "order='keys' needs the records together: from_changes(records, order='keys', whole=True)"
            )
        self.order: ChangeOrder = order
        self.since, self.server, self.schemas, self.snapshot = since, server, schemas, snapshot
        self._mark = None if since is None else since_mark(since)
        self._orderer = Orderer("depends_on", key=["destination"], held_limit=held_limit)
        self._units = Units(order, in_memory, limit, self._mark)
        self.aside: dict[str, int] = {}
        """records that are not part of a transaction, by kind, with how many there were"""
        self._recognised = False
        """whether a record was part of a transaction or a snapshot"""
        self._first_aside: str | None = None
        """why the first record that was set aside is"""
        self._sources: set[str] = set()
        self._stopped: BaseException | None = None
        """what ended it in the middle of a transaction, which later ones must not overtake"""

    def push(self, record: Record | Fields | str | bytes | None) -> list[WholeTransaction]:
        """Take the next record; return the transactions that are whole now, in order.

        After an error in the middle of a transaction (`limit`, a full disk) every call raises `TraceError`.

        Args:
            record: a `Record`, or just its value.
        """
        record = record if isinstance(record, Record) else Record(record)
        row, body = self._read(record)
        if row["message"] is None:
            self.aside[row["kind"]] = self.aside.get(row["kind"], 0) + 1
            self._first_aside = self._first_aside or row["note"]
            return []
        self._recognised = True
        if row["kind"] == "snapshot" and not self.snapshot:
            raise MisuseError(
                "a row of a snapshot that has not begun or has ended: no record says how many rows it has. Pass "
                "snapshot=True, and call end_snapshot() when its last row was pushed"
            )
        if self.snapshot:
            self._sources.add(str(row["destination"]))
            if row["kind"] == "begin":
                row["depends_on"] = [*row["depends_on"], SNAPSHOT_WHOLE]
        # Only what the rule reads: it copies a row that leaves.
        names: Fields = {"destination": row["destination"], "message": row["message"], "depends_on": row["depends_on"],
                         "change": (record, body, row)}  # fmt: skip
        return self._leave(self._orderer.push(names))

    def _read(self, record: Record) -> tuple[DebeziumArrival, Fields]:
        try:
            body = value_of(record.value, self.schemas)
        except PeerError:
            return from_change(record, order=self.order, server=self.server, schemas=self.schemas), {}
        row = read_change(record, body, self.order, self._mark, self.server)
        if row["kind"] == "snapshot":
            return from_change(record, order=self.order, server=self.server, schemas=self.schemas), body or {}
        return row, body or {}

    def _leave(self, rows: Iterable[Mapping[str, Any]]) -> list[WholeTransaction]:
        found: list[WholeTransaction] = []
        if self._stopped is not None:
            raise TraceError(
                f"stopped before: {self._stopped}. Read the records again, with another WholeTransactions, from where "
                "the target is"
            ) from self._stopped
        try:
            for row in rows:
                if row["outcome"] not in PLACED:
                    self.aside[row["outcome"]] = self.aside.get(row["outcome"], 0) + 1
                elif row["message"] != SNAPSHOT_WHOLE:
                    record, body, change = row["change"]
                    found += self._units.add(change, body, record)
        except BaseException as error:
            self._stopped = error
            raise
        return found

    def end_snapshot(self) -> list[WholeTransaction]:
        """Close the snapshot, all of whose rows were pushed; return it, and the transactions that waited for it."""
        found, self.snapshot = list(self._units.end_snapshot()), False
        for source in sorted(self._sources):
            row = {"destination": source, "message": SNAPSHOT_WHOLE, "depends_on": []}
            found += self._leave(self._orderer.push(row))
        return found

    def waiting(self) -> list[dict[str, Any]]:
        """List every transaction that has begun and is not whole: its changes so far, and what it waits for.

        Where no record was part of a transaction so far, one entry without a transaction says why.
        """
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for key, rows in self._orderer.held().items():
            for held in rows:
                _, body, row = held["change"]
                unit = self._named(found, str(key[0]), str(row["transaction"]))
                unit["held"] += row["kind"] in _CHANGES
                if row["kind"] == "end":
                    unit["expected"] = int(body.get("event_count") or 0)
        for (source, name), open_unit in self._units.open.items():
            if open_unit.kind == "transaction":
                self._named(found, source, name)["released"] = len(open_unit)
        for each in self._orderer.waiting():
            name = str(each["message"]).rpartition("/")[0]
            behind = found.get((str(each["destination"]), name))
            if behind is not None and behind["blocker"] is None:
                behind["blocker"] = each["blocker"]
        for unit in found.values():
            unit["reason"] = _reason(unit)
        if self.aside and not self._recognised:
            entry = self._named({}, "", "") | {"destination": None, "transaction": None}
            why = "" if self._first_aside is None else f"; the first: {self._first_aside}"
            reason = f"none of {sum(self.aside.values())} records is part of a transaction{why}"
            return [entry | {"reason": reason}]
        return list(found.values())

    @staticmethod
    def _named(found: dict[tuple[str, str], dict[str, Any]], source: str, name: str) -> dict[str, Any]:
        fresh = {
            "destination": source,
            "transaction": name,
            "released": 0,
            "held": 0,
            "expected": None,
            "blocker": None,
        }
        return found.setdefault((source, name), fresh)


def _reason(unit: Mapping[str, Any]) -> str:
    there = unit["released"] + unit["held"]
    if unit["expected"] is None:
        return f"{unit['transaction']}: END has not arrived; {there} changes are there"
    if there < unit["expected"]:
        return f"{unit['transaction']}: {there} of {unit['expected']} changes are there"
    return f"{unit['transaction']}: whole, but {unit['blocker']} has not arrived"
