"""One key's delivery in plain Python: a deterministic state machine from rows in the order of arrival to outcomes.

Law. `push` takes the next row and returns outcomes in the order they happen: each row that was pushed leaves exactly
once, through `push` or, where the input ends, through `finish`; until then it is in `pending`. Outcomes depend on the
rows and the policy alone. `resumed(state_of(delivery), ...)` goes on as if nothing had happened.

The order of events at one row: its time, the row itself (delivered, held, duplicate or quarantined), whatever it sets
free, then the policy's look at the rows held longest. This is the slow, obvious stepper; `array_stepper.py` is held
equal to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from thence.delivery.cycles import Cycles
from thence.delivery.event_time import EventTime, doubt
from thence.delivery.foreign import ForeignRule
from thence.delivery.outcome import Kind, Outcome, Waiting, listed
from thence.delivery.policy import Policy
from thence.delivery.reading import Read, Reading
from thence.delivery.rule import NOTHING, Absent, Held, Need, Rule, Source
from thence.errors import MisuseError, TraceError
from thence.protocols.waiting import release


class Kept(NamedTuple):
    """What is kept of a held row beside the rule's own: its order, its id, and when it came.

    `since` is event time, `came` is processing time in milliseconds where a stream says it, else 0.
    """

    order: str | None
    message: str | None
    since: float | None
    came: int = 0


class Delivery:
    """The state machine of one key."""

    def __init__(self, reading: Reading, policy: Policy, where: str = "") -> None:
        """Start empty; `where` names the key in errors."""
        self.reading, self.policy, self.where = reading, policy, where
        self.rows = 0
        self.position = 0
        self.time = EventTime(policy.max_jump)
        self.moment = 0
        """processing time in milliseconds, where a stream tells it"""
        self.rules: dict[str | None, Rule | ForeignRule] = {}
        self.kept: dict[int, Kept] = {}
        self.doubts: dict[int, float] = {}
        """by how much the times of rows that are here were too far ahead to be believed"""
        self.cycles = Cycles()

    # -- rows ------------------------------------------------------------------------------------------------------

    def expect(self, coming: Sequence[Read | str]) -> None:
        """Be told what was read of the next rows, which then have to come: the search for cycles takes less time."""
        self.cycles = Cycles(len(self.kept), self.rows + 1, coming)

    def push(self, read: Read | str, message: str | None = None, time: float | None = None) -> list[Outcome]:
        """Take the next row: what was read of it (or why nothing could be), its id, its event time."""
        self.rows += 1
        ticket = self.rows
        self._see(ticket, time)
        out: list[Outcome] = []
        if isinstance(read, str):
            out.append(Outcome(ticket, Kind.QUARANTINED, reason=read))
            self._note_quarantined(message)
        else:
            self._arrive(ticket, read, Kept(read.order, message, self.time.now, self.moment), out)
        if self.kept:
            self.enforce(out)
        return self._with_doubts(out)

    def _see(self, ticket: int, time: float | None) -> None:
        """Let event time move on, unless this row's time is too far ahead."""
        ahead = self.time.see(time)
        if ahead is not None:
            self.doubts[ticket] = ahead

    def _with_doubts(self, out: list[Outcome]) -> list[Outcome]:
        """Say of rows that leave if their times were not believed."""
        if not self.doubts:
            return out
        doubted = []
        for made in out:
            ahead = self.doubts.pop(made.ticket, None)
            if ahead is not None and self.policy.max_jump is not None:
                words = doubt(ahead, self.policy.max_jump)
                made = made._replace(reason=words if made.reason is None else f"{made.reason}; {words}")
            doubted.append(made)
        return doubted

    def _note_quarantined(self, message: str | None) -> None:
        if self.reading.by == "depends_on" and message is not None:
            rule = self._rule(Read(None, message, 1, ()))
            assert isinstance(rule, Rule)
            if rule.level(message) < 1 and (message, 1) not in rule.at:
                rule.quarantined[message] = None

    def _arrive(self, ticket: int, read: Read, kept: Kept, out: list[Outcome]) -> None:
        rule = self._rule(read)
        if isinstance(rule, ForeignRule):
            self._foreign(rule, ticket, read, kept, out)
            return
        why = rule.known(read.source, read.number)
        if why is not None:
            out.append(Outcome(ticket, Kind.DUPLICATE, reason=why))
            return
        if self.reading.by == "clock":
            rule.seen[read.source] = rule.seen.get(read.source, 0) + 1
        waited = rule.unmet(read.needs)
        if not waited:
            gap = rule.absent(read.needs) if rule.holes else NOTHING
            self._place(rule, ticket, Held(read.source, read.number, (), ()), None, gap, out)
            self._cascade(rule, read.source, out)
            return
        needs = rule.to_come(read.needs) if rule.holes else waited
        rule.hold(ticket, Held(read.source, read.number, needs, waited))
        self.kept[ticket] = kept
        if rule.cyclic:
            self._quarantine_cycle(rule, ticket, out)

    def _rule(self, read: Read) -> Rule | ForeignRule:
        rule = self.rules.get(read.order)
        if rule is None:
            rule = self.rules[read.order] = self.new_rule(read)
        return rule

    def new_rule(self, read: Read | None = None) -> Rule | ForeignRule:
        """Return an empty rule of the kind that these rows need."""
        if self.reading.shared:
            cyclic = self.reading.by == "depends_on"
            return Rule(dense=self.reading.dense and not cyclic, cyclic=cyclic, remember=self.policy.remember)
        if self.policy.releases:
            raise MisuseError(
                f"protocol {self.reading.protocol} does not share the delivery rule that releases need; "
                "policy='wait' or policy='fail' without when_full='release' is accepted"
            )
        assert read is not None
        assert read.copy is not None
        assert self.reading.roster is not None
        assert self.reading.entry is not None
        return ForeignRule(self.reading.entry.protocol(self.reading.roster, read.copy.destination).receiver)

    def _place(self, rule: Rule, ticket: int, row: Held, kept: Kept | None, gap: Absent, out: list[Outcome]) -> None:
        """Give a row that leaves its position and say how it leaves."""
        outcome, reason = Kind.DELIVERED, None
        missing = self._names(gap.causes)
        if rule.late(row.source, row.number):
            outcome, reason = Kind.LATE, "it came after it was given up"
        elif gap.total:
            outcome, reason = Kind.RELEASED, f"released without {listed(missing, gap.total)}"
        rule.deliver(row.source, row.number)
        self._check_filter(rule)
        self.position += 1
        waited = self._names(row.waited)
        held = self.rows - ticket
        made = Outcome(ticket, outcome, self.position, waited, held, self._seconds(kept), reason, missing)
        out.append(made)

    def _check_filter(self, rule: Rule) -> None:
        limit = self.policy.filter_limit
        if limit is not None and len(rule.delivered.forgotten) > limit:
            raise TraceError(f"{self.where}{self.policy.too_many_forgotten()}")

    def _seconds(self, kept: Kept | None) -> float | None:
        return self.time.since(self.time.now if kept is None else kept.since)

    def _cascade(self, rule: Rule, source: Source, out: list[Outcome]) -> None:
        def deliver(ticket: int) -> Source:
            row = rule.take(ticket)
            gap = rule.absent(row.needs) if rule.holes else NOTHING
            self._place(rule, ticket, row, self.kept.pop(ticket), gap, out)
            return row.source

        ready: list[int] = []
        rule.wake(source, ready)
        release(ready, deliver, rule.wake)

    def _foreign(self, rule: ForeignRule, ticket: int, read: Read, kept: Kept, out: list[Outcome]) -> None:
        assert read.copy is not None
        verdict, delivered, waits = rule.arrive(ticket, read.copy)
        if verdict == "duplicate":
            out.append(Outcome(ticket, Kind.DUPLICATE, reason="it was delivered before, or is held already"))
        elif verdict == "hold":
            rule.waits[ticket] = tuple(str(cause) for cause in waits)
            self.kept[ticket] = kept
        for freed in delivered:
            self.position += 1
            known = self.kept.pop(freed, None)
            waited = rule.waits.pop(freed, ())
            out.append(Outcome(freed, Kind.DELIVERED, self.position, waited, self.rows - freed, self._seconds(known)))

    def _quarantine_cycle(self, rule: Rule, ticket: int, out: list[Outcome]) -> None:
        members = self.cycles.of(rule, ticket)
        if not members:
            return
        reason = f"on a cycle of causes: {listed([str(rule.held[t].source) for t in members])}"
        for member in members:
            row = rule.take(member)
            kept = self.kept.pop(member)
            rule.quarantined[row.source] = None
            held, waited = self.rows - member, self._names(row.waited)
            out.append(Outcome(member, Kind.QUARANTINED, None, waited, held, self._seconds(kept), reason))

    # -- causes that do not come -----------------------------------------------------------------------------------

    def enforce(self, out: list[Outcome]) -> None:
        """Apply the policy to the rows held longest: theirs is the first deadline."""
        while self.kept:
            ticket = next(iter(self.kept))
            why = self._expired(ticket)
            if why is not None and self.policy.name == "fail":
                raise TraceError(f"{self.where}{why}: {self._explain(ticket).reason}")
            why = why or self._overflow(ticket)
            if why is None:
                return
            self._force(ticket, why, out)

    def _expired(self, ticket: int) -> str | None:
        policy = self.policy
        if policy.after_rows is not None and self.rows - ticket >= policy.after_rows:
            return policy.after_so_many_rows()
        waited = self.time.since(self.kept[ticket].since)
        if policy.after_seconds is None or waited is None:
            return None
        return policy.after_so_long() if waited >= policy.after_seconds else None

    def _overflow(self, ticket: int) -> str | None:
        limit = self.policy.held_limit
        if limit is None or len(self.kept) <= limit:
            return None
        if self.policy.when_full == "fail":
            raise TraceError(f"{self.where}more than {limit} rows are held: {self._explain(ticket).reason}")
        return self.policy.too_many()

    def _force(self, ticket: int, why: str, out: list[Outcome]) -> None:
        """Give up roots, and let go whatever that sets free, until this row has left."""
        rule = self._releasing(self.rules[self.kept[ticket].order])
        start = len(out)
        while ticket in self.kept:
            self._cascade(rule, rule.give_up(ticket), out)
        out[start:] = [_because(each, why) for each in out[start:]]

    def _releasing(self, rule: Rule | ForeignRule) -> Rule:
        if isinstance(rule, ForeignRule):
            raise MisuseError(f"protocol {self.reading.protocol} does not share the delivery rule that releases need")
        return rule

    def flush(self, why: str, came_by: int | None = None) -> list[Outcome]:
        """Let go what is held; with `came_by`, only rows that came by then (processing time in milliseconds)."""
        out: list[Outcome] = []
        while self.kept:
            ticket = next(iter(self.kept))
            if came_by is not None and self.kept[ticket].came > came_by:
                break
            self._force(ticket, why, out)
        return self._with_doubts(out)

    def give_up(self, cause: str, why: str) -> list[Outcome]:
        """Give up a cause by name: what is blocked by it goes on, and so does whoever names it later."""
        out: list[Outcome] = []
        for order, rule in list(self.rules.items()):
            if isinstance(rule, ForeignRule):
                continue
            roots = rule.roots()
            for ticket, root in roots.items():
                if self.kept[ticket].order == order and self.reading.name(*rule.blocker(ticket, root)) == cause:
                    self._cascade(rule, rule.give_up(ticket), out)
                    break
            else:
                if rule.cyclic and (cause, 1) not in rule.at and rule.level(cause) < 1:
                    rule.waive(cause, 1)
        return self._with_doubts([_because(each, why) for each in out])

    # -- what is held ----------------------------------------------------------------------------------------------

    def pending(self) -> Iterator[Waiting]:
        """Explain every held row, in the order of arrival."""
        roots = {order: rule.roots() for order, rule in self.rules.items() if isinstance(rule, Rule)}
        for ticket, kept in self.kept.items():
            found = roots.get(kept.order, {})
            yield self._explained(ticket, found.get(ticket))

    def finish(self) -> list[Outcome]:
        """Return the rest as blocked: the input has ended. Under policy='fail' a rest is an error."""
        out = []
        for waiting in self.pending():
            if self.policy.name == "fail":
                raise TraceError(
                    f"{self.where}{len(self.kept)} row{'s' * (len(self.kept) != 1)} held at the end: {waiting.reason}"
                )
            kept = self.kept[waiting.ticket]
            rule = self.rules[kept.order]
            if isinstance(rule, Rule):
                waited: Sequence[str] = self._names(rule.held[waiting.ticket].waited)
            else:
                waited = rule.waits[waiting.ticket]
            made = Outcome(waiting.ticket, Kind.BLOCKED, None, waited, waiting.held_for, waiting.held_seconds)
            made = made._replace(reason=waiting.reason, missing=waiting.missing, blocker=waiting.blocker)
            out.append(made)
        return self._with_doubts(out)

    def clear(self) -> None:
        """Forget what is held, after `finish`."""
        self.kept.clear()
        self.rules.clear()
        self.doubts.clear()

    def _explain(self, ticket: int) -> Waiting:
        rule = self.rules[self.kept[ticket].order]
        return self._explained(ticket, rule.root(ticket) if isinstance(rule, Rule) else None)

    def _explained(self, ticket: int, root: Need | None) -> Waiting:
        kept = self.kept[ticket]
        rule = self.rules[kept.order]
        if isinstance(rule, ForeignRule):
            missing = rule.missing(ticket)
            blocker = missing[0] if missing else ""
            reason = f"waits for {listed(missing)}"
        else:
            absent = rule.absent(rule.held[ticket].needs)
            missing = self._names(absent.causes)
            need = rule.blocker(ticket, root)
            blocker = self.reading.name(*need)
            reason = f"waits for {listed(missing, absent.total)}; {self._about(rule, ticket, root, need, blocker)}"
        return Waiting(ticket, kept.message, missing, blocker, self.rows - ticket, self._seconds(kept), reason)

    def _about(self, rule: Rule, ticket: int, root: Need | None, need: Need, blocker: str) -> str:
        """Say what is known of a blocker."""
        if root is None:
            return "these causes wait for each other"
        if need[0] in rule.quarantined:
            return f"{blocker} was quarantined"
        return f"{blocker} has not arrived{self._suspicion(rule, ticket, need)}"

    def _suspicion(self, rule: Rule, ticket: int, need: Need) -> str:
        """Say so where a component of a clock counts things that this destination does not get."""
        if self.reading.by != "clock":
            return ""
        source = need[0]
        wanted = max([t for s, t in rule.held[ticket].waited if s == source], default=0)
        seen = rule.seen.get(source, 0)
        if not wanted or 2 * seen > wanted:
            return ""
        return (
            f"; component {source} says {wanted}, and {seen} messages of {source} came here: looks like a clock that "
            "counts all events"
        )

    def _names(self, needs: Sequence[Need]) -> tuple[str, ...]:
        if not needs:
            return ()
        name = self.reading.name
        return tuple([name(source, number) for source, number in needs])


def _because(made: Outcome, why: str) -> Outcome:
    """Say why a row was let go, if it went without a cause."""
    if made.outcome != Kind.RELEASED:
        return made
    return made._replace(reason=f"{made.reason}, {why}")
