# cython: boundscheck=False, wraparound=False, initializedcheck=False
# boundscheck: places are those of a batch whose arrays agree in length; codes are those of `codes_cy.py`.
# wraparound: no index is negative.
# initializedcheck: every array is set when its object is made.
# mypy: ignore-errors
# C types are in the .pxd files of the modules below it, where mypy does not see them.
"""The delivery rule of one key: rows in arrival order in, outcomes out.

*Invariant.* Each row that was taken leaves exactly once, as an `Outcome`, or is held. Outcomes depend on the rows
and the policy alone, not on how the rows are batched. The order of events at a row: its time, the row itself, whatever
it sets free (the row that came first among the free goes next), then the policy's look at the rows held longest.

Rows come by name one by one (`push`), or as numbers in a batch (`take`). Held rows are in `held_cy.py`, the sources of
a key in `codes_cy.py`, what is known of them, holes and roots in `sources_cy.py`, time and explanations in
`waits_cy.py`, cycles in `cycles_cy.py`. `_leave` says how a row leaves, `met` that its effects need not wait for it: at
once, or when its handler is done (`completion_cy.py`).
"""

from __future__ import annotations

from array import array
from math import inf, nan
from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

from thence.errors import MisuseError, TraceError
from thence.tables.delivery.codes_cy import FOREVER
from thence.tables.delivery.cycles_cy import Cycles
from thence.tables.delivery.held_cy import HeldRow
from thence.tables.delivery.member_rule import refusal
from thence.tables.delivery.outcome import KINDS, Kind, listed

if cython.compiled:
    from cython.cimports.thence.tables.delivery.coded_rows_cy import CodedRows
    from cython.cimports.thence.tables.delivery.codes_cy import Source, in_hole
    from cython.cimports.thence.tables.delivery.held_cy import HERE, NO_DOUBLES, NO_INTS, NO_LONGS
    from cython.cimports.thence.tables.delivery.outcome_cy import Outcomes
    from cython.cimports.thence.tables.delivery.waits_cy import Waits
else:
    from thence.tables.delivery.coded_rows_cy import CodedRows
    from thence.tables.delivery.codes_cy import Source, in_hole
    from thence.tables.delivery.held_cy import HERE, NO_DOUBLES, NO_INTS, NO_LONGS
    from thence.tables.delivery.outcome_cy import Outcomes
    from thence.tables.delivery.waits_cy import Waits

if TYPE_CHECKING:
    from thence.tables.delivery.outcome_cy import Outcome
    from thence.tables.delivery.policy import Policy
    from thence.tables.delivery.reading import Read, Reading
    from thence.tables.delivery.room_cy import Room

DELIVERED = cython.declare(cython.int, KINDS.index(Kind.DELIVERED))
RELEASED = cython.declare(cython.int, KINDS.index(Kind.RELEASED))
LATE = cython.declare(cython.int, KINDS.index(Kind.LATE))
DUPLICATE = cython.declare(cython.int, KINDS.index(Kind.DUPLICATE))
BLOCKED = cython.declare(cython.int, KINDS.index(Kind.BLOCKED))
QUARANTINED = cython.declare(cython.int, KINDS.index(Kind.QUARANTINED))


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
    single: Outcomes
    need: cython.int[::1]
    wanted: cython.longlong[::1]

    def __init__(self, reading: Reading, policy: Policy, where: object = "", room: Room | None = None) -> None:
        """Start empty; `where` names the key in errors, `room` has the arrays of all keys of one owner."""
        Waits.__init__(self, reading, policy, where, room)
        self.position = self.moment = 0
        self.after_seconds = inf if policy.after_seconds is None else policy.after_seconds
        self.after_rows, self.held_limit = policy.after_rows or FOREVER, policy.held_limit or FOREVER
        self.limited = self.after_rows < FOREVER or self.held_limit < FOREVER or self.after_seconds < inf
        if self.room.cycles is None:
            self.room.cycles = Cycles()
        self.single = None
        self.need, self.wanted = NO_INTS, NO_LONGS

    # -- rows ------------------------------------------------------------------------------------------------------

    def push(self, read: Read | str, message: object = None, time: float | None = None) -> list[Outcome]:
        """Take the next row: what was read of it (or why it is unusable), its id, its event time."""
        out: Outcomes = self.begun(None)
        ahead: cython.double = self._next(nan if time is None else time)
        if isinstance(read, str):
            self._refuse(-1 if message is None or not self.cyclic else self.code(None, str(message)), read, ahead, out)
        else:
            self._read(read, ahead, out)
        if self.limited and self.held:
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
        timed: cython.bint = times is not None
        self.moment = moment
        self._take(rows, first, last, timed, memoryview(times) if timed else NO_DOUBLES, out, refused)

    def take_whole(
        self, rows: CodedRows, bounds: object, times: object, out: Outcomes, prepare: object, refused: dict[int, str],
        where: object,
    ) -> None:  # fmt: skip
        """Take keys one after the other, each from its first row to its last; what is still held then is blocked.

        Key n has the rows from `bounds[n]` up to `bounds[n + 1]`. They take turns in the memory of this rule: a
        rule of its own costs a key more than its rows do. `prepare`, if there is one, is called with n before
        the rows come; `refused`: why no row of a key can be delivered; `where(n)` names a key in errors.
        """
        key: cython.Py_ssize_t
        bound: cython.longlong[::1] = memoryview(bounds)
        timed: cython.bint = times is not None
        time: cython.double[::1] = memoryview(times) if timed else NO_DOUBLES
        for key in range(len(bound) - 1):
            self.clear()
            self.begin()
            self.position = 0
            if prepare is not None:
                prepare(key)
            try:
                self._take(rows, bound[key], bound[key + 1], timed, time, out, refused.get(key) if refused else None)
                if self.held:
                    self.finish(out)
            except TraceError as error:
                raise TraceError(f"{where(key)}{error}") from None

    @cython.cfunc
    def _take(
        self, rows: CodedRows, first: cython.Py_ssize_t, last: cython.Py_ssize_t, timed: cython.bint,
        time: cython.double[::1], out: Outcomes, refused: object,
    ) -> cython.void:  # fmt: skip
        place: cython.Py_ssize_t
        own: cython.longlong
        self.enter(rows, first, last)
        if self.cyclic:
            self.room.cycles.expect(self.held, self.rows + 1, rows, first, last)
        self.need, self.wanted = rows.need, rows.wanted
        try:
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
                if self.limited and self.held:
                    self._enforce(out)
        finally:
            self.need, self.wanted = NO_INTS, NO_LONGS
            if self.cyclic:
                self.room.cycles.expect(0, 0, None, 0, 0)
        self._end()

    @cython.cfunc
    def begun(self, into: Outcomes | None) -> Outcomes:
        """Return the outcome columns of this call; each call has its own."""
        if into is not None:
            return into
        if self.single is None:
            self.single = Outcomes()
        self.single.clear()
        return self.single

    @cython.cfunc
    def _next(self, time: cython.double) -> cython.double:
        """Count a new row and its time; return how far a rejected time is ahead, else NaN."""
        self.rows += 1
        return self.see(time) if time == time else nan

    @cython.cfunc
    def _end(self) -> cython.void:
        """End a call, within the policy's limit on ids that are only fingerprints."""
        if (self.delivered or self.loose) and (self.lexicon is None or self.recent is not None):
            self.tidy()  # else the names may never be needed
        limit: object = self.policy.filter_limit
        if self.recent is not None and limit is not None and len(self.forgotten) > limit:
            raise TraceError(f"{self.where}{self.policy.too_many_forgotten()}")

    @cython.cfunc
    def _refuse(self, code: cython.longlong, why: object, ahead: cython.double, out: Outcomes) -> cython.void:
        """Quarantine a row as it comes; its id, if it has one, counts as quarantined."""
        out.add(self.rows, QUARANTINED, self.doubting(why, ahead))
        if self.cyclic and code >= 0 and self.level[code] < 1 and not self.row_of[code]:
            self.source(code).quarantined = True
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
        if source is not None or self.level[own] >= number or self.row_of[own]:
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
            self._leave(self.rows, own, number, 0, self.now, ahead, gap, out)
            self._deliver(label, own, number, self.rows)
            if self.watch[own] and self.started is None:
                self.cascade(own, out)
            return
        row: cython.int = self.new_row(self.rows, label, own, number)
        need: cython.int = 0
        wanted: cython.longlong = 1
        for at in range(first, last):
            if not self.cyclic:
                wanted = self.wanted[at]
            met = self.level[self.need[at]] >= wanted
            if not met or (self.holes and self.lacks(self.need[at], wanted)):
                need = self.new_need(row, need, self.need[at], wanted, not met)
        self.at.row_since[row], self.at.row_ahead[row], self.at.row_came[row] = self.now, ahead, self.moment
        self.hold(row)
        if self.cyclic and self.watch[own]:
            members: list = self.room.cycles.of(self, row)
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
        """Release the rows that a source has unblocked, in the order of arrival, and those that these unblock."""
        row: cython.int
        number: cython.longlong
        ticket: cython.longlong
        label: object = None
        gap: tuple = None
        ready: cython.int = self.wake(code, 0)
        while ready:
            row = ready
            ready = self.unqueued(row)
            self.detach(row)
            code, number, ticket = self.at.row_code[row], self.at.row_number[row], self.at.row_ticket[row]
            if self.holes:
                gap = self.absent(self.pairs(row, False))
            self._leave(ticket, code, number, row, self.at.row_since[row], self.at.row_ahead[row], gap, out)
            if self.labels:
                label = self.labels.get(row)
            self.free_row(row)
            self._deliver(label, code, number, ticket)
            if self.started is None:
                ready = self.wake(code, ready)

    @cython.cfunc
    def _leave(
        self, ticket: cython.longlong, own: cython.longlong, number: cython.longlong, row: cython.int,
        since: cython.double, ahead: cython.double, gap: tuple | None, out: Outcomes,
    ) -> cython.void:  # fmt: skip
        """Record that a row leaves with a position; `gap`: the causes it leaves without, and their number.

        `row`: its place among the held ones, 0 if it was not held.
        """
        source: Source
        reason: object = None
        place: cython.Py_ssize_t = out.add(ticket, DELIVERED, None)
        self.position += 1
        out.position[place], out.held_for[place] = self.position, self.rows - ticket
        out.held_seconds[place] = self.seconds(since)
        if row:
            self._waited(row, out)
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
    def _waited(self, row: cython.int, out: Outcomes) -> cython.void:
        """Record the causes that a leaving row was held for, by number in the batch or by name."""
        need: cython.int = self.at.row_needs[row]
        numbered: cython.bint = self.lexicon is not None and out.lexicon is self.lexicon
        while need:
            if self.at.need_waited[need] and numbered:
                out.waits_for(self.origin[self.at.need_code[need]])
            elif self.at.need_waited[need]:
                out.waits_for_text(self.name(self.at.need_code[need], self.at.need_number[need]))
            need = self.at.need_next[need]
        if self.waited_names:
            for text in self.waited_names.get(row, ()):
                out.waits_for_text(text)

    @cython.cfunc
    def _quarantine(self, members: list, out: Outcomes) -> cython.void:
        """Set aside rows that are on a cycle."""
        row: cython.int
        code: cython.longlong
        reason: str = f"on a cycle of causes: {listed([self.text(self.at.row_code[each]) for each in members])}"
        for each in members:
            row = each
            code = self.at.row_code[row]
            self.detach(row)
            self.source(code).quarantined = True
            self.note(code)
            self.unplaced(row, QUARANTINED, reason, out)
            self.free_row(row)

    @cython.cfunc
    def unplaced(self, row: cython.int, kind: cython.int, reason: object, out: Outcomes) -> cython.Py_ssize_t:
        """Record that a held row leaves without a position."""
        ticket: cython.longlong = self.at.row_ticket[row]
        place: cython.Py_ssize_t = out.add(ticket, kind, self.doubting(reason, self.at.row_ahead[row]))
        out.held_for[place], out.held_seconds[place] = self.rows - ticket, self.seconds(self.at.row_since[row])
        self._waited(row, out)
        return place

    @cython.cfunc
    def _at_receiver(self, label: object, copy: object, ahead: cython.double, out: Outcomes) -> cython.void:
        """Pass a copy to the receiver of a protocol that has a rule of its own."""
        row: cython.int
        receiver = self.foreign.get(label) or self.receiver(label, copy.destination)
        verdict, freed, waits = receiver.arrive(self.rows, copy)
        if verdict == "duplicate":
            reason = self.doubting("it was delivered before, or is held already", ahead)
            out.add(self.rows, DUPLICATE, reason)
        elif verdict == "hold":
            self.keep(HeldRow(self.rows, label, -1, 0, self.now, ahead, self.moment, [], [], waits))
        for ticket in freed:
            row = self.place_of(ticket)
            if not row:
                self._leave(ticket, -1, 0, 0, self.now, ahead, None, out)
            else:
                self.unlist_row(row)
                self._leave(ticket, -1, 0, row, self.at.row_since[row], self.at.row_ahead[row], None, out)
                self.free_row(row)

    # -- causes that do not come -----------------------------------------------------------------------------------

    @cython.cfunc
    def _enforce(self, out: Outcomes) -> cython.void:
        """Apply the policy to the rows held longest: theirs is the first deadline."""
        row: cython.int
        while self.held:
            row = self.head
            why = self._expired(row)
            if why is not None and self.policy.name == "fail":
                raise TraceError(f"{self.where}{why}: {self.explained(row, {}).reason}")
            if why is None and self.held > self.held_limit:
                if self.policy.when_full == "fail":
                    reason = self.explained(row, {}).reason
                    raise TraceError(f"{self.where}more than {self.held_limit} rows are held: {reason}")
                why = self.policy.too_many()
            if why is None:
                return
            self._force(row, why, out)

    @cython.cfunc
    def _expired(self, row: cython.int) -> object:
        if self.rows - self.at.row_ticket[row] >= self.after_rows:
            return self.policy.after_so_many_rows()
        return self.policy.after_so_long() if self.seconds(self.at.row_since[row]) >= self.after_seconds else None

    @cython.cfunc
    def _force(self, row: cython.int, why: object, out: Outcomes) -> cython.void:
        """Give up root causes and release the rows they blocked, until this row has left."""
        if self.at.row_code[row] < 0:
            raise MisuseError(refusal(self.reading))
        self.why = f", {why}"
        while self.at.row_state[row] == HERE:
            self.give_up_root(row, out)
        self.why = ""

    def flush(self, why: str, came_by: int | None = None, into: Outcomes | None = None) -> list[Outcome]:
        """Release held rows; with `came_by`, only rows that came by then (processing time in milliseconds)."""
        out: Outcomes = self.begun(into)
        row: cython.int
        for each in self.places():
            row = each
            if self.at.row_state[row] != HERE:
                continue
            if came_by is not None and self.at.row_came[row] > came_by:
                break
            self._force(row, why, out)
        return out.listed() if into is None else []

    # -- what is held ----------------------------------------------------------------------------------------------

    def finish(self, into: Outcomes | None = None) -> list[Outcome]:
        """Mark the rows that are still held as blocked: the input has ended. Under policy='fail' they are an error."""
        out: Outcomes = self.begun(into)
        place: cython.Py_ssize_t
        found: dict = {}
        for row in self.places():
            each = self.explained(row, found)
            if self.policy.name == "fail":
                raise TraceError(f"{self.where}{self.held} row{'s' * (self.held != 1)} held at the end: {each.reason}")
            place = self.unplaced(row, BLOCKED, each.reason, out)
            out.missing[place], out.blocker[place] = each.missing, each.blocker
        return out.listed() if into is None else []

    @cython.ccall
    def clear(self) -> object:
        """Forget what is held and what was delivered, after `finish`; memory is used again."""
        self.foreign.clear()
        self.hold_nothing()
        self.lose_all()
