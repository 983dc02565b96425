"""The oracle of the audit, `core.model.order.judge`, and results of audits in a form that can be compared with it.

Rows are taken in their `order` where every row of a run has one, else as they come.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from support.causal_walks import Causality, path, shortest
from thence.core.model.events import Event, order_of
from thence.core.model.order import Copied, Execution, Judgement, RowPlace, Violation, by_label, judge, usable
from thence.tables.explain.sentence import PathStep
from thence.tables.judge.result import (
    ABSENT,
    COLUMNS,
    TAGS,
    AuditResult,
    FindingRow,
    Findings,
    ListName,
    ViolationKey,
    key_of,
    sort_key,
    violation_of,
)


class DefinitionFindings(Findings):
    """What the definition says of some events; `refused` are rows that are not events."""

    def __init__(
        self,
        events: Iterable[Event],
        refused: Iterable[FindingRow] = (),
        places: dict[int, tuple[str, int]] | None = None,
    ) -> None:
        """Judge the events, run by run; `places` says for `id(event)` from which file and line it is."""
        self._events: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            self._events[event.run].append(event)
        self._judged: dict[str, Judgement] = {}
        self._refused = list(refused)
        self._places = places or {}
        refused_at: dict[str, list[RowPlace]] = defaultdict(list)
        for row in self._refused:
            if row["run"] is not None:
                refused_at[str(row["run"])].append((row["process"], row["index"]))  # type: ignore[arg-type]
        for run in sorted(self._events.keys() | refused_at.keys()):
            own = order_of(self._events[run])
            self._judged[run] = judge(own, refused=refused_at[run])

    def counts(self) -> Iterator[tuple[str, Mapping[str, int]]]:
        """Yield the sums and counts of each run, by name."""
        for run, judged in self._judged.items():
            found = {tag: len(getattr(judged, name)) for name, tag in TAGS.items()}
            absent = len(_never(judged))
            found |= {"violation": found["violation"] - absent, ABSENT: absent}
            found["quarantine"] += judged.refused
            yield run, found | {
                "events": judged.events + judged.refused, "messages": judged.messages, "gaps": len(judged.gaps)
            }  # fmt: skip

    def rows(self, name: ListName) -> Iterator[FindingRow]:
        """Yield the rows of a list, sorted."""
        found = [row for judged in self._judged.values() for row in self._rows(judged, name)]
        if name == "quarantine":
            found += self._refused
        yield from sorted(found, key=lambda row: sort_key(name, row))

    def _rows(self, judged: Judgement, name: ListName) -> Iterator[FindingRow]:
        if name == "quarantine":
            for rejected in judged.quarantine:
                file, line = self._places.get(id(rejected.event), (None, None))
                place_and_reason = {"file": file, "line": line, "reason": rejected.reason}
                yield {
                    column: place_and_reason[column] if column in place_and_reason else getattr(rejected.event, column)
                    for column in COLUMNS[name]
                }
            return
        absent = _never(judged) if judged.run in self.clouded() else []
        own = [each for each in getattr(judged, name) if name != "violations" or each not in absent]
        for each in own + (absent if name == "possible" else []):
            yield {column: getattr(each, column) for column in COLUMNS[name]}

    def paths(self, violations: Sequence[FindingRow]) -> dict[ViolationKey, list[PathStep]]:
        """Return the paths that prove violations, over the rows that the judge used."""
        found: dict[ViolationKey, list[PathStep]] = {}
        lanes: dict[str, list[Causality]] = {}
        for row in violations:
            run = str(row["run"])
            if run not in lanes:
                lanes[run] = [Causality(own) for own in by_label(usable(order_of(self._events[run]))[0]).values()]
            for lane in lanes[run]:
                if row["missing"] in lane.send and (steps := shortest(lane, str(row["missing"]), str(row["early"]))):
                    found[key_of(row)] = steps
        return found

    def events(self, run: str, messages: Iterable[str]) -> list[Event]:
        """Return the rows of a run that name some messages."""
        asked = set(messages)
        return [event for event in self._events[run] if event.message in asked]

    def runs_in(self, files: Iterable[str]) -> set[str]:
        """Return the runs that have rows in some files."""
        asked = set(files)
        return {
            run
            for run, own in self._events.items()
            if any(self._places.get(id(event), (None, 0))[0] in asked for event in own)
        }


def _never(judged: Judgement) -> list[Violation]:
    """Return the violations whose missing message was never delivered at its destination."""
    never = {(each.message, each.destination) for each in judged.undelivered}
    return [each for each in judged.violations if (each.missing, each.destination) in never]


PLACED = ("file", "line")


def told(result: AuditResult, *, placed: bool = False) -> dict[str, object]:
    """Return all that a result says, lists in their order; where rows stood in files only if it is asked for."""
    lists = {
        name: [{c: v for c, v in row.items() if placed or c not in PLACED} for row in result.rows(name)]
        for name in COLUMNS
    }
    return {"verdict": result.verdict, "code": result.exit_code, "runs": result.run_rows, **lists}


def check_paths(result: AuditResult, runs: dict[str, list[Event]], limit: int | None = None) -> int:
    """Hold every path against breadth-first search over the usable rows of its run; return how many there were."""
    checked = 0
    good = {run: usable(events)[0] for run, events in runs.items()}
    for row, found in result.proved(limit):
        if limit is not None and checked == limit:
            break
        known = path(good[str(row["run"])], violation_of(row))
        assert found is not None, row
        assert known is not None
        assert len(found) == len(known), row
        assert (found[0].message, found[-1].message) == (row["missing"], row["early"]), row
        at = {(e.process, e.index): e for e in good[str(row["run"])]}
        for one, two in pairwise(found):
            assert {(one.process, one.index), (two.process, two.index)} <= at.keys(), row
            same = one.process == two.process and one.index < two.index
            carried = (one.kind, two.kind, one.message) == ("send", "deliver", two.message)
            assert same or carried, row
        checked += 1
    return checked


def needless(events: Iterable[Event]) -> list[Copied]:
    """Return each copy that was held although every cause of it was there.

    By definition: once a copy has been received and the last message addressed to that process that causally precedes
    it has been delivered, nothing but other deliveries may stand between that row and its own delivery.
    """
    good, _ = usable(events)
    found: list[Copied] = []
    for part in by_label(good).values():
        execution = Execution(part)
        addressed: dict[str, list[str]] = defaultdict(list)
        for sent, origin in execution.send.items():
            for destination in execution.events[origin].destinations or ():
                addressed[destination].append(sent)
        rows: dict[str, list[Event]] = defaultdict(list)
        for event in part:
            rows[event.process].append(event)
        for process, own in rows.items():
            own.sort(key=lambda event: event.index)
            received = {e.message: place for place, e in enumerate(own) if e.kind == "receive"}
            delivered = {e.message: place for place, e in enumerate(own) if e.kind == "deliver"}
            for message, place in delivered.items():
                if message is None or message not in received:
                    continue
                causes = [m for m in addressed[process] if execution.precedes(m, message)]
                if any(delivered.get(cause, place) > place for cause in causes):
                    continue
                enabled = max([received[message], *(delivered[c] for c in causes if c in delivered)])
                if any(event.kind != "deliver" for event in own[enabled + 1 : place]):
                    found.append(Copied(own[place].run, message, process))
    return found
