"""One row, one reason: `Orderer`, the command on both engines and both formats, a frame and a stream say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.deliveries import patiently

import thence
from thence import Orderer
from thence.cli import main
from thence.errors import MisuseError
from thence.spark import deliver

NAMES = {"message": "event_id", "depends_on": "parent_id"}
OPTIONS = ["--id", "event_id", "--causes", "parent_id", "--key", "account"]
GOOD = [{"line": n, "account": "x", "event_id": f"g{n}", "parent_id": f"g{n - 1}" if n > 0 else None} for n in range(9)]
TYPED: list[dict[str, Any]] = [
    {"account": "x", "event_id": None, "parent_id": "g1"},
    {"account": "x", "event_id": "", "parent_id": "g1"},
    {"account": None, "event_id": "o1", "parent_id": "g1"},
    {"account": "x", "event_id": "o2", "parent_id": "o2"},
    {"account": "x", "event_id": "o3", "parent_id": ""},
    {"account": "x", "event_id": "o4", "parent_id": "lost"},
    {"account": "x", "event_id": "g1", "parent_id": None},
    {"account": "x", "event_id": "o5", "parent_id": '["g1", "g2"]'},
    {"account": "x", "event_id": '{"a":1}', "parent_id": None},
]
"""Rows that every table can hold: texts and nulls."""
LOOSE: list[dict[str, Any]] = [
    {"account": "x", "event_id": "p1", "parent_id": ["g1", None, "g2"]},
    {"account": "x", "event_id": "p2", "parent_id": {"id": "g1"}},
    {"account": "x", "event_id": "p3", "parent_id": [["g1"]]},
    {"account": "x", "event_id": "p4", "parent_id": 7},
    {"account": "x", "event_id": "p5", "parent_id": [7, 8]},
    {"account": "x", "event_id": 7, "parent_id": "g1"},
    {"account": "x", "event_id": True, "parent_id": True},
    {"account": "x", "event_id": ["p"], "parent_id": None},
    {"account": "x", "event_id": "p6"},
    {"account": "x", "parent_id": "g1"},
]
"""Rows that JSON alone can hold in one table."""
Said = dict[int, tuple[str, str | None]]


def by_orderer(rows: list[dict[str, Any]]) -> Said:
    out = Orderer("depends_on", columns=NAMES, key=["account"]).deliver(rows)
    return {int(row["line"]): (row["outcome"], row["reason"]) for row in out}


def by_command(file: Path, out: Path, *more: str) -> Said:
    assert patiently(["deliver", str(file), *OPTIONS, "--out", str(out), "--quiet", *more]) == 0
    found = [row for part in sorted(out.glob("*.parquet")) for row in pq.read_table(part).to_pylist()]
    return {row["line"]: (row["outcome"], row["reason"]) for row in found}


def without_blocked(said: Said) -> Said:
    """A stream has no end, so what waits does not come out."""
    return {line: told for line, told in said.items() if told[0] != "blocked"}


def numbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "line": n} for n, row in enumerate([*GOOD, *rows])]


def write_lines(rows: list[dict[str, Any]], file: Path) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.parametrize("rows", [TYPED, TYPED + LOOSE, [r for r in LOOSE if isinstance(r.get("parent_id"), list)]])
def test_one_row_has_one_reason(spark: SparkSession, tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    rows = numbered(rows)
    wanted = by_orderer(rows)
    lines = write_lines(rows, tmp_path / "in" / "rows.jsonl")
    assert by_command(lines, tmp_path / "local", "--engine", "local") == wanted
    assert by_command(lines, tmp_path / "spark", "--engine", "spark") == wanted
    stream = ["--stream", "--once", "--checkpoint", str(tmp_path / "checkpoint")]
    assert by_command(lines.parent, tmp_path / "stream", *stream) == without_blocked(wanted)
    if any(isinstance(row.get("parent_id"), list) for row in rows):
        return
    table = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(rows), table)
    assert by_command(table, tmp_path / "local table", "--engine", "local") == wanted
    assert by_command(table, tmp_path / "spark table", "--engine", "spark") == wanted


def test_a_stream_that_began_with_arrays_takes_one_id(spark: SparkSession, tmp_path: Path) -> None:
    """And one that began with single ids takes arrays: the form of the first file binds no other."""
    for first in (True, False):
        folder = tmp_path / f"in {first}"
        arrays = numbered([{"account": "x", "event_id": "p", "parent_id": ["g1", "g2"]}])
        for row in arrays:
            row["parent_id"] = [row["parent_id"]] if isinstance(row["parent_id"], str) else row["parent_id"]
        single = [{**row, "line": row["line"] + 100, "event_id": f"s{row['line']}"} for row in GOOD]
        wanted = without_blocked(by_orderer(arrays + single if first else single + arrays))
        stream = ["--stream", "--once", "--checkpoint", str(tmp_path / f"checkpoint-{first}")]
        write_lines(arrays if first else single, folder / "1.jsonl")
        by_command(folder, tmp_path / f"out {first}", *stream)
        write_lines(single if first else arrays, folder / "2.jsonl")
        assert by_command(folder, tmp_path / f"out {first}", *stream) == wanted


@pytest.mark.parametrize(("message", "cause"), [("bigint", "string"), ("int", "array<string>"), ("string", "bigint")])
def test_types_that_are_never_equal_are_refused(spark: SparkSession, message: str, cause: str) -> None:
    frame = spark.createDataFrame([], f"account string, event_id {message}, parent_id {cause}")
    with pytest.raises(MisuseError) as refused:
        deliver(frame, "depends_on", columns=NAMES, key=["account"])
    assert f"column 'event_id' is {message} and column 'parent_id' {cause}: " in str(refused.value)


@pytest.mark.parametrize("kind", ["string", "bigint", "int", "array<int>", "decimal(20,0)"])
def test_a_frame_with_one_parent(spark: SparkSession, kind: str) -> None:
    own = "string" if kind == "string" else "bigint"
    parent = f"cast(array({{}}) as {kind})" if kind.startswith("array") else f"cast({{}} as {kind})"
    rows = [(3, parent.format(2)), (2, parent.format(1)), (1, f"cast(null as {kind})")]
    made = [f"SELECT 'x' account, cast({n} as {own}) event_id, {p} parent_id, {4 - n} arrival" for n, p in rows]
    out = deliver(spark.sql(" UNION ALL ".join(made)), "depends_on", columns=NAMES, key=["account"]).collect()
    assert {(str(row.event_id), row.outcome, row.position) for row in out} == {
        (str(n), "delivered", n) for n in (1, 2, 3)
    }


@pytest.mark.parametrize("causes", [(2.0, 1.0, float("nan")), ([2.0, 1.0], [1.0], None)])
def test_whole_numbers_with_a_point_in_lines(spark: SparkSession, tmp_path: Path, causes: tuple[Any, ...]) -> None:
    """As pandas writes whole numbers where values are missing."""
    rows = [{"account": "x", "event_id": 3 - place, "parent_id": each} for place, each in enumerate(causes)]
    rows = [row | {"line": place} for place, row in enumerate(rows)]
    wanted = by_orderer(rows)
    assert wanted == dict.fromkeys(range(3), ("delivered", None))
    lines = write_lines(rows, tmp_path / "in" / "rows.jsonl")
    assert by_command(lines, tmp_path / "local", "--engine", "local") == wanted
    assert by_command(lines, tmp_path / "spark", "--engine", "spark") == wanted
    stream = ["--stream", "--once", "--checkpoint", str(tmp_path / "checkpoint")]
    assert by_command(lines.parent, tmp_path / "stream", *stream) == wanted


def test_a_stream_reads_sub_folders_as_a_batch_does(spark: SparkSession, tmp_path: Path) -> None:
    rows, folder = numbered([]), tmp_path / "in"
    folder.mkdir()
    write_lines(rows[5:], folder / "day=1" / "rows.jsonl")
    write_lines(rows[:5], folder / "day=2" / "rows.jsonl")
    wanted = by_orderer(rows)
    assert by_command(folder, tmp_path / "batch", "--engine", "spark") == wanted
    stream = ["--stream", "--once", "--checkpoint", str(tmp_path / "checkpoint")]
    assert by_command(folder, tmp_path / "stream", *stream) == wanted


def test_values_of_another_type_are_no_lines_without_an_object(spark: SparkSession, tmp_path: Path) -> None:
    """Spark sets the whole line aside; here it is a row that lacks one value."""
    rows = [
        {"line": 1, "destination": "d", "sender": "a", "message": "m", "arrival": 1, "clock": {"a": 1}},
        {"line": 2, "destination": "d", "sender": "a", "message": "n", "arrival": 2, "clock": {"a": "x"}},
        {"line": 3, "destination": "d", "sender": "a", "message": "o", "arrival": 3, "clock": 7},
        {"line": 4, "destination": "d", "sender": "b", "message": "p", "arrival": "by train", "clock": {"b": 1}},
        {"line": 5, "destination": "d", "sender": "a", "message": "q", "arrival": 4, "clock": {"a": 2}},
    ]
    file = write_lines(rows, tmp_path / "in" / "rows.jsonl")
    said = []
    stream = ["--stream", "--once", "--checkpoint", str(tmp_path / "checkpoint")]
    for place, more in enumerate((["--engine", "local"], ["--engine", "spark"], stream)):
        given, out = str(file.parent), tmp_path / str(place)
        assert patiently(["deliver", given, "--by", "clock", "--out", str(out), "--quiet", *more]) == 0
        found = [row for part in sorted(out.glob("*.parquet")) for row in pq.read_table(part).to_pylist()]
        said.append({row["line"]: (row["outcome"], row["reason"]) for row in found})
    assert said[0] == said[1] == said[2]
    assert (said[0][2], said[0][3], said[0][4][0]) == (
        ("quarantined", "no clock"),
        ("quarantined", "no clock"),
        "delivered",
    )


def test_several_causes_in_one_text(spark: SparkSession, tmp_path: Path) -> None:
    """In a stream too, whose state is read again in each micro-batch."""
    rows = [{**row, "parent_id": f"{row['parent_id']}; g0" if row["parent_id"] else ""} for row in GOOD]
    folder = tmp_path / "in"
    write_lines(rows[5:], folder / "1.jsonl")
    write_lines(rows[:5], folder / "2.jsonl")
    wanted = {row["line"]: ("delivered", None) for row in rows}
    more = ["--separator", ";"]
    assert by_command(folder, tmp_path / "batch", "--engine", "spark", *more) == wanted
    stream = ["--stream", "--once", "--checkpoint", str(tmp_path / "checkpoint"), "--files-per-batch", "1"]
    assert by_command(folder, tmp_path / "stream", *stream, *more) == wanted


def test_a_batch_without_a_key_is_one_order_as_in_this_process(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"id": "paid", "parent_id": "ordered"}, {"id": "ordered", "parent_id": None}, {"id": "x", "parent_id": "y"}]
    here = thence.deliver(rows, id="id", causes="parent_id")
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], "id string, parent_id string")
    there = deliver(frame.repartition(3), id="id", causes="parent_id").collect()
    said = {(row["id"], row["outcome"], row["position"], row["reason"]) for row in here}
    assert {(row["id"], row["outcome"], row["position"], row["reason"]) for row in there} == said
    frame.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "in"))
    with pytest.raises(MisuseError, match=r"no column 'destination' for the key; found: .*\. key= names the columns"):
        deliver(stream, id="id", causes="parent_id")
    asked = [
        "deliver",
        str(tmp_path / "in"),
        "--id",
        "id",
        "--causes",
        "parent_id",
        "--engine",
        "spark",
        "--cores",
        "2",
    ]
    assert main([*asked, "--out", str(tmp_path / "out")]) == 0


def test_a_command_on_spark_that_delivers_nothing_ends_with_1(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"event_id": null, "parent_id": "x", "account": "a"}\n' * 2)
    asked = ["deliver", str(file), *OPTIONS, "--engine", "spark", "--cores", "2", "--out", str(tmp_path / "out")]
    assert main(asked) == 1
    assert "none of 2 rows could be delivered, 2 quarantined" in capsys.readouterr().err
