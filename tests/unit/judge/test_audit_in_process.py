"""The audit in this process: the definition, whole runs and chunks say the same of every trace, paths included."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.definition import DefinitionFindings, check_paths, told
from support.soak import first
from support.tables import long_runs, small_runs
from support.traces import Knobs, random_trace, spoil

import thence
from thence.core.model.events import Event, order_of, parse
from thence.errors import MisuseError
from thence.tables.engines.local.audit import LocalAuditResult, audit
from thence.tables.engines.local.chunks import audit_files, audit_table
from thence.tables.files.jsonl import write_jsonl
from thence.tables.files.parquet import write_parquet
from thence.tables.files.read import open_trace
from thence.tables.judge import proof_path, whole_run
from thence.tables.judge.normal_table import of_events

VIOLATED = "a!1>bc b?a1 b!1>c c?b1 c?a1"


def test_more_cores_than_a_machine_has_threads_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    write_jsonl(parse(VIOLATED), file)
    assert thence.audit(file, cores=10**9).verdict == "violated"


def by_definition(events: list[Event]) -> LocalAuditResult:
    return LocalAuditResult(DefinitionFindings(events), "local", "definition")


def rows(runs: list[list[Event]]) -> list[Event]:
    return [event for events in runs for event in events]


def by_run(events: list[Event]) -> dict[str, list[Event]]:
    runs: dict[str, list[Event]] = {}
    for event in events:
        runs.setdefault(event.run, []).append(event)
    return {run: order_of(own) for run, own in runs.items()}


@pytest.mark.parametrize("part", first(1, range(4)))
def test_thousands_of_small_runs_as_arrays(part: int) -> None:
    assert len(small_runs()) > 1900
    events = rows(small_runs()[part::4])
    found = audit_table(of_events(events), cores=2)
    assert told(found) == told(by_definition(events))
    assert {run["verdict"] for run in found.runs} == {"causal", "violated"}
    assert check_paths(found, by_run(events), 200) == 200


@pytest.mark.parametrize("together", [1, 7, 40, 1024])
def test_labels_scanned_together_are_judged_apart(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels of one run that share processes, many of them small: however they are grouped, the findings are those."""
    monkeypatch.setattr(whole_run, "ROWS_TOGETHER", together)
    monkeypatch.setattr(proof_path, "ROWS_TOGETHER", together)
    knobs = Knobs(labels=(None, *(f"l{n}" for n in range(12))), steps=150, late=0.7)
    runs = [spoil(random_trace(seed, knobs), seed) for seed in range(6)]
    events = rows([[replace(event, run=f"r{n}") for event in run] for n, run in enumerate(runs)])
    for given in ([replace(event, order=None) for event in events], events):
        found = audit_table(of_events(given), cores=1)
        assert told(found) == told(by_definition(given))
    assert len({event.label for event in events}) > 12
    assert check_paths(found, by_run(events), 5) == 5


def test_scans_follow_rows_not_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan takes about a millisecond, whatever its rows: 3,000 labels of two rows take few."""
    events, last = [], dict.fromkeys("abc", 0)
    for n in range(3000):
        sender, receiver = "abc"[n % 3], "abc"[(n + 1) % 3]
        for process, kind, to in ((sender, "send", (receiver,)), (receiver, "deliver", ())):
            last[process] += 1
            events.append(Event("r", process, last[process], kind, f"m{n}", to, f"l{n}", len(events)))
    scans, scan = [], whole_run.run_clocks
    monkeypatch.setattr(whole_run, "run_clocks", lambda *a, **kw: scans.append(a) or scan(*a, **kw))
    assert audit_table(of_events(events), cores=1).verdict == "causal"
    assert 1 <= len(scans) <= 2 * len(events) / whole_run.ROWS_TOGETHER + 1


@pytest.mark.parametrize("seed", range(0, 60, 20))
def test_spoilt_runs_and_wrong_orders(seed: int) -> None:
    """Three ways of one table: as it is, with an order that is none, and without."""
    runs = [spoil(random_trace(each), each) for each in range(seed, seed + 20)]
    for way in ("as it is", "shuffled", "without"):
        events = [event for events in runs for event in events]
        if way == "shuffled":
            places = Random(seed).sample(range(len(events)), len(events))
            events = [replace(e, order=place) for e, place in zip(events, places, strict=True)]
        elif way == "without":
            events = [replace(e, order=None) for e in events]
        known = by_definition(events)
        for chunk_rows in (25, 10**6):
            found = audit_table(of_events(events), cores=2, chunk_rows=chunk_rows)
            assert told(found) == told(known), f"seeds from {seed}, {way}, chunks of {chunk_rows}"
            assert check_paths(found, by_run(events)) == len(found.violations)
        assert check_paths(known, by_run(events)) == len(known.violations)


@pytest.mark.parametrize("part", first(1, range(4)))
def test_long_runs_in_chunks(part: int) -> None:
    """Four chunks each; in nearly all runs the path of some violation crosses two or more of them."""
    some = long_runs()[part::4]
    assert all(len(events) >= 1000 for events in some)
    events = rows(some)
    found = audit_table(of_events(events), cores=2, chunk_rows=400)
    assert told(found) == told(by_definition(events))
    at = {(e.run, e.process, e.index): (e.order or 0) // 252 for e in events}
    crossing = {
        row["run"] for row, path in found.proved()
        if path and len({at[str(row["run"]), step.process, step.index] for step in path}) > 1
    }  # fmt: skip
    assert len(crossing) >= 0.97 * len(some)


def test_row_groups_are_chunks(tmp_path: Path) -> None:
    """A large run, one in trouble, and one that wants another round; proofs read only what lies between."""
    large = random_trace(77, Knobs(processes=8, steps=3000, late=0.1, slow=0.3, lost=0.02, again=0.01, astray=0.02))
    troubled = [replace(e, run="troubled") for e in random_trace(78, Knobs(processes=6, steps=1500, late=0.1))]
    twice = next(e for e in troubled if e.kind == "send")
    last = troubled[-1]
    troubled.append(replace(twice, process=last.process, index=last.index + 1, order=len(troubled)))
    for number, events in enumerate((large, troubled)):
        write_parquet(events, tmp_path / f"{number}", files=3, row_group=100)
    everything = [*large, *troubled]
    for chunk_rows in (300, 10**6):
        found = audit_files(open_trace(tmp_path), cores=2, chunk_rows=chunk_rows)
        assert found.route.startswith("row groups")
        assert told(found) == told(by_definition(everything))
        assert check_paths(found, by_run(everything), 60) == 60


def test_row_groups_with_a_row_without_order_are_no_chunks(tmp_path: Path) -> None:
    """Their footers say a least and a greatest order all the same."""
    events = random_trace(79, Knobs(processes=6, steps=1500, late=0.1))
    write_parquet(events, tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    orders = [None if place % 400 == 5 else each for place, each in enumerate(table.column("order").to_pylist())]
    place = table.column_names.index("order")
    pq.write_table(table.set_column(place, table.schema.field("order"), [orders]), tmp_path / "t.parquet",
                   row_group_size=100)  # fmt: skip
    found = audit_files(open_trace(tmp_path / "t.parquet"), cores=2, chunk_rows=300)
    assert not found.route.startswith("row groups")
    assert told(found) == told(by_definition([replace(event, order=None) for event in events]))


def test_files_of_all_kinds_give_one_answer(tmp_path: Path) -> None:
    events = rows(small_runs()[:40])
    known = told(by_definition(events))
    write_jsonl(events, tmp_path / "a.jsonl")
    write_parquet(events, tmp_path / "a.parquet", row_group=50)
    half = len(small_runs()[0])
    write_jsonl(events[:half], tmp_path / "mixed" / "1.jsonl") if (tmp_path / "mixed").mkdir() is None else None
    write_parquet(events[half:], tmp_path / "mixed" / "2.parquet")
    for name in ("a.jsonl", "a.parquet", "mixed"):
        assert told(audit(tmp_path / name)) == known, name
    assert told(audit_files(open_trace(tmp_path / "a.jsonl"))) == known
    assert told(audit(pa.Table.from_pylist([_row(e) for e in events]))) == known
    assert told(thence.audit(events)) == known


def _row(event: Event) -> dict[str, object]:
    names = ("run", "process", "index", "kind", "message", "destinations", "label", "order")
    return {name: getattr(event, name) for name in names}


def test_rows_set_aside_say_where_they_stood(tmp_path: Path) -> None:
    file = tmp_path / "odd.jsonl"
    write_jsonl(parse("a!1>b b?a1 b?a1"), file)
    file.write_bytes(file.read_bytes() + b'{"run":"run","kind":"send"}\nno json\n')
    few, many = audit(file), audit_files(open_trace(file))
    assert told(few, placed=True) == told(many, placed=True)
    assert [(row["run"], row["line"]) for row in few.quarantine] == [(None, 5), ("run", 4)]
    assert few.runs[0]["quarantined"] == 1
    assert (few.verdict, few.exit_code) == ("unknown", 1)


def test_a_row_whose_run_cannot_be_read_clouds_every_run_of_its_file(tmp_path: Path) -> None:
    write_jsonl(parse("a!1>b b?a1", run="one"), tmp_path / "1.jsonl")
    write_jsonl(parse("a!1>b b?a1", run="two"), tmp_path / "2.jsonl")
    with (tmp_path / "2.jsonl").open("ab") as stream:
        stream.write(b"no json\n")
    for result in (audit(tmp_path), audit_files(open_trace(tmp_path))):
        assert {run["run"]: run["verdict"] for run in result.runs} == {"one": "causal", "two": "unknown"}


def test_no_event_at_all_is_unknown() -> None:
    result = thence.audit([])
    assert (result.verdict, result.exit_code, result.events) == ("unknown", 1, 0)
    result.allow_empty = True
    assert (result.verdict, result.exit_code) == ("causal", 0)


def test_what_is_no_trace_is_refused() -> None:
    with pytest.raises(MisuseError, match="column process is missing"):
        audit(pa.table({"run": ["r"], "index": [1], "kind": ["send"]}))
    with pytest.raises(MisuseError, match="a list that holds int"):
        audit([1, 2])  # type: ignore[list-item]


def test_neither_spark_nor_pandas_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    write_jsonl(parse(VIOLATED), file)
    code = (
        f"import sys, thence; r = thence.audit({str(file)!r}); list(r.json()); r.told(3);"
        "print(r.verdict, *(name for name in ('pyspark', 'thence.core.model.order.judge') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["violated"]
