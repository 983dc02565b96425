"""`thence explore`: verdict, exit code, JSON, a saved execution that replays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.pages import run_page

from thence.cli import main


def run(*args: str) -> int:
    return main(["explore", *args])


def test_a_protocol_that_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    assert run("--protocol", "ks", "--messages", "3", "--json", str(report)) == 0
    shown = capsys.readouterr().out
    assert "ks: holds" in shown
    assert "all of it; 325 states" in shown
    row = json.loads(report.read_text())
    assert (row["verdict"], row["complete"], row["states"], row["failure"]) == ("holds", True, 325, None)


def test_a_failure_is_shown_saved_and_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "failure.json"
    assert run("--protocol", "fifo", "--property", "causal order", "--save", str(saved)) == 1
    shown = capsys.readouterr().out
    assert "a!1>b a!2>c c?a2 c!1>b b?c1" in shown
    assert "<- too early: a1 is missing" in shown
    assert "executions" not in shown, "a search that ended at a failure has not counted them"
    assert run("--replay", str(saved)) == 1
    assert "breaks: causal order" in capsys.readouterr().out


def test_a_protocol_of_a_weaker_order_can_be_judged_by_causal_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--protocol", "fifo") == 0
    assert "--property causal-order judges it by that" in capsys.readouterr().out
    assert run("--protocol", "fifo", "--property", "causal-order") == 1
    said = capsys.readouterr().out
    assert "b delivered c1 before a1, though a1 happened before c1" in said
    assert "--property" not in said


def test_variants_are_admitted_on_request_only(capsys: pytest.CaptureFixture[str]) -> None:
    size = ("--protocol", "rst-unicast", "--messages", "2", "--destinations", "any")
    assert run(*size) == 2
    assert "--variants" in capsys.readouterr().err
    assert run(*size, "--variants") == 1


def test_a_time_limit_leaves_the_verdict_open(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--protocol", "ks", "--messages", "5", "--destinations", "any", "--time-limit", "0") == 0
    shown = capsys.readouterr().out
    assert "ks: unknown" in shown
    assert "time ran out" in shown


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (("--protocol", "bss"), "--destinations broadcast"),
        (("--protocol", "ech-r9", "--option", "separators=5"), "option separators of protocol ech-r9 is 5; text is"),
        (("--protocol", "ech-r9", "--option", "carbon=7"), "option carbon of protocol ech-r9 is 7; True or False is"),
        (("--option", "explicit=true", "--option", "explicit=false"), "option explicit is given more than once"),
        (("--protocol", "a-causal", "--option", "groups=ab|c"), "groups are given by --groups"),
        (("--protocol", "ks", "--groups", "ab|c"), "protocol ks knows no groups; leave --groups out"),
        (("--crashes", "1"), "leave --crashes out"),
        (("--groups", "ab|c"), "protocol ks knows no groups; leave --groups out"),
        (("--detector", "any"), "--detector any does nothing where no process crashes; say --crashes, too"),
        (
            ("--protocol", "a-causal", "--crashes", "1", "--changes", "2"),
            "--changes does nothing with --detector eager",
        ),
        (("--property", "speed"), "no property 'speed'; there are causal-order, two-hop-order"),
        (("--replay", "/no/such/file"), "cannot read /no/such/file"),
        (("--destinations", "some"), "'some' is not one of unicast, any, broadcast"),
        (("--processes", "0"), "0 processes; an exploration needs one at least"),
        (("--messages", "-1"), "messages -1; 0 or more is accepted"),
        (("--messages", "2000"), "2000 messages; up to 1000 are accepted"),
        (("--protocol", "a-causal", "--crashes", "1", "--changes", "-2"), "changes -2; 0 or more is accepted"),
        (("--protocol", "a-causal", "--crashes", "4"), "4 crashes among 3 processes"),
        (("--time-limit", "-5"), "a time limit of -5 seconds; 0 or more is accepted"),
        (("--graph", "g.dot", "--cover"), "--graph and --cover at once; one of them is accepted"),
        (("--graph", "g.pdf"), "ends in neither .dot nor .json"),
        (("--graph", "g.dot", "--page", "p.html"), "--page does nothing with --graph; leave it out"),
        (("--graph", "g.dot", "--save", "s.json"), "--save does nothing with --graph; leave it out"),
        (("--step", "--page", "p.html"), "--page does nothing with --step; leave it out"),
        (("--step", "--time-limit", "5"), "--time-limit does nothing with --step; leave it out"),
        (("--replay", "x.json", "--save", "s.json"), "--save does nothing with --replay; leave it out"),
    ],
)
def test_wrong_usage(wrong: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*wrong) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("properties",), [["causal order"]]),
        (("properties",), ["speed"]),
        (("setting", "groups"), 7),
        (("setting", "messages"), 10**6),
        (("setting", "processes"), 9),
        (("steps", 0), ["receive", "b", "a", "a", "message", 0]),
        (("steps", 0), ["jump", "b"]),
    ],
)
def test_an_execution_that_was_tampered_with_is_refused(
    place: tuple[str | int, ...], value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "failure.json"
    assert run("--protocol", "fifo", "--property", "causal order", "--save", str(saved)) == 1
    row = json.loads(saved.read_text())
    part = row
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    saved.write_text(json.dumps(row))
    capsys.readouterr()
    assert run("--replay", str(saved)) == 2
    assert capsys.readouterr().err.startswith("thence: ")


@pytest.mark.parametrize("held", [b"PAR1\xb5\x00", b'{"run": "r"}\n{"run": "r"}\n', b"[]", b"{}"])
def test_what_is_no_saved_execution_is_named(held: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "other"
    file.write_bytes(held)
    assert run("--replay", str(file)) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"thence: {file}")
    assert "an execution written by --save is accepted" in told


def test_crashes(capsys: pytest.CaptureFixture[str]) -> None:
    size = ("--processes", "3", "--messages", "3", "--crashes", "1")
    assert run("--protocol", "a-causal-printed", "--variants", *size) == 1
    assert "never delivers c1" in capsys.readouterr().out
    assert run("--protocol", "a-causal", "--processes", "3", "--messages", "2", "--crashes", "1") == 0


def test_options_of_the_protocol(capsys: pytest.CaptureFixture[str]) -> None:
    """On a line b - a - c, with R9 read as the paper prints it and as it must be."""
    assert run("--protocol", "ech-r9-anywhere", "--variants") == 1
    assert "a!1>b a!2>c c?a2 c!1>b b?c1" in capsys.readouterr().out
    assert run("--protocol", "ech-r9", "--option", "separators=a:c|b") == 0
    assert run("--protocol", "ks", "--option", "separators=a:c|b") == 2
    assert "no option 'separators'" in capsys.readouterr().err


def test_a_failure_as_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, saved = tmp_path / "why.html", tmp_path / "failure.json"
    asked = ("--protocol", "fifo", "--property", "causal order", "--save", str(saved))
    assert run(*asked, "--page", str(page)) == 1
    assert f"step through it: {page}" in capsys.readouterr().out
    text = page.read_text()
    assert "b delivered c1 before a1, though a1 happened before c1" in text
    page.unlink()
    assert run("--replay", str(saved), "--page", str(page)) == 1
    assert page.read_text() == text
    capsys.readouterr()
    assert run("--protocol", "ks", "--messages", "2", "--page", str(tmp_path / "none.html")) == 0
    assert "nothing fails" in capsys.readouterr().out
    assert not (tmp_path / "none.html").exists()


def test_the_whole_system_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--protocol", "a-fifo", "--messages", "1", "--groups", "ab|c", "--crashes", "1", "--detector", "falling")
    assert run(*asked) == 0
    system = "system: 3 processes, up to 1 message (unicast), any order, groups ab|c, up to 1 crash, detector falling"
    assert system in capsys.readouterr().out.splitlines()
    assert run("--messages", "2", "--loss", "2") == 0
    assert "system: 3 processes, up to 2 messages (unicast), any order, up to 2 copies lost" in capsys.readouterr().out


def test_the_page_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[2] / "docs" / "laboratory/explore.md"
    monkeypatch.chdir(tmp_path)
    assert run_page(page) == 4


def test_a_trace_is_no_execution_to_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = '{"run": "r", "process": "a", "index": 1, "kind": "internal"}\n'
    for count in (1, 2):
        (tmp_path / "trace.jsonl").write_text(row * count)
        assert run("--replay", str(tmp_path / "trace.jsonl")) == 2
        assert "`thence audit` and `thence show` take a trace" in " ".join(capsys.readouterr().err.split())
