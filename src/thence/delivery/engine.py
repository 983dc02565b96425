"""One key's delivery: a deterministic state machine from rows in the order of arrival to outcomes.

Law. `push` takes the next row and returns outcomes in the order they happen: each row that was pushed leaves exactly
once, through `push` or, where the input ends, through `finish`; until then it is in `pending`. Outcomes depend on the
rows and the policy alone. `restore(snapshot())` goes on as if nothing had happened.

The live order of events at one row: the row itself (delivered, held, duplicate or quarantined), whatever it sets free,
then the policy's look at the rows held longest.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from thence.delivery.foreign import ForeignLane
from thence.delivery.lane import Held, Lane, Need, Source
from thence.delivery.outcome import Kind, Outcome, Waiting
from thence.delivery.policy import Policy
from thence.delivery.reading import Read, Reading
from thence.errors import MisuseError, TraceError


class Meta(NamedTuple):
    """What is kept of a held row beside the rule's own: its order, its id, and when it came."""

    order: str | None
    message: str | None
    clock: float | None
    placed: int


class Engine:
    """The state machine of one key."""

    def __init__(self, reading: Reading, policy: Policy, where: str = "") -> None:
        """Start empty; `where` names the key in errors."""
        self.reading, self.policy, self.where = reading, policy, where
        self.rows = 0
        self.position = 0
        self.clock: float | None = None
        self.lanes: dict[str | None, Lane | ForeignLane] = {}
        self.meta: dict[int, Meta] = {}

    # -- rows ------------------------------------------------------------------------------------------------------

    def push(self, read: Read | str, message: str | None = None, time: float | None = None) -> list[Outcome]:
        """Take the next row: what was read of it (or why nothing could be), its id, its event time."""
        self.rows += 1
        ticket = self.rows
        if time is not None and (self.clock is None or time > self.clock):
            self.clock = time
        out: list[Outcome] = []
        if isinstance(read, str):
            out.append(Outcome(ticket, "quarantined", reason=read))
        else:
            self._arrive(ticket, read, message, out)
        if self.meta:
            self._enforce(out)
        return out

    def _arrive(self, ticket: int, read: Read, message: str | None, out: list[Outcome]) -> None:
        lane = self._lane(read)
        if isinstance(lane, ForeignLane):
            self._foreign(lane, ticket, read, message, out)
            return
        why = lane.known(read.source, read.number)
        if why is not None:
            out.append(Outcome(ticket, "duplicate", reason=why))
            return
        if self.reading.by == "clock":
            lane.seen[read.source] = lane.seen.get(read.source, 0) + 1
        unmet = lane.unmet(read.needs)
        if not unmet:
            gap = lane.gap(read.needs) if lane.solid else ()
            self._place(lane, ticket, Held(read.source, read.number, ()), None, gap, out)
            self._cascade(lane, read.source, out)
            return
        lane.hold(ticket, read.source, read.number, unmet)
        self.meta[ticket] = Meta(read.order, message, self.clock, self.position)
        if lane.cyclic:
            self._quarantine_cycle(lane, ticket, out)

    def _lane(self, read: Read) -> Lane | ForeignLane:
        lane = self.lanes.get(read.order)
        if lane is None:
            lane = self.lanes[read.order] = self.new_lane(read)
        return lane

    def new_lane(self, read: Read | None = None) -> Lane | ForeignLane:
        """Return an empty lane of the kind that these rows need."""
        if self.reading.shared:
            cyclic = self.reading.by == "depends_on"
            return Lane(dense=self.reading.dense, remember=self.policy.remember, cyclic=cyclic)
        if self.policy.releases:
            raise MisuseError(
                f"protocol {self.reading.protocol} does not share the delivery rule that releases need; "
                "policy='wait' or policy='fail' without remember or when_full='release' is accepted"
            )
        assert read is not None
        assert read.copy is not None
        assert self.reading.roster is not None
        assert self.reading.entry is not None
        return ForeignLane(self.reading.entry.protocol(self.reading.roster, read.copy.destination).receiver)

    def _place(
        self, lane: Lane, ticket: int, row: Held, meta: Meta | None, gap: tuple[Need, ...], out: list[Outcome]
    ) -> None:
        """Give a row that leaves its position and say how it leaves."""
        outcome: Kind = "delivered"
        reason = None
        missing = self._names(gap)
        if lane.late(row.source, row.number):
            outcome, reason = "late", "it came after an effect of it was released"
        elif gap:
            outcome, reason = "released", f"released without {_listed(missing)}"
            if lane.cyclic and self.policy.name != "release" and not self.policy.releases_when_full:
                outcome = "delivered"
                reason = f"{_listed(missing)} not among the last {lane.remember} ids: counts as delivered"
        lane.deliver(row.source, row.number)
        self.position += 1
        out.append(
            Outcome(
                ticket,
                outcome,
                self.position,
                self._names(row.needs),
                self.rows - ticket,
                self._seconds(meta),
                reason,
                missing,
            )
        )

    def _seconds(self, meta: Meta | None) -> float | None:
        if self.clock is None:
            return None
        if meta is None:
            return 0.0
        return None if meta.clock is None else self.clock - meta.clock

    def _cascade(self, lane: Lane, source: Source, out: list[Outcome]) -> None:
        ready = lane.freed(source)
        heapify(ready)
        while ready:
            ticket = heappop(ready)
            row = lane.take(ticket)
            gap = lane.gap(row.needs) if lane.solid else ()
            self._place(lane, ticket, row, self.meta.pop(ticket), gap, out)
            for freed in lane.freed(row.source):
                heappush(ready, freed)

    def _foreign(self, lane: ForeignLane, ticket: int, read: Read, message: str | None, out: list[Outcome]) -> None:
        assert read.copy is not None
        verdict, delivered, waits = lane.arrive(ticket, read.copy)
        if verdict == "duplicate":
            out.append(Outcome(ticket, "duplicate", reason="it was delivered before, or is held already"))
        elif verdict == "hold":
            lane.waits[ticket] = tuple(str(cause) for cause in waits)
            self.meta[ticket] = Meta(read.order, message, self.clock, self.position)
        for freed in delivered:
            self.position += 1
            meta = self.meta.pop(freed, None)
            waited = lane.waits.pop(freed, ())
            out.append(Outcome(freed, "delivered", self.position, waited, self.rows - freed, self._seconds(meta)))

    def _quarantine_cycle(self, lane: Lane, ticket: int, out: list[Outcome]) -> None:
        path = lane.cycle(ticket)
        if not path:
            return
        names = [str(lane.held[t].source) for t in path]
        reason = f"cycle: {' depends on '.join([*names, names[0]])}"
        for member in sorted(path):
            row = lane.take(member)
            meta = self.meta.pop(member)
            out.append(
                Outcome(
                    member,
                    "quarantined",
                    None,
                    self._names(row.needs),
                    self.rows - member,
                    self._seconds(meta),
                    reason,
                )
            )

    # -- causes that do not come -----------------------------------------------------------------------------------

    def _enforce(self, out: list[Outcome]) -> None:
        """Apply the policy to the rows held longest."""
        while self.meta:
            ticket = next(iter(self.meta))
            why = self._expired(ticket)
            if why is not None and self.policy.name == "fail":
                raise TraceError(f"{self.where}{why}: {self._explain(ticket).reason}")
            why = why or self._overflow(ticket) or self._forgotten(ticket)
            if why is None:
                return
            self._force(ticket, why, out)

    def _expired(self, ticket: int) -> str | None:
        policy = self.policy
        if policy.after_rows is not None and self.rows - ticket >= policy.after_rows:
            return f"after {policy.after_rows} later rows"
        since = self.meta[ticket].clock
        if policy.after_seconds is None or self.clock is None or since is None:
            return None
        return f"after {policy.after_seconds:g} s of event time" if self.clock - since >= policy.after_seconds else None

    def _overflow(self, ticket: int) -> str | None:
        limit = self.policy.held_limit
        if limit is None or len(self.meta) <= limit:
            return None
        if self.policy.when_full == "fail":
            raise TraceError(f"{self.where}more than {limit} rows are held: {self._explain(ticket).reason}")
        return f"since more than {limit} rows were held"

    def _forgotten(self, ticket: int) -> str | None:
        remember = self.policy.remember
        if remember is None or self.reading.by != "depends_on" or self.position - self.meta[ticket].placed < remember:
            return None
        return f"after {remember} further deliveries"

    def _force(self, ticket: int, why: str, out: list[Outcome]) -> None:
        """Give up roots, and let go whatever that sets free, until this row has left."""
        lane = self.lanes[self.meta[ticket].order]
        assert isinstance(lane, Lane)
        start = len(out)
        while ticket in self.meta:
            self._cascade(lane, lane.give_up(ticket), out)
        out[start:] = [o._replace(reason=f"{o.reason}, {why}") if o.outcome == "released" else o for o in out[start:]]

    def flush(self, why: str) -> list[Outcome]:
        """Let everything go that is held: for a destination that has fallen idle."""
        out: list[Outcome] = []
        while self.meta:
            self._force(next(iter(self.meta)), why, out)
        return out

    # -- what is held ----------------------------------------------------------------------------------------------

    def pending(self) -> Iterator[Waiting]:
        """Explain every held row, in the order of arrival."""
        for ticket in self.meta:
            yield self._explain(ticket)

    def finish(self) -> list[Outcome]:
        """Return the rest as blocked: the input has ended. Under policy='fail' a rest is an error."""
        out = []
        for waiting in self.pending():
            if self.policy.name == "fail":
                raise TraceError(f"{self.where}{len(self.meta)} rows wait at the end: {waiting.reason}")
            lane = self.lanes[self.meta[waiting.ticket].order]
            if isinstance(lane, Lane):
                waited = self._names(lane.held[waiting.ticket].needs)
            else:
                waited = lane.waits[waiting.ticket]
            out.append(
                Outcome(
                    waiting.ticket,
                    "blocked",
                    None,
                    waited,
                    waiting.held_for,
                    waiting.held_seconds,
                    waiting.reason,
                    waiting.missing,
                    waiting.blocker,
                )
            )
        return out

    def _explain(self, ticket: int) -> Waiting:
        meta = self.meta[ticket]
        lane = self.lanes[meta.order]
        if isinstance(lane, ForeignLane):
            missing = lane.missing(ticket)
            blocker = missing[0] if missing else ""
            reason = f"waits for {_listed(missing)}"
        else:
            unmet = lane.unmet(lane.held[ticket].needs)
            missing = self._names(lane.absent(unmet))
            root = lane.root(ticket)
            blocker = self.reading.name(*root)
            reason = f"waits for {_listed(missing)}; {blocker} has not arrived{self._suspicion(lane, root, unmet)}"
        return Waiting(ticket, meta.message, missing, blocker, self.rows - ticket, self._seconds(meta), reason)

    def _suspicion(self, lane: Lane, root: Need, unmet: tuple[Need, ...]) -> str:
        """Say so where a component of a clock counts things that this destination does not get."""
        if self.reading.by != "clock":
            return ""
        source = root[0]
        wanted = max([t for s, t in unmet if s == source], default=root[1])
        seen = lane.seen.get(source, 0)
        if 2 * seen > wanted:
            return ""
        return (
            f"; component {source} says {wanted}, and {seen} messages of {source} came here: looks like a clock that "
            "counts all events"
        )

    def _names(self, needs: tuple[Need, ...]) -> tuple[str, ...]:
        if not needs:
            return ()
        name = self.reading.name
        return tuple([name(source, number) for source, number in needs])


def _listed(names: tuple[str, ...], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
