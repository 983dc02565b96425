# mypy: ignore-errors
# C types are in sources_cy.pxd and outcome_cy.pxd, where mypy does not see them.
"""The delivery rule of one key: rows in arrival order in, outcomes out.

*Invariant.* Each row that was taken leaves exactly once, as an `Outcome`, or is in `kept`. Outcomes depend on the rows
and the policy alone, not on how the rows are batched. The order of events at a row: its time, the row itself, whatever
it sets free (the row that came first among the free goes next), then the policy's look at the rows held longest.

What is known of sources, holes and roots is in `sources_cy.py`, cycles in `cycles_cy.py`. `_leave` says how a row
leaves, `meet` that its effects need not wait for it: at once, or (`completion_cy.py`) when its handler is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop
from math import inf, nan
from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

from thence.errors import MisuseError, TraceError
from thence.tables.delivery.cycles_cy import Cycles
from thence.tables.delivery.member_rule import ForeignRule, receiver_of, refusal
from thence.tables.delivery.outcome import KINDS, Kind, Waiting, counts_all, listed
from thence.tables.delivery.sources_cy import FOREVER, STALE

if cython.compiled:
    from cython.cimports.thence.tables.delivery.completion_cy import Completion
    from cython.cimports.thence.tables.delivery.outcome_cy import Outcome, outcome
    from cython.cimports.thence.tables.delivery.sources_cy import Row, Source, held_row, in_hole
else:
    from thence.tables.delivery.completion_cy import Completion
    from thence.tables.delivery.outcome_cy import Outcome, outcome
    from thence.tables.delivery.sources_cy import Row, Source, held_row, in_hole

if TYPE_CHECKING:
    from thence.tables.delivery.policy import Policy
    from thence.tables.delivery.reading import Read, Reading

DELIVERED: cython.int = KINDS.index(Kind.DELIVERED)
RELEASED: cython.int = KINDS.index(Kind.RELEASED)
LATE: cython.int = KINDS.index(Kind.LATE)
DUPLICATE: cython.int = KINDS.index(Kind.DUPLICATE)
BLOCKED: cython.int = KINDS.index(Kind.BLOCKED)
QUARANTINED: cython.int = KINDS.index(Kind.QUARANTINED)


@cython.final
@cython.cclass
class Rule(Completion):
    """The state machine of one key."""

    policy = cython.declare(object, visibility="public")
    where = cython.declare(object, visibility="public")
    rows = cython.declare(cython.longlong, visibility="public")
    position = cython.declare(cython.longlong, visibility="public")
    moment = cython.declare(cython.longlong, visibility="public")
    now = cython.declare(cython.double, visibility="public")
    began = cython.declare(cython.double, visibility="public")
    doubted = cython.declare(cython.double, visibility="public")
    foreign = cython.declare(dict, visibility="public")
    counted: cython.bint
    limited: cython.bint
    after_rows: cython.longlong
    after_seconds: cython.double
    held_limit: cython.longlong
    max_jump: cython.double
    queue: object
    cycles: object

    def __init__(self, reading: Reading, policy: Policy, where: str = "") -> None:
        """Start empty; `where` names the key in errors."""
        Completion.__init__(self, reading, policy.remember)
        self.policy, self.where, self.counted = policy, where, reading.by == "clock"
        self.rows = self.position = self.moment = 0
        self.now = self.began = self.doubted = nan
        self.foreign: dict[str | None, ForeignRule] = {}
        self.after_seconds = inf if policy.after_seconds is None else policy.after_seconds
        self.after_rows, self.held_limit = policy.after_rows or FOREVER, policy.held_limit or FOREVER
        self.max_jump = inf if policy.max_jump is None else policy.max_jump
        self.limited = self.after_rows < FOREVER or self.held_limit < FOREVER or self.after_seconds < inf
        self.queue = deque()  # held rows in arrival order where there is a limit; some may have left
        self.cycles = Cycles(self.kept)

    # -- rows ------------------------------------------------------------------------------------------------------

    def push(self, read: Read | str, message: object = None, time: float | None = None) -> list[Outcome]:
        """Take the next row: what was read of it (or why it is unusable), its id, its event time."""
        out: list = []
        self._step(read, message, nan if time is None else time, out)
        return out

    def take(
        self, reads: list[Read | str], messages: list[object] | None, times: list[float] | None, moment: int = 0
    ) -> list[Outcome]:
        """Take rows that came together. A time is NaN where a row has none; `moment` is processing time in ms."""
        out: list = []
        place: cython.Py_ssize_t
        self.moment = moment
        if self.cyclic:
            self.cycles.expect(self.rows + 1, reads)
        for place in range(len(reads)):
            message = None if messages is None else messages[place]
            self._step(reads[place], message, nan if times is None else times[place], out)
        if self.cyclic:
            self.cycles.expect(0, [])
        return out

    @cython.cfunc
    def _step(self, read: object, message: object, time: cython.double, out: list) -> cython.void:
        ahead: cython.double = nan
        self.rows += 1
        if time == time:
            ahead = self._see(time)
        if isinstance(read, str):
            out.append(outcome(self.rows, QUARANTINED, self._doubting(read, ahead)))
            if self.cyclic and message is not None:
                self._note_quarantined(message)
        else:
            self._arrive(read, ahead, out)
        if self.limited and self.kept:
            self._enforce(out)

    @cython.cfunc
    def _see(self, time: cython.double) -> cython.double:
        """Let event time move on; return how far ahead a time is that is not believed, else NaN."""
        ahead: cython.double
        if self.max_jump == inf or time - self.now <= self.max_jump:
            self._move(time)
            self.doubted = nan
            return nan
        if self.doubted == self.doubted:
            self._move(min(time, self.doubted))
            ahead = time - self.now
            self.doubted = time if ahead > self.max_jump else nan
            return ahead if ahead > self.max_jump else nan
        self.doubted = time
        return time - self.now  # NaN while no time is known

    @cython.cfunc
    def _move(self, time: cython.double) -> cython.void:
        if self.now != self.now:
            self.now = self.began = time
        elif time > self.now:
            self.now = time

    @cython.cfunc
    def _doubting(self, reason: object, ahead: cython.double) -> object:
        """Add to a reason that the row's time was not believed."""
        if ahead != ahead:
            return reason
        words: str = self.policy.not_believed(ahead)
        return words if reason is None else f"{reason}; {words}"

    @cython.cfunc
    def _seconds(self, since: cython.double) -> cython.double:
        """Return how long ago a moment was; NaN while no time is known."""
        return self.now - (self.began if since != since else since)

    def _note_quarantined(self, message: object) -> None:
        source: Source = self.source(self.order(None), str(message))
        if source.level < 1 and source.row is None:
            source.quarantined = True
            self.note(source)

    @cython.cfunc
    def _arrive(self, read: tuple, ahead: cython.double, out: list) -> cython.void:
        """Deliver a row, hold it, or call it a duplicate."""
        number: cython.longlong = read[2]
        if read[5] is not None:
            self._at_receiver(read[0], read[5], ahead, out)
            return
        sources: dict = self.order(read[0])
        own: Source = self.known(sources, read[1]) if self.cyclic else self.source(sources, read[1])
        if own is not None:
            repeat: object = self.repeat(own, number)
            if repeat is not None:
                out.append(outcome(self.rows, DUPLICATE, self._doubting(repeat, ahead)))
                return
            if self.counted:
                own.seen += 1
                self.note(own)
        waited: list = self.unmet(sources, read[3], read[4])
        if self.dead and (dead := self.behind([(own, number), *(waited or ())])) is not None:
            reason = self._doubting(f"behind {dead}, which was dead-lettered", ahead)
            out.append(outcome(self.rows, QUARANTINED, reason))
            self.bury(self.source(sources, read[1]), number, reason, out)
            return
        if waited is None:
            gap: tuple = self.absent(self.needs(sources, read[3], read[4])) if self.holes else None
            self._leave(self.rows, own, number, (), self.now, ahead, gap, out)
            self._deliver(sources, own, read, self.rows)
            if own is not None and own.watchers is not None:
                self.cascade(own, out)
            return
        row: Row = held_row(self.rows, read[0], self.source(sources, read[1]), number)
        row.waited = waited
        row.needs = waited
        if self.holes:
            row.needs = [need for need in self.needs(sources, read[3], read[4]) if self.lacks(need[0], need[1])]
        row.since, row.ahead, row.came = self.now, ahead, self.moment
        self.keep(row)
        if self.cyclic and row.source.wanting is not None:
            members: list = self.cycles.of(sources, row)
            if members:
                self._quarantine(members, out)

    @cython.ccall
    def keep(self, row: Row) -> object:
        """Hold a row; a receiver with a rule of its own holds its rows itself, and here they are only listed."""
        if row.source is None:
            self.kept[row.ticket] = row
        else:
            self.hold(row)
        if self.limited:
            self.queue.append(row)
            if len(self.queue) > 2 * len(self.kept) + STALE:
                self.queue = deque(self.kept.values())

    @cython.cfunc
    def _deliver(self, sources: dict, own: Source | None, identity: tuple, ticket: cython.longlong) -> cython.void:
        if self.started is None:
            self.meet(sources, own, identity[1], identity[2])
        else:
            self.start(sources, own, identity, ticket)

    @cython.cfunc
    def meet(self, sources: dict, own: Source | None, name: object, number: cython.longlong) -> cython.void:
        """Count a row as delivered, within the policy's limit on ids that are only fingerprints."""
        self.met(sources, own, name, number)
        if self.recent is None:
            return
        if self.policy.filter_limit is not None and len(self.forgotten) > self.policy.filter_limit:
            raise TraceError(f"{self.where}{self.policy.too_many_forgotten()}")

    @cython.cfunc
    def cascade(self, source: Source, out: list) -> cython.void:
        """Let go the rows that a source set free, first come first served, and what they set free."""
        row: Row
        gap: tuple
        ready: list = []
        self.wake(source, ready)
        while ready:
            row = heappop(ready)[1]
            self.remove(row)
            source = row.source
            gap = self.absent(row.needs) if self.holes else None
            self._leave(row.ticket, source, row.number, row.waited, row.since, row.ahead, gap, out)
            self._deliver(self.orders[row.label], source, (row.label, source.name, row.number), row.ticket)
            if source.watchers is not None:
                self.wake(source, ready)

    @cython.cfunc
    def _leave(
        self, ticket: cython.longlong, own: Source | None, number: cython.longlong, waited: object,
        since: cython.double, ahead: cython.double, gap: tuple | None, out: list,
    ) -> cython.void:  # fmt: skip
        """Give a row that leaves its position, and say how it leaves; `gap`: what it goes without, and how much."""
        made: Outcome = outcome(ticket, DELIVERED, None)
        self.position += 1
        made.position, made.held_for = self.position, self.rows - ticket
        made.held_seconds = self._seconds(since)
        made.waited_for = self.names(waited)
        if gap is not None and gap[1]:
            made.kind, made.missing = RELEASED, self.names(gap[0])
            made.reason = f"released without {listed(made.missing, gap[1])}{self.why}"
        if own is not None and own.holes is not None and in_hole(own, number):
            made.kind, made.reason = LATE, "it came after it was given up"
        if ahead == ahead:
            made.reason = self._doubting(made.reason, ahead)
        out.append(made)

    @cython.cfunc
    def _quarantine(self, members: list, out: list) -> cython.void:
        """Set aside rows that are on a cycle."""
        member: Row
        reason: str = f"on a cycle of causes: {listed([each.source.name for each in members])}"
        for each in members:
            member = each
            self.remove(member)
            member.source.quarantined = True
            self.note(member.source)
            out.append(self.unplaced(member, QUARANTINED, reason))

    @cython.cfunc
    def unplaced(self, row: Row, kind: cython.int, reason: object) -> Outcome:
        """Return the outcome of a held row that leaves without a position."""
        made: Outcome = outcome(row.ticket, kind, self._doubting(reason, row.ahead))
        made.waited_for, made.held_for = self.names(row.waited), self.rows - row.ticket
        made.held_seconds = self._seconds(row.since)
        return made

    @cython.cfunc
    def _at_receiver(self, label: object, copy: object, ahead: cython.double, out: list) -> cython.void:
        """Hand a copy to the receiver of a protocol that has a rule of its own."""
        row: Row
        receiver = self.foreign.get(label) or self.receiver(label, copy.destination)
        verdict, freed, waits = receiver.arrive(self.rows, copy)
        if verdict == "duplicate":
            reason = self._doubting("it was delivered before, or is held already", ahead)
            out.append(outcome(self.rows, DUPLICATE, reason))
        elif verdict == "hold":
            row = held_row(self.rows, label, None, 0)
            row.waited = waits
            row.since, row.ahead, row.came = self.now, ahead, self.moment
            self.keep(row)
        for ticket in freed:
            row = self.kept.pop(ticket, None)
            if row is None:
                self._leave(ticket, None, 0, (), self.now, ahead, None, out)
            else:
                row.here = False
                self._leave(ticket, None, 0, row.waited, row.since, row.ahead, None, out)

    def receiver(self, label: str | None, destination: int) -> ForeignRule:
        """Begin with an empty receiver of this key's protocol, which has a rule of its own."""
        if self.started is not None:
            raise MisuseError(
                f"protocol {self.reading.protocol} decides by a rule of its own, which Gate cannot follow"
            )
        self.foreign[label] = receiver_of(self.reading, self.policy, destination)
        return self.foreign[label]

    # -- causes that do not come -----------------------------------------------------------------------------------

    @cython.cfunc
    def _enforce(self, out: list) -> cython.void:
        """Apply the policy to the rows held longest: theirs is the first deadline."""
        row: Row
        queue = self.queue
        while self.kept:
            while not queue[0].here:
                queue.popleft()
            row = queue[0]
            why = self._expired(row)
            if why is not None and self.policy.name == "fail":
                raise TraceError(f"{self.where}{why}: {self._explained(row, {}).reason}")
            if why is None and len(self.kept) > self.held_limit:
                if self.policy.when_full == "fail":
                    reason = self._explained(row, {}).reason
                    raise TraceError(f"{self.where}more than {self.held_limit} rows are held: {reason}")
                why = self.policy.too_many()
            if why is None:
                return
            self._force(row, why, out)

    @cython.cfunc
    def _expired(self, row: Row) -> object:
        if self.rows - row.ticket >= self.after_rows:
            return self.policy.after_so_many_rows()
        return self.policy.after_so_long() if self._seconds(row.since) >= self.after_seconds else None

    @cython.cfunc
    def _force(self, row: Row, why: object, out: list) -> cython.void:
        """Give up roots, and let go whatever that sets free, until this row has left."""
        if row.source is None:
            raise MisuseError(refusal(self.reading))
        self.why = f", {why}"
        while row.here:
            self.give_up_root(row, out)
        self.why = ""

    def flush(self, why: str, came_by: int | None = None) -> list[Outcome]:
        """Let go what is held; with `came_by`, only rows that came by then (processing time in milliseconds)."""
        out: list = []
        row: Row
        for each in list(self.kept.values()):
            row = each
            if came_by is not None and row.here and row.came > came_by:
                break
            if row.here:
                self._force(row, why, out)
        return out

    # -- what is held ----------------------------------------------------------------------------------------------

    def pending(self) -> Iterator[Waiting]:
        """Explain every held row, in arrival order."""
        found: dict = {}
        return iter([self._explained(row, found) for row in self.kept.values()])

    def finish(self) -> list[Outcome]:
        """Return the rest as blocked: the input has ended. Under policy='fail' a rest is an error."""
        out: list = []
        made: Outcome
        for each in self.pending():
            if self.policy.name == "fail":
                held = f"{len(self.kept)} row{'s' * (len(self.kept) != 1)} held at the end"
                raise TraceError(f"{self.where}{held}: {each.reason}")
            made = self.unplaced(self.kept[each.ticket], BLOCKED, each.reason)
            made.missing, made.blocker = each.missing, each.blocker
            out.append(made)
        return out

    def clear(self) -> None:
        """Forget what is held and what was delivered, after `finish`."""
        for each in (self.kept, self.orders, self.foreign, self.queue):
            each.clear()
        self.holes = 0

    @cython.cfunc
    def _explained(self, row: Row, found: dict) -> object:
        """Say what a held row waits for; `found` holds the roots that are known."""
        if row.source is None:
            missing = self.foreign[row.label].missing(row.ticket)
            blocker, reason = missing[0] if missing else "", f"waits for {listed(missing)}"
        else:
            gap: tuple = self.absent(row.needs)
            root: object = self.root(row, found)
            need: tuple = self.blocker(row, root)
            missing, blocker = self.names(gap[0]), self.name(need[0], need[1])
            reason = f"waits for {listed(missing, gap[1])}; {self._about(row, root, need, blocker)}"
        seconds: cython.double = self._seconds(row.since)
        held: cython.longlong = self.rows - row.ticket
        return Waiting(row.ticket, tuple(missing), blocker, held, None if seconds != seconds else seconds, reason)

    @cython.cfunc
    def _about(self, row: Row, root: object, need: tuple, blocker: str) -> str:
        """Say what is known of a blocker; also where a clock seems to count messages that do not come here."""
        source: Source = need[0]
        if root is None:
            return "these causes wait for each other"
        running: Row = self.held_at(source, need[1])
        if running is not None and not running.here:
            return f"{blocker} has not finished"
        if source.quarantined:
            return f"{blocker} was quarantined"
        wanted = max([each[1] for each in row.waited if each[0] is source], default=0) if self.counted else 0
        if not wanted or 2 * source.seen > wanted:
            return f"{blocker} has not arrived"
        return f"{blocker} has not arrived; {counts_all(source.name, wanted, source.seen)}"
