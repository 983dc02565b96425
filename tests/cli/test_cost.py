"""`thence cost` in this process: what it says, draws and refuses; tests/spark/test_cost.py holds Spark against it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from thence import cli, cost
from thence.core.model.events import Event, parse
from thence.lab.simulator import Scenario, simulate
from thence.tables.files.jsonl import write_jsonl


def recorded(run: str, protocol: str = "ks", delay: str = "exponential:0.05") -> list[Event]:
    scenario = Scenario(protocol, 5, 160, seed=4, run=run, delay=delay)
    recorder = simulate(scenario, trace=True, measure=False).recorder
    assert recorder is not None
    return recorder.events


def test_the_command_tells_costs_and_a_recommendation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = {"plain": recorded("plain"), "violated": recorded("violated", "unordered", "exponential:1")}
    trace, said, plot = tmp_path / "trace.jsonl", tmp_path / "cost.json", tmp_path / "cost"
    write_jsonl([e for run in ("plain", "violated") for e in events[run]], trace)
    with trace.open("ab") as stream:
        stream.write(b'{"run": 7}\n')
    code = cli.main(
        ["cost", str(trace), "--protocols", "ks, rst", "--sample", "300", "--json", str(said), "--plot", str(plot)]
    )
    shown = capsys.readouterr().out
    assert code == 1  # one run is violated, one line is not an event
    report = json.loads(said.read_text())
    assert report["recommendation"]["protocol"] in ("ks", "rst")
    assert {row["protocol"] for row in report["protocols"]} == {"ks", "rst"}
    assert [(run["run"], run["verdict"], run["sampled"]) for run in report["runs"]] == [
        ("plain", "causal", True),
        ("violated", "violated", True),
    ]
    assert f"recommended: {report['recommendation']['reason']}" in shown
    assert "run plain: only the first 300 of" in shown
    assert "not counted: run violated is violated:" in shown
    assert "set aside:" in shown
    assert plot.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in plot.with_suffix(".svg").read_text()
    assert all(row["held_seconds"] is not None for row in report["costs"])  # JSONL brings its times


def test_where_nothing_is_recommended_the_picture_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, plot = tmp_path / "trace.jsonl", tmp_path / "cost.svg"
    write_jsonl(recorded("plain")[:100], trace)
    assert cli.main(["cost", str(trace), "--protocols", "ks,rst", "--plot", str(plot)]) == 0
    assert "recommended: nothing: " in capsys.readouterr().out
    assert "recommended: nothing" in plot.read_text()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--protocols", "nope"], "no protocol 'nope'"),
        (["--plot", "x.pdf"], "neither .png nor .svg"),
    ],
)
def test_misuse_is_told(arguments: list[str], part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.jsonl"
    write_jsonl(parse("a!1>b b?a1"), trace)
    assert cli.main(["cost", str(trace), *arguments]) == 2
    assert part in capsys.readouterr().err


def test_the_function_takes_files_and_events(tmp_path: Path) -> None:
    events = recorded("plain")
    write_jsonl(events, tmp_path / "trace.jsonl")
    from_file, from_events = (cost(given, ["ks", "rst"]) for given in (tmp_path / "trace.jsonl", events))
    assert from_file == from_events
    assert from_file.causal
    assert from_file.recommendation.protocol in ("ks", "rst")


def test_a_log_with_clocks_has_nothing_to_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "run.log"
    log.write_text('a {"a": 1}\nstart\n')
    assert cli.main(["cost", str(log)]) == 2
    assert "is a log with clocks" in capsys.readouterr().err


def test_without_a_causal_run_nothing_is_said_of_arrivals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(tmp_path / "late.jsonl")
    assert cli.main(["simulate", "--protocol", "unordered", "--messages", "60", "--trace", trace, "--quiet"]) == 0
    assert cli.main(["cost", trace, "--protocols", "ks"]) == 1
    assert "0 causal runs and labels, 0 messages, 0 deliveries\n" in capsys.readouterr().out
