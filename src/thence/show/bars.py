"""Bars as SVG, without a library: what a report of a command can draw wherever it runs.

Colours are fixed; a page inverts pictures in dark mode (`results_page`).
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

HEIGHT, LABEL, WIDE, VALUE = 26, 190, 420, 110
"""pixels: of a bar with its gap, and the widths of names, bars and numbers"""


def bars(rows: Sequence[tuple[str, float, str]], *, lit: str = "") -> bytes:
    """Return horizontal bars: for each its name, its length and the text behind it; the one called `lit` stands out."""
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
