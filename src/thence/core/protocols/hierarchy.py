"""KS98 section 7.1, asymmetric organization, the other extreme: representatives run `ks` and send for all others.

Invariant: the processes are partitioned into zones; the first of each represents it. The process that sends asks its
representative. That passes the message on to the destinations of its own zone and sends it, by the protocol *above*,
among the representatives alone, to those of the other zones concerned, which pass it on to theirs when the protocol
above delivers it. If m is a cause of m', the representative that sends m' has sent m or had it delivered before, so the
protocol above keeps them in order between representatives and `relaying.py` keeps them in order within a zone.

With two levels the protocol above is `ks`. With more it is this one again: the representatives are partitioned into
zones in their turn, the first of each represents it, and so on; those at the top run `ks`. The text only says that the
logic can be extended to a multi-level hierarchy; this is the extension that changes nothing in it. By induction over
the levels, each gives causal order to the one below it.

Needs coordinators (option `zones`, as in `abc|def`, longer names as in `aa,b|cc`; three levels as in
`(ab|cd)|(ef|g)`, where a, c, e and g represent their zones, and a and e those; by default about √n zones of equal
size) and a fixed membership. Waits for more than causes: a representative speaks for all of its zone. Cost: a copy to a
process carries one entry, between representatives as many as there are levels between; one between z representatives at
the top at most z² facts, usually far fewer; 2k - 1 hops with k levels, 3 with two.

Departures: representatives are ordinary processes too. A representative's own zone is served at the send, which is a
delivery in causal order, since it has delivered all that precedes its send.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise
from math import isqrt
from typing import ClassVar

from thence.core.model.message import MESSAGE, Copy, MessageId
from thence.core.model.message_names import name_of
from thence.core.model.roster import Roster, positions
from thence.core.protocols.base import Member
from thence.core.protocols.effects import Deliver, Duplicate, Effect, Pending, Sent, Transmit
from thence.core.protocols.ks import KS
from thence.core.protocols.relaying import MessageNumber, RelayingMember
from thence.core.protocols.wire import CopyShape
from thence.core.wire.codec import INT, MASK, PROCESS, TEXT, ByCount, ByProcess, Fielded, RecordShape, Shape
from thence.core.wire.reader_cy import Reader
from thence.core.wire.sets import Rename
from thence.errors import MisuseError, PeerError

RELAY, LIFT = "relay", "lift"
"""kinds of a copy from one representative to another: by `ks`, and by a hierarchy of representatives"""
MOST_LEVELS = 8
"""levels that are accepted: copies of the levels above are read as often"""


def _kinds(lifts: int) -> dict[str, Shape]:
    """Return the shapes of copies that may be wrapped that many times more."""
    kinds: dict[str, Shape] = {**RelayingMember.kinds, RELAY: RecordShape(INT, MASK, KS.kinds[MESSAGE])}
    return {**kinds, LIFT: CopyShape(_kinds(lifts - 1))} if lifts else kinds


class Hierarchy(RelayingMember):
    """Zones, their representatives, and `ks` among those."""

    name = "hierarchy"
    code = 36
    options: ClassVar[dict[str, Shape]] = {"zones": TEXT}
    kinds: ClassVar[dict[str, Shape]] = _kinds(MOST_LEVELS - 2)
    fields: ClassVar[dict[str, Shape]] = {
        **RelayingMember.fields,
        "carried": ByProcess(ByCount(RecordShape(PROCESS, INT, MASK))),
    }

    def __init__(
        self,
        roster: Roster,
        process: str | int,
        *,
        label: str | None = None,
        zones: str = "",
        levels: Sequence[list[int]] = (),
    ) -> None:
        """Take the zones as text, or whom each process asks at each level, lowest first."""
        self.zones = zones
        over, *above = levels or read_zones(roster, zones)
        super().__init__(roster, process, over, label=label)
        self.upper: Member = Hierarchy(roster, self.me, levels=above) if above else KS(roster, self.me)
        """this process's end of the protocol among the representatives; idle in all others"""
        self.carried: dict[int, dict[int, tuple[int, int, int]]] = {}
        """what each message held back above brings, by representative and count: sender, count, destinations"""

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
                yield self._wrapped((*message, destinations), copy)
        yield from self._pass_on(message, destinations, self.children)

    def _wrapped(self, message: tuple[int, int, int], copy: Copy) -> Copy:
        """Return a copy of the protocol above as one of this level, which names the message it brings."""
        relayed = isinstance(self.upper, KS)
        stamp = (copy.count, copy.destinations, copy.stamp) if relayed else copy
        return Copy(*message, self.me, copy.destination, stamp, self.label, RELAY if relayed else LIFT)

    def _unwrapped(self, copy: Copy) -> Copy:
        """Return the copy of the protocol above that a relay or a lift stands for."""
        if copy.kind == LIFT:
            inner: Copy = copy.stamp
            return inner
        count, others, log = copy.stamp
        return Copy(copy.source, count, others, copy.source, self.me, log)

    def _check(self, copy: Copy) -> None:
        super()._check(copy)
        if copy.kind in (RELAY, LIFT):
            if (copy.kind == RELAY) != isinstance(self.upper, KS):
                raise PeerError(f"a {copy.kind} of {self._name(copy)} came to a level that has none")
            inner, origin = self._unwrapped(copy), self.over[copy.sender]
            if copy.kind == RELAY:
                self._check_source(copy, origin)
            elif (inner.source, inner.sender, inner.label) != (copy.source, origin, None):
                raise PeerError(f"a lift of {self._name(copy)} brings another message than it names")
            self.upper.check(inner)

    def _arrived(self, copy: Copy) -> list[Effect]:
        return self._relayed(copy) if copy.kind in (RELAY, LIFT) else super()._arrived(copy)

    def _relayed(self, copy: Copy) -> list[Effect]:
        inner = self._unwrapped(copy)
        effects = self.upper.receive(inner)
        if effects and isinstance(effects[0], Duplicate):
            return [Duplicate(copy)]
        carried = {**self.carried.get(inner.sender, {}), inner.count: (copy.sender, copy.count, copy.destinations)}
        self.carried = {**self.carried, inner.sender: carried}
        copies: list[Copy] = []
        for effect in effects:
            if isinstance(effect, Deliver):
                *message, destinations = self.carried[effect.copy.sender][effect.copy.count]
                copies += self._pass_on((message[0], message[1]), destinations, self.children)  # Multicast in the zone
            elif isinstance(effect, Transmit):
                copies += [self._wrapped(self.carried[each.sender][each.count], each) for each in effect.copies]
        self._forget()
        return [Transmit(tuple(copies))] if copies else []

    def holding(self) -> set[MessageNumber]:
        """Return the messages of which this level, or one above it, holds something back."""
        held = {(copy.sender, copy.count) for copy in self.receiver.copies()}
        held |= {(sender, count) for sender, early in self.early.items() for count in early}
        return held | {brought[:2] for carried in self.carried.values() for brought in carried.values()}

    def _held_above(self) -> set[MessageNumber]:
        if isinstance(self.upper, Hierarchy):
            return self.upper.holding()
        return {(copy.sender, copy.count) for copy in self.upper.receiver.copies()}

    def _forget(self) -> None:
        """Forget what messages bring that are no longer held back above."""
        held, kept = self._held_above(), {}
        for origin, carried in self.carried.items():
            rest = {count: brought for count, brought in carried.items() if (origin, count) in held}
            if rest:
                kept[origin] = rest
        self.carried = kept

    def _deferred(self) -> list[Pending]:
        """Explain requests before their turn, and messages that are held back above."""
        found = super()._deferred()
        waits = {(relay.sender, relay.count): needs for relay, needs in self.upper.receiver.pending()}
        for origin, carried in sorted(self.carried.items()):
            for number, (sender, count, _) in sorted(carried.items()):
                name = self.roster.name(sender)
                needs = waits.get((origin, number), [(origin, number - 1)])
                awaited = tuple(dict.fromkeys(self.roster.name(other) for other, _ in needs))
                text = f"a relay for the zone of {self.roster.name(self.me)}, held for earlier relays of these"
                found.append(
                    Pending("copy", name_of(name, count), name, processes=awaited, reason=text, label=self.label)
                )
        return found

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the log entries of a relay as `ks` does, those of a lift as the level above does."""
        if copy.kind == LIFT:
            return cls.entries(copy.stamp)
        return KS.entries(_inner(copy)) if copy.kind == RELAY else super().entries(copy)

    @classmethod
    def facts(cls, copy: Copy) -> int | None:
        """Count the facts of a relay as `ks` does, those of a lift as the level above does; they are about relays."""
        if copy.kind == LIFT:
            return cls.facts(copy.stamp)
        return KS.facts(_inner(copy)) if copy.kind == RELAY else super().facts(copy)

    @classmethod
    def paper_bytes(cls, copy: Copy) -> int:
        """Count a relay as `ks` does, a lift as the level above does."""
        if copy.kind == LIFT:
            return cls.paper_bytes(copy.stamp)
        return KS.paper_bytes(_inner(copy)) if copy.kind == RELAY else super().paper_bytes(copy)

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]] | None:
        """Return the message before; the entries of relays and lifts name relays, not messages."""
        return None if copy.kind in (RELAY, LIFT) else super().dependencies(copy)

    def log_size(self) -> int:
        """Count what the levels above keep, too."""
        return super().log_size() + self.upper.log_size()

    # The member within is part of the state.

    def dump(self, out: bytearray, size: int) -> None:
        super().dump(out, size)
        INT.write(self.upper.count, out, size)
        self.upper.receiver.dump(out, size)
        self.upper.dump(out, size)

    def load(self, reader: Reader) -> None:
        super().load(reader)
        self.upper.count = INT.read(reader)
        self.upper.receiver.load(reader)
        self.upper.load(reader)
        self.upper.check_state()
        if self._held_above() != {(origin, count) for origin, brought in self.carried.items() for count in brought}:
            raise PeerError(f"snapshot whose relays before byte {reader.at} are not those held back")

    def freeze(self, rename: Rename) -> Hashable:
        return super().freeze(rename), self.upper.state(rename)

    def fork_into(self, twin: Fielded) -> None:
        super().fork_into(twin)
        assert isinstance(twin, Hierarchy)
        twin.upper = self.upper.fork()


def _inner(copy: Copy) -> Copy:
    return Copy(copy.source, copy.stamp[0], copy.stamp[1], copy.source, copy.destination, copy.stamp[2])


Zone = Sequence["int | Zone"]
"""positions, or zones whose representatives form it"""


def read_zones(roster: Roster, zones: str) -> list[list[int]]:
    """Return whom each process asks, at each level, lowest first; those that are not on a level ask themselves."""
    size = len(roster)
    if zones:
        tree: list[Zone] = [_zone(roster, part, zones) for part in _parts(zones)]
    else:  # about as many zones as each has members
        edges = [size * place // isqrt(size) for place in range(isqrt(size) + 1)]
        tree = [list(range(*ends)) for ends in pairwise(edges)]
    if sorted(place for zone in tree for place in _members(zone)) != list(range(size)):
        raise MisuseError(f"zones {zones!r} must hold each of {', '.join(roster.names)} once, none of them empty")
    if _height(tree) < 0:
        raise MisuseError(f"zones {zones!r} must have as many levels everywhere")
    levels = [list(range(size)) for _ in range(_height(tree) - 1)]
    for zone in tree:
        _represented(zone, levels)
    return levels


def _parts(text: str) -> list[str]:
    """Split at the bars outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _zone(roster: Roster, part: str, zones: str, depth: int = 2) -> Zone:
    if part.startswith("(") and part.endswith(")") and depth < MOST_LEVELS:
        return [_zone(roster, inner, zones, depth + 1) for inner in _parts(part[1:-1])]
    if not part or "(" in part or ")" in part:
        text = f"zones {zones!r}: {part!r} is not a zone; abc|def and (ab|cd)|(ef|g) are accepted"
        raise MisuseError(f"{text}, up to {MOST_LEVELS} levels")
    return [roster.position(name) for name in roster.names_in(part)]


def _members(zone: Zone) -> list[int]:
    return [place for each in zone for place in ([each] if isinstance(each, int) else _members(each))]


def _height(zone: Zone) -> int:
    """Return the number of levels of a zone, negative if it has not as many everywhere."""
    below = {0 if isinstance(each, int) else _height(each) for each in zone}
    return 1 + max(below) if len(below) == 1 else -MOST_LEVELS


def _represented(zone: Zone, levels: list[list[int]]) -> int:
    """Record, on its level, the representative of a zone's members; return it."""
    below = [each if isinstance(each, int) else _represented(each, levels) for each in zone]
    for place in below:
        levels[_height(zone) - 1][place] = below[0]
    return below[0]
