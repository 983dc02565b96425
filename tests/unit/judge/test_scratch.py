"""Rows that are kept in a scratch folder: the definition's answer, in chunks and whole, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from support.definition import DefinitionFindings, check_paths, told
from support.tables import small_runs
from support.traces import Knobs, random_trace

from thence.core.model.events import Event, order_of
from thence.tables.engines.local import chunks as arrays
from thence.tables.engines.local.audit import LocalAuditResult
from thence.tables.files import line_reader
from thence.tables.files.jsonl import write_jsonl
from thence.tables.files.parquet import write_parquet
from thence.tables.files.read import open_trace


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Slices of some dozens of rows; folders where they can be counted."""
    kept = tmp_path / "scratch"
    kept.mkdir()
    monkeypatch.setattr(line_reader, "BLOCK", 4000)
    monkeypatch.setattr(arrays, "SCRATCH_ROWS", 1)
    monkeypatch.setattr(arrays.tempfile, "tempdir", str(kept))
    yield kept
    assert list(kept.iterdir()) == []


def check(
    events: list[Event], path: Path, *, proofs: int, chunk_rows: int, begins: str = "scratch"
) -> LocalAuditResult:
    runs: dict[str, list[Event]] = {}
    for event in events:
        runs.setdefault(event.run, []).append(event)
    known = LocalAuditResult(DefinitionFindings(events), "local", "definition")
    with arrays.audit_files(open_trace(path), cores=2, chunk_rows=chunk_rows, held_rows=0) as found:
        assert found.route.startswith(begins)
        assert told(found) == told(known)
        assert check_paths(found, {run: order_of(own) for run, own in runs.items()}, proofs) == proofs
    return found


def large(run: str, seed: int) -> list[Event]:
    knobs = Knobs(processes=8, steps=1500, late=0.1, slow=0.3, lost=0.02, again=0.01, astray=0.02)
    return [replace(event, run=run) for event in random_trace(seed, knobs)]


@pytest.mark.parametrize("chunk_rows", [300, 10**6])
def test_a_large_run_in_chunks_one_in_trouble_and_small_ones(chunk_rows: int, tmp_path: Path) -> None:
    one, two = large("one", 77), large("two", 78)
    twice, last = next(e for e in two if e.kind == "send"), two[-1]
    two.append(replace(twice, process=last.process, index=last.index + 1, order=len(two)))
    small = [event for events in small_runs()[:30] for event in events]
    events = [*one, *small, *two]
    for name, some in (("1", one), ("2", small), ("3", two)):
        write_jsonl(some, tmp_path / f"{name}.jsonl")
    check(events, tmp_path, proofs=60, chunk_rows=chunk_rows)


def test_runs_that_are_interleaved(tmp_path: Path) -> None:
    lanes = [large(f"run {number}", number) for number in range(3)]
    rows = [event for lane in lanes for event in lane]
    places = sorted(range(len(rows)), key=lambda place: (rows[place].order or 0, rows[place].run))
    events = [replace(rows[place], order=number) for number, place in enumerate(places)]
    write_jsonl([replace(event, order=None) for event in events], tmp_path / "t.jsonl")
    check(events, tmp_path / "t.jsonl", proofs=40, chunk_rows=300)


def test_an_order_that_goes_back_and_one_that_is_not_there(tmp_path: Path) -> None:
    events = large("r", 5)
    shuffled = Random(5).sample(events, len(events))
    write_jsonl(shuffled, tmp_path / "t.jsonl")
    check(events, tmp_path / "t.jsonl", proofs=20, chunk_rows=300)
    write_parquet(events, tmp_path / "t.parquet", row_group=100)
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "t.parquet").drop_columns(["order"])
    pq.write_table(table, tmp_path / "u.parquet", row_group_size=100)
    check([replace(event, order=None) for event in events], tmp_path / "u.parquet", proofs=20, chunk_rows=300)


def test_rows_that_are_no_events(tmp_path: Path) -> None:
    write_jsonl([replace(event, run="one") for event in random_trace(1)], tmp_path / "1.jsonl")
    write_jsonl([replace(event, run="two") for event in random_trace(2)], tmp_path / "2.jsonl")
    with (tmp_path / "2.jsonl").open("ab") as stream:
        stream.write(b'no json\n{"run":"two","kind":"send"}\n')
    answers = []
    for held_rows in (0, 10**6):
        with arrays.audit_files(open_trace(tmp_path), chunk_rows=50, held_rows=held_rows) as found:
            answers.append((told(found, placed=True), [run["verdict"] for run in found.runs]))
    assert answers[0] == answers[1]
    assert answers[0][1][1] != "causal"


def test_nothing_is_left_behind_when_judging_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_jsonl(random_trace(1), tmp_path / "t.jsonl")

    def broken(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(arrays, "judged", broken)
    with pytest.raises(KeyboardInterrupt):
        arrays.audit_files(open_trace(tmp_path / "t.jsonl"), held_rows=0)
