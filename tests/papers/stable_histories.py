"""Rodrigues and Veríssimo, section 4.5: extended causal histories that forget what is delivered everywhere.

Invariant: a message is *fully delivered* once every process it is addressed to has delivered it; no process needs to
wait for it any more, so its identifier leaves the history. A member knows it in two ways. By incoming stamps: the
process that sends a stamp that names m of another process, and is addressed by m, has delivered m, for it delivers
nothing that follows m before; of what it sent to itself, which travels like any other copy here, its stamps do not
tell. By time: in a synchronous system everything is delivered within some Δ; members know no clock, so what drives
them says what is old enough.

By incoming stamps it forgets nothing that R8 keeps: the process that sends a stamp that names m counts as informed of m
(R6.3), which is enough for R8. It is for histories without carbon copies. By time it forgets what was reported to no
process.

An identifier that was forgotten may come back with the stamp of a process that has not forgotten it; that is safe.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from thence.core.model.message import Copy, MessageId
from thence.core.model.roster import Roster
from thence.core.protocols.ech import ECH
from thence.core.protocols.effects import Effect
from thence.core.wire.codec import BOOL, MASK, ByCount, ByProcess, Shape
from thence.errors import MisuseError


class StableHistories(ECH):
    """`ech` that notices who has delivered what; `by_stamps=False` listens to the driver alone."""

    name = "ech-stable"
    code = 195
    fields: ClassVar[dict[str, Shape]] = {**ECH.fields, "confirmed": ByProcess(ByCount(MASK))}
    options: ClassVar[dict[str, Shape]] = {"carbon": BOOL, "by_stamps": BOOL}

    def __init__(
        self,
        roster: Roster,
        process: str | int,
        *,
        label: str | None = None,
        carbon: bool = False,
        by_stamps: bool = True,
    ) -> None:
        """Start with nothing confirmed."""
        super().__init__(roster, process, label=label, carbon=carbon)
        self.by_stamps = by_stamps
        self.confirmed: dict[int, dict[int, int]] = {}
        """{sender: {count: who is known to have delivered it}}, of elements of the history"""

    def _delivered(self, copy: Copy) -> list[Effect]:
        effects = super()._delivered(copy)
        if self.by_stamps:
            for sender, group in copy.stamp[0].items():
                by = self.bit if sender == copy.sender else 1 << copy.sender | self.bit
                for count, _ in group:
                    self._confirm(sender, count, by)
            self._confirm(copy.sender, copy.count, self.bit)
            self._forget_confirmed()
        return effects

    def _confirm(self, sender: int, count: int, by: int) -> None:
        known = self.confirmed.setdefault(sender, {})
        known[count] = known.get(count, 0) | by

    def fully_delivered(self, messages: Iterable[MessageId], *, label: str | None = None) -> None:
        """Forget messages of one label that are old enough to be delivered everywhere."""
        order = self if label == self.label else self._order(label, MisuseError)
        for message in messages:
            order._confirm(message.sender, message.count, self.roster.everyone)
        order._forget_confirmed()

    def _forget_confirmed(self) -> None:
        """Drop elements that all of their address has delivered, and what was noted of elements that are gone."""
        kept: dict[int, dict[int, int]] = {}
        for sender, counts in self.confirmed.items():
            elements = self.history.get(sender, {})
            for count, known in counts.items():
                if count in elements and not elements[count][0] & ~known:
                    del elements[count]
                elif count in elements:
                    kept.setdefault(sender, {})[count] = known
        self.confirmed = kept
        self._forget()
