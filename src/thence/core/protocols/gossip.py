"""Krishnamurthy and Mukund, "Implementing causal ordering with bounded timestamps", Protocol 2.

Invariant: GOSSIP[q][r] is the time of the latest event of r that q knows of, as far as this member knows;
SENT[r][s] the time of the latest message from r to s that it knows of; DELIV[r] the time of the latest
message of r delivered here. A copy of p is delivered once, for each r of which p knew more than this member
does (`best(r) = p`), SENT[r][me] on the copy is not later than DELIV[r]. The process that knows more of r has the
right rows of r: they are taken over whole, by reference.

Needs a fixed membership. Gives causal order, waiting for causes only, on any network. Cost: 2n² timestamps
on every copy and as many at every member. What a timestamp is, the protocol leaves to `times`: here it is
the count of a message; `epochs` and `bounded` change nothing but that.

Departures:

- Multicast (errata 24): one stamp serves all copies, and the receiver of m records in SENT that m went to
  all of m's destinations, not to itself alone. The printed line loses those: `a!1>bc b<a1 b!1>c c<b1`
  delivers b1 before a1.
- Self-addressed copies travel like any other (errata 11). A member always knows its own clock best, so the
  printed test never asks for its own earlier messages to itself; ours asks for r = me always. Their delivery
  leaves SENT alone: it may know of later ones.
- The clock counts sends, not all events: only sends are ever compared (Protocol 3 says the same).
- GOSSIP[me] is kept twice, in the log and, without one's own clock, in the receiver; that is all the
  delivery test needs of it, so a destination that never sends can run the receiver alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import ClassVar

from thence.core.model.message import MESSAGE, Cause, Copy
from thence.core.model.roster import Roster
from thence.core.protocols.base import Member, Receiver
from thence.core.protocols.effects import Deferred, Deliver, Duplicate, Effect, GoesWithout, Hold, Sent
from thence.core.protocols.timestamp_vectors import MATRIX, NULL, PACKED_ROW, MatrixRow, put, zeros
from thence.core.protocols.wire import CopyShape
from thence.core.wire.codec import INT, MASK, RecordShape, Seq, Shape, Vector
from thence.core.wire.reader_cy import Reader
from thence.core.wire.sets import Rename
from thence.errors import PeerError


class Times:
    """The kind of timestamp, here a plain count. The null stamp is 0 in every kind."""

    def later(self, one: int, other: int) -> bool:
        """Return whether one stamp of a process is later than another of it."""
        return one > other

    def aged(self, stamp: int, latest: int) -> int:
        """Return what is left of an old stamp of a process of which `latest` is known."""
        return stamp

    def newer(self, carried: Sequence[int], known: Sequence[int], me: int) -> list[int]:
        """Return each r other than me with best(r) = p: the row carried knows more of it than the known one."""
        later = self.later
        return [r for r, stamp in enumerate(carried) if stamp != known[r] and r != me and later(stamp, known[r])]


class GossipReceiver(Receiver):
    """The delivery test, what it needs of GOSSIP, DELIV, and the held copies.

    A held copy watches the first r for which it must wait: only a delivery from r can end that wait.
    """

    fields: ClassVar[dict[str, Shape]] = {
        "abandoned": MASK,
        "heard": Vector(INT),
        "deliv": Vector(INT),
        "seen": Vector(INT),
        "got": Vector(INT),
        "now": INT,
    }

    def __init__(self, roster: Roster, me: int, kinds: Mapping[str, Shape], times: Times, *, pairwise: bool) -> None:
        super().__init__(roster, me)
        self.times, self.pairwise = times, pairwise
        self.heard = [NULL] * self.size
        """GOSSIP[me], without one's own clock"""
        self.deliv = [NULL] * self.size
        self.seen = [0] * self.size
        """count of the latest message of each process delivered here: recognises repeats, whatever their timestamp"""
        self.got = [0] * self.size
        """number of messages of each process delivered here: names causes that have no count"""
        self.now = NULL
        """one's own clock, as far as `aged` looks at it"""
        self.held: dict[int, Copy] = {}
        self.arrivals = 0
        self._keys: set[tuple[int, int]] = set()
        self._watch: dict[int, list[int]] = {}
        self._copies = Seq(CopyShape({MESSAGE: kinds[MESSAGE]}))

    def receive(self, copy: Copy) -> list[Effect]:
        """Apply the test to an arrival and to the copies that its delivery unblocks, in order of arrival."""
        if copy.count <= self.seen[copy.sender] or (copy.sender, copy.count) in self._keys:
            return [Duplicate(copy)]
        unmet = self._unmet(copy)
        if unmet:
            return [self._hold(copy, unmet)]
        effects: list[Effect] = []
        ready: list[int] = []
        self._deliver(copy, ready, effects)
        return self._release(ready, effects)

    def _deliver(self, copy: Copy, ready: list[int], effects: list[Effect]) -> None:
        if self.abandoned and (forgone := [u for u in self._ahead(copy) if self.abandoned >> u[0] & 1]):
            effects.append(GoesWithout(copy, self._causes(forgone)))
        effects.append(Deliver(copy))
        self._take(copy)
        self._wake(copy.sender, ready)

    def _release(self, ready: list[int], effects: list[Effect]) -> list[Effect]:
        while ready:
            copy = self.held.pop(heappop(ready))
            self._keys.discard((copy.sender, copy.count))
            self._deliver(copy, ready, effects)
        return effects

    def abandon(self, process: int) -> list[Effect]:
        """Wait only for held messages of an abandoned process, and release copies that no longer wait."""
        super().abandon(process)
        ready: list[int] = []
        self._watch = {}
        for arrival, copy in self.held.items():
            if unmet := self._unmet(copy):
                self._watch.setdefault(unmet[0][0], []).append(arrival)
            else:
                heappush(ready, arrival)
        return self._release(ready, [])

    def _wake(self, sender: int, ready: list[int]) -> None:
        """Look again at the copies that watch a sender."""
        still = []
        for arrival in self._watch.pop(sender, ()):
            copy = self.held[arrival]
            if self._waits(copy, sender):
                still.append(arrival)
            elif unmet := self._unmet(copy):
                self._watch.setdefault(unmet[0][0], []).append(arrival)
            else:
                heappush(ready, arrival)
        if still:
            self._watch[sender] = still

    def _unmet(self, copy: Copy) -> list[tuple[int, int]]:
        """Return each r with the time of its latest message to here that must come first."""
        ahead = self._ahead(copy)
        return [unmet for unmet in ahead if self._can_come(*unmet)] if self.abandoned else ahead

    def _ahead(self, copy: Copy) -> list[tuple[int, int]]:
        """Return the same, including messages that can no longer come."""
        me, sent = self.me, copy.stamp[1]
        return [(r, row[me]) for r, row in enumerate(sent) if row[me] and self._awaits(copy, r)]

    def _waits(self, copy: Copy, r: int) -> bool:
        """Return whether a copy waits for a message of r."""
        return self._awaits(copy, r) and self._can_come(r, copy.stamp[1][r][self.me])

    def _can_come(self, r: int, stamp: int) -> bool:
        """Return whether a message of r up to that time may still be delivered."""
        if not self.abandoned >> r & 1:
            return True
        later = self.times.later
        return any(other.sender == r and not later(other.stamp[0][r][r], stamp) for other in self.held.values())

    def _awaits(self, copy: Copy, r: int) -> bool:
        """Return whether the latest message of r to here that a copy of p knows must come first: the delivery test."""
        gossip, sent = copy.stamp[0], copy.stamp[1]
        stamp, latest = sent[r][self.me], gossip[copy.sender][r]
        if r == self.me:
            return self._own_unmet(stamp)
        later = self.times.later  # Wait where best(r) = p, and not ST_M[r, q] <= DELIV_q[r]
        return later(latest, self.heard[r]) and later(stamp, self.times.aged(self.deliv[r], latest))

    def _own_unmet(self, stamp: int) -> bool:
        """Return whether an own message to oneself, sent at that time, is still on its way."""
        return self.times.later(self.times.aged(stamp, self.now), self.deliv[self.me])

    def _take(self, copy: Copy) -> None:
        theirs = copy.stamp[0][copy.sender]
        heard, deliv = self.heard, self.deliv
        for r in self.times.newer(theirs, heard, self.me):
            heard[r] = theirs[r]
            deliv[r] = self.times.aged(deliv[r], theirs[r])
        deliv[copy.sender] = theirs[copy.sender]  # DELIV[p] := GP_M[p, p]
        self.seen[copy.sender] = copy.count
        self.got[copy.sender] += 1

    def turn(self, now: int) -> None:
        """Advance the own clock to a time, of which only the epoch matters."""
        self.now = now
        self.deliv[self.me] = self.times.aged(self.deliv[self.me], now)

    def _hold(self, copy: Copy, unmet: list[tuple[int, int]]) -> Hold:
        self.arrivals += 1
        self.held[self.arrivals] = copy
        self._keys.add((copy.sender, copy.count))
        self._watch.setdefault(unmet[0][0], []).append(self.arrivals)
        return Hold(copy, self._causes(unmet))

    def _causes(self, unmet: list[tuple[int, int]]) -> tuple[Cause, ...]:
        name = self.roster.name
        return tuple(Cause(name(r), c, self.pairwise) for r, c in map(self._cause, unmet))

    def _cause(self, unmet: tuple[int, int]) -> tuple[int, int]:
        """Name a cause: by its count where that is its time, else as the next message from there to here."""
        return (unmet[0], self.got[unmet[0]] + 1) if self.pairwise else unmet

    def pending(self) -> list[tuple[Copy, list[tuple[int, int]]]]:
        """Return held copies in order of arrival with their missing causes."""
        return [(copy, [self._cause(u) for u in self._unmet(copy)]) for copy in self.held.values()]

    # Keys and watches are computed again from the held copies.

    def dump(self, out: bytearray, size: int) -> None:
        super().dump(out, size)
        self._copies.write(list(self.held.values()), out, size)

    def load(self, reader: Reader) -> None:
        super().load(reader)
        self.held, self._keys, self._watch, self.arrivals = {}, set(), {}, 0
        copies = self._copies.read(reader)
        self.held = dict(enumerate(copies, 1))
        for copy in copies:
            if (copy.sender, copy.count) in self._keys:
                raise PeerError(f"snapshot holds back message {copy.id} twice")
            # After a false stamp a held copy may wait for nothing; it is delivered with the next copy of its sender.
            self._hold(copy, self._unmet(copy) or [(copy.sender, NULL)])

    def freeze(self, rename: Rename) -> tuple[object, ...]:
        return super().freeze(rename), self._copies.freeze(list(self.held.values()), rename)

    def fork_into(self, twin: object) -> None:
        assert isinstance(twin, GossipReceiver)
        super().fork_into(twin)
        twin.held = self.held.copy()
        twin._keys = self._keys.copy()
        twin._watch = {r: arrivals[:] for r, arrivals in self._watch.items()}


class Gossip(Member):
    """Protocol 2: GOSSIP and SENT whole on every copy."""

    name = "gossip"
    code = 20
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: RecordShape(MATRIX, MATRIX)}
    fields: ClassVar[dict[str, Shape]] = {"gossip": Vector(PACKED_ROW), "sent": Vector(PACKED_ROW)}
    times: ClassVar[Times] = Times()
    receives: ClassVar[type[GossipReceiver]] = GossipReceiver
    receiver: GossipReceiver

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        super().__init__(roster, process, label=label)
        self.receiver = self.alone(roster, self.me)
        self.gossip: list[MatrixRow] = [zeros(self.size)] * self.size
        self.sent: list[MatrixRow] = [zeros(self.size)] * self.size

    @classmethod
    def alone(cls, roster: Roster, me: int) -> GossipReceiver:
        """Return the receiver by itself, for a destination that never sends."""
        return cls.receives(roster, me, cls.kinds, cls.times, pairwise=cls.pairwise)

    def _tick(self) -> int:
        """Advance the clock T and return the time of the send."""
        return self.count

    def _send(self, destinations: int, context: object, token: object) -> Sent | Deferred:
        self._no_context(context)
        return self._stamped(destinations)

    def _stamped(self, destinations: int) -> Sent:
        me, aged = self.me, self.times.aged
        self.count += 1
        now = self._tick()
        self.gossip[me] = put(self.gossip[me], self.bit, now)  # GOSSIP[p, p] := T(M)
        self.sent[me] = tuple([aged(stamp, now) for stamp in self.sent[me]])
        stamp = self._stamp()
        sent = self._sent(destinations, lambda d: stamp)
        self.sent[me] = put(self.sent[me], destinations, now)  # SENT[p, q] := T(M)
        return sent

    def _stamp(self) -> tuple[tuple[MatrixRow, ...] | MatrixRow, ...]:
        return tuple(self.gossip), tuple(self.sent)  # GP_M, ST_M

    def _delivered(self, copy: Copy) -> list[Effect]:
        gossip, sent = copy.stamp[:2]
        me, p = self.me, copy.sender
        carried, known = gossip[p], list(self.gossip[me])
        for r in self.times.newer(carried, self.gossip[me], me):  # Where best(r) = p
            known[r] = carried[r]
            self.gossip[r] = gossip[r]
            self.sent[r] = sent[r]
        self.gossip[me] = tuple(known)
        if p != me:
            self.sent[p] = put(self.sent[p], self._addressed(copy), carried[p])  # SENT[p, q] := GP_M[p, p]
        return []

    def _check(self, copy: Copy) -> None:
        gossip, sent = copy.stamp
        time = gossip[copy.sender][copy.sender]
        if time != copy.count:
            raise self.beyond(f"the same sender, where {copy.count} is expected", time, copy)
        if copy.sender != self.me:
            self.check_known(copy, self.me, max(max(sent[self.me]), max(row[self.me] for row in gossip)))

    def _check_state(self) -> None:
        self.check_own(max(max(self.sent[self.me]), max(row[self.me] for row in self.gossip)))

    def _addressed(self, copy: Copy) -> int:
        """Return the recorded destinations of a delivered message: errata 24."""
        return copy.destinations

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the timestamps of GOSSIP and SENT."""
        return 2 * len(copy.stamp[0]) ** 2

    def log_size(self) -> int:
        """Count the timestamps of GOSSIP, SENT and DELIV."""
        return 2 * self.size**2 + self.size
