"""Draws the house: the rooms in the order of the import rules, and the way of a message and of a table through them.

Law. A flow is a line with stations from the top down, and every station but the first imports an earlier one of its
line: a flow that the imports in the code do not bear is an error. The same code gives the same bytes.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from html import escape

from rooms import ROOT, holds, imported, layers, source_of

PICTURE = ROOT / "docs" / "pictures" / "house.svg"
MESSAGE = ["model", "protocols", "runtime", "cli"]
TABLE = ["kernels", "delivery", "sources", "trace", "auditing", "costing", "spark", "report", "cli"]
FLOWS = {"message": MESSAGE, "table": TABLE}

WIDTH, MARGIN, GUTTER, GAP = 400, 8, 26, 8
INNER = WIDTH - 2 * (MARGIN + GUTTER)
HALF = (INNER - GAP) // 2
TOP = 40
STYLE = """
.paper{fill:#fff;stroke:#d6d9e0}.room{fill:#f3f4f8;stroke:#aab0c0}.name{fill:#16181d;font-weight:600;font-size:13px}
.says{fill:#454b5a;font-size:11px}.message{stroke:#1d5fd1;fill:none}.table{stroke:#b3540a;fill:none}
.message-word{fill:#1d5fd1;font-size:12px}.table-word{fill:#b3540a;font-size:12px}
.message-station{fill:#1d5fd1}.table-station{fill:#b3540a}
@media (prefers-color-scheme:dark){.paper{fill:#14161c;stroke:#333845}.room{fill:#20242e;stroke:#4a5163}
.name{fill:#f1f3f8}.says{fill:#b7bdcb}.message{stroke:#7fb0ff}.table{stroke:#f2a45c}.message-word,.message-station{fill:#7fb0ff}
.table-word,.table-station{fill:#f2a45c}}
"""


@dataclass(frozen=True, slots=True)
class Box:
    """Where a room is drawn."""

    room: str
    x: int
    y: int
    width: int
    height: int


def unfounded() -> list[str]:
    """Return what the imports do not bear in the flows, a sentence each."""
    return [
        f"the flow of a {flow} has {room} after {', '.join(stations[:place])}, and {room} imports none of them"
        for flow, stations in FLOWS.items()
        for place, room in enumerate(stations)
        if place and not imported(room) & set(stations[:place])
    ]


def lines_of(rooms: list[str]) -> list[tuple[str | None, str | None]]:
    """Put rooms that do not know each other in pairs: left those of messages, right those of tables."""
    left = [room for room in rooms if room in MESSAGE]
    right = [room for room in rooms if room in TABLE and room not in MESSAGE]
    for room in rooms:
        if room not in left + right:
            (left if len(left) <= len(right) else right).append(room)
    size = max(len(left), len(right))
    return list(zip(left + [None] * (size - len(left)), right + [None] * (size - len(right)), strict=True))


def boxes() -> list[Box]:
    """Return the rooms with their places, from the top down."""
    found: list[Box] = []
    x, y = MARGIN + GUTTER, TOP
    for names in layers():
        for pair in lines_of([name for name in names if source_of(name)]):
            rooms = [room for room in pair if room]
            alone = len(rooms) == 1
            height = 28 if alone else 24 + 12 * max(len(wrapped(room)) for room in rooms)
            for room, at in zip(rooms, (0, HALF + GAP), strict=False):
                found.append(Box(room, x + at, y, INNER if alone else HALF, height))
            y += height + GAP
    return found


def says(room: str) -> str:
    """Return the first words of what a room holds."""
    source = source_of(room)
    assert source is not None
    return re.split(r"[:;.]|, as ", holds(source).replace("`", ""))[0].replace("->", "→")


def wrapped(room: str) -> list[str]:
    """Return these words in lines that fit half the width."""
    return textwrap.wrap(says(room), 24)


def drawn_room(box: Box) -> list[str]:
    """Return a room as SVG."""
    alone = box.width == INNER
    out = [
        f'<rect class="room" x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="5"/>',
        f'<text class="name" x="{box.x + 9}" y="{box.y + 18}">{box.room}</text>',
    ]
    start, below = (box.x + 86, box.y + 18) if alone else (box.x + 9, box.y + 32)
    for number, line in enumerate(
        [textwrap.shorten(says(box.room), 40, placeholder=" …")] if alone else wrapped(box.room)
    ):
        out.append(f'<text class="says" x="{start}" y="{below + 12 * number}">{escape(line)}</text>')
    return out


def drawn_flow(flow: str, places: dict[str, Box]) -> list[str]:
    """Return a flow as SVG: a line in its gutter, and a station at each of its rooms."""
    stations = [places[room] for room in FLOWS[flow]]
    left = flow == "message"
    line = MARGIN + GUTTER // 2 if left else WIDTH - MARGIN - GUTTER // 2
    heights = [box.y + box.height // 2 for box in stations]
    edges = [box.x if left else box.x + box.width for box in stations]
    stubs = "".join(f"M{line} {y}H{edge}" for y, edge in zip(heights, edges, strict=True))
    out = [f'<path class="{flow}" stroke-width="3" d="M{line} {TOP - 8}V{heights[-1]}{stubs}"/>']
    out += [f'<circle class="{flow}-station" cx="{line}" cy="{y}" r="5"/>' for y in heights]
    anchor = "start" if left else "end"
    at = MARGIN + 6 if left else WIDTH - MARGIN - 6
    return [*out, f'<text class="{flow}-word" x="{at}" y="{TOP - 14}" text-anchor="{anchor}">a {flow}</text>']


def picture() -> str:
    """Return the picture."""
    placed = boxes()
    height = placed[-1].y + placed[-1].height + MARGIN + 4
    places = {box.room: box for box in placed}
    body = [part for box in placed for part in drawn_room(box)]
    body += [part for flow in FLOWS for part in drawn_flow(flow, places)]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" font-family="system-ui, sans-serif"><title>The rooms of thence, and the way of a message and of a '
        f'table through them</title><style>{STYLE}</style><rect class="paper" x="1" y="1" width="{WIDTH - 2}" '
        f'height="{height - 2}" rx="8"/>'
    )
    return "\n".join([head, *body, "</svg>"]) + "\n"
