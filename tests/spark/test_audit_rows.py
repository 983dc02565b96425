"""Bad rows never crash an audit and never vanish from it, whatever they came in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from support.definition import told
from support.tables import CALLED, check, expected, findings, frame, other_table, small_runs, write_other
from support.traces import Knobs, random_trace, spoil

import thence
from thence.core.model.events import parse
from thence.errors import MisuseError
from thence.spark import audit, audit_files
from thence.tables.engines.spark import audit as files
from thence.tables.engines.spark.frame_layout import look_at
from thence.tables.files.jsonl import write_jsonl
from thence.tables.files.parquet import write_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def reasons(result: Any) -> list[tuple[Any, ...]]:
    return sorted((row["process"] or "", row["index"] or 0, row["reason"]) for row in result.quarantine.collect())


def verdicts(result: Any) -> dict[str, str]:
    return {row["run"]: row["verdict"] for row in result.runs.collect()}


@pytest.mark.parametrize("ordered", [True, False])
def test_a_table_without_rows(spark: SparkSession, ordered: bool) -> None:
    ddl = "run string, process string, index bigint, kind string, message string, destinations array<string>"
    with audit(spark.createDataFrame([], ddl + (", order bigint" if ordered else ""))) as result:
        assert (verdicts(result), result.tagged.count()) == ({}, 0)


def test_rows_unusable_by_themselves(spark: SparkSession) -> None:
    ddl = (
        "run string, process string, index bigint, kind string, message string, destinations array<string>, order long"
    )
    rows = [
        ("r", "a", 1, "send", "m1", ["b"], 1),
        ("r", "b", 1, "explode", "m1", None, 2),
        ("r", "b", 2, None, "m1", None, 3),
        ("r", None, 3, "deliver", "m1", None, 4),
        ("r", "b", 0, "deliver", "m1", None, 5),
        ("r", "b", None, "deliver", "m1", None, 6),
        ("r", "a", 2, "send", "m2", ["b", "b"], 7),
        ("r", "a", 3, "send", "m3", ["b", None], 8),
        ("r", "a", 4, "send", "m4", None, 9),
        ("r", "b", 3, "deliver", None, None, 10),
        ("r", "b", 4, "deliver", "m9", None, 11),
        (None, "b", 5, "internal", None, None, 12),
        ("r", "", 6, "internal", None, None, 13),
    ]
    with audit(spark.createDataFrame(rows, ddl)) as result:
        kinds = "crash, deliver, internal, receive, send"
        assert reasons(result) == sorted([
            ("b", 1, f"kind is 'explode'; one of {kinds} is accepted"), ("b", 2, "kind is missing"),
            ("", 3, "process is missing"), ("b", 0, "index is 0; indexes count from 1"), ("b", 0, "index is missing"),
            ("a", 2, "destinations holds 'b' twice"), ("a", 3, "an entry of destinations is missing"),
            ("a", 4, "a send row needs destinations"), ("b", 3, "a deliver row needs a message"),
            ("b", 4, "message m9 was never sent"), ("b", 5, "run is missing"),
            ("", 6, "process is empty; a name is accepted"),
        ])  # fmt: skip
        assert verdicts(result)["r"] == "unknown"


def test_columns_of_other_types_and_missing_columns(spark: SparkSession) -> None:
    ddl = "run string, process int, index string, kind string, message string, destinations string"
    with audit(spark.createDataFrame([("r", 1, "x", "send", "m", "b")], ddl)) as result:
        (only,) = result.quarantine.collect()
        assert "is accepted" in only["reason"]
    with audit(spark.createDataFrame([("r", "a", 1)], "run string, process string, index long")) as result:
        assert reasons(result) == [("a", 1, "kind is missing")]


def test_a_trace_cut_off_in_the_middle_is_unknown(spark: SparkSession, tmp_path: Path) -> None:
    events = parse("a!1>bc b?a1 b!1>c c?a1 c?b1")
    file = tmp_path / "cut.jsonl"
    write_jsonl(events, file)
    file.write_bytes(file.read_bytes()[:-30])
    with audit_files(spark, file) as result:
        (row,) = result.quarantine.collect()
        assert row["file"] == str(file)
        assert row["line"] == 5
        assert row["reason"].startswith("the last line is cut off")
        assert verdicts(result) == {"run": "unknown"}, "the line may belong to any run of its file"
        assert [row.asDict() for row in result.runs.collect()] == result.run_rows
        assert [(run["run"], run["verdict"]) for run in result.run_rows] == [("run", "unknown")]


def test_jsonl_is_read_in_splits(spark: SparkSession, tmp_path: Path) -> None:
    runs = small_runs()[:40]
    files = []
    for number, events in enumerate(runs):
        files.append(tmp_path / f"{number:03}.jsonl{'.gz' if number % 7 == 0 else ''}")
        write_jsonl(events, files[-1])
    with audit_files(spark, files) as result:
        check(findings(result), expected(runs))


def test_small_jsonl_needs_no_look_at_its_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = small_runs()[40:80]
    file = tmp_path / "all.jsonl"
    write_jsonl([event for events in runs for event in events], file)
    looked = []
    monkeypatch.setattr(files, "look_at", lambda *args, **more: looked.append(1) or look_at(*args, **more))
    with audit_files(spark, [file]) as result:
        check(findings(result), expected(runs))
    assert not looked
    with audit_files(spark, [file], chunk_rows=10 * max(map(len, runs))) as result:
        check(findings(result), expected(runs))
    assert looked


def test_parquet_files_opened_by_workers(spark: SparkSession, tmp_path: Path) -> None:
    knobs = Knobs(processes=8, steps=3000, late=0.1, slow=0.3, lost=0.02, again=0.01)
    events = random_trace(77, knobs)
    write_parquet(events, tmp_path / "one", files=6, row_group=200)
    for chunk_rows in (300, 100_000):
        with audit_files(spark, tmp_path / "one", chunk_rows=chunk_rows) as result:
            check(findings(result), expected([events]))


def test_parquet_files_of_several_runs_or_out_of_order(spark: SparkSession, tmp_path: Path) -> None:
    runs = small_runs()[:30]
    write_parquet([e for events in runs[:20] for e in events], tmp_path / "a.parquet")
    write_parquet([e for events in runs[20:] for e in reversed(events)], tmp_path / "b.parquet", row_group=16)
    with audit_files(spark, tmp_path) as result:
        check(findings(result), expected(runs))


def test_a_file_for_each_process(spark: SparkSession, tmp_path: Path) -> None:
    """Ranges of `order` overlap: the workers part the rows themselves. One run is large, one in trouble, one small."""
    sizes = {"large": 2000, "troubled": 1500, "small": 100}
    runs = [
        [replace(e, run=name) for e in random_trace(seed, Knobs(processes=6, steps=steps, late=0.1, lost=0.02))]
        for seed, (name, steps) in enumerate(sizes.items(), 80)
    ]
    twice = next(e for e in runs[1] if e.kind == "send")
    last = runs[1][-1]
    runs[1].append(replace(twice, process=last.process, index=last.index + 1, order=len(runs[1])))
    for events in runs:
        for process in {e.process for e in events}:
            mine = [e for e in events if e.process == process]
            write_parquet(mine, tmp_path / f"{mine[0].run}-{process}.parquet")
    with audit_files(spark, tmp_path, chunk_rows=400) as result:
        assert result.route.startswith("packed: row groups overlap")
        check(findings(result), expected(runs))


def test_a_file_without_a_column_is_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    write_parquet(parse("a!1>b b?a1"), tmp_path / "good.parquet")
    bad = pq.read_table(tmp_path / "good.parquet").drop_columns(["process"])
    pq.write_table(bad, tmp_path / "bad.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    with audit_files(spark, tmp_path) as result:
        rows = {Path(row["file"]).name: row["reason"] for row in result.quarantine.collect()}
        assert rows.keys() == {"bad.parquet", "broken.parquet"}
        assert rows["bad.parquet"] == "column process is missing; its 2 rows are set aside"
        assert verdicts(result)["run"] == "causal"


def test_wrong_order_and_ties_are_judged_whole(spark: SparkSession) -> None:
    from dataclasses import replace

    events = random_trace(5, Knobs(processes=6, steps=600, late=0.2))
    wrong = [replace(e, order=len(events) - (e.order or 0)) for e in events]
    tied = [replace(e, order=(e.order or 0) // 2, run="tied") for e in events]
    with audit(frame(spark, [*wrong, *tied]), chunk_rows=100) as result:
        found = findings(result)
    check(found, expected([events, [replace(e, run="tied") for e in events]]))


def test_sparse_orders_are_cut_evenly(spark: SparkSession) -> None:
    from dataclasses import replace

    events = random_trace(9, Knobs(processes=6, steps=900, late=0.2))
    sparse = [replace(e, order=(e.order or 0) ** 3) for e in events]
    with audit(frame(spark, sparse), chunk_rows=200) as result:
        check(findings(result), expected([events]))


def test_columns_of_other_names(spark: SparkSession, tmp_path: Path) -> None:
    """As frames and as files, in a session of any zone; `tests/unit/auditing` does it in this process."""
    events = [event for seed in range(12, 24) for event in spoil(random_trace(seed), seed) if event.message != ""]
    with audit(spark.createDataFrame(other_table(events)), columns=CALLED) as result:
        assert told(result) == told(thence.audit(other_table(events, {})))
    for kind in ("jsonl", "parquet"):
        write_other(events, tmp_path / f"trace [1] a:b.{kind}")
        known = told(thence.audit(str(tmp_path / f"trace [1] a:b.{kind}"), columns=CALLED))
        with audit_files(spark, tmp_path / f"trace [1] a:b.{kind}", columns=CALLED) as result:
            assert told(result) == known
    with pytest.raises(MisuseError, match="the frame has"):
        audit(spark.createDataFrame(other_table(events)), columns={"process": "PID"})
