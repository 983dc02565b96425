"""The frame of the command line: help, version, exit codes, what an error looks like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import thence
from thence import cli
from thence.cli import _common, _console
from thence.errors import MisuseError, PeerError, TraceError


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "thence.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch):
    """Give the command line one verb, `fail`, that raises what the test wants."""

    def install(error: BaseException) -> None:
        app = typer.Typer(pretty_exceptions_enable=False)
        app.callback()(lambda: None)

        @app.command()
        def fail() -> None:
            raise error

        monkeypatch.setattr(cli, "build", lambda verbs: app)

    return install


def test_python_m_thence() -> None:
    ran = subprocess.run([sys.executable, "-m", "thence", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout == f"thence {thence.__version__}\n"


def test_every_file_of_a_verb_is_one() -> None:
    files = [path for path in Path(cli.__file__).parent.glob("[a-z]*.py") if "\nEXAMPLE = " in path.read_text()]
    assert sorted(cli.VERBS) == sorted(path.stem.replace("_", "-") for path in files)


def test_a_call_loads_its_own_verb_alone() -> None:
    code = "import sys; from thence import cli; cli.main(['audit', '--help']); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    named = {f"thence.cli.{name.replace('-', '_')}" for name in cli.VERBS}
    assert named & set(loaded) == {"thence.cli.audit"}


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f" {verb} " in shown for verb in cli.VERBS)


def test_help_groups_commands_and_shows_the_laboratory_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    places = [shown.index(each) for group, verbs in cli.GROUPS.items() for each in (group, *(f"│ {v} " for v in verbs))]
    assert places == sorted(places)
    assert set(list(cli.GROUPS.values())[-1]) == {"simulate", "explore", "reproduce", "sweep", "protocols", "conform"}


@pytest.mark.parametrize("verb", cli.VERBS)
def test_help_of_a_verb_shows_an_example_and_json(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Example: thence {verb}" in shown
    assert "--json" in shown


@pytest.mark.parametrize(
    ("verb", "panels"),
    [
        ("deliver", ("Input", "Ordering", "Waiting", "Stream", "Output")),
        ("simulate", ("Protocol", "Traffic", "Network and faults", "Output")),
        ("explore", ("Protocol", "Traffic", "Network and faults", "Output")),
        ("endpoint", ("Run one process", "Write a set of configurations", "Join and leave", "Output")),
    ],
)
def test_help_of_commands_with_many_options_has_headings(
    verb: str, panels: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    places = [shown.index(f"─ {panel} ─") for panel in panels]
    assert places == sorted(places)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"thence {thence.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["nope"], ["--nope"], ["doctor", "--nope"], ["doctor", "--json"]])
def test_wrong_usage_is_2_and_goes_to_stderr(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    shown = capsys.readouterr()
    assert "Usage" in shown.out or "Error" in shown.err
    assert not arguments or shown.out == ""


@pytest.mark.parametrize("kind", [MisuseError, PeerError, TraceError])
def test_our_errors_are_2_and_one_paragraph(failing, kind, capsys: pytest.CaptureFixture[str]) -> None:
    failing(kind("bss needs broadcast:\n  found [b]{a, b}[/b], accepted would be all others"))
    assert cli.main(["fail"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "thence: bss needs broadcast: found [b]{a, b}[/b], accepted would be all others\n"


def test_a_worker_that_comes_too_late_is_no_mistake_of_ours(failing, capsys: pytest.CaptureFixture[str]) -> None:
    failing(RuntimeError("[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back."))
    assert cli.main(["fail"]) == 2
    assert capsys.readouterr().err.startswith("thence: a Python worker did not answer Spark in time")


def test_a_file_that_cannot_be_read_is_2(failing, capsys: pytest.CaptureFixture[str]) -> None:
    failing(FileNotFoundError(2, "No such file or directory", "trace.jsonl"))
    assert cli.main(["fail"]) == 2
    assert capsys.readouterr().err == "thence: trace.jsonl: No such file or directory\n"


def test_a_file_that_arrow_cannot_write_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "nowhere" / "trace.parquet"
    assert cli.main(["simulate", "--messages", "5", "--trace", str(trace)]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("thence: ")
    assert str(trace) in shown
    assert "Traceback" not in shown


def test_a_missing_package_is_2_and_says_how_to_get_it(failing, capsys: pytest.CaptureFixture[str]) -> None:
    failing(ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql"))
    assert cli.main(["fail"]) == 2
    assert 'pip install "thence[spark]"' in capsys.readouterr().err


@pytest.mark.parametrize("name", ["Py4JNetworkError", "Py4JError"])
def test_spark_that_dies_says_what_to_do(name: str, failing, capsys: pytest.CaptureFixture[str]) -> None:
    failing(type(name, (Exception,), {})("Answer from Java side is empty"))
    code = cli.main(["fail"])
    said = capsys.readouterr().err
    assert (code == 2, "THENCE_MEMORY=8g" in said) == ((True, True) if name == "Py4JNetworkError" else (False, False))


def test_interruption_is_130(failing, capsys: pytest.CaptureFixture[str]) -> None:
    failing(KeyboardInterrupt())
    assert cli.main(["fail"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_mistake_of_ours_is_neither_verdict_nor_usage(failing, capsys: pytest.CaptureFixture[str]) -> None:
    failing(ZeroDivisionError("division by zero"))
    assert cli.main(["fail"]) == 70
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "bug in thence" in shown


def test_as_a_process() -> None:
    assert run("--version").stdout == f"thence {thence.__version__}\n"
    failed = run("nope")
    assert (failed.returncode, failed.stdout) == (2, "")


def test_shell_completion_offers_the_verbs() -> None:
    offered = run(_THENCE_COMPLETE="complete_bash", COMP_WORDS="thence ", COMP_CWORD="1").stdout.split()
    assert set(cli.VERBS) <= set(offered)


def test_json_goes_where_it_is_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _common.write_json(None, {"a": 1})
    assert capsys.readouterr().out == ""
    _common.write_json("-", {"a": "é"})
    assert json.loads(capsys.readouterr().out) == {"a": "é"}
    _common.write_json(str(tmp_path / "r.json"), [1])
    assert json.loads((tmp_path / "r.json").read_text()) == [1]


def test_json_on_stdout_moves_the_table_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    made = _console.table("name", "count", rows=[("[a]", 1), ("b", None)])
    _common.console("-").print(made)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "[a]" in shown.err  # names are text, never markup
    _common.console(None).print(made)
    assert "[a]" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "--messages"], ["audit", "t.jsonl", "--paths"], ["audit", "t.jsonl", "--cores"],
        ["explain", "t.jsonl", "--violation"], ["deliver", "t.jsonl", "--out", "o", "--held-limit"],
    ],
)  # fmt: skip
def test_numbers_that_no_machine_counts_are_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*arguments, str(10**20)]) == 2
    assert f"{arguments[-1]} is {10**20}; numbers up to {sys.maxsize} are accepted" in capsys.readouterr().err


def test_arguments_that_are_not_in_utf_8_are_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["audit", os.fsdecode(b"caf\xe9.jsonl")]) == 2
    assert "thence: caf\\udce9.jsonl is not in UTF-8; rename the file" in capsys.readouterr().err


def test_progress_is_silent_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    with _common.working("thinking"):
        assert list(_common.progress([1, 2], "counting")) == [1, 2]
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")


def test_every_verb_can_be_quiet_or_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["protocols", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert cli.main(["protocols", "-v"]) == 0
    assert "ks" in capsys.readouterr().out
    assert cli.main(["protocols", "--quiet", "--verbose"]) == 2
    assert "one of them is accepted" in capsys.readouterr().err


def test_control_characters_reach_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["convert", "no\x1b[2Jthing", "--to", "jsonl"]) == 2
    assert "no\\x1b[2Jthing" in capsys.readouterr().err
    (tmp_path / "\x1bt.jsonl").write_text('{"run":"\\u001b","kind":"\\u009b"}\n')
    assert cli.main(["convert", "\x1bt.jsonl", "--to", "jsonl", "--json", "said.json", "--out", "out.jsonl"]) == 2
    said = capsys.readouterr().err
    assert "\\x1bt.jsonl:1: kind is '\\x9b'" in said
    assert not {"\x1b", "\x9b"} & set(said + (tmp_path / "said.json").read_text())
