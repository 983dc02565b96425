"""One HTML page from tables, pictures and sentences: self-contained, no scripts, light and dark; and bars as SVG.

*Invariant.* All input is text and is escaped, pictures excepted: those are SVG of our own making, put into the
page as data, so that their ids do not meet. The same parts give the same page, to the byte. Bars need no library; their
colours are fixed, and a page inverts pictures in dark mode.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from re import sub
from urllib.parse import quote

from thence.tables.result_table import ResultTable, marked_up

HEIGHT, LABEL, WIDE, VALUE = 26, 190, 420, 110
"""pixels: of a bar with its gap, and the widths of names, bars and numbers"""


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG with its caption."""

    svg: bytes
    caption: str

    def html(self) -> str:
        """Return it as a figure."""
        data = b64encode(self.svg).decode()
        image = f'<img alt="{escape(self.caption)}" src="data:image/svg+xml;base64,{data}">'
        return f"<figure>{image}<figcaption>{marked_up(self.caption)}</figcaption></figure>\n"


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; with `plain` preformatted text, such as a diagram or a command."""

    text: str
    plain: bool = False

    def html(self) -> str:
        """Return the paragraph as HTML, escaped."""
        return f"<pre>{escape(self.text)}</pre>\n" if self.plain else f"<p>{marked_up(self.text)}</p>\n"


@dataclass(frozen=True, slots=True)
class Links:
    """Texts that lead to files beside the page."""

    to: Sequence[tuple[str, str]]

    def html(self) -> str:
        """Return them as a list; the names of files are escaped as addresses are."""
        items = "".join(f'<li><a href="{escape(quote(file))}">{marked_up(text)}</a></li>' for text, file in self.to)
        return f"<ul>{items}</ul>\n"


Part = ResultTable | Picture | Paragraph | Links


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its content."""

    title: str
    parts: Sequence[Part]

    @property
    def anchor(self) -> str:
        """Its anchor in the page."""
        return sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


def results_page(title: str, sections: Iterable[Section], *, lead: str = "") -> str:
    """Return the page: title, lead sentence, table of contents, sections."""
    given = list(sections)
    links = "".join(f'<li><a href="#{each.anchor}">{marked_up(each.title)}</a></li>' for each in given)
    body = "".join(
        f'<section id="{each.anchor}">\n<h2>{marked_up(each.title)}</h2>\n{"".join(map(_part, each.parts))}</section>\n'
        for each in given
    )
    head = '<head>\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    head += f"<title>{escape(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n"
    top = (
        f"<h1>{escape(title)}</h1>\n"
        + (f"<p>{marked_up(lead)}</p>\n" if lead else "")
        + f"<nav><ul>{links}</ul></nav>\n"
    )
    return f'<!doctype html>\n<html lang="en">\n{head}<body>\n{top}{body}</body>\n</html>\n'


def _part(part: Part) -> str:
    return f'<div class="wide">{part.html()}</div>\n' if isinstance(part, ResultTable) else part.html()


# In dark mode plots are inverted and their hues turned back: matplotlib writes fixed colours into its SVG.
STYLE = """\
:root { color-scheme: light dark; --ink: #1c2430; --back: #fff; --line: #d5dae1; --soft: #5c6775;
  --good: #1d8049; --bad: #c22f43; --open: #8f5f00; }
@media (prefers-color-scheme: dark) { :root { --ink: #dfe5ec; --back: #14181e; --line: #343c47; --soft: #9aa5b1;
  --good: #51cf86; --bad: #ff8f9c; --open: #ffb74d; }
  img { filter: invert(.91) hue-rotate(180deg); } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); }
body { max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
nav ul { padding-left: 1.2rem; } a { color: inherit; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { text-align: left; vertical-align: top; padding: .2rem .6rem; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; } .number { text-align: right; }
.good, .bad, .open { font-weight: 600; }
.good { color: var(--good); } .bad { color: var(--bad); } .open { color: var(--open); }
table + p, figcaption { color: var(--soft); font-size: 13px; margin-top: -.5rem; }
figure { margin: 1rem 0; } img { max-width: 100%; background: #fff; } figcaption { margin-top: 0; }
pre { overflow-x: auto; font-size: 13px; padding: .6rem; border: 1px solid var(--line); }
@media (max-width: 45em) { td:not(.number):not(:first-child) { min-width: 9rem; }
  td:not(.number):last-child { min-width: 16rem; } }
"""


def bars(rows: Sequence[tuple[str, float, str]], *, lit: str = "") -> bytes:
    """Return horizontal bars, each with a name, a length and a text; the bar named `lit` is highlighted."""
    longest = max((length for _, length, _ in rows), default=0.0) or 1.0
    height = HEIGHT * len(rows) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL + WIDE + VALUE}" height="{height}" '
        f'viewBox="0 0 {LABEL + WIDE + VALUE} {height}" font-family="system-ui, sans-serif" font-size="13">'
    ]
    for place, (name, length, text) in enumerate(rows):
        top, width = place * HEIGHT + 4, max(1.0, WIDE * length / longest)
        color = "#d1495b" if name == lit else "#1f6f8b"
        parts += [
            f'<text x="{LABEL - 8}" y="{top + 15}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LABEL}" y="{top}" width="{width:.1f}" height="{HEIGHT - 6}" fill="{color}"/>',
            f'<text x="{LABEL + width + 6:.1f}" y="{top + 15}">{escape(text)}</text>',
        ]
    return ("\n".join([*parts, "</svg>"]) + "\n").encode()
