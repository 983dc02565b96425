"""A receiver that has a rule of its own (`ses` compares times), behind the same interface.

Invariant: the protocol's receiver alone decides when rows leave. It cannot release a row
without its causes, so policies that release are rejected for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from thence.core.model.message import Cause, Copy, MessageId
from thence.core.protocols.base import Receiver
from thence.core.protocols.effects import Deliver, Duplicate, Hold
from thence.core.wire.reader_cy import Reader
from thence.errors import Argument, MisuseError

if TYPE_CHECKING:
    from thence.tables.delivery.policy import Policy
    from thence.tables.delivery.reading import Reading

Decision = Literal["duplicate", "hold", "deliver"]


def receiver_of(reading: Reading, policy: Policy, destination: int) -> ForeignRule:
    """Return an empty receiver of the protocol that stamps are of, or refuse a policy that it cannot follow."""
    if policy.releases:
        raise MisuseError(
            f"{refusal(reading)}; ", Argument("policy", "wait"), " or ", Argument("policy", "fail"), " without ",
            Argument("when_full", "release"), " is accepted",
        )  # fmt: skip
    assert reading.entry is not None
    assert reading.roster is not None
    return ForeignRule(reading.entry.protocol(reading.roster, destination).receiver)


def refusal(reading: Reading) -> str:
    """Explain why a row cannot go without its causes."""
    return f"protocol {reading.protocol} does not share the delivery rule that releases need"


class ForeignRule:
    """One causal order at one destination, decided by a protocol's own receiver."""

    def __init__(self, receiver: Receiver) -> None:
        """Take an empty receiver."""
        self.receiver = receiver
        self.tickets: dict[MessageId, int] = {}

    def arrive(self, ticket: int, copy: Copy) -> tuple[Decision, list[int], tuple[str, ...]]:
        """Give the receiver a copy; return its fate, the tickets that leave in order, and what it waits for."""
        delivered: list[int] = []
        verdict: Decision = "deliver"
        waits: tuple[str, ...] = ()
        for effect in self.receiver.receive(copy):
            if isinstance(effect, Deliver):
                delivered.append(ticket if effect.copy is copy else self.tickets.pop(effect.copy.id))
            elif isinstance(effect, Hold):
                verdict, waits = "hold", tuple(str(cause) for cause in effect.waits_for)
                self.tickets[copy.id] = ticket
            elif isinstance(effect, Duplicate):
                verdict = "duplicate"
        return verdict, delivered, waits

    def missing(self, ticket: int) -> tuple[str, ...]:
        """Name what a held row still waits for."""
        name = self.receiver.roster.name
        for copy, needs in self.receiver.pending():
            if self.tickets.get(copy.id) == ticket:
                return tuple(str(Cause(name(s), c)) for s, c in needs)
        return ()

    def dump(self) -> bytes:
        """Return the state of the protocol's receiver as bytes."""
        out = bytearray()
        self.receiver.dump(out, self.receiver.size)
        return bytes(out)

    def load(self, data: bytes, tickets: list[int]) -> None:
        """Take over a state; `tickets` are those of the held copies in arrival order."""
        reader = Reader(data, self.receiver.size)
        self.receiver.load(reader)
        reader.done()
        held = [copy.id for copy, _ in self.receiver.pending()]
        self.tickets = dict(zip(held, tickets, strict=True))
