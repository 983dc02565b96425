"""Every odd file of the corpus, read both ways, gives what docs/reference/any-file.md says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.odd_files import CORPUS, LOGS, OddFile

from thence.errors import ThenceError
from thence.tables.files.read import Trace, open_trace

PAGE = (Path(__file__).parents[3] / "docs" / "reference/any-file.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def opened(case: OddFile, tmp_path: Path, order: bool) -> Trace | None:
    """Open the files of a case; nothing if it must be refused, and is."""
    named = case.make(tmp_path, order)
    if case.exit != 2:
        trace = open_trace(named)
        assert [each.reason[: len(said)] for each, said in zip(trace.skipped, case.skipped, strict=True)] == [
            *case.skipped
        ]
        return trace
    with pytest.raises(ThenceError) as found:
        list(open_trace(named).clocks())
    (said,) = case.reasons
    assert said in str(found.value)
    return None


def check(case: OddFile, ours: int, reasons: list[str]) -> None:
    assert ours == case.ours
    assert [reason[: len(said)] for reason, said in zip(reasons, case.reasons, strict=True)] == [*case.reasons]


@pytest.mark.parametrize("order", [True, False])
@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.kind)
def test_row_by_row(case: OddFile, order: bool, tmp_path: Path) -> None:
    trace = opened(case, tmp_path, order)
    assert (trace is None) == (case.exit == 2)
    if trace:
        events = list(trace.events())
        check(case, len(events), [each.reason for each in trace.quarantine])
        named = {each.run for each in trace.quarantine if each.run}
        assert {event.run for event in events} | named == case.runs.keys()
        if None in {each.run for each in trace.quarantine if each.line}:
            assert "unknown" in case.runs.values()


@pytest.mark.parametrize("order", [True, False])
@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.kind)
def test_in_batches(case: OddFile, order: bool, tmp_path: Path) -> None:
    if trace := opened(case, tmp_path, order):
        rows = pa.Table.from_batches(trace.batches()).to_pylist() if case.ours or case.reasons else []
        check(case, sum(not row["reason"] for row in rows), [row["reason"] for row in rows if row["reason"]])


@pytest.mark.parametrize("case", LOGS, ids=lambda case: case.kind)
def test_logs(case: OddFile, tmp_path: Path) -> None:
    if trace := opened(case, tmp_path, order=True):
        check(case, len(list(trace.clocks())), [each.reason for each in trace.quarantine])


def test_the_table_of_the_docs_is_the_corpus() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| input")]
    assert rows == [case.row for case in (*CORPUS, *LOGS)]
