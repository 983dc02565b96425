"""Assertions for test suites: a recorded execution is causal, or the test fails with the proof.

    from thence.testing import assert_causal

    def test_the_protocol(tmp_path):
        run_it(record=tmp_path / "trace.jsonl")
        assert_causal(tmp_path / "trace.jsonl")

Invariant: the assertion holds exactly when `thence audit` ends with exit code 0: no violation, nothing set aside or
left out that could hide one, no duplicate, no misdelivery, and at least one event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from thence.core.model.events import Event
from thence.tables.engines.local.audit import audit
from thence.tables.judge.explain import explanation
from thence.tables.judge.result import AuditResult

if TYPE_CHECKING:
    import pyarrow as pa

MOST_NAMED = 10
"""Findings of a kind that a failure names."""


def assert_causal(
    trace: str | Path | Iterable[str | Path] | Iterable[Event] | pa.Table, *, columns: Mapping[str, str] | None = None
) -> None:
    """Raise AssertionError, with the sentence and the diagram, unless a trace is causal.

    Args:
        trace: files, an Arrow table or events, as for `thence.audit`.
        columns: the trace's own names for the columns of the contract, as in `{"process": "pid"}`.
    """
    with audit(trace, columns=columns) as result:
        if result.exit_code:
            raise AssertionError("\n".join(failure(result)))


def failure(result: AuditResult) -> list[str]:
    """Return the lines that say why a result is not the one hoped for."""
    lines = [f"this execution is not causal: {result.verdict}" if result.events else "there is no event to judge"]
    if count := sum(run["violations"] for run in result.run_rows):
        lines += [f"violation 1 of {count}: {explanation(result)}"]
    if result.records is not None:
        lines += [f"run {each.run}: {each.sentence}" for each in result.records.early[:MOST_NAMED]]
    for name, what in (("duplicates", "delivered again"), ("misdelivered", "delivered where it was not addressed")):
        rows = result.listed(name)  # type: ignore[arg-type]
        lines += [f"run {row['run']}: {row['message']} {what}, at {row['destination']}" for row in rows[:MOST_NAMED]]
    for row in result.listed("quarantine")[:MOST_NAMED]:
        lines.append(f"set aside: {row['file'] or row['run']}:{row['line'] or row['index']}: {row['reason']}")
    lines += [f"run {run['run']}: {run['gaps']} gaps in `index`" for run in result.run_rows if run["gaps"]][:MOST_NAMED]
    return lines
