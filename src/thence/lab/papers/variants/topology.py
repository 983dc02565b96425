"""Printed forms of `ech-r9`, for tests, the explorer and chapter 7 only.

Two fail: what the conditions of R9 are for (errata 15). Each brings a topology of its own as the default of its option,
so that a script over a, b, c, ... can play it. One is safe, but its histories grow forever.
"""

from __future__ import annotations

from collections.abc import Iterable

from thence.core.model.message import Copy
from thence.core.protocols.ech import ECH, Elements
from thence.core.protocols.ech_r9 import ECHR9, Cut
from thence.core.protocols.effects import Effect
from thence.lab.explorer.setting import Variant

SQUARE = "ab:d|c;ab:c|d"
"""a and b each linked to c and d: the smallest separator of two"""
LINE = "a:c|b"
"""b - a - c"""


class Unreported(ECHR9):
    """R9 without `S ⊆ C_p(n)`: an element for the backward set is left out, whether or not all of S knows it."""

    name = "ech-r9-unreported"
    code = 150
    usual_separators = SQUARE

    def _omits(self, cut: Cut, address: int, reported: int) -> bool:
        return not address & ~cut.backward


class Anywhere(ECHR9):
    """R9 where "a message can always be sent to any set of processes" (section 4.1), past separators too."""

    name = "ech-r9-anywhere"
    code = 151
    usual_separators = LINE

    def _place(self, separators: str) -> None:
        super()._place(separators)
        self.reach = self.roster.everyone


class Letter(ECH):
    """R6.3 to the letter: only elements that arrive learn from later ones of their sender, not those that are there."""

    name = "ech-letter"
    code = 153

    def _delivered(self, copy: Copy) -> list[Effect]:
        self.arriving = {s: (group, dict(self.history.get(s, {}))) for s, group in copy.stamp[0].items()}
        effects = super()._delivered(copy)
        del self.arriving
        return effects

    def _take_over_from_earlier(self, history: Elements, senders: Iterable[int]) -> None:
        for sender, (group, there) in self.arriving.items():
            elements = history[sender]
            for count, _ in group:
                address, reported = elements[count]
                for other, (later, _) in there.items():
                    if other > count:
                        reported |= later
                elements[count] = (address, reported)


class Growing(Letter, ECHR9):
    """The same with R9: safe, and its histories grow forever."""

    name = "ech-r9-growing"
    code = 152


VARIANTS: tuple[Variant, ...] = (
    Variant(Unreported, "ech-r9", 15, "unsafe", "R9 without S ⊆ C_p(n)", "a!1>c a!2>d d<a2 d!1>b b<d1 b!1>c c<b1",
        processes=4),
    Variant(Anywhere, "ech-r9", 15, "unsafe", "4.1: a message can always be sent to any set of processes in P",
        "a!1>b a!2>c c<a2 c!1>b b<c1"),
)  # fmt: skip
