"""Rodrigues and Veríssimo 1995, section 4.3: extended causal histories with topological timestamping, R1 to R9.

Invariant: processes speak only to their neighbours in a communication graph. A *causal separator* is a set S of them
with a forward set F and a backward set B, such that no process of F is a neighbour of one of B. When a member p of S
stamps a message addressed within F, it leaves out what is addressed within B and has been reported to all of S (R9):
a process that wants to tell B of its consequences must pass through S, where it is known. Otherwise this is `ech`.

Needs a topology: `separators`, as in `d:abc|efg;...`, is S, its forward and its backward set; names of more than one
letter are separated by commas, as in `da,db:na,pa|dc,nc`. A separator that works both ways is written twice. The
neighbours of a process are those that no separator divides from it: of all graphs that have these separators, the one
with the most links. A send to any other process is refused, for R9 is unsafe then (errata 15). Without separators every
process is every other's neighbour, and this is `ech`.

The process that joins stands in no separator, and has no neighbours until `place` says where it stands. If it joins a
separator, the other members `hand_over` their histories in the same step in which they take the new separators, and it
must `take_over` all of them before anything else (section 4.4; `thence.lab.topology.joins` says who does what when).
A process that leaves keeps its place in the separators, and counts as informed of everything.

Cost: the elements of the history that concern this side, and those that speak of the separator itself.

Departures:

- R9: `S ⊆ C_p(n)` is read as the sentence before it has it, "reported to the *other* members": p itself knows n, though
  its own carbon copy says so only after its next send.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import ClassVar, NamedTuple

from thence.core.model.message import Copy
from thence.core.model.roster import Roster
from thence.core.protocols.ech import ECH, Elements, add_elements
from thence.core.protocols.effects import Sent
from thence.core.wire.codec import BOOL, TEXT, Optional, RecordShape, Seq, Shape
from thence.core.wire.dependency_log_cy import Group, Log
from thence.core.wire.reader_cy import Reader
from thence.core.wire.words_cy import put_varint
from thence.errors import MisuseError, PeerError

MOST_STEPS = 1 << 22
"""separators times processes that are worked out"""


class Cut(NamedTuple):
    """A causal separator as masks over the roster."""

    members: int
    forward: int
    backward: int


def cuts_of(text: str, roster: Roster) -> tuple[Cut, ...]:
    """Parse separators; raise an error that explains what is invalid."""
    return tuple(_cut(part, roster) for part in text.split(";") if part)


def _cut(part: str, roster: Roster) -> Cut:
    members, colon, sides = part.partition(":")
    forward, bar, backward = sides.partition("|")
    if not colon or not bar or "|" in backward:
        raise MisuseError(f"separator {part!r} is not MEMBERS:FORWARD|BACKWARD; d:abc|efg is accepted")
    masks = [roster.mask(roster.names_in(names)) for names in (members, forward, backward)]
    for mask, what in zip(masks, ("members", "forward set", "backward set"), strict=True):
        if not mask:
            raise MisuseError(f"separator {part!r} has no {what}; each of the three needs a process")
    cut = Cut(*masks)
    twice = cut.members & (cut.forward | cut.backward) | cut.forward & cut.backward
    if twice:
        raise MisuseError(f"separator {part!r} names {', '.join(roster.members(twice))} twice; its sets are disjoint")
    return cut


def text_of(cuts: Iterable[Cut], roster: Roster) -> str:
    """Write separators with commas, so that they mean the same under every later roster of the lineage."""
    parts = [[",".join(roster.members(mask)) for mask in cut] for cut in cuts]
    return ";".join(f"{members}:{forward}|{backward}" for members, forward, backward in parts)


def neighbours(cuts: Iterable[Cut], roster: Roster) -> tuple[int, ...]:
    """Return for each process the mask of those that no separator divides from it, itself among them."""
    reach = [roster.everyone] * len(roster)
    for members, forward, backward in cuts:
        for place in range(len(roster)):
            bit = 1 << place
            sides = [side for side in (members | forward, members | backward) if side & bit]
            reach[place] &= bit | (sides[0] if sides else 0) | (sides[-1] if sides else 0)
    return tuple(reach)


@lru_cache(maxsize=256)
def read_separators(text: str, roster: Roster) -> tuple[str, tuple[Cut, ...], tuple[int, ...]]:
    """Read separators once for all members: the text with commas, the masks, and the neighbours of each process."""
    cuts = cuts_of(text, roster)
    if len(cuts) * len(roster) > MOST_STEPS:
        raise MisuseError(
            f"{len(cuts)} separators over {len(roster)} processes; {MOST_STEPS // len(roster)} are accepted"
        )
    return text_of(cuts, roster), cuts, neighbours(cuts, roster)


class ECHR9(ECH):
    """Causal histories with carbon copies that separators filter."""

    name = "ech-r9"
    code = 50
    options: ClassVar[dict[str, Shape]] = {"carbon": BOOL, "separators": TEXT}
    handed: ClassVar[Shape] = Seq(RecordShape(Optional(TEXT), ECH.fields["history"]))
    """what a member of a separator hands to one that joins it: its history under each label"""
    usual_separators: ClassVar[str] = ""
    """the separators of a member that is given none"""

    def __init__(
        self,
        roster: Roster,
        process: str | int,
        *,
        label: str | None = None,
        carbon: bool = False,
        separators: str = "",
    ) -> None:
        """Take the separators as text."""
        super().__init__(roster, process, label=label, carbon=carbon)
        self._place(separators or self.usual_separators)

    def place(self, separators: str) -> None:
        """Take the separators that hold from now on."""
        for order in self.orders():
            order._place(separators)

    def _place(self, separators: str) -> None:
        self.separators, cuts, reach = read_separators(separators, self.roster)
        self.mine = tuple(cut for cut in cuts if cut.members & self.bit)
        self.reach = reach[self.me]

    def _join(self) -> None:
        self._place(self.separators)

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        beyond = destinations & ~self.reach
        if beyond:
            names, here = self.roster.members, self.roster.name(self.me)
            raise MisuseError(
                f"{here} sends to {', '.join(names(beyond))} past a separator of {self.separators!r}; "
                f"neighbours of {here}: {', '.join(names(self.reach & ~self.bit)) or 'none'}"
            )
        return super()._send(destinations, context, token)

    def _stamp(self, destinations: int) -> tuple[Log, Log]:
        """R7, then R9."""
        addresses, carbon = super()._stamp(destinations)
        closed = [cut for cut in self.mine if not destinations & ~cut.forward]
        return (self._filtered(addresses, closed), self._filtered(carbon, closed)) if closed else (addresses, carbon)

    def _filtered(self, log: Log, closed: list[Cut]) -> Log:
        kept: dict[int, Group] = {}
        for sender, group in log.items():
            elements = self.history[sender]
            rest = tuple(entry for entry in group if not any(self._omits(c, *elements[entry[0]]) for c in closed))
            if rest:
                kept[sender] = rest
        return Log(kept)

    def _omits(self, cut: Cut, address: int, reported: int) -> bool:
        """R9: return whether the forward set need not get an element; processes that left are skipped."""
        return not address & ~cut.backward and not cut.members & ~(reported | self.bit | self.gone)

    def worth_telling(self, destinations: int | Iterable[str], *, label: str | None = None) -> tuple[str, ...]:
        """Return the processes to send to first, so that R9 leaves more out of a message to these destinations.

        Section 4.3: carbon copies can be forced by a message to the relevant processes, here to the members of a
        separator to which something that is addressed within its backward set has not been reported.
        """
        mask = destinations if isinstance(destinations, int) else self.roster.mask(destinations)
        order = self if label == self.label else self._order(label, MisuseError)
        told_nothing = 0
        for cut in self.mine:
            if not mask & ~cut.forward:
                for elements in order.history.values():
                    for address, reported in elements.values():
                        if not address & ~cut.backward and mask & ~reported:
                            told_nothing |= cut.members & ~(reported | self.bit | self.gone)
        return self.roster.members(told_nothing)

    def _check(self, copy: Copy) -> None:
        super()._check(copy)
        if not self.reach >> copy.sender & 1:
            sender, here = self.roster.name(copy.sender), self.roster.name(self.me)
            raise PeerError(f"message {self._name(copy)} of {sender} came straight to {here}, past a separator")

    # -- section 4.4: joining a separator ----------------------------------------------------------------------------

    def hand_over(self, process: str | None = None) -> bytes:
        """Return this member's knowledge, for stable memory or for a process that will take it over.

        That process counts as informed of all of it from now on.
        """
        bit = 0 if process is None else 1 << self.roster.position(process)
        orders = self.orders()
        for order in orders:
            for elements in order.history.values():
                for count, (address, reported) in elements.items():
                    elements[count] = (address, reported | bit & ~address)
        out = bytearray()
        put_varint(out, self.size)
        self.handed.write([(order.label, order.history) for order in orders], out, self.size)
        return bytes(out)

    def take_over(self, *histories: bytes) -> None:
        """Take over the knowledge of members of a separator, before anything was sent or received."""
        if self.count or self.history or self.receiver.held or any(self.receiver.delivered):
            raise MisuseError(f"{self.roster.name(self.me)} has sent or received already; it takes over before that")
        for data in histories:
            for label, history in self._read_handed(data):
                order = self if label == self.label else self._order(label, PeerError)
                self.keep(order)
                add_elements(order.history, history)

    def _read_handed(self, data: bytes) -> list[tuple[str | None, Elements]]:
        reader = Reader(data, self.size)
        size = reader.varint()
        if size > self.size:
            raise PeerError(
                f"a history under a roster of {size} was handed to a member that knows {self.size} processes"
            )
        reader.size = size
        found: list[tuple[str | None, Elements]] = self.handed.read(reader)
        reader.done()
        return found
