"""Results of an audit, one type for every engine: verdict, lists, JSON, sentences and exit code.

Invariant. Every list is sorted and the same for every engine: violations by (run, destination, missing), numbered from
1 in that order; the others by their columns from left to right, null first. Lists are returned row by row, so that
memory does not grow with them. `violated` if there is a violation; else `unknown` if one is possible, if a row that was
set aside or a gap could hide one, or if there was no event at all; else `causal`.

A row whose run cannot be read may belong to any run of its file: it *clouds* them. None of them is known to be causal,
and that a message was never delivered is not proved in them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, TYPE_CHECKING, Literal, TypedDict

from thence.core.model.message_names import HOPS
from thence.core.model.order import Violation
from thence.core.model.verdict import Verdict, verdict_of, worst_of
from thence.tables.explain.sentence import PathStep, sentence

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from thence.core.model.events import Event
    from thence.tables.explain.clock_findings import ClockAudit
    from thence.tables.files.record_events import RecordAudit

FindingValue = str | int | None
FindingRow = dict[str, FindingValue]
"""A finding: the columns of its list, in their order."""
ViolationKey = tuple[str, str, str]
"""The identity of a violation: run, destination, missing message."""
ListName = Literal["violations", "possible", "undelivered", "duplicates", "misdelivered", "quarantine"]

COPY = ("run", "message", "destination")
COLUMNS: dict[ListName, tuple[str, ...]] = {
    "violations": ("run", "destination", "early", "missing"),
    "possible": ("run", "destination", "early", "missing"),
    "undelivered": COPY,
    "duplicates": COPY,
    "misdelivered": COPY,
    "quarantine": ("run", "process", "index", "kind", "message", "label", "order", "file", "line", "reason"),
}
"""The lists of findings, and the columns of each."""
TAGS: dict[ListName, str] = {
    "violations": "violation",
    "possible": "possible",
    "undelivered": "undelivered",
    "duplicates": "duplicate",
    "misdelivered": "misdelivered",
    "quarantine": "quarantine",
}
"""The tag of each list in a tagged table (`tables.judge.findings`)."""
ABSENT = "absent"
"""The tag of violations whose missing message was never delivered: only possible in a run that is clouded."""
CALLED = {"missing": "message"}
"""Columns of a list that have another name in a tagged table."""
KEY = ("run", "destination", "missing")
SORTED_BY: dict[ListName, tuple[str, ...]] = {**COLUMNS, "violations": KEY, "possible": KEY}


class RunRow(TypedDict):
    """One run: its name, its verdict and its counts."""

    run: str
    verdict: str
    events: int
    messages: int
    gaps: int
    violations: int
    possible: int
    undelivered: int
    duplicates: int
    misdelivered: int
    quarantined: int


RUN_TYPES = {"run": "string", "verdict": "string"}
RUN_TYPES |= {name: "bigint" for name in RunRow.__annotations__ if name not in RUN_TYPES}
"""The columns of the rows of runs, and their types as Spark SQL writes them."""
COUNTS: dict[ListName, str] = {name: name for name in COLUMNS} | {"quarantine": "quarantined"}
"""The column with the count of each list, in the row of a run."""


SUMS = ("events", "messages", "gaps")
"""Columns that are summed over the parts of a run."""


def run_row(run: str, found: Mapping[str, int], *, clouded: bool) -> RunRow:
    """Return the row of a run from its sums and its counts by tag."""
    counts = {COUNTS[name]: found.get(tag, 0) for name, tag in TAGS.items()}
    counts["possible" if clouded else "violations"] += found.get(ABSENT, 0)
    set_aside = counts["quarantined"] + clouded
    verdict = verdict_of(counts["violations"], counts["possible"], set_aside, found["gaps"])
    return {"run": run, "verdict": verdict, **{name: found[name] for name in SUMS}, **counts}  # type: ignore[typeddict-item]


def sort_key(name: ListName, row: FindingRow) -> list[tuple[bool, str | int]]:
    """Return the sort key of a row of a list: null first."""
    values = [row[column] for column in SORTED_BY[name]]
    return [(False, "") if value is None else (True, value) for value in values]


class Findings(ABC):
    """Access to the findings of an audit; each engine implements it."""

    _clouded: frozenset[str] | None = None

    @abstractmethod
    def counts(self) -> Iterator[tuple[str, Mapping[str, int]]]:
        """Yield for each run that has a name, sorted, its sums and how many rows there are with each tag."""

    @abstractmethod
    def rows(self, name: ListName) -> Iterator[FindingRow]:
        """Yield the rows of a list, sorted."""

    def clouded(self) -> frozenset[str]:
        """Return the runs to which a row may belong whose run cannot be read: those of its file, or all."""
        if self._clouded is None:
            files = self.lost_in()
            if None in files:
                self._clouded = frozenset(run for run, _ in self.counts())
            else:
                self._clouded = frozenset(self.runs_in(map(str, files)) if files else ())
        return self._clouded

    def lost_in(self) -> set[str | None]:
        """Return the files of rows whose run cannot be read; None stands for an unknown file."""
        return {row["file"] for row in self.rows("quarantine") if row["run"] is None}  # type: ignore[misc]

    def runs(self) -> Iterator[RunRow]:
        """Yield the runs, by name."""
        clouded = self.clouded()
        for run, found in self.counts():
            yield run_row(run, found, clouded=run in clouded)

    @abstractmethod
    def paths(self, violations: Sequence[FindingRow]) -> dict[ViolationKey, list[PathStep]]:
        """Return the causal paths that prove some violations."""

    @abstractmethod
    def events(self, run: str, messages: Iterable[str]) -> list[Event]:
        """Return the rows of a run that name some messages."""

    @abstractmethod
    def runs_in(self, files: Iterable[str]) -> set[str]:
        """Return the runs that have rows in some files."""

    def close(self) -> None:  # noqa: B027  (most hold nothing that must be let go)
        """Release memory, files and frames behind the result."""


@dataclass
class AuditResult:
    """The result of an audit, with engine and route."""

    findings: Findings
    engine: str
    route: str
    clocks: ClockAudit | None = None
    """Findings about logs that carry clocks and no messages."""
    records: RecordAudit | None = None
    """Findings about files of spans, events or changes, besides the verdict on their order."""
    log_quarantine: list[FindingRow] = field(default_factory=list)
    """Lines of such logs that could not be used."""
    allow_empty: bool = False
    _runs: list[RunRow] | None = field(default=None, repr=False)
    _paths: dict[ViolationKey, list[PathStep]] = field(default_factory=dict, repr=False)
    _asked: set[ViolationKey] = field(default_factory=set, repr=False)

    @property
    def run_rows(self) -> list[RunRow]:
        """One row per run, by name, brought to this process: its verdict, and how many there are of everything."""
        if self._runs is None:
            of_records = self.records.run_verdicts() if self.records else {}
            self._runs = [_judged_by(of_records, run) for run in self.findings.runs()]
        return self._runs

    @property
    def events(self) -> int:
        """The number of events that were judged."""
        return sum(run["events"] for run in self.run_rows) + (self.clocks.events if self.clocks else 0)

    @property
    def messages(self) -> int:
        """The number of messages that were sent."""
        return sum(run["messages"] for run in self.run_rows)

    @property
    def verdict(self) -> str:
        """Violated, unknown or causal, over all runs and logs."""
        verdicts = {run["verdict"] for run in self.run_rows}
        verdicts |= {each.verdict for each in (self.clocks, self.records) if each}
        worst = worst_of(verdicts)
        if worst == "causal" and next(self.rows("quarantine"), None) is not None:
            return "unknown"
        if worst != "causal":
            return worst
        return "unknown" if not self.events and not self.allow_empty else "causal"

    @property
    def exit_code(self) -> int:
        """0 if the execution is causal, else 1; copies that were not delivered alone are not a fault."""
        faults = any(run["duplicates"] or run["misdelivered"] for run in self.run_rows)
        return int(self.verdict != "causal" or faults)

    def rows(self, name: ListName) -> Iterator[FindingRow]:
        """Yield the rows of a list, sorted."""
        yield from self.findings.rows(name)
        if name == "quarantine":
            yield from self.log_quarantine

    def listed(self, name: ListName) -> list[FindingRow]:
        """Return the rows of a list."""
        return list(self.rows(name))

    def proved(self, limit: int | None = None) -> Iterator[tuple[FindingRow, list[PathStep] | None]]:
        """Yield all violations, `limit` of them with the path that proves each (default: all)."""
        violations = self.rows("violations")
        asked = list(islice(violations, limit))
        self._prove([row for row in asked if key_of(row) not in self._asked])
        for row in asked:
            yield row, self._paths.get(key_of(row))
        for row in violations:
            yield row, None

    def _prove(self, asked: list[FindingRow]) -> None:
        """Find paths, once."""
        if asked:
            self._paths.update(self.findings.paths(asked))
            self._asked.update(map(key_of, asked))

    def with_paths(self, violations: Iterable[FindingRow]) -> list[dict[str, object]]:
        """Return some violations, each with the path that proves it, as JSON has it."""
        asked = list(violations)
        self._prove([row for row in asked if key_of(row) not in self._asked])
        return [{**row, "path": path_rows(self._paths.get(key_of(row)))} for row in asked]

    def nth_violation(self, number: int) -> tuple[FindingRow, list[PathStep] | None] | None:
        """Return a violation by its number, from 1, with its path; None if there are not this many."""
        row = next(islice(self.rows("violations"), number - 1, None), None)
        if row is None:
            return None
        self._prove([row])
        return row, self._paths.get(key_of(row))

    def never_delivered(self, violations: Iterable[FindingRow]) -> set[ViolationKey]:
        """Return which of some violations speak of a message that was not delivered later either."""
        asked = set(map(key_of, violations))
        return asked & {
            (str(row["run"]), str(row["destination"]), str(row["message"]))
            for row in (self.rows("undelivered") if asked else ())
        }

    def told(self, limit: int, paths: int = 100) -> list[tuple[FindingRow, str]]:
        """Return the first violations, each with its sentence; `paths` of all violations are proved on the way."""
        shown = list(islice(self.proved(paths), limit))
        never = self.never_delivered(row for row, _ in shown)
        return [(row, sentence(path, violation_of(row), never=key_of(row) in never)) for row, path in shown]

    def json(self, paths: int = 100) -> Iterator[str]:
        """Yield the result as JSON, in pieces of text, in the form the contract has."""
        head = {"verdict": self.verdict, "engine": self.engine, "route": self.route}
        yield "{\n" + "".join(f"  {_dump(name)}: {_dump(value)},\n" for name, value in head.items())
        apart = {
            "runs": [run for run in self.run_rows if not run["run"].endswith(HOPS)],
            "hops": [run for run in self.run_rows if run["run"].endswith(HOPS)],
        }
        for name, runs in apart.items():
            yield from _array(name, runs)
        yield f'  "events": {self.events},\n  "messages": {self.messages},\n'
        proved = self.proved(paths)
        yield from _array("violations", ({**row, "path": path_rows(path)} for row, path in proved))
        for name in COLUMNS:
            if name != "violations":
                yield from _array(name, self.rows(name))
        clocks = [finding.row() for finding in self.clocks.findings] if self.clocks else []
        if self.records is not None:
            yield from _array("orphans", self.records.orphans)
            yield from _array("skews", self.records.skew_rows())
        yield from _array("clocks", clocks, end="\n}\n")

    def write_json(self, stream: IO[str], paths: int = 100) -> None:
        """Write the result as JSON."""
        stream.writelines(self.json(paths))

    def close(self) -> None:
        """Release memory, files and frames behind the result."""
        self.findings.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _judged_by(of_records: Mapping[str, Verdict], run: RunRow) -> RunRow:
    """Return a run with the worse of two verdicts: on the order of its events, and on its records."""
    worst = worst_of((run["verdict"], of_records.get(run["run"], "causal")))
    return run if worst == run["verdict"] else RunRow({**run, "verdict": worst})


def key_of(row: FindingRow) -> ViolationKey:
    """Return the identity of a violation."""
    return str(row["run"]), str(row["destination"]), str(row["missing"])


def path_rows(path: Sequence[PathStep] | None) -> list[dict[str, object]] | None:
    """Return a path as JSON has it."""
    return None if path is None else [step.row() for step in path]


def violation_of(row: FindingRow) -> Violation:
    """Return a row of the list of violations as one."""
    return Violation(str(row["run"]), str(row["destination"]), str(row["early"]), str(row["missing"]))


_dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _array(name: str, rows: Iterable[object], end: str = ",\n") -> Iterator[str]:
    """Yield a named array of JSON, a row on each line."""
    yield f"  {_dump(name)}: ["
    comma = ""
    for row in rows:
        yield f"{comma}\n    {_dump(row)}"
        comma = ","
    yield f"{'' if not comma else chr(10) + '  '}]{end}"
