"""`thence deliver` in this process: from files to files at once. (On Spark it says the same: tests/spark/deliver.)"""

from __future__ import annotations

import base64
import gzip
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thence import Orderer, deliver
from thence.cli import main
from thence.cli._checkpoint import sole_stream
from thence.core.model.message import Copy
from thence.core.model.roster import Roster
from thence.core.protocols.bss import BSS
from thence.core.protocols.wire import encode
from thence.tables.delivery.outcome import OUTPUT_COLUMNS
from thence.tables.files.formats import by_name
from thence.tables.files.source import open_bytes
from thence.tables.files.whole_tables import read_whole

ROWS = [
    {"run": "r", "destination": "d", "arrival": 3, "message": "c", "depends_on": ["b"], "line": 1},
    {"run": "r", "destination": "d", "arrival": 1, "message": "b", "depends_on": ["a"], "line": 2},
    {"run": "r", "destination": "d", "arrival": 4, "message": "x", "depends_on": ["lost"], "line": 3},
    {"run": "r", "destination": "e", "arrival": 1, "message": "c", "depends_on": [], "line": 4},
    {"run": "r", "destination": "d", "arrival": 2, "message": "a", "depends_on": [], "line": 5},
    {"run": "r", "destination": "d", "arrival": None, "message": "a0", "depends_on": [], "line": 6},
]


def test_a_default_key_is_printed_and_an_empty_one_is_one_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.csv").write_text("id,parent,run\nb,a,1\na,,2\n")
    asked = ["deliver", str(tmp_path / "in.csv"), "--id", "id", "--causes", "parent"]
    assert main([*asked, "--out", str(tmp_path / "one.csv")]) == 0
    found = capsys.readouterr()
    assert "key: run (--key names other columns)" in found.err
    assert "1 blocked, 1 delivered" in found.out
    assert main([*asked, "--out", str(tmp_path / "two.csv"), "--key", ""]) == 0
    found = capsys.readouterr()
    assert "2 delivered" in found.out
    assert "key:" not in found.err
    rows = [{"id": "b", "parent": "a", "run": 1}, {"id": "a", "parent": None, "run": 2}]
    assert [row["id"] for row in deliver(rows, id="id", causes="parent", key=[])] == ["a", "b"]


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_rows_come_out_as_the_orderer_gives_them(format: str, tmp_path: Path) -> None:
    file, out, said = tmp_path / f"in [1]*.{format}", tmp_path / "out", tmp_path / "said.json"
    if format == "jsonl":
        file.write_text("\n".join(map(json.dumps, ROWS)) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), file)
    assert main(["deliver", str(file), "--by", "depends_on", "--out", str(out), "--json", str(said), "--quiet"]) == 0
    by_arrival = sorted(ROWS, key=lambda row: (row["destination"], row["arrival"] or 0))
    wanted = sorted(Orderer("depends_on").deliver(by_arrival), key=lambda row: int(row["line"]))
    found = sorted(pq.read_table(out / "part-00000.parquet").to_pylist(), key=lambda row: int(row["line"]))
    names = [*ROWS[0], *OUTPUT_COLUMNS]
    assert [[row[name] for name in names] for row in found] == [
        [list(row[name]) if isinstance(row[name], tuple) else row[name] for name in names] for row in wanted
    ]
    result = json.loads(said.read_text())
    assert (result["engine"], result["rows"], result["outcomes"]) == ("local", 6, {"blocked": 1, "delivered": 5})
    assert [(row["message"], row["blocker"]) for row in result["waiting"]] == [("x", "lost")]


def test_what_is_no_json_is_quarantined_not_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "in.jsonl", tmp_path / "out"
    file.write_text(json.dumps(ROWS[4]) + "\n[1]\n{oops\n")
    said = tmp_path / "said.json"
    assert main(["deliver", str(file), "--by", "depends_on", "--out", str(out), "--json", str(said)]) == 1
    rows = pq.read_table(out / "part-00000.parquet").to_pylist()
    assert sorted(row["outcome"] for row in rows) == ["delivered", "quarantined", "quarantined"]
    assert {row["reason"] for row in rows} == {None, "the line holds no JSON object"}
    shown = capsys.readouterr().out
    assert "quarantined, 2 rows: the line holds no JSON object" in shown
    assert f"{file}:3: not JSON: Expecting property name enclosed in double quotes at position 2" in shown
    places = [(row["file"], row["line"]) for row in json.loads(said.read_text())["unread"]]
    assert places == [(str(file), 2), (str(file), 3)]


def test_a_file_without_any_json_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text("\nhello\n")
    assert main(["deliver", str(file), "--by", "depends_on", "--out", str(tmp_path / "out")]) == 2
    assert f"{file}:2: not JSON: Expecting value at position 1; JSON lines are accepted" in capsys.readouterr().err


PARENTS = [
    {"event_id": 3, "parent_id": 2, "account": "x", "line": 1},
    {"event_id": 2, "parent_id": 1, "account": "x", "line": 2},
    {"event_id": 4, "parent_id": 9, "account": "x", "line": 3},
    {"event_id": 1, "parent_id": None, "account": "x", "line": 4},
    {"event_id": 3, "account": "y", "line": 5},
]
BY_PARENT = ["--id", "event_id", "--causes", "parent_id", "--key", "account"]


def write_rows(rows: list[dict[str, Any]], file: Path) -> Path:
    """Write a table in the format that the name of its file says."""
    if file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.parametrize("name", ["in.jsonl", "in.parquet"])
@pytest.mark.parametrize("ids", ["numbers", "texts", "arrays"])
def test_the_row_that_everybody_has(name: str, ids: str, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [dict(row) for row in PARENTS]
    for row in rows if ids != "numbers" else ():
        row["event_id"], parent = str(row["event_id"]), row.get("parent_id")
        row["parent_id"] = None if parent is None else str(parent) if ids == "texts" else [str(parent)]
    file, out = write_rows(rows, tmp_path / name), tmp_path / "out"
    assert main(["deliver", str(file), *BY_PARENT, "--out", str(out), "--quiet"]) == 0
    found = pq.read_table(out / "part-00000.parquet").to_pylist()
    assert [(row["line"], row["outcome"]) for row in found] == [
        (4, "delivered"), (2, "delivered"), (1, "delivered"), (3, "blocked"), (5, "delivered"),
    ]  # fmt: skip
    assert [row["parent_id"] for row in found[:2]] == [None, rows[1]["parent_id"] if name != "in.jsonl" else ANY]


TABLE = b"""event_id,parent_id,account,amount,text
007,7,x,1.5,"a, b"
7,,x,2,"two
lines"
8,"[""7"", ""007""]",x,,
NA,null,x,3,
"",,x,4,
9,,01,5,c
"""


@pytest.mark.parametrize("name", ["in.csv", "in.tsv", "in.csv.gz", "-", "- tsv", "- gz"])
def test_csv(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    data = TABLE.replace(b",", b"\t").replace(b'"7""\t', b'"7"",') if "tsv" in name else TABLE
    data = gzip.compress(data) if "gz" in name else data
    if name.startswith("-"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    else:
        (tmp_path / name).write_bytes(data)
    file = "-" if name.startswith("-") else str(tmp_path / name)
    assert main(["deliver", file, *BY_PARENT, "--out", str(tmp_path / "out")]) == 0
    found = pq.read_table(tmp_path / "out" / "part-00000.parquet").to_pylist()
    assert [(row["event_id"], row["account"], row["outcome"], row["amount"]) for row in found] == [
        ("7", "x", "delivered", "2"), ("007", "x", "delivered", "1.5"), ("8", "x", "delivered", None),
        (None, "x", "quarantined", "4"), ("NA", "x", "blocked", "3"), ("9", "01", "delivered", "5"),
    ]  # fmt: skip
    assert {row["blocker"] for row in found} == {None, "null"}
    assert found[0]["text"] == "two\nlines"


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_standard_input_has_any_format(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_rows(PARENTS, tmp_path / f"in.{form}").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["deliver", "-", *BY_PARENT, "--out", str(tmp_path / "out")]) == 0
    assert pq.read_table(tmp_path / "out").num_rows == 5


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.parquet"])
def test_several_causes_in_one_text(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("c", "a; b"), ("b", "a;"), ("a", ""), ("d", " ; ")]
    if name == "in.csv":
        lines = ["event_id,parent_id,account", *(f"{own},{causes},x" for own, causes in rows)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    else:
        write_rows([{"event_id": o, "parent_id": c, "account": "x"} for o, c in rows], tmp_path / name)
    asked = ["deliver", str(tmp_path / name), *BY_PARENT, "--out", str(tmp_path / "out")]
    assert main([*asked, "--separator", ""]) == 2
    assert "--separator goes with --by depends_on, and is one sign or more" in capsys.readouterr().err
    assert main([*asked, "--separator", ";"]) == 0
    found = pq.read_table(tmp_path / "out" / "part-00000.parquet").to_pylist()
    assert [(row["event_id"], row["waited_for"]) for row in found] == [
        ("a", []),
        ("b", ["a"]),
        ("c", ["a", "b"]),
        ("d", []),
    ]


def test_csv_that_cannot_be_read_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "in.csv", ["--out", str(tmp_path / "out")]
    for data, said in (
        (b"", "cannot be read as CSV: Empty CSV file"),
        (b"event_id,parent_id,account\n1,2\n", "Expected 3 columns, got 2"),
        (b"event_id:parent_id:account\n1:2:x\n", "found: event_id:parent_id:account"),
        (b"event_id,event_id,parent_id,account\n1,1,2,x\n", "has two columns 'event_id'; rename one"),
        (b"\x1f\x8bxx", "cannot be read as CSV"),
    ):
        file.write_bytes(data)
        assert main(["deliver", str(file), *BY_PARENT, *out]) == 2, data
        assert said in capsys.readouterr().err
    file.write_bytes(TABLE)
    assert main(["deliver", str(file), "--by", "clock", *out]) == 2
    assert "CSV has no form for --by clock" in capsys.readouterr().err
    for more in (["--engine", "spark"], ["--stream", "--checkpoint", str(tmp_path / "c")]):
        assert main(["deliver", str(file if "spark" in more else tmp_path), *BY_PARENT, *out, *more]) == 2
        assert "is CSV, which this command reads in this process only" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["in.txt", "in.gz"])
def test_a_name_that_says_no_format_needs_it(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_bytes(gzip.compress(TABLE) if name.endswith(".gz") else TABLE)
    asked = ["deliver", str(tmp_path / name), *BY_PARENT, "--out", str(tmp_path / "out")]
    assert main(asked) == 2
    assert "on the command line --from csv" in " ".join(capsys.readouterr().err.split())
    assert main([*asked, "--from", "csv"]) == 0


def test_what_no_stream_can_watch_is_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("thence.cli.deliver.start_spark", lambda cores: pytest.fail("Spark was started"))
    file = write_rows(PARENTS, tmp_path / "in.jsonl")
    (tmp_path / "empty").mkdir()
    stream = [*BY_PARENT, "--out", str(tmp_path / "out"), "--stream", "--checkpoint", str(tmp_path / "c")]
    for given, said in (
        (str(file), "in.jsonl is a file; name its folder, or deliver it as a batch"),
        (str(tmp_path / "missing"), "missing does not exist: a file, a folder or a glob that matches one"),
        (str(tmp_path / "empty"), "empty holds no files"),
        ("-", "standard input cannot be watched. Leave --stream out"),
    ):
        assert main(["deliver", given, *stream]) == 2, given
        assert said in " ".join(capsys.readouterr().err.split())


def test_names_that_are_said_twice_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = write_rows(PARENTS, tmp_path / "in.jsonl"), ["--out", str(tmp_path / "out")]
    assert main(["deliver", str(file), *BY_PARENT, "--columns", "message=line", *out]) == 2
    assert "--id and --columns both say which column is message" in capsys.readouterr().err
    assert main(["deliver", str(file), *BY_PARENT, "--by", "clock", *out]) == 2
    assert "--causes goes with --by depends_on" in capsys.readouterr().err
    assert main(["deliver", str(file), *out]) == 2
    assert "--by" in capsys.readouterr().err


def test_ids_that_are_never_equal_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row | {"parent_id": "1"} for row in PARENTS]
    for name in ("in.jsonl", "in.parquet"):
        file = write_rows(rows, tmp_path / name)
        assert main(["deliver", str(file), *BY_PARENT, "--out", str(tmp_path / "out")]) == 2
        said = capsys.readouterr().err
        assert "column 'event_id' is " in said
        assert "string: a text is never equal to a number" in said


def test_a_table_of_which_most_is_quarantined_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad: dict[str, Any] = {"event_id": None, "parent_id": None, "account": "x"}
    for rows, code in (([bad], 1), ([bad, bad, PARENTS[3]], 1), ([bad, PARENTS[3]], 0), ([PARENTS[2]], 1)):
        out = tmp_path / str(len(list(tmp_path.iterdir())))
        file = write_rows(rows, tmp_path / f"{out.name}.jsonl")
        assert main(["deliver", str(file), *BY_PARENT, "--out", str(out)]) == code
        told = capsys.readouterr()
        if rows[0] is bad:
            assert f"quarantined, {rows.count(bad)} row{'s' * (len(rows) > 2)}: no message id" in told.out
        if code:
            assert f"of {len(rows)} row{'s' * (len(rows) > 1)} " in told.err


def test_what_cannot_be_done_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(map(json.dumps, ROWS)) + "\n")
    out = ["--out", str(tmp_path / "out")]
    assert main(["deliver", str(file), "--by", "depends_on", *out, "--policy", "fail"]) == 1
    assert "lost has not arrived" in capsys.readouterr().err
    assert main(["deliver", str(file), "--by", "time", *out]) == 2
    assert "one of stamp, clock, depends_on is accepted" in capsys.readouterr().err
    assert main(["deliver", str(file), "--by", "clock", *out]) == 2
    assert "no column 'clock'; found: run, destination" in (told := capsys.readouterr().err)
    assert "--columns gives other names" in told
    assert main(["deliver", str(file), "--by", "depends_on", "--key", "account", *out]) == 2
    assert "--key names the columns that separate independent orders" in capsys.readouterr().err
    stream = ["--stream", "--checkpoint", str(tmp_path / "c"), "--engine", "local"]
    assert main(["deliver", str(file), "--by", "depends_on", *out, *stream]) == 2
    assert "--stream runs on Spark" in capsys.readouterr().err


def test_an_empty_file_is_a_delivery_of_no_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (empty := tmp_path / "empty.jsonl").touch()
    causes = ["--id", "event_id", "--causes", "parent_id", "--key", "account"]
    assert main(["deliver", str(empty), *causes, "--out", str(tmp_path / "out.jsonl")]) == 0
    assert "0 rows" in capsys.readouterr().out
    assert (tmp_path / "out.jsonl").read_text() == ""
    (some := tmp_path / "some.jsonl").write_text('{"event_id": 1, "parent_id": null, "account": "ana"}\n')
    assert main(["deliver", str(some), *causes, "--known", str(empty), "--out", str(tmp_path / "next.jsonl")]) == 0


@pytest.mark.parametrize("by", ["depends_on", "clock", "stamp"])
def test_a_few_rows_load_no_pandas(by: str, tmp_path: Path) -> None:
    """Nothing is loaded that takes longer than the rows themselves."""
    file, roster = tmp_path / "in.jsonl", Roster(["a", "b"])
    with file.open("w") as lines:
        for count in range(1, 258):
            stamp = encode(BSS, Copy(0, count, 0b10, 0, 1, (count - 1, 0)), roster)
            row = {"run": "r", "destination": "b", "sender": "a", "message": f"a{count}", "clock": {"a": count}}
            row |= {"stamp": base64.b64encode(stamp).decode(), "depends_on": [f"a{count - 1}"] if count > 1 else []}
            lines.write(json.dumps(row) + "\n")
    asked = ["deliver", str(file), "--by", by, "--out", str(tmp_path / "out"), "--engine", "local"]
    asked += ["--roster", "a,b"] if by == "stamp" else []
    code = f"import sys; from thence.cli import main; assert main({asked!r}) == 0; print('pandas' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")
    assert said[0].endswith(": 257 delivered")
    assert said[-2] == "False"


def test_a_column_of_ones_own_is_no_line_that_cannot_be_read(tmp_path: Path) -> None:
    file, out, told = tmp_path / "in.jsonl", tmp_path / "out", tmp_path / "told.json"
    file.write_text(json.dumps({**ROWS[4], "_corrupt_record": "mine"}) + "\n{oops\n")
    assert main(["deliver", str(file), "--by", "depends_on", "--out", str(out), "--json", str(told), "--quiet"]) == 0
    rows = pq.read_table(out / "part-00000.parquet").to_pylist()
    assert sorted((row["outcome"], row["reason"]) for row in rows) == [
        ("delivered", None), ("quarantined", "the line holds no JSON object"),
    ]  # fmt: skip
    assert [row["line"] for row in json.loads(told.read_text())["unread"]] == [2]


def test_what_python_can_say_of_a_delivery_the_command_can_too() -> None:
    from inspect import signature

    from thence.cli.deliver import command
    from thence.tables.engines.spark.deliver import deliver

    of_python = set(signature(deliver).parameters) - {
        "data",
        "commands",
        "known",
    }  # a path here; a folder of its own; a table
    assert of_python <= set(signature(command).parameters)


@pytest.mark.parametrize("option", ["--wait-seconds", "--idle-seconds", "--ttl-seconds"])
def test_the_clock_of_the_machine_is_for_streams(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps(ROWS[4]) + "\n")
    assert main(["deliver", str(file), "--by", "depends_on", "--out", str(tmp_path / "out"), option, "5"]) == 2
    assert f"{option} is for streams; a batch has an end" in " ".join(capsys.readouterr().err.split())


def test_a_name_that_no_column_has_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps(ROWS[4] | {"arrival": "by train"}) + "\n")
    asked = ["deliver", str(file), "--by", "depends_on", "--out", str(tmp_path / "out"), "--columns"]
    assert main([*asked, "arrival=number"]) == 2
    assert "the table has no column 'number' for arrival; found: run" in capsys.readouterr().err
    assert main([*asked, "arrival="]) == 0
    assert pq.read_table(tmp_path / "out").column("arrival").to_pylist() == ["by train"]


EVENTS = [
    {"id": "b", "parent": "a", "note": "é", "tags": ["x"], "at": "2024-01-01"},
    {"id": "a", "parent": None, "note": None, "tags": [], "at": "2024-01-02"},
]


def given(tmp_path: Path) -> list[str]:
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in EVENTS))
    return ["deliver", str(file), "--id", "id", "--causes", "parent", "--out"]


@pytest.mark.parametrize(
    "name", ["o.parquet", "o.csv", "o.csv.gz", "o.tsv.zst", "o.jsonl", "o.json.gz", "o.ndjson.zst", "o.arrow", "folder"]
)
def test_the_name_of_the_output_says_its_format(name: str, tmp_path: Path) -> None:
    out = tmp_path / name
    assert main([*given(tmp_path), str(out)]) == 0
    assert out.is_dir() == (name == "folder")
    folder = out if out.is_dir() else tmp_path
    assert not [each for each in folder.iterdir() if "unfinished" in each.name]
    table = pq.read_table(out) if out.is_dir() else None
    if table is None:
        kind = by_name(out)
        assert kind is not None
        if kind == "jsonl":
            with open_bytes(out) as stream:
                table = pa.Table.from_pylist([json.loads(line) for line in stream])
        else:
            table = pq.read_table(out) if kind == "parquet" else read_whole(out, kind, {})
    assert table.column("id").to_pylist() == ["a", "b"]
    assert table.column("position").to_pylist() == [1, 2]
    assert table.column("note").to_pylist() == [None, "é"]
    lists = table.column("waited_for").to_pylist()
    assert lists == (["[]", '["a"]'] if "sv" in name else [[], ["a"]])


def test_what_is_there_is_replaced_only_when_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("o.csv", "folder"):
        ask = [*given(tmp_path), str(tmp_path / name)]
        assert main(ask) == 0
        assert main(ask) == 2
        assert "--overwrite" in capsys.readouterr().err
        assert main([*ask, "--overwrite"]) == 0
    (tmp_path / "folder" / "thesis.tex").write_text("years of work")
    assert main([*ask, "--overwrite"]) == 2
    assert "holds thesis.tex, which no delivery has written" in capsys.readouterr().err
    assert (tmp_path / "folder" / "thesis.tex").exists()
    assert main([*given(tmp_path), str(tmp_path / "in.jsonl"), "--overwrite"]) == 2
    assert "which is read" in capsys.readouterr().err
    assert main([*given(tmp_path), str(tmp_path / "x.parquet.gz")]) == 2
    assert "leave .gz out" in capsys.readouterr().err
    assert main([*given(tmp_path), str(tmp_path / "x.csv"), "--engine", "spark"]) == 2
    assert "Spark writes a folder" in capsys.readouterr().err


def test_a_checkpoint_of_release_0_1_0_is_refused_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tests/data/stream-0.1.0.tar.gz` is what a stream of 0.1.0 left, one row of it held."""
    monkeypatch.setattr("thence.cli.deliver.start_spark", lambda *_: pytest.fail("Spark was started"))
    with tarfile.open(Path(__file__).parents[1] / "data" / "stream-0.1.0.tar.gz") as kept:
        kept.extractall(tmp_path, filter="data")
    given(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in.jsonl").rename(tmp_path / "in" / "rows.jsonl")
    ask = ["deliver", str(tmp_path / "in"), "--id", "id", "--causes", "parent", "--stream", "--out"]
    assert main([*ask, str(tmp_path / "out"), "--checkpoint", str(tmp_path / "checkpoint")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "keeps its state by key, as thence 0.1.0 wrote it" in said
    assert "then begin with a new checkpoint" in said


def test_a_second_stream_on_one_checkpoint_is_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thence.cli.deliver.start_spark", lambda *_: pytest.fail("Spark was started"))
    given(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in.jsonl").rename(tmp_path / "in" / "rows.jsonl")
    ask = ["deliver", str(tmp_path / "in"), "--id", "id", "--causes", "parent", "--stream", "--out"]
    ask += [str(tmp_path / "out"), "--checkpoint", str(tmp_path / "c")]
    with sole_stream(tmp_path / "c"):
        assert main(ask) == 2
    assert f"another stream runs on checkpoint {tmp_path / 'c'}; stop it first" in capsys.readouterr().err
    assert main([*ask, "--once", "--wait-seconds", "5", "--files-per-batch", "2"]) == 2
    assert "--once with --wait-seconds takes all files in one micro-batch" in capsys.readouterr().err
    assert main([*ask, "--overwrite"]) == 2
    assert main([*ask[:-3], str(tmp_path / "out.csv"), *ask[-2:]]) == 2
    assert "a stream writes a folder of Parquet" in capsys.readouterr().err
    assert main(["deliver", str(tmp_path / "nowhere"), *ask[2:]]) == 2
    assert "does not exist: a file, a folder or a glob" in capsys.readouterr().err


def test_where_rows_wait_the_key_is_named_whose_rows_can_be_causes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "a", "parent": null, "team": "x"}\n{"id": "b", "parent": "a", "team": "y"}\n')
    asked = ["deliver", str(rows), "--id", "id", "--causes", "parent", "--key", "team", "--out"]
    assert main([*asked, str(tmp_path / "out.jsonl")]) == 0
    assert "--key team: a cause is looked for only among the rows of the same key" in capsys.readouterr().out
    rows.write_text('{"id": "a", "parent": null, "team": "x"}\n{"id": "b", "parent": "a", "team": "x"}\n')
    assert main([*asked, str(tmp_path / "whole.jsonl")]) == 0
    assert "same key" not in capsys.readouterr().out


def test_rows_that_wait_are_grouped_by_the_cause_at_the_root(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": f"r{n}", "parent": "lost" if n else "gone"} for n in range(1_500)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"id": "x"}]))
    out, words = str(tmp_path / "out.jsonl"), str(tmp_path / "said.json")
    command = ["deliver", str(tmp_path / "rows.jsonl"), "--id", "id", "--causes", "parent", "--out", out]
    assert main([*command, "--json", words]) == 0
    said = capsys.readouterr().out
    assert "1,501 rows in" in said
    lines = [line.split() for line in said.splitlines()]
    (lost,) = (place for place, words in enumerate(lines) if words[:1] == ["lost"])
    assert lines[lost][1:3] == ["1499", "r1"]
    assert lines[lost + 1][:3] == ["gone", "1", "r0"]
    assert len(said.splitlines()) < 12
    assert len(json.loads(Path(words).read_text())["waiting"]) == 1_500


def test_the_help_has_groups(capsys: pytest.CaptureFixture[str]) -> None:
    main(["deliver", "--help"])
    said = capsys.readouterr().out
    assert all(f"─ {group} ─" in said for group in ("Input", "Ordering", "Waiting", "Stream", "Output"))
    assert "<bool>" not in said


@pytest.mark.parametrize("format", ["jsonl", "parquet", "csv"])
def test_known_ids_count_as_delivered(format: str, tmp_path: Path) -> None:
    file, known, out, said = (tmp_path / name for name in ("in.jsonl", f"known.{format}", "out", "said.json"))
    rows = [{"account": "p", "id": "b", "parent": "a"}, {"account": "q", "id": "b", "parent": "a"}]
    file.write_text("\n".join(map(json.dumps, rows)) + "\n")
    ids = [{"account": "p", "id": "a"}]
    if format == "jsonl":
        known.write_text(json.dumps(ids[0]) + "\n")
    elif format == "parquet":
        pq.write_table(pa.Table.from_pylist(ids), known)
    else:
        known.write_text("account,id\np,a\n")
    asked = ["deliver", str(file), "--id", "id", "--causes", "parent", "--key", "account", "--quiet"]
    assert main([*asked, "--known", str(known), "--out", str(out), "--json", str(said)]) == 0
    result = json.loads(said.read_text())
    assert result["outcomes"] == {"blocked": 1, "delivered": 1}
    assert [(row["account"], row["blocker"]) for row in result["waiting"]] == [("q", "a")]


def test_of_an_earlier_delivery_only_rows_with_a_position_are_known(tmp_path: Path) -> None:
    first, second, said = tmp_path / "1.jsonl", tmp_path / "2.jsonl", tmp_path / "said.json"
    rows = [{"message": "a", "depends_on": []}, {"message": "x", "depends_on": ["lost"]}]
    first.write_text("\n".join(map(json.dumps, rows)) + "\n")
    rows = [{"message": "b", "depends_on": ["a"]}, {"message": "y", "depends_on": ["x"]}]
    second.write_text("\n".join(map(json.dumps, rows)) + "\n")
    asked = ["--by", "depends_on", "--quiet", "--json", str(said)]
    assert main(["deliver", str(first), "--out", str(tmp_path / "one"), *asked]) == 0
    known = ["--known", str(tmp_path / "one")]
    assert main(["deliver", str(second), *known, "--out", str(tmp_path / "two"), *asked]) == 0
    result = json.loads(said.read_text())
    assert result["outcomes"] == {"blocked": 1, "delivered": 1}
    assert [row["message"] for row in result["waiting"]] == ["y"]


@pytest.mark.parametrize(
    ("known", "more", "sentence"),
    [
        ('{"account": 1}', ["--causes", "parent"], "--known has no column 'id'; it has account."),
        ('{"account": 1, "id": "a"}', ["--by", "clock", "--key", "destination"], "--known goes with --by"),
        (None, ["--causes", "parent"], "known.jsonl"),
        ('{"account": 1, "id": "a"}', ["--causes", "parent", "--overwrite"], "which is read"),
    ],
)
def test_what_is_no_table_of_known_ids_is_a_mistake_of_usage(
    known: str | None, more: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"account": 1, "id": "b", "parent": "a", "clock": {"a": 1}, "destination": "d", "sender": "a"}
    (tmp_path / "in.jsonl").write_text(json.dumps(row) + "\n")
    file = tmp_path / "known.jsonl"
    if known is not None:
        file.write_text(known + "\n")
    out = file if "--overwrite" in more else tmp_path / "out"
    asked = ["deliver", str(tmp_path / "in.jsonl"), "--id", "id", "--key", "account", "--known", str(file)]
    assert main([*asked, "--out", str(out), *more]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_rows_go_to_standard_output_as_json_lines(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    (tmp_path / "in.csv").write_text("id,parent\nb,a\na,\n")
    asked = ["deliver", str(tmp_path / "in.csv"), "--id", "id", "--causes", "parent", "--out", "-"]
    assert main(asked) == 0
    out, err = capsysbinary.readouterr()
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["a", "b"]
    assert b"2 delivered" in err
    assert main([*asked, "--json", "-"]) == 2
    assert b"both name standard output" in capsysbinary.readouterr().err


@pytest.mark.parametrize("name", ["out.xlsx", "out.txt", "out.csv.zip"])
def test_an_ending_that_names_no_format_is_refused(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.csv").write_text("id,parent\nb,a\na,\n")
    asked = ["deliver", str(tmp_path / "in.csv"), "--id", "id", "--causes", "parent", "--out", str(tmp_path / name)]
    assert main(asked) == 2
    assert f"{name} names no format; a file may end in .parquet, .csv" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


def test_a_csv_of_a_spreadsheet_has_semicolons(tmp_path: Path) -> None:
    """The comma is the decimal sign then."""
    (tmp_path / "in.csv").write_bytes(b"\xef\xbb\xbfid;parent;amount\r\nb;a;1,5\r\na;;2\r\n")
    asked = ["deliver", str(tmp_path / "in.csv"), "--id", "id", "--causes", "parent"]
    assert main([*asked, "--out", str(tmp_path / "out.jsonl")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["id"], row["amount"]) for row in rows] == [("a", "2"), ("b", "1,5")]
