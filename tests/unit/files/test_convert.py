"""`thence convert`, by its command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.recorded import read_events

from thence.cli import main
from thence.core.model.events import Event, parse, render
from thence.tables.files.jsonl import write_jsonl
from thence.tables.files.parquet import write_parquet
from thence.tables.files.shiviz import read_shiviz

DATA = Path(__file__).parents[2] / "data"
EVENTS = parse("a!1>bc b?a1 b!1>c c?b1 c?a1")
LINE = b'{"run":"r","process":"a","index":1,"kind":"internal"}\n'


@pytest.fixture
def jsonl(tmp_path: Path) -> Path:
    path = tmp_path / "t.jsonl"
    write_jsonl(EVENTS, path)
    return path


def events_of(path: Path) -> list[Event]:
    return read_events(path)


def test_there_and_back(jsonl: Path, capfd: pytest.CaptureFixture[str]) -> None:
    there, back = jsonl.with_name("u.parquet"), jsonl.with_name("u.jsonl")
    assert main(["convert", str(jsonl), "--to", "parquet", "--out", str(there), "--verbose"]) == 0
    assert events_of(there) == EVENTS
    said = "converted in this process (rows are written as they are read; --engine spark chooses the other)"
    assert capfd.readouterr() == ("", f"5 events written to {there}, 0 rows left out\n{said}\n")
    assert main(["convert", str(there), "--to", "jsonl", "--out", str(back)]) == 0
    assert capfd.readouterr().err == f"5 events written to {back}, 0 rows left out\n"
    assert back.read_bytes() == jsonl.read_bytes()


def test_standard_output_carries_the_trace_alone(jsonl: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(jsonl), "--to", "jsonl"]) == 0
    assert capfd.readouterr().out == jsonl.read_text()
    assert main(["convert", str(jsonl), "--to", "shiviz"]) == 0
    assert capfd.readouterr().out.splitlines()[2:4] == ['a {"a":1}', "send a1 to b, c"]


def test_an_excerpt_in_each_format(tmp_path: Path) -> None:
    write_jsonl(parse("d. d!1>e e?d1 a!1>b b?a1"), tmp_path / "t.jsonl")
    for to, out in (("jsonl", "s.jsonl"), ("parquet", "s.parquet"), ("shiviz", "s.log")):
        given = ["convert", str(tmp_path / "t.jsonl"), "--to", to, "--around", "a1", "--out", str(tmp_path / out)]
        assert main(given) == 0
    assert render(events_of(tmp_path / "s.jsonl")) == render(events_of(tmp_path / "s.parquet")) == "a!1>b b?a1"
    assert [event.text for event in read_shiviz(tmp_path / "s.log", [])] == ["send a1 to b", "deliver a1"]


def test_several_files(jsonl: Path) -> None:
    out = jsonl.with_name("parts")
    assert main(["convert", str(jsonl), "--to", "parquet", "--files", "2", "--out", str(out)]) == 0
    assert len(list(out.iterdir())) == 2


def test_an_order_is_derived_where_there_is_none(tmp_path: Path) -> None:
    write_parquet([replace(event, order=-(event.order or 0)) for event in EVENTS], tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    pq.write_table(table.drop(["order"]).take([4, 3, 2, 1, 0]), tmp_path / "u.parquet")
    given = ["convert", str(tmp_path / "u.parquet"), "--to", "jsonl", "--out", str(tmp_path / "u.jsonl")]
    assert main(given) == 0
    assert events_of(tmp_path / "u.jsonl") == EVENTS


def test_rows_left_out_are_told_and_the_code_is_1(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(LINE + b"nonsense\n" * 12)
    given = ["convert", str(path), "--to", "jsonl", "--out", str(tmp_path / "u.jsonl"), "--json", str(tmp_path / "j")]
    assert main(given) == 1
    told = capfd.readouterr().err
    assert "1 event written" in told
    assert f"{path}:2: not JSON" in told
    assert "... and 2 more" in told
    result = json.loads((tmp_path / "j").read_text())
    assert (result["events"], result["to"], len(result["quarantine"])) == (1, "jsonl", 12)
    assert result["quarantine"][0]["line"] == 2


def test_rows_the_definition_cannot_use_are_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_jsonl(parse("a!1>b b?x1"), tmp_path / "t.jsonl")
    assert main(["convert", str(tmp_path / "t.jsonl"), "--to", "shiviz", "--out", str(tmp_path / "o")]) == 1
    assert "run run, process b, index 1: message x1 was never sent" in capfd.readouterr().err


def test_nothing_readable_is_2(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.jsonl").write_bytes(b"nonsense")
    assert main(["convert", str(tmp_path / "t.jsonl"), "--to", "jsonl"]) == 2
    assert "nothing could be read" in capfd.readouterr().err


def test_a_real_log_becomes_a_log_for_the_viewer(tmp_path: Path) -> None:
    log = DATA / "shiviz" / "simple-reliable-broadcast.log"
    assert main(["convert", str(log), "--to", "shiviz", "--out", str(tmp_path / "o.log")]) == 0
    assert (tmp_path / "o.log").read_text().startswith("(?<host>")
    assert len(list(read_shiviz(tmp_path / "o.log", []))) == 39


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["{log}", "--to", "jsonl"], "a log with clocks has no messages"),
        (["{log}", "--to", "shiviz", "--around", "a1"], "a log with clocks has no messages"),
        (["{log}", "{jsonl}", "--to", "shiviz"], "cannot be converted together"),
        (["{jsonl}", "--to", "parquet"], "Parquet does not go to standard output"),
        (["{jsonl}", "--to", "jsonl", "--json", "-"], "cannot both go to standard output"),
        (["{jsonl}", "--to", "jsonl", "--files", "2"], "--files is for Parquet"),
        (["{jsonl}", "--to", "jsonl", "--out", "{jsonl}"], "is read and cannot be written at once"),
        (["{jsonl}", "--to", "jsonl", "--around", "x9"], "sends a message 'x9'"),
        (["{jsonl}x", "--to", "jsonl"], "does not exist: a file, a folder or a glob"),
        (["{jsonl}", "--to", "csv"], "csv"),
        (["{log}", "--to", "shiviz", "--pattern", "(?<host>x)"], "has no group (?<clock>"),
    ],
)
def test_misuse_is_2(jsonl: Path, capfd: pytest.CaptureFixture[str], given: list[str], text: str) -> None:
    before = jsonl.read_bytes()
    named = {"log": DATA / "shiviz" / "facebook-multiple.log", "jsonl": jsonl}
    assert main(["convert", *(each.format(**named) if "{" in each else each for each in given)]) == 2
    told = capfd.readouterr()
    assert text in told.err
    assert told.out == ""
    assert jsonl.read_bytes() == before


def test_quiet_says_nothing(jsonl: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(jsonl), "--to", "parquet", "--out", str(jsonl.with_name("q")), "--quiet"]) == 0
    assert capfd.readouterr() == ("", "")


def test_an_engine_that_is_none_is_refused(jsonl: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(jsonl), "--to", "jsonl", "--engine", "steam"]) == 2
    assert "auto, local, spark are accepted" in capfd.readouterr().err
