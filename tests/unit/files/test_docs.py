"""docs/reference/trace.md says what the code does: its table, its commands and its example are run."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from thence.cli import main
from thence.core.model.events import parse
from thence.tables.contract.columns import EVENT_COLUMNS
from thence.tables.files.jsonl import write_jsonl
from thence.tables.files.line_reader import LINE_LIMIT

PAGE = (Path(__file__).parents[3] / "docs" / "reference/trace.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_table_of_columns_is_the_schema() -> None:
    rows = [f"| {c.name} | {c.type} | {'yes' if c.required else 'no'} | {c.meaning} |" for c in EVENT_COLUMNS]
    assert "\n".join(rows) in PAGE
    assert LINE_LIMIT == 64 * 2**20


def test_the_reading_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traces").mkdir()
    write_jsonl(parse("a!1>bc b?a1"), tmp_path / "traces" / "one.jsonl")
    (code,) = [text for kind, text in BLOCKS if kind == "python" and "open_trace" in text]
    here: dict[str, object] = {}
    exec(code, here)
    assert here["event"] == parse("a!1>bc b?a1")[1]
    assert here["batch"].num_rows == 2  # type: ignore[attr-defined]
    assert here["split"].file == "traces/one.jsonl"  # type: ignore[attr-defined]


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_jsonl(parse("a!1>bc b?a1 b!1>c c?b1 c?a1"), tmp_path / "trace.jsonl")
    commands = re.findall(r"^\$ thence (.*)$", PAGE, re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        assert main(shlex.split(command)) == 0, command
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "trace.jsonl").read_bytes()


def test_the_example_prints_what_it_says() -> None:
    (code,) = [text for kind, text in BLOCKS if kind == "python" and "print" in text]
    said = BLOCKS[BLOCKS.index(("python", code)) + 1][1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/reference/trace.md", "exec"), {})
    assert printed.getvalue().rstrip("\n") == said.rstrip("\n")


def test_the_reasons_are_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from thence.tables.files.read import open_trace

    monkeypatch.chdir(tmp_path)
    good = '{"run":"r","process":"a","index":1,"kind":"internal"}'
    bad = [good.replace("internal", "sent"), good.replace("1", "0"), good[:30]]
    Path("trace.jsonl").write_text("\n".join([good, good.replace("1", "2"), *bad]))
    trace = open_trace("trace.jsonl")
    assert len(list(trace.events())) == 2
    assert "\n".join(str(each) for each in trace.quarantine) in PAGE
