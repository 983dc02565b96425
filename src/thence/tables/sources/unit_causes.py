"""Causes between whole transactions, where all records are seen together, for `from_changes(whole=True)`.

*Invariant.* BEGIN waits for each member of its transaction that is not among the records, by name, and the other
members wait for BEGIN. So either all members can be delivered or none. A cause in another transaction stands for that
whole transaction, and a row of a snapshot for the whole snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from thence.errors import MisuseError
from thence.tables.sources.debezium import SNAPSHOT_END, DebeziumArrival, ReadChange

NAMED = 100
"""missing changes of one transaction that are named; the first of them blocks it anyway"""


class _Units:
    """The transactions that are among the records, as far as they are."""

    def __init__(self, reads: Iterable[ReadChange]) -> None:
        """Gather what begins, ends and belongs to each."""
        self.begins: dict[str | None, DebeziumArrival] = {}
        self.ends: dict[str | None, tuple[DebeziumArrival, int]] = {}
        self.changes: defaultdict[str | None, list[str | None]] = defaultdict(list)
        """what belongs to none is under None; a record that comes twice is there twice"""
        self.snapshot: list[DebeziumArrival] = []
        for _, body, row in reads:
            kind, name = row["kind"], row["transaction"]
            if kind == "end":
                self.ends[name] = row, int(body.get("event_count") or 0)
            elif kind == "begin":
                self.begins[name] = row
            else:
                self.changes[name].append(row["message"])
                if kind == "snapshot" and row["message"]:
                    self.snapshot.append(row)

    def missing(self, name: str | None) -> list[str]:
        """Name what is not there of a transaction."""
        if name not in self.ends:
            return [f"{name}/end"]
        changes, count = set(self.changes[name]), self.ends[name][1]
        if len(changes) >= count:
            return []
        lacking = (each for number in range(1, count + 1) if (each := f"{name}/{number}") not in changes)
        return list(islice(lacking, NAMED))

    def end(self, name: str | None) -> str:
        """Return the id of what ends a transaction."""
        return str(self.ends[name][0]["message"]) if name in self.ends else f"{name}/end"


def only_whole(reads: list[ReadChange], places: Mapping[str, tuple[int, ...]] | None) -> None:
    """Set `depends_on` so that only whole transactions are delivered, in place.

    `places`, where rows wait by their keys: where each transaction committed. The causes of changes then become causes
    of their transactions. A transaction that is not whole may hold any change, so those behind it in the log wait.
    """
    units = _Units(reads)
    end_of_snapshot = _close_snapshot(units.snapshot)
    if places is not None:
        _between(units, [row for _, _, row in reads], end_of_snapshot)
        _behind_halves(units, places)
    for name, begin in units.begins.items():
        if not begin["note"] and (lacking := [*end_of_snapshot, *units.missing(name)]):
            begin["depends_on"] = _once([*begin["depends_on"], *lacking], begin)


def _close_snapshot(rows: list[DebeziumArrival]) -> list[str]:
    """Let one row of the snapshot wait for all others, and return it: it stands for the whole snapshot."""
    if not rows:
        return []
    last = next((row for row in rows if row["message"] == SNAPSHOT_END), rows[-1])
    for row in rows:
        row["depends_on"] = []  # they go together, so none waits for its parents
    last["depends_on"] = sorted({str(row["message"]) for row in rows} - {str(last["message"])})
    return [str(last["message"])]


def _between(units: _Units, rows: list[DebeziumArrival], snapshot: list[str]) -> None:
    """Turn causes between rows, by their keys, into causes between transactions; inside one, rows go by number."""
    if any(row["kind"] == "truncate" for row in rows):
        raise MisuseError("order='keys' cannot place a truncate, which concerns every row; use order='commit'")
    members: defaultdict[str, list[DebeziumArrival]] = defaultdict(list)
    for row in rows:
        name = row["transaction"]
        if name is not None and row["message"] is not None and row["kind"] not in ("begin", "end"):
            members[name].append(row)
    of = {str(row["message"]): name for name, changes in members.items() for row in changes}
    before = {str(row["message"]) for row in rows if row["kind"] == "snapshot"}

    def behind(causes: Iterable[str], own: str | None) -> Iterator[str]:
        for cause in causes:
            other = of.get(cause)
            if cause in before:
                yield from snapshot
            elif other is None:
                yield cause
            elif other != own:
                yield units.end(other)

    for row in rows:  # changes that no transaction numbers go by themselves
        if row["message"] is not None and row["transaction"] is None and row["kind"] != "snapshot":
            row["depends_on"] = _once(behind(row["depends_on"], None), row)
    for name, begin in units.begins.items():
        causes = [cause for row in members.get(str(name), ()) for cause in behind(row["depends_on"], name)]
        begin["depends_on"] = _once(causes, begin)
    for name, changes in members.items():
        for row in changes:
            number = int(str(row["message"]).rpartition("/")[2])
            row["depends_on"] = [f"{name}/{number - 1 if number > 1 else 'begin'}"]
    for name, (end, count) in units.ends.items():
        if count and not end["note"]:
            end["depends_on"] = [f"{name}/{count}"]


def _behind_halves(units: _Units, places: Mapping[str, tuple[int, ...]]) -> None:
    """Let transactions wait for each one before them in the log, or at an unknown place, that is not whole."""
    names = dict.fromkeys(name for name in (*units.begins, *units.ends, *units.changes) if name is not None)
    passed = {name for name, (end, _) in units.ends.items() if end["note"]}  # before `since`
    halves = {name for name in names if name not in passed and (name not in units.begins or units.missing(name))}
    for half in (name for name in names if name in halves):
        for name, begin in units.begins.items():
            before = half in places and name is not None and name in places and places[name] < places[half]
            if name not in halves and not before:
                begin["depends_on"].append(units.end(half))


def _once(causes: Iterable[str], row: DebeziumArrival) -> list[str]:
    return [each for each in dict.fromkeys(causes) if each != row["message"]]
