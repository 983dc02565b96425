"""A table as data, and the ways to show it: cells for a terminal, HTML for a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from re import sub

Cell = str | int | float | None
TONES = {
    "reproduced": "good", "causal": "good", "differs": "bad", "violated": "bad", "fitted": "open",
    "not determinable": "open",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A title, columns, rows, and a note below that explains them."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def cells(self) -> list[list[str]]:
        """Return the rows as texts: numbers short, nothing for None."""
        return [[text(cell) for cell in row] for row in self.rows]

    def html(self) -> str:
        """Return the table as HTML; columns of numbers have the class `number`, verdicts one of `TONES`."""
        numeric = [_numeric(row[place] for row in self.rows) for place in range(len(self.columns))]

        def line(cells: Sequence[str], tag: str) -> str:
            kinds = ("number" if number else TONES.get(c, "") for c, number in zip(cells, numeric, strict=True))
            marks = (f' class="{kind}"' if kind else "" for kind in kinds)
            return "".join(f"<{tag}{mark}>{marked_up(c)}</{tag}>" for c, mark in zip(cells, marks, strict=True))

        body = "".join(f"<tr>{line(row, 'td')}</tr>\n" for row in self.cells())
        head = f"<thead><tr>{line(self.columns, 'th')}</tr></thead>"
        note = f"<p>{marked_up(self.note)}</p>\n" if self.note else ""
        return f"<table>\n<caption>{marked_up(self.title)}</caption>\n{head}\n<tbody>\n{body}</tbody>\n</table>\n{note}"


def marked_up(words: str) -> str:
    """Return a text as HTML: escaped, and what stands between backticks as code."""
    return sub(r"`([^`]+)`", r"<code>\1</code>", escape(words))


def text(cell: Cell) -> str:
    """Return a cell as text: whole numbers whole, others with four digits that count."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.4g}" if abs(cell) < 10_000 else f"{cell:.0f}"
    return str(cell)


def _numeric(cells: Iterable[Cell]) -> bool:
    return all(cell is None or isinstance(cell, int | float) for cell in cells)
