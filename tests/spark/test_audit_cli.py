"""`thence audit` end to end: exit codes, JSON in the contract's form, sentences for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from thence.cli.audit import audit
from thence.model.events import parse
from thence.trace.jsonl import write_jsonl
from thence.trace.parquet import write_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("spark")]
VIOLATED = "a!1>bc b?a1 b!1>c c?b1 c?a1"
app = typer.Typer()
app.command()(audit)


def call(*arguments: str) -> tuple[int, str, dict[str, Any]]:
    out = Path(arguments[0]).parent / "out.json"
    done = CliRunner().invoke(app, [*arguments, "--json", str(out)], catch_exceptions=False)
    return done.exit_code, done.output, json.loads(out.read_text())


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_violation_is_said_in_a_sentence(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"trace.{kind}"
    (write_jsonl if kind == "jsonl" else write_parquet)(parse(VIOLATED), file)
    code, text, said = call(str(file))
    assert code == 1
    assert "c delivered b1 before a1, though a1 happened before b1: b delivered a1, then sent b1" in text
    assert said.keys() == {
        "verdict", "runs", "events", "messages", "violations", "undelivered", "duplicates", "misdelivered",
        "quarantine", "clocks",
    }  # fmt: skip
    assert (said["verdict"], said["events"], said["messages"]) == ("violated", 5, 2)
    (violation,) = said["violations"]
    assert [step["message"] for step in violation.pop("path")] == ["a1", "a1", "b1"]
    assert violation == {"run": "run", "destination": "c", "early": "b1", "missing": "a1"}


def test_undelivered_alone_is_fine_and_a_cut_line_is_not(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    write_jsonl(parse("a!1>bc b?a1"), file)
    code, _, said = call(str(file))
    assert (code, said["verdict"], len(said["undelivered"])) == (0, "causal", 1)
    with file.open("ab") as stream:
        stream.write(b'\n{"run": "run", "proc')
    code, text, said = call(str(file))
    assert (code, said["verdict"]) == (1, "unknown")
    assert said["quarantine"][0]["line"] == 4
    assert f"{file}:4" in text


def test_logs_with_clocks(tmp_path: Path) -> None:
    file = tmp_path / "some.log"
    file.write_text('a {"a":1}\nsend\nb {"b":1, "a":5}\ngot it\n')
    code, text, said = call(str(file))
    assert code == 1
    assert said["clocks"][0].keys() == {"file", "line", "host", "rule", "found"}
    assert "ahead" in text


def test_without_paths(tmp_path: Path, spark: SparkSession) -> None:
    file = tmp_path / "trace.jsonl"
    write_jsonl(parse(VIOLATED), file)
    _, _, said = call(str(file), "--paths", "0")
    assert said["violations"][0]["path"] is None
    assert spark is not None


def test_files_that_hold_no_trace(tmp_path: Path) -> None:
    junk = tmp_path / "junk.parquet"
    junk.write_bytes(b"junk")
    code, text, said = call(str(junk))
    assert (code, said["verdict"], said["events"]) == (1, "unknown", 0)
    assert "it cannot be read as Parquet" in said["quarantine"][0]["reason"]
    assert str(junk) in text.replace("\n", "")
    for kind in ("jsonl", "parquet"):
        empty = tmp_path / f"empty.{kind}"
        (write_jsonl if kind == "jsonl" else write_parquet)([], empty)
        _, text, said = call(str(empty))
        assert "no event to judge" in text
        assert (said["events"], said["violations"], said["quarantine"]) == (0, [], [])
