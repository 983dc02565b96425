"""Nédelec, Molli and Mostéfaoui, "Breaking the scalability barrier of causal broadcast", 2018: PC-broadcast.

Invariant: processes are joined by an overlay of FIFO links, and each forwards a broadcast over all its links the first
time it receives it. A link from p to q is *safe* if whatever p delivered before it sends something over the link has
reached q before that arrives. Over safe links alone, first receipts come in causal order: nothing waits, and a stamp
carries nothing but the name of the message.

A new link would be a shortcut past messages still on their way (`pc-broadcast-eager` shows it). So p first floods a
*ping* over its safe links; FIFO links keep it behind all that p delivered before. From then on p keeps what it delivers
in a buffer for the new link. The ping reaches q after all that p delivered before it, and q answers with a *pong*. On
the pong p sends the buffer over the new link, which is safe from then on (`connect`).

Needs broadcast only, FIFO links and an overlay: `overlay`, as in `a:bc;b:d`, joins a with b and c, and b with d, in
both directions; names of more than one letter are separated by commas, as in `n1:n2,n3`. By default it is a ring. It
must join all processes, and membership is fixed. Cost: nothing in a stamp; each broadcast crosses about every link;
delivery takes as many hops as the overlay has; a new link takes a flooded ping, a pong and a buffer.

Departures:

- The first paper's text was not at hand, only its abstract, its authors' slides and their simulation: this is the rule
  as those describe it.
- A ping is flooded, where the authors send it through a mediator that is a neighbour of both.
- No copy goes back to the process it came from, nor to the sender of the message: both have it.
- Links are reliable and are not closed, so buffers have no bound and no ping is repeated.
- A message whose predecessor from the same sender has not come is refused: a link that is not FIFO, or lost a copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import ClassVar, Self

from thence.core.model.message import MESSAGE, Copy, MessageId
from thence.core.model.roster import Roster, positions
from thence.core.protocols.base import REACHED
from thence.core.protocols.bss import check_broadcast
from thence.core.protocols.effects import Duplicate, Effect, Sent, Transmit
from thence.core.protocols.receiver import ClockMember, Needs
from thence.core.protocols.unordered import NOTHING
from thence.core.protocols.wire import PAIR
from thence.core.wire.codec import INT, MASK, TEXT, ByProcess, RecordShape, Seq, Shape, Vector
from thence.errors import MisuseError, PeerError

PING, PONG = "ping", "pong"
MessageNumber = tuple[int, int]
"""(sender, count)"""


@lru_cache(maxsize=64)
def read_overlay(text: str, roster: Roster) -> tuple[int, ...]:
    """Return the neighbours of each process as masks; a ring where the text is empty."""
    size = len(roster)
    near = [0] * size
    for p, q in _pairs(text, roster) if text else [(p, (p + 1) % size) for p in range(size)]:
        if p != q:
            near[p] |= 1 << q
            near[q] |= 1 << p
    reached, frontier = 1, 1
    while frontier:
        frontier = _union(near[p] for p in positions(frontier)) & ~reached
        reached |= frontier
    if reached != roster.everyone:
        apart = ", ".join(roster.members(roster.everyone & ~reached))
        raise MisuseError(f"overlay {text!r} has no path from {roster.name(0)} to {apart}; it must join all processes")
    return tuple(near)


def _pairs(text: str, roster: Roster) -> Iterable[tuple[int, int]]:
    for part in filter(None, text.split(";")):
        one, colon, others = part.partition(":")
        if not colon or one not in roster or not others:
            raise MisuseError(f"overlay {text!r}: {part!r} is not PROCESS:NEIGHBOURS; a:bc;b:d is accepted")
        for other in roster.names_in(others):
            yield roster.position(one), roster.position(other)


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


class PCBroadcast(ClockMember):
    """Flooding over safe FIFO links, and links that become safe."""

    name = "pc-broadcast"
    code = 51
    cannot_abandon = "messages come by way of its neighbours, and what it has not forwarded may come from it alone"
    options: ClassVar[dict[str, Shape]] = {"overlay": TEXT}
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: NOTHING, PING: NOTHING, PONG: NOTHING}
    fields: ClassVar[dict[str, Shape]] = {
        "links": MASK,
        "pings": INT,
        "heard": Vector(INT),
        "opening": ByProcess(RecordShape(INT, Seq(PAIR))),
    }

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None, overlay: str = "") -> None:
        """Take the overlay as text."""
        super().__init__(roster, process, label=label)
        self.overlay = overlay
        self.links = read_overlay(overlay, roster)[self.me]
        """the processes to which a safe link leads"""
        self.pings = 0
        """pings sent"""
        self.heard = [0] * self.size
        """number of the latest ping received of each process"""
        self.opening: dict[int, tuple[int, list[MessageNumber]]] = {}
        """links that are not safe yet: the number of the ping, and what was delivered since"""

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """Return no needs: every arrival over a safe link is ready."""
        return ()

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        self._no_context(context)
        check_broadcast(self, destinations)
        self.count += 1
        copies = self._forward((self.me, self.count), self.me)  # Send over all safe links
        return Sent(MessageId(self.me, self.count), destinations, copies, self.label)

    def _delivered(self, copy: Copy) -> list[Effect]:
        copies = self._forward((copy.sender, copy.count), copy.source)  # Forward on first receipt
        return [Transmit(copies)] if copies else []

    def _forward(self, message: MessageNumber, source: int) -> tuple[Copy, ...]:
        """Return the copies for safe links, and keep the message for those that are not safe yet."""
        known = 1 << source | 1 << message[0]
        for target, (_, buffer) in self.opening.items():
            if not known >> target & 1:
                buffer.append(message)  # Keep it for a link that is not safe yet
        return tuple(self._copy(message, d) for d in positions(self.links & ~known))

    def _copy(self, message: MessageNumber, destination: int) -> Copy:
        return Copy(*message, self.roster.everyone & ~(1 << message[0]), self.me, destination, (), self.label)

    # -- new links ---------------------------------------------------------------------------------------------------

    def fresh(self, label: str) -> Self:
        """Return the order of a new label: nothing was delivered under it, so all links, new ones too, are safe."""
        order = super().fresh(label)
        order.links = self.links | _union(1 << target for target in self.opening)
        return order

    def connect(self, process: str) -> list[Effect]:
        """Open a link to a process; it is used when it has become safe."""
        position = self._other(process)
        return [effect for order in self.orders() for effect in order._connect(position)]

    def _connect(self, target: int) -> list[Effect]:
        if self.links >> target & 1 or target in self.opening:
            return []
        self.pings += 1
        self.opening[target] = (self.pings, [])
        return [Transmit(self._flood(self.me, self.pings, target, self.links))]  # Flood a ping over safe links

    def _flood(self, origin: int, number: int, target: int, links: int) -> tuple[Copy, ...]:
        return tuple(
            Copy(origin, number, 1 << target, self.me, d, (), self.label, PING) for d in positions(links)
        )  # fmt: skip

    def _arrived(self, copy: Copy) -> list[Effect]:
        return self._pinged(copy) if copy.kind == PING else self._answered(copy)

    def _pinged(self, copy: Copy) -> list[Effect]:
        origin, number = copy.sender, copy.count
        if number <= self.heard[origin]:
            return [Duplicate(copy)]
        self.heard[origin] = number
        if copy.destinations == self.bit:  # Answer a ping that was meant for here
            return [Transmit((Copy(self.me, number, 1 << origin, self.me, origin, (), self.label, PONG),))]
        (target,) = positions(copy.destinations)
        copies = self._flood(origin, number, target, self.links & ~(1 << copy.source | 1 << origin))
        return [Transmit(copies)] if copies else []  # Pass a ping on

    def _answered(self, copy: Copy) -> list[Effect]:
        number, buffer = self.opening.get(copy.sender, (0, []))
        if number != copy.count:
            return [Duplicate(copy)]
        del self.opening[copy.sender]
        self.links |= 1 << copy.sender  # Send the buffer, then use the link
        return [Transmit(tuple(self._copy(message, copy.sender) for message in buffer))] if buffer else []

    # -- impossible copies ------------------------------------------------------------------------------------------

    def _check(self, copy: Copy) -> None:
        if copy.kind == MESSAGE:
            if copy.destinations != self.roster.everyone & ~(1 << copy.sender):
                found = ", ".join(self.roster.members(copy.destinations))
                raise PeerError(f"message {self._name(copy)} is addressed to {found}; a broadcast goes to all others")
            self._check_turn(copy)
        elif copy.destinations.bit_count() != 1 or copy.destinations >> copy.sender & 1 or copy.sender == self.me:
            raise PeerError(f"a {copy.kind} {self._name(copy)} came to {self.roster.name(self.me)}: impossible")
        elif copy.kind == PONG and (copy.source != copy.sender or copy.destinations != self.bit):
            raise PeerError(f"{self.roster.name(copy.source)} delivered a pong that {self._name(copy)} would have to")

    def _check_turn(self, copy: Copy) -> None:
        """Reject copies that FIFO links cannot bring."""
        if copy.count > self.receiver.delivered[copy.sender] + 1:
            before = self.receiver.delivered[copy.sender]
            raise PeerError(
                f"message {self._name(copy)} came over the link from {self.roster.name(copy.source)} when message "
                f"{before} of its sender was the latest here; links must be FIFO and lose nothing"
            )

    def _check_state(self) -> None:
        overlay = read_overlay(self.overlay, self.roster)[self.me]
        opening = _union(1 << target for target in self.opening)
        if overlay & ~self.links or (self.links | opening) & self.bit or self.links & opening:
            raise PeerError("snapshot whose links contradict its overlay")
        numbers = [number for number, _ in self.opening.values()]
        if len(set(numbers)) < len(numbers) or not all(0 < number <= self.pings for number in numbers):
            raise PeerError(f"snapshot with pings {sorted(numbers)} of {self.pings}")
        if self.pings > REACHED or max(self.heard) > REACHED or self.heard[self.me]:
            raise PeerError("snapshot with pings that cannot have been sent")
        known = [*self.receiver.delivered]
        known[self.me] = self.count
        for _, buffer in self.opening.values():
            if any(not 0 < count <= known[sender] for sender, count in buffer):
                raise PeerError("snapshot that keeps messages for a link that were not delivered here")

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count nothing: a stamp is the name of its message."""
        return 0

    def log_size(self) -> int:
        """Count the messages kept for links that are not safe yet."""
        return sum(len(buffer) for _, buffer in self.opening.values())
