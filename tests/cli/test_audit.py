"""`thence audit` and `explain` in this process: exit codes, JSON in the contract's form, sentences for people."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from thence.cli import main
from thence.core.model.events import Event, parse
from thence.tables.contract.row_validity import row_of
from thence.tables.files.jsonl import write_jsonl
from thence.tables.files.parquet import write_parquet

VIOLATED = "a!1>bc b?a1 b!1>c c?b1 c?a1"
KEYS = {
    "verdict", "engine", "route", "runs", "hops", "events", "messages", "violations", "possible", "undelivered",
    "duplicates", "misdelivered", "quarantine", "clocks",
}  # fmt: skip


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, dict[str, Any]]:
    """Audit, and return exit code, text for people, JSON."""
    out = Path(arguments[0]).with_suffix(".verdict")
    out.unlink(missing_ok=True)
    code = main(["audit", *arguments, "--json", str(out)])
    said = json.loads(out.read_text()) if out.exists() else {}
    return code, capsys.readouterr().out, said


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "trace.jsonl"
    write_jsonl(parse(VIOLATED), file)
    return file


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_violation_is_said_in_a_sentence(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / f"trace.{kind}"
    (write_jsonl if kind == "jsonl" else write_parquet)(parse(VIOLATED), file)
    code, text, said = call(capsys, str(file))
    assert code == 1
    assert "1. c delivered b1 before a1, though a1 happened before b1: b delivered a1, then sent b1" in text
    assert said.keys() == KEYS
    assert (said["verdict"], said["events"], said["messages"], said["engine"]) == ("violated", 5, 2, "local")
    (violation,) = said["violations"]
    assert [step["message"] for step in violation.pop("path")] == ["a1", "a1", "b1"]
    assert violation == {"run": "run", "destination": "c", "early": "b1", "missing": "a1"}


def test_undelivered_alone_is_fine_and_a_cut_line_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.jsonl"
    write_jsonl(parse("a!1>bc b?a1"), file)
    code, _, said = call(capsys, str(file))
    assert (code, said["verdict"], len(said["undelivered"])) == (0, "causal", 1)
    with file.open("ab") as stream:
        stream.write(b'\n{"run": "run", "proc')
    code, text, said = call(capsys, str(file))
    assert (code, said["verdict"]) == (1, "unknown")
    assert said["quarantine"][0]["line"] == 4
    assert f"{file}:4" in text


def test_clocks_are_consistent_rather_than_causal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "some.log"
    file.write_text('a {"a":1}\nsend\nb {"b":1, "a":1}\ngot it\n')
    code, text, said = call(capsys, str(file))
    assert (code, said["verdict"], said["events"]) == (0, "causal", 2)
    assert "clocks are consistent: 2 hosts, 2 events, 1 execution\nlayout: host and clock, then the text\n" in text
    assert "causal" not in text
    file.write_text('a {"a":1}\nsend\nb {"b":1, "a":5}\ngot it\n')
    code, text, said = call(capsys, str(file))
    assert code == 1
    assert said["clocks"][0].keys() == {"file", "line", "host", "rule", "found"}
    assert said["verdict"] == "violated"
    assert "clocks are not consistent" in text
    assert "ahead" in text
    file.write_text('b {"b":1, "a":5}\ngot it\n')
    code, text, said = call(capsys, str(file))
    assert (code, said["verdict"], len(said["clocks"])) == (1, "unknown", 1)
    assert "clocks may be consistent: 1 host, 1 event, 1 execution\n" in text
    assert "verdict: unknown, since hosts have no events in it" in text


def test_a_log_with_clocks_has_nothing_to_explain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "some.log"
    file.write_text('a {"a":1}\nsend\nb {"b":1, "a":1}\ngot it\n')
    assert main(["explain", str(file)]) == 2
    assert "no deliveries to explain" in capsys.readouterr().err


def test_equal_reasons_are_printed_once_and_a_missing_column_can_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trace.jsonl"
    row = '{"run":"r","pid":"%s","index":%d,"kind":"internal"}\n'
    file.write_text("".join(row % (name, 9 - place) for place, name in enumerate("cab")))
    _, text, _ = call(capsys, str(file))
    places = [line for line in text.splitlines() if line.startswith("set aside")]
    assert places == [f"set aside, 3 rows: process is missing; the first: {file}:1"]
    assert "give --columns process=YOURS,..." in text
    _, text, _ = call(capsys, str(file), "--columns", "process=pid")
    assert "YOURS" not in text


def test_stray_files_of_a_kind_share_a_line(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strays = [trace.with_name(name) for name in ("a.txt", "b.txt")]
    for stray in strays:
        stray.write_text("Dear reader,\n")
    _, text, _ = call(capsys, str(trace.parent))
    said = f"note: skipped {strays[0]}, {strays[1]}: it begins like no format known here"
    assert "".join(said.split()) in "".join(text.split()), "however long the names are, and wherever the line ends"


def test_what_endpoints_keep_beside_their_records_is_not_noted(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.toml", "a.crt", "a.key", "a.journal.mark", "a.journal", "a.journal-wal", "notes.txt"):
        trace.with_name(name).write_text("words\n")
    _, text, _ = call(capsys, str(trace.parent))
    assert text.count("note: skipped") == 1
    assert "notes.txt" in text
    assert not any(name in text for name in ("a.toml", "a.crt", "a.key", "a.journal"))
    trace.with_name("a.journal.mark").unlink()
    _, text, _ = call(capsys, str(trace.parent))
    assert "a.toml" in text, "in another folder it may be a file that was meant"


def test_without_paths(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, said = call(capsys, str(trace), "--paths", "0")
    assert said["violations"][0]["path"] is None


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_no_event_at_all_is_unknown_unless_that_is_fine(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / f"empty.{kind}"
    (write_jsonl if kind == "jsonl" else write_parquet)([], empty)
    code, text, said = call(capsys, str(empty))
    assert (code, said["verdict"], said["events"], said["quarantine"]) == (1, "unknown", 0, [])
    assert "no event to judge" in text
    code, _, said = call(capsys, str(empty), "--allow-empty")
    assert (code, said["verdict"]) == (0, "causal")


def test_many_runs_the_worst_first_and_hops_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events: list[Event] = []
    for number in range(30):
        events += parse("a!1>b b?a1", run=f"fine{number:02}")
    events += parse(VIOLATED, run="zbad") + parse("a!1>b b?a1", run="zbad/hops")
    events += [e for e in parse("a!1>b a. b?a1", run="ygap") if e.kind != "internal"]
    events += [Event("ygap", "c", 3, "internal")]
    file = tmp_path / "runs.jsonl"
    write_jsonl(events, file)
    _, text, said = call(capsys, str(file))
    shown = [line.split()[0] for line in text.splitlines() if line.startswith("  ") and line.split()]
    assert shown.index("zbad") < shown.index("ygap") < shown.index("fine00")
    assert shown[-1] == "zbad/hops"
    assert "32 runs: 1 violated, 1 unknown, 30 causal" in text
    assert [run["run"] for run in said["hops"]] == ["zbad/hops"]
    assert len(said["runs"]) == 32


def test_control_characters_never_reach_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [
        Event("r\x1b[2J", "a", 1, "send", "m\x07", ("b",)), Event("r\x1b[2J", "a", 2, "send", "n\n", ("b",)),
        Event("r\x1b[2J", "b", 1, "deliver", "n\n"), Event("r\x1b[2J", "b", 2, "deliver", "m\x07"),
    ]  # fmt: skip
    file = tmp_path / "odd.jsonl"
    write_jsonl(events, file)
    _, text, said = call(capsys, str(file))
    assert said["violations"][0]["missing"] == "m\x07"
    assert not {"\x1b", "\x07"} & set(text)
    assert "m\\x07" in text


def test_findings_as_parquet(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "findings"
    _, _, said = call(capsys, str(trace), "--out", str(folder))
    assert pq.read_table(folder / "violations.parquet").to_pylist() == said["violations"]
    assert pq.read_table(folder / "runs.parquet").to_pylist() == said["runs"]
    assert {file.stem for file in folder.iterdir()} == {
        "runs", "violations", "possible", "undelivered", "duplicates", "misdelivered", "quarantine",
    }  # fmt: skip
    code, _, _ = call(capsys, str(trace), "--out", str(folder))
    assert code == 2


def test_explain_draws_one_violation(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(trace)]) == 1
    text = capsys.readouterr().out
    assert "c delivered b1 before a1" in text
    assert "<- too early: a1 is missing" in text
    assert main(["explain", str(trace), "--violation", "2"]) == 2
    assert "there is no violation 2; there is 1" in capsys.readouterr().err


def test_explain_keeps_the_decisive_end_of_a_long_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A chain of forty messages, at the end of which z hears what it should have heard first."""
    names = [f"{first}{second}" for first in "abcd" for second in "abcdefghij"]
    chain = ["aa!1>ab,z"]
    for here, there in zip(names[1:], [*names[2:], "z"], strict=True):
        chain += [f"{here}?{names[names.index(here) - 1]}1", f"{here}!1>{there},"]
    chain += [f"z?{names[-1]}1", "z?aa1"]
    file = tmp_path / "long.jsonl"
    write_jsonl(parse(" ".join(chain)), file)
    assert main(["explain", str(file)]) == 1
    text = capsys.readouterr().out
    assert "<- too early: aa1 is missing" in text
    assert "<- too late" in text
    assert "left out" in text


def test_explain_of_a_causal_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fine.jsonl"
    write_jsonl(parse("a!1>b b?a1"), file)
    assert main(["explain", str(file)]) == 0
    assert "no violation to explain" in capsys.readouterr().out


def test_the_route_is_said_when_asked_for(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["audit", str(trace), "--verbose"])
    assert "route: whole:" in capsys.readouterr().err
    main(["audit", str(trace), "--quiet"])
    assert capsys.readouterr() == ("", "")


def test_an_interrupt_ends_it_with_a_sentence(tmp_path: Path) -> None:
    """A thread that sleeps stands for long work in a kernel."""
    program = (
        "import signal, sys, thence.tables.engines.local.audit as local\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started us beside itself\n"
        "def forever(*a, **k):\n"
        "    from thence.tables.judge.threads import in_threads\n"
        "    import time\n"
        "    def work(_):\n"
        "        print('working', flush=True)\n"
        "        time.sleep(600)\n"
        "    return next(in_threads(work, [1], 1))\n"
        "local.audit_trace = forever\n"
        "from thence.cli import main\n"
        "sys.exit(main(['audit', sys.argv[1]]))\n"
    )
    file = tmp_path / "trace.jsonl"
    write_jsonl(parse(VIOLATED), file)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "working\n"
        os.kill(running.pid, signal.SIGINT)
        _, error = running.communicate(timeout=300)
    assert running.returncode == 130
    assert error.count("\n") == 1
    assert "interrupted" in error


def test_a_table_of_arrivals_is_no_trace_and_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows without kind, the first index of which cannot be told from none: set aside, never a traceback."""
    file = tmp_path / "arrivals.jsonl"
    rows = [{"run": "r", "destination": "d", "message": "a1", "index": index} for index in (0, 1, None)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["audit", str(file)]) == 1
    assert "set aside, 3 rows: kind is missing" in capsys.readouterr().out
    assert main(["show", str(file), "--out", str(tmp_path / "page.html")]) == 2
    assert "the trace has no event to draw" in capsys.readouterr().err


def test_words_of_a_log_for_its_kinds_are_mapped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.jsonl"
    words = {"send": "PRODUCED", "deliver": "CONSUMED"}
    rows = [row_of(event) for event in parse("a!1>b b?a1")]
    file.write_text("".join(json.dumps(row | {"kind": words[str(row["kind"])]}) + "\n" for row in rows))
    code, text, _ = call(capsys, str(file))
    assert code == 1
    assert "give --kinds YOURS=send,..." in text
    code, _, said = call(capsys, str(file), "--kinds", "PRODUCED=send,CONSUMED=deliver")
    assert (code, said["verdict"], said["quarantine"]) == (0, "causal", [])
    assert main(["audit", str(file), "--kinds", "PRODUCED=sent"]) == 2
    assert "one of crash, deliver, internal, receive, send is accepted" in capsys.readouterr().err
    assert main(["audit", str(file), "--kinds", "PRODUCED"]) == 2
    assert "--kinds PRODUCED: YOURS=OURS,... is accepted" in capsys.readouterr().err


def test_a_column_that_was_named_and_is_not_there_is_said_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(json.dumps(row_of(event)) + "\n" for event in parse("a!1>b b?a1")))
    assert main(["audit", str(file), "--columns", "message=x"]) == 2
    assert "none of its rows has x; found: destinations, index, kind, message" in capsys.readouterr().err


def test_the_run_is_named_only_where_there_are_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"run": run, "process": p, "index": i, "kind": k, "message": m} | ({"destinations": d} if d else {})
        for run in ("r", "s")
        for p, i, k, m, d in (
            ("a", 1, "send", "a1", ["c"]), ("a", 2, "send", "a2", ["c"]),
            ("c", 1, "deliver", "a2", None), ("c", 2, "deliver", "a1", None),
        )
    ]  # fmt: skip
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_text("".join(json.dumps(row) + "\n" for row in rows[:4]))
    two.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["audit", str(one)]) == 1
    said = capsys.readouterr().out
    assert said.splitlines()[:3] == [
        "verdict: violated",
        "4 events, 2 messages, 1 violation",
        "1. c delivered a2 before a1, though a1 happened before a2: a sent a1, then sent a2",
    ]
    assert main(["audit", str(two)]) == 1
    said = capsys.readouterr().out
    assert "2. run s: c delivered a2 before a1" in said
    assert "gaps" not in said
    assert main(["audit", str(one), "--verbose"]) == 1
    assert "judged in this process" in capsys.readouterr().err
