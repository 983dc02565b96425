"""Printing for people: sentences, and tables that fit the width of the terminal.

Without rich, which takes 0.1 s to load; only progress bars and help texts use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from shutil import get_terminal_size
from textwrap import wrap
from typing import TextIO
from unicodedata import combining, east_asian_width

from thence.core.model.escape import visible, visible_lines

WIDE = 200
"""columns of a table that no terminal limits"""


class Console:
    """Prints to a stream; control characters are shown as escapes. Long sentences are wrapped on a terminal only."""

    def __init__(self, stream: TextIO, *, quiet: bool = False, width: int | None = None) -> None:
        """Take the width of the terminal, if the stream is one, unless another is given."""
        self.stream, self.quiet = stream, quiet
        self.wraps = stream.isatty()
        self.width = width or (get_terminal_size().columns if self.wraps else WIDE)

    def print(self, shown: str | ConsoleTable = "") -> None:
        """Print a text, or a table."""
        if self.quiet:
            return
        if isinstance(shown, ConsoleTable):
            lines = list(shown.lines(self.width))
        else:
            lines = [part for line in visible_lines(shown).split("\n") for part in self._wrapped(line)]
        self.stream.write("".join(f"{line}\n" for line in lines))

    def _wrapped(self, line: str) -> list[str]:
        if not self.wraps or cells(line) <= self.width:
            return [line]
        # continuation lines of a numbered list are indented below its text
        begins = re.match(r" *(?:\d+\. )?", line)
        indent = " " * (len(begins[0]) if begins else 0)
        return wrap(line, self.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]


class ConsoleTable:
    """A table for `Console.print`; too wide a table becomes several, each with the first column.

    *Invariant.* Only words longer than a third of a line are broken.
    """

    def __init__(self, names: Sequence[str], body: list[list[object]], title: str | None) -> None:
        """Take the names of the columns and the rows; columns of numbers are aligned right, None is empty."""
        self.title = title
        self.cells = [list(names), *(["" if cell is None else visible(str(cell)) for cell in row] for row in body)]
        columns = [[row[place] for row in body] for place in range(len(names))]
        self.numbers = [bool(each) and all(isinstance(cell, int | float | None) for cell in each) for each in columns]

    def lines(self, width: int) -> Iterator[str]:
        """Yield the lines of the fewest tables that fit the width."""
        line = width - 1  # one blank at the left margin, three between columns
        columns = list(zip(*self.cells, strict=True))
        whole = [max(map(cells, column)) + 3 for column in columns]
        words = [max((cells(word) for cell in column for word in cell.split()), default=0) for column in columns]
        least = [min(word, line // 3) + 3 for word in words]
        pieces = [[0]]
        for place in range(1, len(columns)):
            if len(pieces[-1]) > 1 and sum(least[each] for each in pieces[-1]) + least[place] > line:
                pieces.append([0])
            pieces[-1].append(place)
        for number, places in enumerate(pieces):
            widths = {each: least[each] for each in places}
            while sum(widths.values()) < line and (lacking := [each for each in places if widths[each] < whole[each]]):
                widths[min(lacking, key=widths.__getitem__)] += 1
            yield from self._piece({place: each - 3 for place, each in widths.items()}, None if number else self.title)

    def _piece(self, widths: dict[int, int], title: str | None) -> Iterator[str]:
        names, *body = self.cells
        if title is not None:
            yield title
        yield ""
        yield from self._row(names, widths, below=True)
        yield f" {'─' * (sum(widths.values()) + 3 * len(widths) - 1)}"
        for row in body:
            yield from self._row(row, widths)
        yield ""

    def _row(self, row: list[str], widths: dict[int, int], *, below: bool = False) -> Iterator[str]:
        """Yield the lines of a row; cells of fewer lines stand at the top, or below."""
        folded = [fold(row[place], width) for place, width in widths.items()]
        height = max(map(len, folded))
        for each in folded:
            each[0 if below else len(each) : 0 if below else len(each)] = [""] * (height - len(each))
        for line in zip(*folded, strict=True):
            padded = []
            for (place, width), text in zip(widths.items(), line, strict=True):
                blanks = " " * (width - cells(text))
                padded.append(f"{blanks}{text}" if self.numbers[place] else f"{text}{blanks}")
            yield f"  {'   '.join(padded)}".rstrip()


def table(*columns: str, rows: Iterable[Iterable[object]], title: str | None = None) -> ConsoleTable:
    """Return a plain table; columns of numbers are aligned right, None is empty."""
    return ConsoleTable(columns, [list(row) for row in rows], title)


def cells(text: str) -> int:
    """Return the width of a text in columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def fold(text: str, width: int) -> list[str]:
    """Break a text into lines: between words, and within those that are longer than a line."""
    lines = [""]
    for word in text.split():
        if lines[-1] and cells(lines[-1]) + 1 + cells(word) <= width:
            lines[-1] += f" {word}"
            continue
        if lines[-1]:
            lines.append("")
        for char in word:
            if lines[-1] and cells(lines[-1]) + cells(char) > width:
                lines.append("")
            lines[-1] += char
    return lines
