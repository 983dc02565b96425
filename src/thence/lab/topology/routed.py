"""Messages of the application over a graph: each becomes a chain of hop messages, each hop stamped by a protocol.

Invariant (Rodrigues and Veríssimo, chapters 5 and 7). A message from p1 to p6 travels p1 → n1 → {d1, d2} → d3 → n3 →
p6. Every arrow is a message of its own, stamped by the member of the process that sends it. A process that delivers a
hop message hands it to its application, if it is a destination, and at once passes it on towards the destinations
beyond it. Two orders are recorded and can be judged apart: that of the application's messages, the run itself, and that
of the hops, the run `<run>/hops`.

No time and no chance in here: `send` and `arrive` return the copies to hand to the network, whose order is the
driver's.

The hop messages of one forwarding go out apart, one for each link or broadcast network, so that a separator can filter
them. `together=True` makes them one message to all; what is addressed to both sides of a separator is never filtered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from thence.core.model.events import Event, EventKind
from thence.core.model.message import Copy
from thence.core.model.message_names import HOPS, name_of
from thence.core.model.roster import Roster
from thence.core.protocols.base import Member
from thence.core.protocols.effects import Deliver, Sent
from thence.core.protocols.registry import Need, create, require
from thence.errors import MisuseError
from thence.lab.topology.graph import known
from thence.lab.topology.routes import Routes
from thence.lab.topology.separators import Separator, check_separator, option_text
from thence.tables.files.recorder import CopyRow, EventRows

GIVEN: tuple[Need, ...] = ("topology", "fixed membership", "own sends at the receiver")
"""what this adapter gives the protocol that stamps its hops"""


@dataclass(frozen=True, slots=True)
class Cargo:
    """A message of the application on its way: its name, and the destinations beyond each next process."""

    message: str
    beyond: dict[str, frozenset[str]]


class Routed:
    """Members on every process of a graph, and messages of the application routed among them."""

    def __init__(
        self,
        routes: Routes,
        protocol: str | Callable[[Roster, int], Member] = "ech-r9",
        *,
        separators: Iterable[Separator] = (),
        together: bool = False,
        run: str = "run",
        record: bool = True,
    ) -> None:
        """Make the members: of a registered protocol, `ech-r9` with these separators, or by a function of one's own."""
        self.routes, self.roster, self.together = routes, Roster(routes.graph), together
        self.separators = [check_separator(routes.graph, separator) for separator in separators]
        self.members = [self._member(protocol, position) for position in range(len(self.roster))]
        self.rows, self.hops = EventRows(run, self.roster), EventRows(f"{run}{HOPS}", self.roster)
        self.record = record
        self.sent: list[Sent] = []
        """the hop messages of the last `send` or `arrive`"""
        self.landed: list[tuple[str, str]] = []
        """(process, message) of the application delivered by the last `arrive`"""
        self._numbers = dict.fromkeys(self.roster, 0)
        self._cargo: dict[tuple[int, int], Cargo] = {}

    def _member(self, protocol: str | Callable[[Roster, int], Member], position: int) -> Member:
        if not isinstance(protocol, str):
            return protocol(self.roster, position)
        require(protocol, GIVEN, driver="routing over a graph")
        options = {"separators": option_text(self.separators)} if self.separators else {}
        return create(protocol, self.roster, position, **options)

    def member(self, process: str) -> Member:
        """Return the member of a process."""
        return self.members[self.roster.position(process)]

    @property
    def events(self) -> list[Event]:
        """All rows: the application's run, then its hops."""
        return self.rows.events + self.hops.events

    def send(self, process: str, destinations: Iterable[str], *, time: float | None = None) -> tuple[Copy, ...]:
        """Let an application send; return the copies of the first hop."""
        wanted = known(self.routes.forwarding, destinations, f"a message of {process}")
        if not wanted:
            raise MisuseError(f"process {process} sends to no process; name at least one destination")
        self._numbers[process] += 1
        name = name_of(process, self._numbers[process])
        self.sent, self.landed = [], []
        if self.record:
            mask = self.roster.mask(wanted)
            self.rows.kept.append((time, self.roster.position(process), "send", name, None, mask, None))
        return self._forward(process, name, wanted, time)

    def arrive(self, copy: Copy, *, time: float | None = None) -> tuple[Copy, ...]:
        """Let a copy of a hop arrive; return the copies of the hops that follow from it."""
        here = self.roster.name(copy.destination)
        self.sent, self.landed = [], []
        if self.record:
            self._note(self.hops, time, "receive", self._name(copy), copy)
        effects = self.members[copy.destination].receive(copy)
        delivered = [self._deliver(here, effect, time) for effect in effects if isinstance(effect, Deliver)]
        return tuple(
            onward for message, beyond in delivered if beyond for onward in self._forward(here, message, beyond, time)
        )

    def _deliver(self, here: str, effect: Deliver, time: float | None) -> tuple[str, frozenset[str]]:
        """Deliver a message if it is addressed here; return it with the destinations beyond."""
        copy = effect.copy
        cargo = self._cargo[copy.sender, copy.count]
        if self.record:
            self._note(self.hops, time, "deliver", self._name(copy), copy)
        goals = cargo.beyond.get(here, frozenset())
        if here in goals:
            self.landed.append((here, cargo.message))
            if self.record:
                self._note(self.rows, time, "deliver", cargo.message, copy)
        return cargo.message, goals - {here}

    def _forward(self, here: str, message: str, destinations: frozenset[str], time: float | None) -> tuple[Copy, ...]:
        branches = self.routes.branches(here, destinations)
        parts = [branches] if self.together else self.routes.apart(here, branches)
        copies: list[Copy] = []
        for part in parts:
            address = frozenset[str]().union(*(self.routes.addressed(here, near) for near in part))
            copies += self._hop(here, Cargo(message, part), address, time)
        return tuple(copies)

    def _hop(self, here: str, cargo: Cargo, address: frozenset[str], time: float | None) -> tuple[Copy, ...]:
        sent = self.member(here).send(address)
        if not isinstance(sent, Sent):
            raise MisuseError(f"protocol {self.members[0].name} holds sends back; hops must leave at once")
        self._cargo[sent.message.sender, sent.message.count] = cargo
        self.sent.append(sent)
        if self.record:
            name = name_of(here, sent.message.count)
            self.hops.kept.append((time, sent.message.sender, "send", name, None, sent.destinations, None))
        return sent.copies

    def _name(self, copy: Copy) -> str:
        return name_of(self.roster.name(copy.sender), copy.count)

    def _note(self, rows: EventRows, time: float | None, kind: EventKind, message: str, copy: Copy) -> None:
        member = self.members[copy.destination]
        row = CopyRow(message, (member.entries(copy), member.facts(copy), len(member.encode(copy))))
        rows.kept.append((time, copy.destination, kind, message, None, 0, row))

    def pending(self) -> list[tuple[str, str]]:
        """Return what is held: (process, sentence)."""
        return [
            (self.roster.name(place), f"{held.message} waits for {', '.join(map(str, held.waits_for))}")
            for place, member in enumerate(self.members)
            for held in member.pending()
        ]
