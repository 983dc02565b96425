"""Draws docs/pictures/overtaking.svg, the picture of the README: a payment overtakes its order.

    python tools/overtaking.py            write the picture
    python tools/overtaking.py --check    say whether it is current (exit code 1 if not)

*Invariant.*
Given are the times at which copies leave and arrive; whether an arrival is held or delivered, and when, is what the
members of the protocol say. The same code gives the same bytes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from thence.core.model.message import Copy
from thence.protocols import Deliver, Hold, Member, create

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "overtaking.svg"
NAMES = ("shop", "billing", "ledger")
WORDS = {"shop1": "ordered", "billing1": "paid"}
PANELS = (("unordered", "as they arrive"), ("ks", "with thence"))

LEFT, PACE, LANE, HEAD, PANEL, WIDTH = 66, 34, 38, 44, 142, 420
STYLE = """
.paper{fill:#fff;stroke:#d6d9e0}.lane{stroke:#b9bfcc}.word,.head{fill:#16181d}.word{font-size:12px}
.head{font-size:13px;font-weight:600}.copy{stroke:#1d5fd1;fill:none}.dot{fill:#1d5fd1}.said{fill:#1d5fd1;font-size:12px}
.held{stroke:#b3540a;stroke-dasharray:3 3;fill:none}.holds{fill:#b3540a;font-size:12px}
.early{fill:#c4162a;font-size:12px}
.early-dot{fill:#c4162a}
@media (prefers-color-scheme:dark){.paper{fill:#14161c;stroke:#333845}.lane{stroke:#4a5163}.word,.head{fill:#f1f3f8}
.copy{stroke:#7fb0ff}.dot,.said{fill:#7fb0ff}.held{stroke:#f2a45c}.holds{fill:#f2a45c}.early,.early-dot{fill:#ff8a94}}
"""


@dataclass(slots=True)
class Drawing:
    """One panel: how the ledger fares under a protocol."""

    protocol: str
    title: str
    top: int
    held: dict[str, float] = field(default_factory=dict)
    delivered: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    def at(self, name: str, time: float) -> tuple[float, float]:
        """Return the point of a process at a time."""
        return LEFT + PACE * time, self.top + HEAD + LANE * NAMES.index(name)

    def draw(self) -> list[str]:
        """Run the story, and return the panel as SVG."""
        self.parts.append(f'<text class="head" x="16" y="{self.top + 22}">{self.title}</text>')
        for name in NAMES:
            (x, y), (end, _) = self.at(name, 0), self.at(name, 9.9)
            self.parts.append(
                f'<path class="lane" d="M{x} {y}H{end}"/><text class="word" x="16" y="{y + 4}">{name}</text>'
            )
        shop, billing, ledger = (create(self.protocol, NAMES, name) for name in NAMES)
        order = {NAMES[copy.destination]: copy for copy in shop.send(["billing", "ledger"]).copies}
        self.arrow(order["billing"], "shop", 0.6, "billing", 2)
        billing.receive(order["billing"])
        (payment,) = billing.send(["ledger"]).copies
        self.arrow(payment, "billing", 3, "ledger", 4.4)
        self.arrives(ledger, payment, 4.4)
        self.arrow(order["ledger"], "shop", 0.6, "ledger", 7)
        self.arrives(ledger, order["ledger"], 7)
        return self.parts

    def arrow(self, copy: Copy, source: str, left: float, destination: str, arrived: float) -> None:
        """Draw a copy on its way."""
        (x, y), (to_x, to_y) = self.at(source, left), self.at(destination, arrived)
        self.parts.append(f'<path class="copy" stroke-width="1.6" d="M{x} {y}L{to_x} {to_y}" marker-end="url(#tip)"/>')
        self.parts.append(f'<circle class="dot" cx="{x}" cy="{y}" r="3.5"/>')

    def arrives(self, ledger: Member, copy: Copy, time: float) -> None:
        """Draw what the ledger makes of an arrival."""
        for effect in ledger.receive(copy):
            name = WORDS[f"{NAMES[effect.copy.sender]}1"]
            if isinstance(effect, Hold):
                self.held[name] = time
            elif isinstance(effect, Deliver):
                self.deliver(name, time + 1.7 * (name in self.held))

    def deliver(self, name: str, time: float) -> None:
        """Draw a delivery, and the wait before it."""
        x, y = self.at("ledger", time)
        if name in self.held:
            start, _ = self.at("ledger", self.held[name])
            self.parts.append(f'<path class="held" stroke-width="4" d="M{start} {y}H{x}"/>')
            self.parts.append(
                f'<text class="holds" x="{start}" y="{y + 18}" text-anchor="middle">{name} is held</text>'
            )
        self.delivered.append(name)
        early = name == "paid" and "ordered" not in self.delivered
        dot, word, text = ("early-dot", "early", f"{name}: too early") if early else ("dot", "said", name)
        self.parts.append(f'<circle class="{dot}" cx="{x}" cy="{y}" r="5"/>')
        self.parts.append(f'<text class="{word}" x="{x}" y="{y + 18}" text-anchor="middle">{text}</text>')


def picture() -> str:
    """Return the picture."""
    panels = [Drawing(protocol, title, number * PANEL) for number, (protocol, title) in enumerate(PANELS)]
    height = PANEL * len(panels) + 8
    title = "A payment overtakes its order: delivered too early, or held until the order is there"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" font-family="system-ui, sans-serif"><title>{title}</title><style>{STYLE}</style>'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" '
        'markerWidth="7" markerHeight="7" orient="auto"><path class="dot" d="M0 0L8 4L0 8z"/></marker></defs>'
        f'<rect class="paper" x="1" y="1" width="{WIDTH - 2}" height="{height - 2}" rx="8"/>'
    )
    return "\n".join([head, *(part for panel in panels for part in panel.draw()), "</svg>"]) + "\n"


def main() -> int:
    """Write the picture, or with --check compare it."""
    if "--check" in sys.argv[1:]:
        current = PICTURE.exists() and PICTURE.read_text() == picture()
        print(f"{PICTURE.name} is {'current' if current else 'not current: run python tools/overtaking.py'}")
        return 0 if current else 1
    PICTURE.write_text(picture())
    return 0


if __name__ == "__main__":
    sys.exit(main())
