"""Causes between whole transactions, where all records are seen together: what `from_changes(whole=True)` adds.

*Invariant.* BEGIN waits for each member of its transaction that is not among the records, by name, and the other
members wait for BEGIN. So either all members can be delivered or none. A cause in another transaction stands for that
whole transaction, and a row of a snapshot for the whole snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from thence.errors import MisuseError
from thence.tables.sources.debezium import SNAPSHOT_END, DebeziumArrival, ReadChange

NAMED = 100
"""missing changes of one transaction that are named; the first of them blocks it anyway"""


@dataclass(slots=True)
class _Members:
    """The members of one transaction that are among the records."""

    rows: list[DebeziumArrival] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """of the rows: a record that comes twice is one change"""
    begin: DebeziumArrival | None = None
    end: DebeziumArrival | None = None
    count: int = 0

    def missing(self, name: str) -> list[str]:
        """Name what is not there."""
        if self.end is None:
            return [f"{name}/end"]
        if len(self.names) >= self.count:
            return []
        lacking = (each for number in range(1, self.count + 1) if (each := f"{name}/{number}") not in self.names)
        return list(islice(lacking, NAMED))


def only_whole(reads: list[ReadChange], places: Mapping[str, tuple[int, ...]] | None) -> None:
    """Set `depends_on` so that only whole transactions are delivered, in place.

    `places`, where rows wait by their keys: where each transaction committed. The causes of changes then become causes
    of their transactions. A transaction that is not whole may hold any change, so those behind it in the log wait.
    """
    found = _members(reads)
    end_of_snapshot = _close_snapshot([row for _, _, row in reads if row["kind"] == "snapshot" and row["message"]])
    if places is not None:
        _between(found, [row for _, _, row in reads], end_of_snapshot)
        _behind_halves(found, places)
    for name, members in found.items():
        begin = members.begin
        if begin is not None and not begin["note"]:
            lacking = members.missing(name)
            if lacking or end_of_snapshot:
                begin["depends_on"] = _once([*begin["depends_on"], *end_of_snapshot, *lacking], begin)


def _members(reads: Iterable[ReadChange]) -> dict[str, _Members]:
    found: dict[str, _Members] = {}
    for _, body, row in reads:
        name, message, kind = row["transaction"], row["message"], row["kind"]
        if name is None or message is None:
            continue
        members = found.get(name)
        if members is None:
            members = found[name] = _Members()
        if kind == "begin":
            members.begin = row
        elif kind == "end":
            members.end, members.count = row, int(body.get("event_count") or 0)
        else:
            members.rows.append(row)
            members.names.add(message)
    return found


def _close_snapshot(rows: list[DebeziumArrival]) -> list[str]:
    """Let one row of the snapshot wait for all others, and return it: it stands for the whole snapshot."""
    if not rows:
        return []
    last = next((row for row in rows if row["message"] == SNAPSHOT_END), rows[-1])
    for row in rows:
        row["depends_on"] = []  # they go together, so none waits for its parents
    last["depends_on"] = sorted({str(row["message"]) for row in rows} - {str(last["message"])})
    return [str(last["message"])]


def _between(found: dict[str, _Members], rows: list[DebeziumArrival], snapshot: list[str]) -> None:
    """Turn causes between rows, by their keys, into causes between transactions; inside one, rows go by number."""
    if any(row["kind"] == "truncate" for row in rows):
        raise MisuseError("order='keys' cannot place a truncate, which concerns every row; use order='commit'")
    of = {str(row["message"]): name for name, members in found.items() for row in members.rows}
    before = {str(row["message"]) for row in rows if row["kind"] == "snapshot"}

    def units(causes: Iterable[str], own: str | None) -> Iterator[str]:
        for cause in causes:
            other = of.get(cause)
            if cause in before:
                yield from snapshot
            elif other is None:
                yield cause
            elif other != own:
                end = found[other].end
                yield f"{other}/end" if end is None else str(end["message"])

    for row in rows:  # changes that no transaction numbers go by themselves
        if row["message"] is not None and row["transaction"] is None and row["kind"] != "snapshot":
            row["depends_on"] = _once(units(row["depends_on"], None), row)
    for name, members in found.items():
        causes = [cause for row in members.rows for cause in units(row["depends_on"], name)]
        if members.begin is not None:
            members.begin["depends_on"] = _once(causes, members.begin)
        for row in members.rows:
            number = int(str(row["message"]).rpartition("/")[2])
            row["depends_on"] = [f"{name}/{number - 1 if number > 1 else 'begin'}"]
        if members.end is not None and members.count:
            members.end["depends_on"] = [f"{name}/{members.count}"]


def _behind_halves(found: dict[str, _Members], places: Mapping[str, tuple[int, ...]]) -> None:
    """Let transactions wait for each one before them in the log, or at an unknown place, that is not whole."""
    halves = {name: members for name, members in found.items() if members.begin is None or members.missing(name)}
    for half, members in halves.items():
        cause = f"{half}/end" if members.end is None else str(members.end["message"])
        for name, other in found.items():
            before = name in places and half in places and places[name] < places[half]
            if name not in halves and other.begin is not None and not before:
                other.begin["depends_on"].append(cause)


def _once(causes: Iterable[str], row: DebeziumArrival) -> list[str]:
    return [each for each in dict.fromkeys(causes) if each != row["message"]]
