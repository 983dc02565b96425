"""Tables on a terminal: whatever its width, words and numbers stay whole."""

from __future__ import annotations

from io import StringIO

import pytest

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
