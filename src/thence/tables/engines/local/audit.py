"""The audit in this process, without JVM and session; the stages and answers are those on Spark.

    import thence
    with thence.audit("trace.jsonl") as result:      # files, folders, globs; a table of any kind; events
        result.verdict, result.violations

Invariant. The result equals `thence.core.model.order.judge` on the rows of every run, for any number of rows. Parquet
whose row groups follow one another in `order` is judged in chunks, several at a time, so that memory is bounded by the
chunks in hand and what they leave open; all else is judged run by run from all rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from thence.core.model.events import Event
from thence.errors import MisuseError
from thence.tables.files.inputs import FileNames, InputTable, TraceInput, trace_input
from thence.tables.files.read import Trace, open_trace
from thence.tables.files.source import Quarantined
from thence.tables.judge.result import COLUMNS, AuditResult, FindingRow, RunRow

AuditProgress = Callable[[str, int, int | None], None]
"""Called with a stage, how many rows are done, and how many there are if that is known."""


def silent(stage: str, rows: int, total: int | None) -> None:
    """Ignore progress; the default where a caller wants no reports."""


class LocalAuditResult(AuditResult):
    """The result of an audit in this process; every list is a list of rows."""

    @property
    def runs(self) -> list[RunRow]:
        """One row per run: `run, verdict, events, messages, gaps`, and how many there are of each finding."""
        return self.run_rows

    @property
    def violations(self) -> list[FindingRow]:
        """One row per destination and missing message: `run, destination, early, missing`."""
        return self.listed("violations")

    @property
    def possible(self) -> list[FindingRow]:
        """Violations unless a missing or set-aside row hides a delivery: `run, destination, early, missing`."""
        return self.listed("possible")

    @property
    def undelivered(self) -> list[FindingRow]:
        """Copies never delivered: `run, message, destination`."""
        return self.listed("undelivered")

    @property
    def duplicates(self) -> list[FindingRow]:
        """Deliveries after the first of a copy: `run, message, destination`."""
        return self.listed("duplicates")

    @property
    def misdelivered(self) -> list[FindingRow]:
        """Deliveries where a message was not addressed: `run, message, destination`."""
        return self.listed("misdelivered")

    @property
    def quarantine(self) -> list[FindingRow]:
        """Rows set aside: where they stood, what they said, and `reason`."""
        return self.listed("quarantine")

    def paths(self, violations: Iterable[FindingRow] | None = None) -> list[dict[str, object]]:
        """Return violations with `path`: a shortest causal chain from the send of missing to that of early.

        `violations` are rows of the list of that name, as in `result.paths(result.violations[:100])`; all if not given.
        """
        if isinstance(violations, int):
            raise MisuseError(f"paths takes violations, not a number; paths(result.violations[:{violations}])")
        return self.with_paths(self.violations if violations is None else violations)


def audit(
    events: TraceInput,
    *,
    cores: int | None = None,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
    progress: AuditProgress = silent,
) -> LocalAuditResult:
    """Audit a trace in this process: check that every message was delivered after its causes, and list violations.

        thence.audit("trace.jsonl").verdict    # 'causal', 'violated' or 'unknown'

    Args:
        events: files, folders or globs; a table in the trace table's columns (pandas, Polars, pyarrow, anything else
            with Arrow's capsule interface, a list of dicts); or events.
        cores: how many chunks are judged at a time; as many as there are cores if not given.
        columns: the trace's own names for the columns of the contract, as in `{"process": "pid"}`.
        kinds: the trace's own values of `kind`, as in `{"PRODUCED": "send"}`.
        progress: called with the stage, the rows done and the rows in all, if known.
    """
    given = trace_input(events, columns, kinds)
    if isinstance(given, InputTable):
        return audit_input(given, columns, kinds, cores=cores, progress=progress)
    if isinstance(given, FileNames):
        return audit_trace(open_trace(given.names, columns=columns, kinds=kinds), cores=cores, progress=progress)
    return audit_events(given, cores=cores, progress=progress)


def audit_input(
    table: InputTable,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
    *,
    cores: int | None = None,
    progress: AuditProgress = silent,
) -> LocalAuditResult:
    """Audit a table that the caller holds in memory."""
    from thence.tables.engines.local.chunks import audit_table
    from thence.tables.judge.normal_table import of_input

    return audit_table(of_input(table, columns, kinds), cores=cores or os.cpu_count() or 1, progress=progress)


def audit_events(
    events: Sequence[Event], *, cores: int | None = None, progress: AuditProgress = silent
) -> LocalAuditResult:
    """Audit a list of events."""
    from thence.tables.engines.local.chunks import audit_table
    from thence.tables.judge.normal_table import of_events

    return audit_table(of_events(events), cores=cores or os.cpu_count() or 1, progress=progress)


def audit_trace(trace: Trace, *, cores: int | None = None, progress: AuditProgress = silent) -> LocalAuditResult:
    """Audit the tables of a trace; logs with clocks are for `tables.explain.clock_findings`."""
    from thence.tables.engines.local.chunks import audit_files

    result = audit_files(trace, cores=cores or os.cpu_count() or 1, progress=progress)
    result.records = trace.record_audit()
    return result


def refused_row(refused: Quarantined) -> FindingRow:
    """Return a row that a reader rejected as a row of the list `quarantine`."""
    row = refused.row()
    return {column: row.get(column) for column in COLUMNS["quarantine"]}  # type: ignore[misc]
