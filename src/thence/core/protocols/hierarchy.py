"""KS98 section 7.1, asymmetric organization, the other extreme: representatives run `ks`, everybody else
asks them.

Invariant: the processes are divided into zones; the first of each represents it. The process that sends asks its
representative. That passes the message on to the destinations of its own zone and sends it, by `ks` among
the representatives alone, to those of the other zones concerned, which pass it on to theirs when `ks`
delivers it. If m is a cause of m', the representative that sends m' has sent m or had it delivered before,
so `ks` keeps them in order between representatives and `relaying.py` keeps them in order within a zone.

Needs coordinators (option `zones`, as in `abc|def`, longer names as in `aa,b|cc`; by default about √n zones
of equal size) and a fixed membership. Waits for more than causes: a representative speaks for all of its
zone. Cost: a copy to a process carries one entry; one between z representatives at most z² facts, usually
far fewer; three hops.

Departures: representatives are ordinary processes too. A representative's own zone is served at the send,
which is a delivery in causal order, since it has delivered all that precedes its send. Two levels, where the
text says how to go on.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import pairwise
from math import isqrt
from typing import ClassVar

from thence.core.model.message import MESSAGE, Copy, MessageId
from thence.core.model.message_names import name_of
from thence.core.model.roster import Roster, positions
from thence.core.protocols.effects import Deliver, Duplicate, Effect, Pending, Sent, Transmit
from thence.core.protocols.ks import KS
from thence.core.protocols.relaying import MessageNumber, RelayingMember
from thence.core.wire.codec import INT, MASK, PROCESS, TEXT, ByCount, ByProcess, Fielded, RecordShape, Shape
from thence.core.wire.reader_cy import Reader
from thence.core.wire.sets import Rename
from thence.errors import MisuseError, PeerError

RELAY = "relay"
"""kind of a copy from one representative to another"""


class Hierarchy(RelayingMember):
    """Zones, their representatives, and `ks` among those."""

    name = "hierarchy"
    code = 36
    options: ClassVar[dict[str, Shape]] = {"zones": TEXT}
    kinds: ClassVar[dict[str, Shape]] = {
        **RelayingMember.kinds,
        RELAY: RecordShape(INT, MASK, KS.kinds[MESSAGE]),
    }
    fields: ClassVar[dict[str, Shape]] = {
        **RelayingMember.fields,
        "carried": ByProcess(ByCount(RecordShape(PROCESS, INT, MASK))),
    }

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None, zones: str = "") -> None:
        """Take the zones as text."""
        self.zones = zones
        over = [0] * len(roster)
        for zone in parted(roster, zones):
            for place in zone:
                over[place] = zone[0]
        super().__init__(roster, process, over, label=label)
        self.upper = KS(roster, self.me)
        """this process's end of `ks` among the representatives; idle in all others"""
        self.carried: dict[int, dict[int, tuple[int, int, int]]] = {}
        """what each relay held back by `ks` brings, by representative and count: sender, count, destinations"""

    @property
    def children(self) -> int:
        """The processes this one represents, itself among them."""
        return sum(1 << place for place, over in enumerate(self.over) if over == self.me)

    def _forward(self, message: MessageNumber, destinations: int) -> Iterator[Copy]:
        others = 0
        for d in positions(destinations & ~self.children):
            others |= 1 << self.over[d]
        if others:
            sent = self.upper.send(others)  # Multicast between representatives
            assert isinstance(sent, Sent)
            for copy in sent.copies:
                stamp = (copy.count, others, copy.stamp)
                yield Copy(*message, destinations, self.me, copy.destination, stamp, self.label, RELAY)
        yield from self._pass_on(message, destinations, self.children)

    def _check(self, copy: Copy) -> None:
        super()._check(copy)
        if copy.kind == RELAY:
            origin = self.over[copy.sender]
            self._check_source(copy, origin)
            self.upper.check(self._upper_copy(copy, origin))

    def _upper_copy(self, copy: Copy, origin: int) -> Copy:
        """Return the copy of `ks` among the representatives that a relay stands for."""
        count, others, log = copy.stamp
        return Copy(origin, count, others, origin, self.me, log)

    def _arrived(self, copy: Copy) -> list[Effect]:
        return self._relayed(copy) if copy.kind == RELAY else super()._arrived(copy)

    def _relayed(self, copy: Copy) -> list[Effect]:
        origin, count = self.over[copy.sender], copy.stamp[0]
        effects = self.upper.receive(self._upper_copy(copy, origin))
        if isinstance(effects[0], Duplicate):
            return [Duplicate(copy)]
        carried = {**self.carried.get(origin, {}), count: (copy.sender, copy.count, copy.destinations)}
        self.carried = {**self.carried, origin: carried}
        copies: list[Copy] = []
        for effect in effects:
            if isinstance(effect, Deliver):
                sender, number, destinations = self._unpacked(effect.copy)
                copies += self._pass_on((sender, number), destinations, self.children)  # Multicast within the zone
        return [Transmit(tuple(copies))] if copies else []

    def _unpacked(self, relay: Copy) -> tuple[int, int, int]:
        carried = self.carried[relay.sender]
        rest = {count: brought for count, brought in carried.items() if count != relay.count}
        self.carried = {**self.carried, relay.sender: rest}
        if not rest:
            del self.carried[relay.sender]
        return carried[relay.count]

    def _deferred(self) -> list[Pending]:
        """Explain requests before their turn, and relays that `ks` holds back."""
        found = super()._deferred()
        for relay, needs in self.upper.receiver.pending():
            sender, count, _ = self.carried[relay.sender][relay.count]
            name = self.roster.name(sender)
            awaited = tuple(dict.fromkeys(self.roster.name(origin) for origin, _ in needs))
            text = f"a relay for the zone of {self.roster.name(self.me)}, held for earlier relays of these"
            found.append(Pending("copy", name_of(name, count), name, processes=awaited, reason=text, label=self.label))
        return found

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the log entries of a relay as `ks` does."""
        return KS.entries(_inner(copy)) if copy.kind == RELAY else super().entries(copy)

    @classmethod
    def facts(cls, copy: Copy) -> int | None:
        """Count the facts of a relay as `ks` does; they are about relays."""
        return KS.facts(_inner(copy)) if copy.kind == RELAY else super().facts(copy)

    @classmethod
    def paper_bytes(cls, copy: Copy) -> int:
        """Count a relay as `ks` does."""
        return KS.paper_bytes(_inner(copy)) if copy.kind == RELAY else super().paper_bytes(copy)

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]] | None:
        """Return the message before; a relay's entries name relays, not messages."""
        return None if copy.kind == RELAY else super().dependencies(copy)

    def log_size(self) -> int:
        """Count the entries of `ks` too."""
        return super().log_size() + self.upper.log_size()

    # The member within is part of the state.

    def dump(self, out: bytearray, size: int) -> None:
        """Append the fields, then the member within."""
        super().dump(out, size)
        INT.write(self.upper.count, out, size)
        self.upper.receiver.dump(out, size)
        self.upper.dump(out, size)

    def load(self, reader: Reader) -> None:
        """Read the fields and the member within."""
        super().load(reader)
        self.upper.count = INT.read(reader)
        self.upper.receiver.load(reader)
        self.upper.load(reader)
        self.upper.check_state()
        held = {(copy.sender, copy.count) for copy, _ in self.upper.receiver.pending()}
        if held != {(origin, count) for origin, brought in self.carried.items() for count in brought}:
            raise PeerError(f"snapshot whose relays before byte {reader.at} are not those held back")

    def freeze(self, rename: Rename) -> Hashable:
        """Freeze the fields and the member within."""
        return super().freeze(rename), self.upper.state(rename)

    def fork_into(self, twin: Fielded) -> None:
        """Copy the fields and fork the member within."""
        super().fork_into(twin)
        assert isinstance(twin, Hierarchy)
        twin.upper = self.upper.fork()


def _inner(copy: Copy) -> Copy:
    return Copy(copy.source, copy.stamp[0], copy.stamp[1], copy.source, copy.destination, copy.stamp[2])


def parted(roster: Roster, zones: str) -> list[list[int]]:
    """Read zones as text, or part the roster into about as many zones as each has members."""
    size = len(roster)
    if not zones:
        count = isqrt(size)
        edges = [size * place // count for place in range(count + 1)]
        return [list(range(*ends)) for ends in pairwise(edges)]
    parts = [roster.names_in(part) for part in zones.split("|")]
    found = [roster.position(name) for part in parts for name in part]
    if sorted(found) != list(range(size)) or not all(parts):
        raise MisuseError(f"zones {zones!r} must hold each of {', '.join(roster.names)} once, none of them empty")
    return [[roster.position(name) for name in part] for part in parts]
