"""Properties, each judged where it can first fail: at a delivery, a send, a reception, or at the end."""

from __future__ import annotations

from typing import NamedTuple

from thence.core.model.message import Copy
from thence.core.model.order import Guarantee
from thence.core.model.roster import positions
from thence.core.protocols.base import Member
from thence.core.protocols.effects import Sent
from thence.lab.explorer import judge_memory
from thence.lab.explorer.judge_memory import CausalPast, Needed, Space


class Problem(NamedTuple):
    """A property that does not hold: at which process, concerning which messages (slots, -1 for none)."""

    property: str
    process: int
    message: int = -1
    other: int = -1


class Judge:
    """The chosen properties of one protocol."""

    def __init__(self, space: Space, protocol: type[Member], properties: frozenset[str]) -> None:
        """Take the numbering of facts and the names of the properties, see `properties.py`."""
        self.space, self.n, self.protocol, self.properties = space, space.n, protocol, properties
        orders: tuple[Guarantee, ...] = ("causal", "two-hop", "fifo")
        self.guarantee: Guarantee = next((g for g in orders if f"{g} order" in properties), "causal")

    def delivery(self, past: CausalPast, process: int, slot: int) -> Problem | None:
        """Judge a delivery against the outstanding facts."""
        if not past.out & self.space.bit(slot, process):
            return Problem("no duplicates", process, slot)
        early = judge_memory.too_early(past, self.space, process, slot)
        order = f"{self.guarantee} order"
        if early and order in self.properties:
            return Problem(order, process, slot, next(positions(early)) // self.n)
        return None

    def waiting(self, past: CausalPast, process: int) -> Problem | None:
        """Judge the copies that a process still holds after a step."""
        if "no needless waiting" not in self.properties:
            return None
        for place in positions(past.held & self.space.about[process]):
            slot = place // self.n
            if not judge_memory.too_early(past, self.space, process, slot):
                return Problem("no needless waiting", process, slot)
        return None

    def genuine(self, copies: tuple[Copy, ...]) -> Problem | None:
        """Judge which processes send on behalf of a message."""
        if "genuine" in self.properties:
            for copy in copies:
                party = copy.destinations | 1 << copy.sender
                for process in (copy.source, copy.destination):
                    if not party >> process & 1:
                        return Problem("genuine", process, self.space.slot(copy.sender, copy.count))
        return None

    def copies(self, needed: Needed, process: int, sent: Sent) -> Problem | None:
        """Judge the facts on the copies of a send."""
        for copy in sent.copies:
            carried = 0
            for message, mask in self.protocol.dependencies(copy) or []:
                carried |= self.space.facts(self.space.slot(message.sender, message.count), mask)
            if carried != needed.on_copy(self.space, process, sent.destinations, copy.destination):
                return Problem("exact facts", process, self.space.slot(copy.sender, copy.count))
        return None

    def log(self, needed: Needed | None, process: int, member: Member | None) -> Problem | None:
        """Judge the facts in the dependency log of a process."""
        if needed is None or member is None:
            return None
        held = 0
        for message, destination in member.log_facts() or ():
            held |= self.space.bit(self.space.slot(message.sender, message.count), destination)
        return None if held == needed.in_log(process) else Problem("exact facts", process)

    def bound(self, process: int, member: Member | None) -> Problem | None:
        """Judge how many messages a process has sent in its present epoch."""
        if "bounded sends" not in self.properties or member is None:
            return None
        over = getattr(member, "ticks", 0) > getattr(member, "bound", 0)
        return Problem("bounded sends", process) if over else None

    def at_rest(self, past: CausalPast, process: int, member: Member, crashed: int | None) -> Problem | None:
        """Judge a process at which nothing more happens unless a process sends; `crashed` is None where no process
        may.
        """
        due = past.out & ~past.lost & self.space.about[process]
        if past.lost:
            due &= ~self._behind_losses(past, process)
        for place in positions(due):
            slot = place // self.n
            name = self._broken(past, slot, crashed)
            if name in self.properties:
                return Problem(name, process, slot)
        waiting = not due and any(pending.what == "send" for pending in member.pending())
        name = "liveness" if crashed is None else "validity"
        return Problem(name, process) if waiting and name in self.properties else None

    def _broken(self, past: CausalPast, slot: int, crashed: int | None) -> str:
        """Return the property that an undelivered message breaks at a correct process; "" for none."""
        sender, _ = self.space.message(slot)
        if crashed is None:
            return "liveness"
        if not crashed >> sender & 1:
            return "validity"
        return "uniform agreement" if past.told >> slot & 1 else ""

    def _behind_losses(self, past: CausalPast, process: int) -> int:
        """Return the facts about a process that wait, by definition, for a lost copy."""
        lost, found = past.lost & self.space.about[process], 0
        for slot, before in past.carried:
            if before & lost:
                found |= self.space.bit(slot, process)
        return found
