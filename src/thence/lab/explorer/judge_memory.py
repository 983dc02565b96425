"""The part of an execution's past that its judgement still needs.

Invariant: a *fact* is "this message is addressed to that process". A fact is *outstanding* from the send of the
message to its delivery there. For each process and each message with outstanding facts keep the outstanding
facts in its causal past. Delivering m at d is a violation iff an outstanding fact about d is in the past of
m.

Why that is enough. By definition (`core/model/order.py`) d delivers `early` too soon iff some `missing`, addressed
to d and sent causally before `early`, has not been delivered at d: iff the fact (missing, d) is outstanding
and in the past of `early`. The updates are closed: a send copies the past of the process to the message and
adds the message's own facts to the process; a delivery adds the message's past and facts to the process and
removes one fact everywhere. What has been removed never comes back, so two executions with the same
outstanding pasts are judged alike forever, regardless of the rest.

The weaker guarantees differ only in what a delivery teaches: FIFO teaches nothing, two-hop teaches the
messages that the sender had sent. `Needed` keeps, on request, the two sets behind the propagation constraints
of KS98 (`core/model/minimum.py`).

Sets of facts are ints: bit (slot * processes + destination), slot = sender * limit + count - 1.
"""

from __future__ import annotations

from functools import cached_property
from itertools import permutations
from typing import NamedTuple

from thence.core.model.order import Guarantee
from thence.core.model.roster import positions

Perm = tuple[int, ...]


class Space:
    """The numbering of facts for this many processes and messages."""

    def __init__(self, processes: int, limit: int) -> None:
        """Take the number of processes and the greatest count of messages any of them can reach."""
        self.n, self.limit = processes, limit
        self._moved: dict[Perm, dict[int, int]] = {}

    def slot(self, sender: int, count: int) -> int:
        """Return the number of a message."""
        return sender * self.limit + count - 1

    def message(self, slot: int) -> tuple[int, int]:
        """Return sender and count of a slot."""
        return slot // self.limit, slot % self.limit + 1

    def facts(self, slot: int, destinations: int) -> int:
        """Return the facts of a message."""
        return destinations << slot * self.n

    def bit(self, slot: int, destination: int) -> int:
        """Return the bit of one fact: a message slot with a destination."""
        return 1 << slot * self.n + destination

    def of_sender(self, sender: int) -> int:
        """Return every possible fact of a sender."""
        width = self.limit * self.n
        return ((1 << width) - 1) << sender * width

    @cached_property
    def about(self) -> tuple[int, ...]:
        """Return, for each process, every possible fact about it."""
        column = sum(1 << slot * self.n for slot in range(self.n * self.limit))
        return tuple(column << d for d in range(self.n))

    def renamed_slot(self, slot: int, perm: Perm) -> int:
        """Return the slot after processes changed names."""
        sender, rest = divmod(slot, self.limit)
        return perm[sender] * self.limit + rest

    def renamed(self, facts: int, perm: Perm) -> int:
        """Return the facts after processes changed names."""
        table = self._moved.setdefault(perm, {})
        found = table.get(facts)
        if found is None:
            found = 0
            for place in positions(facts):
                slot, d = divmod(place, self.n)
                found |= 1 << self.renamed_slot(slot, perm) * self.n + perm[d]
            table[facts] = found
        return found

    def perms(self) -> list[Perm]:
        """Return every way to rename the processes."""
        return list(permutations(range(self.n)))


class CausalPast(NamedTuple):
    """Outstanding facts, the causal past of each process among them, and the fates of copies."""

    known: tuple[int, ...]
    """by process: outstanding facts in its causal past"""
    carried: tuple[tuple[int, int], ...] = ()
    """(slot, outstanding facts that must come before) for each message with outstanding facts, by slot"""
    out: int = 0
    """outstanding facts"""
    held: int = 0
    """outstanding facts whose copy was received"""
    lost: int = 0
    """outstanding facts whose copy was lost"""
    told: int = 0
    """messages (bit = slot) that a process delivered and that have outstanding facts; crash properties only"""


def sent(
    past: CausalPast, space: Space, process: int, slot: int, destinations: int, guarantee: Guarantee
) -> CausalPast:
    """Return the past after a send."""
    facts = space.facts(slot, destinations)
    before = past.out & space.of_sender(process) if guarantee == "fifo" else past.known[process]
    carried = tuple(sorted((*past.carried, (slot, before))))
    known = past.known
    if guarantee != "fifo":
        known = (*known[:process], known[process] | facts, *known[process + 1 :])
    return past._replace(known=known, carried=carried, out=past.out | facts)


def too_early(past: CausalPast, space: Space, process: int, slot: int) -> int:
    """Return the outstanding facts about `process` that must come before message `slot` there."""
    for other, before in past.carried:
        if other == slot:
            return before & space.about[process] & ~space.bit(slot, process)
    return 0


def after_delivery(
    past: CausalPast, space: Space, process: int, slot: int, guarantee: Guarantee, *, tell: bool
) -> CausalPast:
    """Return the past after the first delivery of a message at a process it is addressed to."""
    bit = space.bit(slot, process)
    of_message = (((1 << space.n) - 1) << slot * space.n) & past.out
    learned = 0
    if guarantee == "causal":
        learned = of_message | next(before for other, before in past.carried if other == slot)
    elif guarantee == "two-hop":
        sender, count = space.message(slot)
        upto = space.facts(space.slot(sender, count), (1 << space.n) - 1)
        learned = past.out & space.of_sender(sender) & ((1 << upto.bit_length()) - 1)
    known = tuple((facts | learned if p == process else facts) & ~bit for p, facts in enumerate(past.known))
    left = of_message & ~bit
    carried = tuple((other, before & ~bit) for other, before in past.carried if other != slot or left)
    slots = 0
    if tell:
        slots = past.told | 1 << slot if left else past.told & ~(1 << slot)
    return CausalPast(known, carried, past.out & ~bit, past.held & ~bit, past.lost & ~bit, slots)


def gone(past: CausalPast, space: Space, process: int) -> CausalPast:
    """Return the past after a crash: no fact is outstanding at that process any more."""
    return never_arriving(
        past._replace(known=(*past.known[:process], 0, *past.known[process + 1 :])), space, 1 << process
    )


def never_arriving(past: CausalPast, space: Space, crashed: int) -> CausalPast:
    """Return the past without the facts about processes that have crashed."""
    facts = sum(space.about[p] for p in positions(crashed))
    if not past.out & facts:
        return past
    out = past.out & ~facts
    alive = {place // space.n for place in positions(out)}
    return CausalPast(
        tuple(known & ~facts for known in past.known),
        tuple((slot, before & ~facts) for slot, before in past.carried if slot in alive),
        out,
        past.held & ~facts,
        past.lost & ~facts,
        sum(1 << slot for slot in positions(past.told) if slot in alive),
    )


def renamed_past(past: CausalPast, space: Space, perm: Perm) -> tuple[object, ...]:
    """Return the past with other names for the processes, as a sortable key."""
    move = space.renamed
    known = [0] * space.n
    for p, facts in enumerate(past.known):
        known[perm[p]] = move(facts, perm)
    carried = sorted((space.renamed_slot(slot, perm), move(before, perm)) for slot, before in past.carried)
    slots = sum(1 << space.renamed_slot(slot, perm) for slot in positions(past.told))
    return (
        tuple(known), tuple(carried), move(past.out, perm), move(past.held, perm), move(past.lost, perm), slots
    )  # fmt: skip


def local(past: CausalPast, space: Space, process: int) -> tuple[object, ...]:
    """Return the part that judges deliveries at one process when no process sends any more."""
    about = space.about[process]
    carried = tuple((slot, before & about) for slot, before in past.carried if past.out & space.bit(slot, process))
    return (carried, past.out & about, past.held & about, past.lost & about)


class Needed(NamedTuple):
    """For each process and message: facts of its past, and those of them that PC1 or PC2 ended there."""

    processes: tuple[tuple[int, int], ...]
    messages: tuple[tuple[int, int, int], ...] = ()
    """(slot, past and own facts, ended), by slot, for messages that can still be delivered somewhere"""

    def in_log(self, process: int) -> int:
        """Return the facts that the dependency log of a process must hold, and no others."""
        past, ended = self.processes[process]
        return past & ~ended

    def on_copy(self, space: Space, process: int, destinations: int, destination: int) -> int:
        """Return the facts that the copy to `destination` of a message sent now must carry, and no others."""
        others = destinations & ~(1 << destination)
        hidden = sum(space.about[d] for d in positions(others))
        return self.in_log(process) & ~hidden

    def sent(self, space: Space, process: int, slot: int, destinations: int) -> Needed:
        """A send ends every fact of its past about its destinations (PC2)."""
        past, ended = self.processes[process]
        covered = sum(space.about[d] for d in positions(destinations))
        ended |= past & covered
        past |= space.facts(slot, destinations)
        messages = tuple(sorted((*self.messages, (slot, past, ended))))
        return self._at(process, past, ended)._replace(messages=messages)._clean()

    def delivered(self, space: Space, process: int, slot: int, *, last: bool) -> Needed:
        """A delivery joins pasts and ends its own fact (PC1)."""
        past, ended = self.processes[process]
        for other, theirs, theirs_ended in self.messages:
            if other == slot:
                past, ended = past | theirs, ended | theirs_ended
        result = self._at(process, past, ended | space.bit(slot, process))
        if last:
            result = result._replace(messages=tuple(m for m in self.messages if m[0] != slot))
        return result._clean()

    def _at(self, process: int, past: int, ended: int) -> Needed:
        known = self.processes
        return self._replace(processes=(*known[:process], (past, ended), *known[process + 1 :]))

    def _clean(self) -> Needed:
        """Forget facts that are ended wherever they are known: no process can ever need them again.

        A message that can still be delivered knows its own facts, so what it will teach counts as known.
        """
        live = 0
        for past, ended in (*self.processes, *((p, e) for _, p, e in self.messages)):
            live |= past & ~ended
        return Needed(
            tuple((past & live, ended & live) for past, ended in self.processes),
            tuple((slot, past & live, ended & live) for slot, past, ended in self.messages),
        )

    def renamed(self, space: Space, perm: Perm) -> tuple[object, ...]:
        """Return it with other names, as a sortable key."""
        move = space.renamed
        known: list[tuple[int, int]] = [(0, 0)] * space.n
        for p, (past, ended) in enumerate(self.processes):
            known[perm[p]] = (move(past, perm), move(ended, perm))
        moved = sorted((space.renamed_slot(s, perm), move(p, perm), move(e, perm)) for s, p, e in self.messages)
        return (tuple(known), tuple(moved))
