"""`thence deliver` in this process: from files to files at once. (On Spark it says the same: tests/spark/deliver.)"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thence import Orderer
from thence.cli import main
from thence.core.model.message import Copy
from thence.core.model.roster import Roster
from thence.core.protocols.bss import BSS
from thence.core.protocols.wire import encode
from thence.tables.delivery.outcome import OUTPUT_COLUMNS

ROWS = [
    {"run": "r", "destination": "d", "arrival": 3, "message": "c", "depends_on": ["b"], "line": 1},
    {"run": "r", "destination": "d", "arrival": 1, "message": "b", "depends_on": ["a"], "line": 2},
    {"run": "r", "destination": "d", "arrival": 4, "message": "x", "depends_on": ["lost"], "line": 3},
    {"run": "r", "destination": "e", "arrival": 1, "message": "c", "depends_on": [], "line": 4},
    {"run": "r", "destination": "d", "arrival": 2, "message": "a", "depends_on": [], "line": 5},
    {"run": "r", "destination": "d", "arrival": None, "message": "a0", "depends_on": [], "line": 6},
]


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
    assert main(["deliver", str(file), "--by", "depends_on", "--out", str(out), "--json", str(said)]) == 0
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


def test_a_text_where_an_array_belongs_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row | {"depends_on": ",".join(map(str, row["depends_on"]))} for row in ROWS]  # type: ignore[call-overload]
    file, table, said = tmp_path / "in.jsonl", tmp_path / "in.parquet", tmp_path / "said.json"
    file.write_text("\n".join(map(json.dumps, rows)) + "\n")
    pq.write_table(pa.Table.from_pylist(rows), table)
    by = ["--by", "depends_on"]
    assert main(["deliver", str(file), *by, "--out", str(tmp_path / "out"), "--json", str(said)]) == 0
    (reason,) = json.loads(said.read_text())["quarantined"]
    assert f"quarantined, 6 rows: {reason}" in capsys.readouterr().out
    assert main(["deliver", str(table), *by, "--out", str(tmp_path / "other")]) == 2
    assert "column 'depends_on' is string; an array of ids is accepted" in capsys.readouterr().err


def test_what_cannot_be_done_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(map(json.dumps, ROWS)) + "\n")
    out = ["--out", str(tmp_path / "out")]
    assert main(["deliver", str(file), "--by", "depends_on", *out, "--policy", "fail"]) == 1
    assert "lost has not arrived" in capsys.readouterr().err
    assert main(["deliver", str(file), "--by", "time", *out]) == 2
    assert "one of stamp, clock, depends_on is accepted" in capsys.readouterr().err
    assert main(["deliver", str(file), "--by", "clock", *out]) == 2
    assert "no column 'clock'; the table has run, destination" in (told := capsys.readouterr().err)
    assert "--columns says other names" in told
    assert main(["deliver", str(file), "--by", "depends_on", "--key", "account", *out]) == 2
    assert "--key which columns part the rows" in capsys.readouterr().err
    (tmp_path / "empty.jsonl").touch()
    assert main(["deliver", str(tmp_path / "empty.jsonl"), "--by", "depends_on", *out]) == 2
    assert "the table has no column at all" in capsys.readouterr().err
    stream = ["--stream", "--checkpoint", str(tmp_path / "c"), "--engine", "local"]
    assert main(["deliver", str(file), "--by", "depends_on", *out, *stream]) == 2
    assert "--stream runs on Spark" in capsys.readouterr().err


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

    of_python = set(signature(deliver).parameters) - {"give_up"}  # a folder of its own
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
    assert "--columns says 'arrival' is called 'number'; the table has run" in capsys.readouterr().err
    assert main([*asked, "arrival="]) == 0
    assert pq.read_table(tmp_path / "out").column("arrival").to_pylist() == ["by train"]
