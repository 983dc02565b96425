"""`thence simulate`, `thence protocols`: flags, files, exit codes, and bytes that repeat."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from support.recorded import read_events

from thence import cli
from thence.core.model.order import judge
from thence.core.protocols.registry import REGISTRY

ROOT = Path(__file__).parents[2]
SMALL = ("simulate", "--processes", "5", "--messages", "60")


def run(*arguments: str) -> int:
    return cli.main([str(argument) for argument in arguments])


def test_the_example_of_the_contract(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.jsonl"
    words = "simulate --protocol ks --processes 8 --messages 200 --fanout uniform --seed 1"
    assert run(*words.split(), "--trace", str(trace)) == 0
    shown = capsys.readouterr()
    assert "entries_per_copy" in shown.out
    assert f"rows written to {trace}" in shown.out
    assert shown.err == ""
    events = read_events(trace)
    assert judge(events).verdict == "causal"
    assert {event.kind for event in events} == {"send", "receive", "deliver"}
    assert all((event.bytes is not None) == (event.kind != "send") for event in events)


def test_all_flags_at_once(tmp_path: Path) -> None:
    trace, arrivals, result = tmp_path / "t.parquet", tmp_path / "a.parquet", tmp_path / "r.json"
    words = (
        "--protocol ks --fanout 2 --seed 3 --fifo --self --delay exponential:0.1;a>b=constant:1 --workload bursts:1,1 "
        "--rate 5 --labels 2 --duplicates 0.1 --partition 1-2:ab|cde --partition 3-4:a|bcde --option explicit=false "
        "--run mine --warmup 0.1 --stamps --cpu"
    )
    files = ("--trace", str(trace), "--arrivals", str(arrivals), "--json", str(result))
    assert run(*SMALL, *words.split(), *files) == 0
    events = read_events(trace)
    assert {event.run for event in events} == {"mine"}
    assert any(event.dependencies for event in events)
    made = json.loads(result.read_text())
    assert made["scenario"]["partitions"] == ["1-2:ab|cde", "3-4:a|bcde"]
    assert made["scenario"]["to_self"] is True
    assert made["scenario"]["options"] == {"explicit": False}
    assert made["outcome"]["messages"] == 60
    assert made["measures"]["entries_per_copy"]["mean"] > 0
    assert [row["operation"] for row in made["cpu"]] == ["send", "receive"]
    assert made["written"] == {str(trace): len(events), str(arrivals): made["outcome"]["copies"] + _doubled(made)}


@pytest.mark.parametrize(("protocol", "told"), [("ks", False), ("rst", True), ("unordered", True)])
def test_stamps_that_name_no_messages(
    protocol: str, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*SMALL, "--protocol", protocol, "--stamps", "--trace", str(tmp_path / "t.jsonl")) == 0
    assert (f"stamps of {protocol} name no messages" in capsys.readouterr().out) == told


def _doubled(made: dict) -> int:
    return made["outcome"]["duplicates"]


def test_json_to_stdout_is_nothing_but_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*SMALL, "--json", "-") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["outcome"]["messages"] == 60
    assert "entries_per_copy" in shown.err


def test_hops_are_in_the_trace_as_a_run_of_their_own(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    assert run(*SMALL, "--protocol", "acked", "--fanout", "unicast", "--trace", str(trace)) == 0
    runs = {event.run for event in read_events(trace)}
    assert runs == {"acked-n5-unicast-seed1", "acked-n5-unicast-seed1/hops"}


def test_a_crash_is_in_the_trace(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    assert run(*SMALL, "--crashes", "1", "--trace", str(trace)) == 0
    events = read_events(trace)
    assert [event.kind for event in events].count("crash") == 1


def test_a_deadlock_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("simulate", "-n", "3", "--protocol", "bounded", "--bound", "1", "--fanout", "unicast") == 1
    shown = capsys.readouterr().out
    assert "Deadlock." in shown
    held = [line for line in shown.splitlines() if "holds a send, which waits for" in line]
    assert len(held) == len(set(held)) > 0
    assert "more like it)" in shown


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--protocol", "nope"], "no protocol 'nope'; there are"),
        (["--protocol", "bss"], "protocol bss needs broadcast only"),
        (["--fanout", "5"], "fan-out 5 is larger than the 4 others"),
        (["--rate", "-1"], "rate -1.0"),
        (["--delay", "slow"], "no delay policy 'slow'"),
        (["--loss", "0.1"], "does not bear loss"),
        (["--stamps"], "give --trace FILE"),
        (["--trace", "x.csv"], "ends in none of"),
        (["--warmup", "1"], "warm-up 1.0 is not a share"),
        (["--option", "explicit"], "is not NAME=VALUE"),
        (["--option", "explicit=true"], "a simulated application passes no contexts"),
        (["--option", "explicit=--5"], "option explicit of protocol ks is '--5'; True or False is accepted"),
        (["--option", "explicit=" + "9" * 5000], "True or False is accepted"),
        (["--option", "name=x"], "protocol ks has no option 'name'; its options: explicit"),
        (["--option", "labels=3"], "protocol ks has no option 'labels'"),
        (["--option", "explicit=true", "--option", "explicit=false"], "option explicit is given more than once"),
        (["--bound", "3"], "protocol ks has no option 'bound'"),
        (["--trace", "/nowhere/at/all.jsonl"], "does not exist"),
    ],
)
def test_misuse_ends_with_2_and_a_sentence(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*SMALL, *words) == 2
    shown = capsys.readouterr()
    assert text in shown.err
    assert shown.err.startswith("thence: ")
    assert shown.out == ""


def test_the_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    """Same scenario, other processes, other PYTHONHASHSEED: equal bytes of trace, arrivals and JSON."""
    found = set()
    for seed in ("0", "1", "4242"):
        folder = tmp_path / seed
        folder.mkdir()
        words = "--protocol hierarchy --labels 2 --duplicates 0.1 --stamps --self --crashes 1 --workload groups:4x3"
        files = ("--trace", "t.jsonl", "--arrivals", "a.jsonl", "--json", "r.json")
        command = [sys.executable, "-m", "thence.cli", *SMALL, *words.split(), *files]
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run(command, check=True, cwd=folder, env=environment, capture_output=True)
        found.add(tuple(sha256((folder / name).read_bytes()).hexdigest() for name in ("t.jsonl", "a.jsonl", "r.json")))
    assert len(found) == 1


def test_every_command_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(sh|python)\n(.*?)```", (ROOT / "docs" / "laboratory/simulate.md").read_text(), re.DOTALL)
    commands = [shlex.split(line, comments=True) for kind, text in blocks if kind == "sh" for line in text.splitlines()]
    assert len(commands) >= 4
    for name, *words in commands:
        assert name == "thence"
        assert run(*words) == (1 if "--bound" in words else 0), words
    assert "Deadlock." in capsys.readouterr().out
    for kind, text in blocks:
        if kind == "python":
            exec(text, {})
    early = {line.split()[0]: int(line.split()[-1]) for line in capsys.readouterr().out.splitlines()}
    assert early["ks"] == early["rst"] == 0 < early["fifo"] < early["unordered"]


def test_protocols(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "protocols.json"
    assert run("protocols", "--json", str(path)) == 0
    shown = capsys.readouterr().out
    rows = json.loads(path.read_text())
    assert [row["protocol"] for row in rows] == list(REGISTRY)
    for row in rows:
        assert row["protocol"] in shown
        assert row["guarantee"] in ("causal", "two-hop", "fifo", "none")
    assert next(row for row in rows if row["protocol"] == "bss")["needs"] == ["broadcast only", "fixed membership"]


def test_early_deliveries_are_distinguished_from_violations(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["simulate", "--protocol", "fifo", "--messages", "200"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "an audit counts violations, each missing message once at a destination, not early deliveries" in told
    assert cli.main(["simulate", "--protocol", "ks", "--messages", "200"]) == 0
    assert "an audit counts" not in capsys.readouterr().out
