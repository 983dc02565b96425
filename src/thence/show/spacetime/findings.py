"""Findings of an audit as findings of scenes, in the audit's order and with its numbers.

*Invariant.* Violations come first; then copies that are missing, doubled or misdelivered; then rows set aside. The
first `paths` violations have their proof.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal, Protocol

from thence.core.model.order import Copied, Violation
from thence.tables.explain.scene import Finding, What, copied, set_aside_finding, violated
from thence.tables.explain.sentence import PathStep

if TYPE_CHECKING:
    from thence.tables.files.record_events import RecordAudit

AuditRow = Mapping[str, str | int | None]
DrawnList = Literal["violations", "undelivered", "duplicates", "misdelivered", "quarantine"]
COPIES: dict[DrawnList, What] = {
    "undelivered": "undelivered",
    "duplicates": "duplicate",
    "misdelivered": "misdelivered",
}
MOST_FINDINGS = 5_000
"""Findings of each kind that are taken; the audit has them all."""


class Audited(Protocol):
    """The part of an audit's result that a page needs."""

    def rows(self, name: DrawnList) -> Iterator[AuditRow]:
        """Yield the rows of a list, sorted."""

    def proved(self, limit: int | None = None) -> Iterator[tuple[AuditRow, list[PathStep] | None]]:
        """Yield all violations, the first `limit` with their path."""

    def nth_violation(self, number: int) -> tuple[AuditRow, list[PathStep] | None] | None:
        """Return a violation by its number, from 1, with its path; None if there are fewer."""


Numbered = list[tuple[str | None, Finding]]
"""Findings with the run of each, as an audit lists them."""


def findings_of(audit: Audited, *, paths: int = 100, wanted: int | None = None) -> Numbered:
    """Return the findings of an audit, each with its run.

    Args:
        audit: the result of an audit.
        paths: number of violations, from the first, that get their path.
        wanted: number of one more violation that is listed with its path, however many come before it.
    """
    never = {_copy(row) for row in audit.rows("undelivered")}
    found: Numbered = []

    def taken(number: int, row: AuditRow, path: list[PathStep] | None) -> tuple[str, Finding]:
        violation = Violation(str(row["run"]), str(row["destination"]), str(row["early"]), str(row["missing"]))
        missing = Copied(violation.run, violation.missing, violation.destination)
        return violation.run, violated(violation, path, never=missing in never, number=number)

    for number, (row, path) in enumerate(islice(audit.proved(paths), MOST_FINDINGS), 1):
        found.append(taken(number, row, path))
    if wanted is not None and wanted > paths and (asked := audit.nth_violation(wanted)) is not None:
        found[wanted - 1 : wanted] = [taken(wanted, *asked)]
    for name, what in COPIES.items():
        found += [(str(row["run"]), copied(what, _copy(row))) for row in islice(audit.rows(name), MOST_FINDINGS)]
    return found + [_aside(row) for row in islice(audit.rows("quarantine"), MOST_FINDINGS)]


def record_findings(records: RecordAudit | None) -> Numbered:
    """Return the findings about spans, events and changes: spans before their parents, and causes that never came."""
    if records is None:
        return []
    early: Numbered = [
        (each.run, Finding("span", each.sentence, each.child_service, each.child)) for each in records.early
    ]
    lost: Numbered = [
        (each.run, Finding("orphan", each.sentence, message=each.message)) for each in records.without_cause
    ]
    return early[:MOST_FINDINGS] + lost[:MOST_FINDINGS]


def _copy(row: AuditRow) -> Copied:
    return Copied(str(row["run"]), str(row["message"]), str(row["destination"]))


def _aside(row: AuditRow) -> tuple[str | None, Finding]:
    process, index, file, line = (row.get(name) for name in ("process", "index", "file", "line"))
    place = f"process {process}, index {index}" if file is None else f"{file}" if line is None else f"{file}:{line}"
    known = (str(process), int(index)) if process is not None and index is not None else None
    run = row.get("run")
    return None if run is None else str(run), set_aside_finding(str(row["reason"]), place=place, row=known)


def findings_by_run(findings: Numbered) -> tuple[dict[str, Sequence[Finding]], list[Finding]]:
    """Return findings by run, and findings whose run is unknown."""
    runs: dict[str, list[Finding]] = defaultdict(list)
    nowhere = []
    for run, finding in findings:
        if run is None:
            nowhere.append(finding)
        else:
            runs[run].append(finding)
    return dict(runs), nowhere
