"""Tables on a terminal: whatever its width, words and numbers stay whole."""

from __future__ import annotations

import json
import os
import sys
from io import StringIO
from pathlib import Path

import pytest

from thence import cli
from thence.cli._console import Console, table

NAMES = (
    "protocol", "entries/copy", "facts/copy", "bytes/copy", "bytes/message", "once warm", "paper bytes/message",
    "log size", "log max", "waiting", "seconds/copy", "deferred", "hops", "stuck", "passed over because",
)  # fmt: skip
ROWS = [
    ["serial-multicast", 8.489, 5.341, 39.47, 155.3, 159.4, 1242.4, 8.986, 16, 0.3162, 0.01701, 7, 6, 5, "it waits"],
    ["rst", 64.0, None, 74.64, 293.6, 298.4, 1007.0, 64.0, 64, 0.3162, 0.01702, 1, 2, 3, "acknowledgements are sent"],
]  # fmt: skip


def shown(width: int, *names: str, rows: list[list[object]], title: str | None = None) -> str:
    out = StringIO()
    Console(out, width=width).print(table(*names, rows=rows, title=title))
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_words_and_numbers_are_not_broken(width: int) -> None:
    lines = shown(width, *NAMES, rows=ROWS, title="costs").splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    for cell in (cell for row in (NAMES, *ROWS) for cell in row if cell is not None):
        assert set(str(cell).split()) <= set(words)
    assert words.count("costs") == 1


def test_what_does_not_fit_follows_below_with_the_first_column() -> None:
    said = shown(80, *NAMES, rows=ROWS)
    pieces = said.count("serial-multicast")
    assert pieces == said.count("rst") == said.count("protocol") == 3
    assert shown(200, *NAMES, rows=ROWS).count("serial-multicast") == 1


def test_a_table_of_one_column_or_none_of_rows() -> None:
    assert "held" in shown(80, "held", rows=[])
    assert shown(20, "held", rows=[["x" * 50]]).count("x") == 50


def test_a_long_word_takes_the_room_of_no_other() -> None:
    said = shown(80, "what", "found", "what to do", rows=[["python", "/a/" + "long/" * 20, "nothing"]])
    assert said.count("python") == 1
    assert "nothing" in said


def test_short_columns_are_given_their_room_first() -> None:
    rows: list[list[object]] = [["ks", "a long text " * 20, "causes only", "another text " * 15]]
    said = shown(100, "protocol", "what it is", "waits for", "source", rows=rows)
    assert "waits for" in said
    assert "causes only" in said


def test_commands_print_one_table_on_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("thence.cli._console.WIDE", 80)
    cli.main(["simulate", "--messages", "60", "--trace", "run.jsonl", "-q"])
    cli.main(["simulate", "--messages", "60", "--protocol", "unordered", "--trace", "two.jsonl", "-q"])
    rows = [{"id": f"a-rather-long-id-{n}", "parent": f"another-rather-long-id-{n % 3}"} for n in range(9)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    deliver = ["deliver", "rows.jsonl", "--id", "id", "--causes", "parent", "--out", "out.jsonl"]
    for command, tables in (
        (["cost", "run.jsonl"], 1),
        (["protocols"], 2),
        (["audit", "run.jsonl", "two.jsonl"], 1),
        (deliver, 1),
    ):
        capsys.readouterr()
        cli.main(command)
        said = capsys.readouterr().out
        assert said.count("\n ──") == tables, said
        heads = [line for line in said.splitlines() if line.startswith(("  protocol ", "  run ", "  waiting "))]
        assert len(heads) <= tables


def test_diagrams_and_numbered_sentences_fit_into_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    simulated = ["simulate", "--protocol", "unordered", "--processes", "5", "--messages", "60", "--seed", "3"]
    cli.main([*simulated, "--trace", "late.jsonl", "-q"])
    monkeypatch.setattr("thence.cli._console.get_terminal_size", lambda: os.terminal_size((80, 24)))
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    capsys.readouterr()
    wrapped = 0
    for command in (["audit", "late.jsonl"], *(["explain", "late.jsonl", "--violation", str(n)] for n in range(1, 9))):
        assert cli.main(command) == 1
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80
        assert not any(line.strip() in ("missing", "is missing") for line in lines), "a remark stays beside its event"
        wrapped += sum(line.startswith("   ") for line in lines if command[0] == "audit")
    assert wrapped > 10, "sentences go on below their text"
