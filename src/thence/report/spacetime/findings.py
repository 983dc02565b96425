"""What an audit found, as findings of scenes: whoever judged, the same sentences in the same order.

Law. Violations come first, numbered as the audit numbers them; then copies that are missing, doubled or misplaced, then
rows set aside. The first `paths` violations have their proof.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, Protocol

from thence.model.events import Event
from thence.model.order import Copied, Judgement, Violation, by_label, judge_runs, usable
from thence.trace.causality import Causality
from thence.trace.explain import Step, shortest
from thence.trace.scene import Finding, What, copied, set_aside, violated

AuditRow = Mapping[str, str | int | None]
ListName = Literal["violations", "undelivered", "duplicates", "misdelivered", "quarantine"]
COPIES: dict[ListName, What] = {
    "undelivered": "undelivered",
    "duplicates": "duplicate",
    "misdelivered": "misdelivered",
}
MOST = 5_000
"""Findings of each kind that are taken; the audit has them all."""


class Audited(Protocol):
    """The part of an audit's result that a page needs."""

    def rows(self, name: ListName) -> Iterator[AuditRow]:
        """Yield the rows of a list, sorted."""

    def proved(self, limit: int | None = None) -> Iterator[tuple[AuditRow, list[Step] | None]]:
        """Yield all violations, the first `limit` with their path."""


class ByDefinition:
    """What the definition says of some rows: the judge of small traces, in the form of an audit."""

    def __init__(self, events: Iterable[Event]) -> None:
        """Judge them, run by run."""
        rows = list(events)
        self.judged: dict[str, Judgement] = dict(sorted(judge_runs(rows).items()))
        self.verdicts: dict[str, str] = {run: each.verdict for run, each in self.judged.items()}
        self._events = rows

    def rows(self, name: ListName) -> Iterator[AuditRow]:
        """Yield the rows of a list, sorted."""
        for run, each in self.judged.items():
            if name == "quarantine":
                for gone in each.quarantine:
                    process, index = gone.event.process, gone.event.index
                    yield {"run": run, "process": process, "index": index, "reason": gone.reason}
            elif name == "violations":
                for found in sorted(each.violations, key=lambda v: (v.destination, v.missing)):
                    yield {name: getattr(found, name) for name in ("run", "destination", "early", "missing")}
            else:
                for copy in sorted(getattr(each, name), key=lambda c: (c.message, c.destination)):
                    yield {"run": run, "message": copy.message, "destination": copy.destination}

    def proved(self, limit: int | None = None) -> Iterator[tuple[AuditRow, list[Step] | None]]:
        """Yield all violations, the first `limit` with their path."""
        walks: dict[str, list[Causality]] = {}
        for number, row in enumerate(self.rows("violations")):
            run = str(row["run"])
            if run not in walks:
                good, _ = usable(event for event in self._events if event.run == run)
                walks[run] = [Causality(part) for part in by_label(good).values()]
            if limit is not None and number >= limit:
                yield row, None
                continue
            ends = str(row["missing"]), str(row["early"])
            yield row, next((path for walk in walks[run] if (path := shortest(walk, *ends))), None)


Numbered = list[tuple[str | None, Finding]]
"""Findings with the run of each, as an audit lists them."""


def findings_of(audit: Audited, *, paths: int = 100) -> Numbered:
    """Return what was found, each with its run."""
    never = {_copy(row) for row in audit.rows("undelivered")}
    found: Numbered = []
    for row, path in islice(audit.proved(paths), MOST):
        violation = Violation(str(row["run"]), str(row["destination"]), str(row["early"]), str(row["missing"]))
        missing = Copied(violation.run, violation.missing, violation.destination)
        found.append((violation.run, violated(violation, path, never=missing in never)))
    for name, what in COPIES.items():
        found += [(str(row["run"]), copied(what, _copy(row))) for row in islice(audit.rows(name), MOST)]
    return found + [_aside(row) for row in islice(audit.rows("quarantine"), MOST)]


def _copy(row: AuditRow) -> Copied:
    return Copied(str(row["run"]), str(row["message"]), str(row["destination"]))


def _aside(row: AuditRow) -> tuple[str | None, Finding]:
    process, index, file, line = (row.get(name) for name in ("process", "index", "file", "line"))
    place = f"process {process}, index {index}" if file is None else f"{file}" if line is None else f"{file}:{line}"
    known = (str(process), int(index)) if process is not None and index is not None else None
    run = row.get("run")
    return None if run is None else str(run), set_aside(str(row["reason"]), place=place, row=known)


def by_run(findings: Numbered) -> tuple[dict[str, Sequence[Finding]], list[Finding]]:
    """Part findings by run; those whose run is not known come apart."""
    runs: dict[str, list[Finding]] = defaultdict(list)
    nowhere = []
    for run, finding in findings:
        if run is None:
            nowhere.append(finding)
        else:
            runs[run].append(finding)
    return dict(runs), nowhere
