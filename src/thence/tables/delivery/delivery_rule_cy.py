# cython: boundscheck=False, wraparound=False, initializedcheck=False
# boundscheck: places are those of a batch whose arrays agree in length; codes are those of `codes_cy.py`.
# wraparound: no index is negative.
# initializedcheck: every array is set when its object is made.
# mypy: ignore-errors
# C types are in the .pxd files of the modules below it, where mypy does not see them.
"""The delivery rule of one key: rows in arrival order in, outcomes out.

*Invariant.* Each row that was taken leaves exactly once, as an `Outcome`, or is in `kept`. Outcomes depend on the rows
and the policy alone, not on how the rows are batched. The order of events at a row: its time, the row itself, whatever
it sets free (the row that came first among the free goes next), then the policy's look at the rows held longest.

Rows come by name one by one (`push`), or as numbers in a batch (`take`). The sources of a key are in `codes_cy.py`,
what is known of them, holes and roots in `sources_cy.py`, time and explanations in `waits_cy.py`, cycles in
`cycles_cy.py`. `_leave` says how a row leaves, `met` that its effects need not wait for it: at once, or when its
handler is done (`completion_cy.py`).
"""

from __future__ import annotations

from array import array
from collections import deque
from heapq import heappop
from math import inf, nan
from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

from thence.errors import MisuseError, TraceError
from thence.tables.delivery.codes_cy import FOREVER
from thence.tables.delivery.cycles_cy import Cycles
from thence.tables.delivery.member_rule import refusal
from thence.tables.delivery.outcome import KINDS, Kind, listed
from thence.tables.delivery.sources_cy import STALE

if cython.compiled:
    from cython.cimports.thence.tables.delivery.coded_rows_cy import CodedRows
    from cython.cimports.thence.tables.delivery.codes_cy import Row, Source, held_row, in_hole
    from cython.cimports.thence.tables.delivery.outcome_cy import Outcomes
    from cython.cimports.thence.tables.delivery.waits_cy import Waits
else:
    from thence.tables.delivery.coded_rows_cy import CodedRows
    from thence.tables.delivery.codes_cy import Row, Source, held_row, in_hole
    from thence.tables.delivery.outcome_cy import Outcomes
    from thence.tables.delivery.waits_cy import Waits

if TYPE_CHECKING:
    from thence.tables.delivery.outcome_cy import Outcome
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
class Rule(Waits):
    """The state machine of one key."""

    position = cython.declare(cython.longlong, visibility="public")
    moment = cython.declare(cython.longlong, visibility="public")
    limited: cython.bint
    after_rows: cython.longlong
    after_seconds: cython.double
    held_limit: cython.longlong
    queue: object
    cycles: object
    single: Outcomes
    need: cython.int[::1]
    wanted: cython.longlong[::1]

    def __init__(self, reading: Reading, policy: Policy, where: str = "") -> None:
        """Start empty; `where` names the key in errors."""
        Waits.__init__(self, reading, policy, where)
        self.position = self.moment = 0
        self.after_seconds = inf if policy.after_seconds is None else policy.after_seconds
        self.after_rows, self.held_limit = policy.after_rows or FOREVER, policy.held_limit or FOREVER
        self.limited = self.after_rows < FOREVER or self.held_limit < FOREVER or self.after_seconds < inf
        self.queue = deque()  # held rows in arrival order where there is a limit; some may have left
        self.cycles = Cycles(self.kept)
        self.single = None
        self.need, self.wanted = array("i"), array("q")

    # -- rows ------------------------------------------------------------------------------------------------------

    def push(self, read: Read | str, message: object = None, time: float | None = None) -> list[Outcome]:
        """Take the next row: what was read of it (or why it is unusable), its id, its event time."""
        out: Outcomes = self.begun(None)
        ahead: cython.double = self._next(nan if time is None else time)
        if isinstance(read, str):
            self._refuse(-1 if message is None or not self.cyclic else self.code(None, str(message)), read, ahead, out)
        else:
            self._read(read, ahead, out)
        if self.limited and self.kept:
            self._enforce(out)
        self._end()
        return out.listed()

    def take(
        self, rows: CodedRows, first: cython.Py_ssize_t, last: cython.Py_ssize_t, times: object, out: Outcomes,
        moment: cython.longlong = 0, refused: str | None = None,
    ) -> None:  # fmt: skip
        """Take the rows of a batch from one place to another; add what leaves to `out`.

        `times`: seconds, NaN where a row has none. `moment` is processing time in ms. `refused`: why no row of this key
        can be delivered.
        """
        place: cython.Py_ssize_t
        own: cython.longlong
        timed: cython.bint = times is not None
        time: cython.double[::1] = memoryview(times if timed else array("d"))
        self.moment = moment
        self.enter(rows, first, last)
        if self.cyclic:
            self.cycles.expect(self.rows + 1, rows, first, last)
        self.need, self.wanted = rows.need, rows.wanted
        for place in range(first, last):
            ahead: cython.double = self._next(time[place] if timed else nan)
            own = rows.own[place]
            if refused is not None:
                self._refuse(own if own >= 0 else -2 - own, refused, ahead, out)
            elif own >= 0:
                number: cython.longlong = 1 if self.cyclic else rows.number[place]
                self._arrive(None, own, number, rows.start[place], rows.start[place + 1], ahead, out)
            else:
                read = rows.odd[place]
                if isinstance(read, str):
                    self._refuse(-2 - own, read, ahead, out)
                else:
                    self._read(read, ahead, out)
                    self.need, self.wanted = rows.need, rows.wanted
            if self.limited and self.kept:
                self._enforce(out)
        if self.cyclic:
            self.cycles.expect(0, None, 0, 0)
        self.need, self.wanted = array("i"), array("q")
        self._end()

    @cython.cfunc
    def begun(self, into: Outcomes | None) -> Outcomes:
        """Return where outcomes go: those of one call have columns of their own."""
        if into is not None:
            return into
        if self.single is None:
            self.single = Outcomes()
        self.single.clear()
        return self.single

    @cython.cfunc
    def _next(self, time: cython.double) -> cython.double:
        """Begin with a row; return how far ahead its time is if it is not believed, else NaN."""
        self.rows += 1
        return self.see(time) if time == time else nan

    @cython.cfunc
    def _end(self) -> cython.void:
        """End a call, within the policy's limit on ids that are only fingerprints."""
        if self.lexicon is not None and self.recent is None:
            return  # the names may never be asked for
        if self.delivered or self.loose:
            self.tidy()
        if self.recent is None:
            return
        if self.policy.filter_limit is not None and len(self.forgotten) > self.policy.filter_limit:
            raise TraceError(f"{self.where}{self.policy.too_many_forgotten()}")

    @cython.cfunc
    def _refuse(self, code: cython.longlong, why: object, ahead: cython.double, out: Outcomes) -> cython.void:
        """Quarantine a row as it comes; its id, if it has one, counts as quarantined."""
        source: Source
        out.add(self.rows, QUARANTINED, self.doubting(why, ahead))
        if self.cyclic and code >= 0 and self.level[code] < 1:
            source = self.source(code)
            if source.row is None:
                source.quarantined = True
                self.note(code)

    @cython.cfunc
    def _read(self, read: tuple, ahead: cython.double, out: Outcomes) -> cython.void:
        """Take a row that was read alone, by its names."""
        if read[5] is not None:
            self._at_receiver(read[0], read[5], ahead, out)
            return
        need, wanted = array("i"), array("q")
        for name in read[3]:
            need.append(self.code(read[0], name))
        if read[4] is not None:
            wanted.extend(read[4])
        own: cython.longlong = self.code(read[0], read[1])
        self.need, self.wanted = need, wanted
        self._arrive(read[0], own, read[2], 0, len(need), ahead, out)

    @cython.cfunc
    def _arrive(
        self, label: object, own: cython.longlong, number: cython.longlong, first: cython.Py_ssize_t,
        last: cython.Py_ssize_t, ahead: cython.double, out: Outcomes,
    ) -> cython.void:  # fmt: skip
        """Deliver a row, hold it, or call it a duplicate; its needs are those of `need` from `first` up to `last`."""
        at: cython.Py_ssize_t
        source: Source = self.extra[own]
        met: cython.bint = True
        if source is not None or self.level[own] >= number:
            repeat: object = self.repeat(source, own, number)
            if repeat is not None:
                out.add(self.rows, DUPLICATE, self.doubting(repeat, ahead))
                return
        if self.counted:
            source = self.source(own)
            source.seen += 1
            self.note(own)
        for at in range(first, last):
            if self.level[self.need[at]] < (1 if self.cyclic else self.wanted[at]):
                met = False
                break
        if self.dead and (dead := self.behind([(own, number), *self._needs(first, last, True)])) is not None:
            reason = self.doubting(f"behind {dead}, which was dead-lettered", ahead)
            self.bury(own, number, reason, out)
            out.add(self.rows, QUARANTINED, reason)
            return
        if met:
            gap: tuple = self.absent(self._needs(first, last, False)) if self.holes else None
            self._leave(self.rows, own, number, (), self.now, ahead, gap, out)
            self._deliver(label, own, number, self.rows)
            source = self.extra[own]
            if source is not None and source.watchers is not None and self.started is None:
                self.cascade(own, out)
            return
        row: Row = held_row(self.rows, label, own, number)
        row.needs = row.waited = self._needs(first, last, True)
        if self.holes:
            row.needs = [need for need in self._needs(first, last, False) if self.lacks(need[0], need[1])]
        row.since, row.ahead, row.came = self.now, ahead, self.moment
        self.keep(row)
        if self.cyclic:
            source = self.extra[own]
            if source.watchers is not None:
                members: list = self.cycles.of(self, row)
                if members:
                    self._quarantine(members, out)

    @cython.cfunc
    def _needs(self, first: cython.Py_ssize_t, last: cython.Py_ssize_t, unmet: cython.bint) -> list:
        """Return the needs of the row that comes as pairs, or only those that are not met."""
        at: cython.Py_ssize_t
        wanted: cython.longlong = 1
        found: list = []
        for at in range(first, last):
            if not self.cyclic:
                wanted = self.wanted[at]
            if not unmet or self.level[self.need[at]] < wanted:
                found.append((self.need[at], wanted))
        return found

    @cython.ccall
    def keep(self, row: Row) -> object:
        """Hold a row; a receiver with a rule of its own holds its rows itself, and here they are only listed."""
        if row.code < 0:
            self.kept[row.ticket] = row
        else:
            self.hold(row)
        if self.limited:
            self.queue.append(row)
            if len(self.queue) > 2 * len(self.kept) + STALE:
                self.queue = deque(self.kept.values())

    @cython.cfunc
    def _deliver(
        self, label: object, code: cython.longlong, number: cython.longlong, ticket: cython.longlong
    ) -> cython.void:
        if self.started is None:
            self.met(code, number)
        else:
            self.start(label, code, number, ticket)

    @cython.cfunc
    def cascade(self, code: cython.longlong, out: Outcomes) -> cython.void:
        """Let go the rows that a source set free, first come first served, and what they set free."""
        row: Row
        gap: tuple
        ready: list = []
        self.wake(code, ready)
        while ready:
            row = heappop(ready)
            self.remove(row)
            gap = self.absent(row.needs) if self.holes else None
            self._leave(row.ticket, row.code, row.number, row.waited, row.since, row.ahead, gap, out)
            self._deliver(row.label, row.code, row.number, row.ticket)
            if self.started is None:
                self.wake(row.code, ready)

    @cython.cfunc
    def _leave(
        self, ticket: cython.longlong, own: cython.longlong, number: cython.longlong, waited: object,
        since: cython.double, ahead: cython.double, gap: tuple | None, out: Outcomes,
    ) -> cython.void:  # fmt: skip
        """Give a row that leaves its position, and say how it leaves; `gap`: what it goes without, and how much."""
        source: Source
        reason: object = None
        place: cython.Py_ssize_t = out.add(ticket, DELIVERED, None)
        self.position += 1
        out.position[place], out.held_for[place] = self.position, self.rows - ticket
        out.held_seconds[place] = self.seconds(since)
        if waited:
            self._waited(waited, out)
        if gap is not None and gap[1]:
            out.kind[place] = RELEASED
            out.missing[place] = self.named(gap[0])
            reason = f"released without {listed(out.missing[place], gap[1])}{self.why}"
        if own >= 0 and self.holes:
            source = self.extra[own]
            if source is not None and source.holes is not None and in_hole(source, number):
                out.kind[place], reason = LATE, "it came after it was given up"
        if ahead == ahead:
            reason = self.doubting(reason, ahead)
        if reason is not None:
            out.reason[place] = reason

    @cython.cfunc
    def _waited(self, waited: object, out: Outcomes) -> cython.void:
        """Say what the row that leaves was held for: by the batch's number, or by name."""
        if self.lexicon is not None and out.lexicon is self.lexicon:
            for need in waited:
                out.waits_for(self.origin[cython.cast(cython.longlong, need[0])])
        else:
            for text in self.named(waited):
                out.waits_for_text(text)

    @cython.cfunc
    def _quarantine(self, members: list, out: Outcomes) -> cython.void:
        """Set aside rows that are on a cycle."""
        member: Row
        source: Source
        reason: str = f"on a cycle of causes: {listed([self.text(each.code) for each in members])}"
        for each in members:
            member = each
            self.remove(member)
            source = self.source(member.code)
            source.quarantined = True
            self.note(member.code)
            self.unplaced(member, QUARANTINED, reason, out)

    @cython.cfunc
    def unplaced(self, row: Row, kind: cython.int, reason: object, out: Outcomes) -> cython.Py_ssize_t:
        """Say that a held row leaves without a position."""
        place: cython.Py_ssize_t = out.add(row.ticket, kind, self.doubting(reason, row.ahead))
        out.held_for[place], out.held_seconds[place] = self.rows - row.ticket, self.seconds(row.since)
        self._waited(row.waited, out)
        return place

    @cython.cfunc
    def _at_receiver(self, label: object, copy: object, ahead: cython.double, out: Outcomes) -> cython.void:
        """Hand a copy to the receiver of a protocol that has a rule of its own."""
        row: Row
        receiver = self.foreign.get(label) or self.receiver(label, copy.destination)
        verdict, freed, waits = receiver.arrive(self.rows, copy)
        if verdict == "duplicate":
            reason = self.doubting("it was delivered before, or is held already", ahead)
            out.add(self.rows, DUPLICATE, reason)
        elif verdict == "hold":
            row = held_row(self.rows, label, -1, 0)
            row.waited = waits
            row.since, row.ahead, row.came = self.now, ahead, self.moment
            self.keep(row)
        for ticket in freed:
            row = self.kept.pop(ticket, None)
            if row is None:
                self._leave(ticket, -1, 0, (), self.now, ahead, None, out)
            else:
                row.here = False
                self._leave(ticket, -1, 0, row.waited, row.since, row.ahead, None, out)

    # -- causes that do not come -----------------------------------------------------------------------------------

    @cython.cfunc
    def _enforce(self, out: Outcomes) -> cython.void:
        """Apply the policy to the rows held longest: theirs is the first deadline."""
        row: Row
        queue = self.queue
        while self.kept:
            while not queue[0].here:
                queue.popleft()
            row = queue[0]
            why = self._expired(row)
            if why is not None and self.policy.name == "fail":
                raise TraceError(f"{self.where}{why}: {self.explained(row, {}).reason}")
            if why is None and len(self.kept) > self.held_limit:
                if self.policy.when_full == "fail":
                    reason = self.explained(row, {}).reason
                    raise TraceError(f"{self.where}more than {self.held_limit} rows are held: {reason}")
                why = self.policy.too_many()
            if why is None:
                return
            self._force(row, why, out)

    @cython.cfunc
    def _expired(self, row: Row) -> object:
        if self.rows - row.ticket >= self.after_rows:
            return self.policy.after_so_many_rows()
        return self.policy.after_so_long() if self.seconds(row.since) >= self.after_seconds else None

    @cython.cfunc
    def _force(self, row: Row, why: object, out: Outcomes) -> cython.void:
        """Give up roots, and let go whatever that sets free, until this row has left."""
        if row.code < 0:
            raise MisuseError(refusal(self.reading))
        self.why = f", {why}"
        while row.here:
            self.give_up_root(row, out)
        self.why = ""

    def flush(self, why: str, came_by: int | None = None, into: Outcomes | None = None) -> list[Outcome]:
        """Let go what is held; with `came_by`, only rows that came by then (processing time in milliseconds)."""
        out: Outcomes = self.begun(into)
        row: Row
        for each in list(self.kept.values()):
            row = each
            if came_by is not None and row.here and row.came > came_by:
                break
            if row.here:
                self._force(row, why, out)
        return out.listed() if into is None else []

    # -- what is held ----------------------------------------------------------------------------------------------

    def finish(self, into: Outcomes | None = None) -> list[Outcome]:
        """Say that the rest is blocked: the input has ended. Under policy='fail' a rest is an error."""
        out: Outcomes = self.begun(into)
        place: cython.Py_ssize_t
        for each in self.pending():
            if self.policy.name == "fail":
                held = f"{len(self.kept)} row{'s' * (len(self.kept) != 1)} held at the end"
                raise TraceError(f"{self.where}{held}: {each.reason}")
            place = self.unplaced(self.kept[each.ticket], BLOCKED, each.reason, out)
            out.missing[place], out.blocker[place] = each.missing, each.blocker
        return out.listed() if into is None else []

    def clear(self) -> None:
        """Forget what is held and what was delivered, after `finish`."""
        for each in (self.kept, self.foreign, self.queue):
            each.clear()
        self.lose_all()
