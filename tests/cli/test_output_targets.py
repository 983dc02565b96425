"""Where a verb is to write is looked at before its work begins; errors name options as people type them."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
from support.some import some

from thence import cli
from thence.cli._common import as_option
from thence.cli._targets import check_target, declared
from thence.core.model.events import parse
from thence.errors import Argument, MisuseError
from thence.tables.files.jsonl import write_jsonl

HANDLED_ELSEWHERE = {("convert", "out"), ("deliver", "out")}
"""FILE or DIR, as another option says."""


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    write_jsonl(parse("a!1>bc b?a1 b!1>c c?b1 c?a1"), "t.jsonl")
    Path("folder").mkdir()
    Path("taken").write_text("mine")
    return "t.jsonl"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["audit", "t.jsonl", "--json", "no/x.json"], "--json no/x.json: no does not exist"),
        (["audit", "t.jsonl", "--json", "folder"], "--json folder is a folder"),
        (["audit", "t.jsonl", "--json", "taken/x.json"], "--json taken/x.json: taken is not a folder"),
        (["audit", "t.jsonl", "--page", "folder"], "--page folder is a folder"),
        (["audit", "t.jsonl", "--out", "taken"], "--out taken is a file"),
        (["audit", "t.jsonl", "--out", "taken/more"], "taken is not a folder"),
        (["explain", "t.jsonl", "--json", "no/x.json"], "--json no/x.json: no does not exist"),
        (["show", "t.jsonl", "--out", "no/x.html"], "--out no/x.html: no does not exist"),
        (["convert", "t.jsonl", "--to", "jsonl", "--out", "folder"], "--out folder is a folder"),
        (["convert", "t.jsonl", "--to", "parquet", "--files", "2", "--out", "taken"], "--out taken is a file"),
        (["cost", "t.jsonl", "--plot", "no/cost.svg"], "--plot no/cost.svg: no does not exist"),
        (["simulate", "--trace", "x.jsonl", "--arrivals", "./x.jsonl"], "--trace and --arrivals both name x.jsonl"),
        (["simulate", "--trace", "no/run.jsonl"], "--trace no/run.jsonl: no does not exist"),
        (["explore", "--protocol", "unordered", "--save", "no/x"], "--save no/x: no does not exist"),
        (["explore", "--protocol", "unordered", "--graph", "folder"], "--graph folder is a folder"),
        (["reproduce", "ks98", "--quick", "--out", "taken"], "--out taken is a file"),
        (["protocols", "--json", "no/x.json"], "--json no/x.json: no does not exist"),
    ],
)
def test_nothing_is_done_for_a_result_without_a_place(
    trace: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert shown.err.count("\n") == 1
    assert sorted(os.listdir()) == ["folder", "t.jsonl", "taken"]
    assert not any(Path("folder").iterdir())


def test_an_audit_looks_at_its_folder_first(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder/old.parquet").touch()
    assert cli.main(["audit", trace, "--out", "folder"]) == 2
    assert capsys.readouterr().out == ""


def test_a_place_that_may_not_be_written(trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != "taken")
    with pytest.raises(MisuseError, match="--json taken: you may not write to taken"):
        check_target("--json", "taken", folder=False)
    check_target("--json", "folder/new", folder=False)
    check_target("--out", "folder/new/newer", folder=True)
    check_target("--json", "-", folder=False)
    check_target("--out", "s3://bucket/place", folder=True)


def test_every_option_that_takes_a_path_says_whether_it_is_written() -> None:
    """A new option that takes a path is a target (FILE or DIR), or it is named here as what is read."""
    read = {("explore", "replay")}
    for command in some(cli.build().registered_commands):
        assert command.callback is not None
        for name, parameter in command.callback.__signature__.parameters.items():
            option = declared(parameter)
            if option is not None and "Path" in str(parameter.annotation) and (command.name, name) not in read:
                wanted = ("FILE|DIR",) if (command.name, name) in HANDLED_ELSEWHERE else ("FILE", "DIR")
                assert option.metavar in wanted, f"{command.name} {name}"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--by", "depends_on"], "--causes names the column of the ids of a row's causes"),
        (
            ["--by", "depends_on", "--key", "nobody"],
            "found: account, event_id, caused_by. --key names the columns that separate independent orders",
        ),
        (["--by", "depends_on", "--columns", "what=x"], "--columns names 'what'"),
        (["--by", "guess"], "--by guess; one of stamp, clock, depends_on is accepted"),
        (["--by", "clock", "--key", "account"], "--by clock needs the destination in the key"),
        (["--by", "stamp"], "--by stamp needs --roster: the names"),
        (["--by", "depends_on", "--roster", "a,b"], "--roster goes with --by stamp; --by depends_on names"),
        (["--by", "depends_on", "--policy", "release"], "--policy release needs --after-rows or --after-seconds"),
        (["--by", "depends_on", "--after-rows", "2"], "--after-rows and --after-seconds go with --policy release"),
        (["--by", "depends_on", "--held-limit", "0"], "--held-limit is 0; a whole number"),
    ],
)
def test_errors_speak_of_options(
    options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text(json.dumps({"account": "x", "event_id": "e1", "caused_by": []}) + "\n")
    assert cli.main(["deliver", "rows.jsonl", "--out", "ordered", *options]) == 2
    assert said in capsys.readouterr().err


def test_only_arguments_of_the_command_become_options() -> None:
    command = next(each for each in cli.build().registered_commands if each.name == "deliver")
    assert command.callback is not None
    parameters = command.callback.__signature__.parameters
    error = MisuseError(
        "column 'after_rows' and \"key=\": ", Argument("after_rows"), Argument("cores_limit", 3), Argument("by", "x")
    )
    assert error.worded(lambda each: as_option(each, parameters)) == (
        "column 'after_rows' and \"key=\": --after-rowscores_limit=3--by x"
    )
    assert str(error) == "column 'after_rows' and \"key=\": after_rowscores_limit=3by='x'"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    "command",
    [
        ["audit", "--page"],
        ["audit", "--json"],
        ["cost", "--json"],
        ["show", "--out"],
        ["show", "--json"],
        ["explain", "--json"],
    ],
)
def test_an_input_is_not_written_over(tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "run.jsonl"
    assert cli.main(["simulate", "--protocol", "ks", "--processes", "3", "--messages", "5", "--trace", str(trace)]) == 0
    before = trace.read_bytes()
    assert cli.main([command[0], str(trace), command[1], str(trace)]) == 2
    assert f"{command[1]} {trace} is read and cannot be written at once" in capsys.readouterr().err
    assert trace.read_bytes() == before


def test_an_argument_may_be_longer_than_the_name_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The id of a message, for example: it is looked up among the files that a command reads, and is none."""
    assert cli.main(["give-up", str(tmp_path), "m" * 300]) == 2
    assert "is not the checkpoint of a stream" in capsys.readouterr().err
