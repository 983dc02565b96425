"""The steps of KS98, `send` and `deliver`, as relations before and after; `Rules` switches each rule off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import z3
from ks_invariant import M, P, State, count, d, k, m, n, newer, p, q, sender, to, x


@dataclass(frozen=True)
class Rules:
    """The algorithm's choices; a mutant changes one."""

    waits: bool = True
    """RCV(1)"""
    waits_here_only: bool = True
    """RCV(1): for messages to this destination, no others"""
    own_destination: bool = True
    """SND(2): the copy to d keeps the facts about d"""
    suppresses: bool = True
    """SND(2): a copy drops the facts about the other destinations"""
    covers: bool = True
    """SND(3)"""
    notes_send: bool = True
    """SND(4)"""
    ends_own: bool = True
    """RCV(3): the destination is taken out of what is learned"""
    notes_message: bool = True
    """RCV(3): the message itself is learned"""
    meets: bool = True
    """RCV(4), second loop: of a common entry the common destinations stay"""
    absence_in_stamp: bool = True
    """RCV(4), first loop: what the stamp lacks is dropped from the log"""
    absence_in_log: bool = True
    """... and the other way round"""
    keeps_newest: bool = True
    """PURGE_NULL_ENTRIES keeps the newest entry of a sender"""
    counts: bool = True
    """RCV(2) sets SR to the count of the message"""


def purged(
    has: Callable[[z3.ExprRef], z3.BoolRef], full: Callable[[z3.ExprRef], z3.BoolRef], rules: Rules
) -> z3.BoolRef:
    """Whether the entry of m stays: it has destinations, or it is the newest of its sender."""
    last = z3.Not(z3.Exists([k], z3.And(has(k), newer(k, m))))
    return z3.And(has(m), z3.Or(full(m), last if rules.keeps_newest else False))


a, b, new = z3.Const("a", P), z3.Const("b", P), z3.Const("new", M)
"""who sends, who receives, and the message"""


Step = dict[str, z3.BoolRef]
"""when a step can be taken, and what each relation is after it"""


def send(v: State, w: State, rules: Rules) -> Step:
    """Process a sends `new`."""

    def on_copy(y: z3.ExprRef, e: z3.ExprRef) -> z3.BoolRef:
        own = e == q if rules.own_destination else z3.BoolVal(False)
        return z3.And(v.log(a, y, e), z3.Or(z3.Not(to(new, e)), own) if rules.suppresses else True)

    def after(y: z3.ExprRef, e: z3.ExprRef) -> z3.BoolRef:
        old = z3.And(y != new, v.log(a, y, e), z3.Not(to(new, e)) if rules.covers else True)
        return z3.Or(z3.And(y == new, to(new, e)), old) if rules.notes_send else old

    def has(y: z3.ExprRef) -> z3.BoolRef:
        return z3.Or(y == new, v.entry(a, y)) if rules.notes_send else v.entry(a, y)

    def some(fact: Callable[[z3.ExprRef, z3.ExprRef], z3.BoolRef]) -> Callable[[z3.ExprRef], z3.BoolRef]:
        return lambda y: z3.Exists([d], fact(y, d))

    entries = purged(lambda y: v.entry(a, y), some(on_copy), rules)
    return {
        "guard": z3.And(z3.Not(v.sent(new)), sender(new) == a, count(new) == v.clock(a) + 1),
        "sent": z3.ForAll([m], w.sent(m) == z3.Or(v.sent(m), m == new)),
        "clock": z3.ForAll([p], w.clock(p) == z3.If(p == a, count(new), v.clock(p))),
        "before": z3.ForAll([m, n], w.before(m, n) == z3.Or(v.before(m, n), z3.And(n == new, v.past(a, m)))),
        "past": z3.ForAll([p, m], w.past(p, m) == z3.Or(v.past(p, m), z3.And(p == a, m == new))),
        "done": z3.ForAll([m, p], w.done(m, p) == v.done(m, p)),
        "sr": z3.ForAll([p, q], w.sr(p, q) == v.sr(p, q)),
        "known": z3.ForAll([p, m, d], w.known(p, m, d) == v.known(p, m, d)),
        "carried": z3.ForAll([n, m, d], w.carried(n, m, d) == z3.If(n == new, v.known(a, m, d), v.carried(n, m, d))),
        "log": z3.ForAll([p, m, d], w.log(p, m, d) == z3.If(p == a, after(m, d), v.log(p, m, d))),
        "entry": z3.ForAll([p, m], w.entry(p, m) == z3.If(p == a, purged(has, some(after), rules), v.entry(p, m))),
        "stamp": z3.And(
            z3.ForAll([n, q, m, d], z3.Implies(n != new, w.stamp(n, q, m, d) == v.stamp(n, q, m, d))),
            z3.ForAll([q, m, d], z3.Implies(to(new, q), w.stamp(new, q, m, d) == on_copy(m, d))),
        ),
        "stamped": z3.And(
            z3.ForAll([n, q, m], z3.Implies(n != new, w.stamped(n, q, m) == v.stamped(n, q, m))),
            z3.ForAll([q, m], z3.Implies(to(new, q), w.stamped(new, q, m) == entries)),
        ),
    }


def rule(v: State, rules: Rules) -> z3.BoolRef:
    """RCV(1): what the stamp says is on its way to b has been delivered there, by the count."""
    named = v.stamp(new, b, m, b) if rules.waits_here_only else z3.Exists([d], v.stamp(new, b, m, d))
    unmet = z3.And(named, count(m) > v.sr(b, sender(m)))
    return z3.ForAll([m], z3.Not(unmet)) if rules.waits else z3.BoolVal(True)


def all_causes(v: State) -> z3.BoolRef:
    """Every cause of `new` addressed to b is delivered there."""
    return z3.ForAll([m], z3.Implies(z3.And(v.before(m, new), to(m, b)), v.done(m, b)))


class Merge:
    """RCV(3) to RCV(5) at process b: the stamp of `new` and the log of b become one."""

    def __init__(self, v: State, rules: Rules) -> None:
        self.v, self.rules = v, rules

    def learned(self, y: z3.ExprRef, e: z3.ExprRef) -> z3.BoolRef:
        """A fact that the copy teaches: RCV(3)."""
        itself = z3.And(y == new, to(new, e)) if self.rules.notes_message else z3.BoolVal(False)
        return z3.And(e != b if self.rules.ends_own else True, z3.Or(self.v.stamp(new, b, y, e), itself))

    def arriving(self, y: z3.ExprRef) -> z3.BoolRef:
        """An entry that the copy brings."""
        stamped = self.v.stamped(new, b, y)
        return z3.Or(stamped, y == new) if self.rules.notes_message else stamped

    def either(self, y: z3.ExprRef) -> z3.BoolRef:
        """An entry of one of the two."""
        return z3.Or(self.v.entry(b, y), self.arriving(y))

    def kept(self, y: z3.ExprRef) -> z3.BoolRef:
        """An entry that the first loop of RCV(4) leaves on its side: the other side does not show it redundant."""
        mine, arriving = self.v.entry(b, y), self.arriving(y)
        logged = z3.Or(arriving, z3.Not(z3.Exists([x], z3.And(self.arriving(x), newer(x, y)))))
        fresh = z3.Or(mine, z3.Not(z3.Exists([x], z3.And(self.v.entry(b, x), newer(x, y)))))
        return z3.Or(
            z3.And(mine, logged if self.rules.absence_in_stamp else True),
            z3.And(arriving, fresh if self.rules.absence_in_log else True),
        )

    def after(self, y: z3.ExprRef, e: z3.ExprRef) -> z3.BoolRef:
        """A fact of the new log."""
        mine, theirs = self.v.log(b, y, e), self.learned(y, e)
        met = z3.And(z3.Implies(self.v.entry(b, y), mine), z3.Implies(self.arriving(y), theirs))
        either = z3.Or(z3.And(self.v.entry(b, y), mine), z3.And(self.arriving(y), theirs))
        return z3.And(self.kept(y), met if self.rules.meets else either)

    def meant(self, y: z3.ExprRef, e: z3.ExprRef) -> z3.BoolRef:
        """What RCV(4) means: each side decides about the messages of its past."""
        mine, theirs = self.v.log(b, y, e), self.learned(y, e)
        known = z3.Or(self.v.before(y, new), y == new)
        return z3.Or(z3.And(mine, theirs), z3.And(mine, z3.Not(known)), z3.And(theirs, z3.Not(self.v.past(b, y))))


def deliver(v: State, w: State, rules: Rules) -> Step:
    """Process b delivers `new`."""
    merge = Merge(v, rules)
    reached = count(new) if rules.counts else v.sr(b, a) + 1
    entries = purged(merge.kept, lambda y: z3.Exists([d], merge.after(y, d)), rules)
    learned = z3.Or(v.before(m, new), m == new)
    delivered = z3.Or(v.carried(new, m, d), z3.And(m == new, d == b))
    return {
        "guard": z3.And(v.sent(new), sender(new) == a, to(new, b), z3.Not(v.done(new, b))),
        "sent": z3.ForAll([m], w.sent(m) == v.sent(m)),
        "clock": z3.ForAll([p], w.clock(p) == v.clock(p)),
        "before": z3.ForAll([m, n], w.before(m, n) == v.before(m, n)),
        "past": z3.ForAll([p, m], w.past(p, m) == z3.Or(v.past(p, m), z3.And(p == b, learned))),
        "done": z3.ForAll([m, p], w.done(m, p) == z3.Or(v.done(m, p), z3.And(m == new, p == b))),
        "sr": z3.ForAll([p, q], w.sr(p, q) == z3.If(z3.And(p == b, q == a), reached, v.sr(p, q))),
        "known": z3.ForAll([p, m, d], w.known(p, m, d) == z3.Or(v.known(p, m, d), z3.And(p == b, delivered))),
        "carried": z3.ForAll([n, m, d], w.carried(n, m, d) == v.carried(n, m, d)),
        "log": z3.ForAll([p, m, d], w.log(p, m, d) == z3.If(p == b, merge.after(m, d), v.log(p, m, d))),
        "entry": z3.ForAll([p, m], w.entry(p, m) == z3.If(p == b, entries, v.entry(p, m))),
        "stamp": z3.ForAll([n, q, m, d], w.stamp(n, q, m, d) == v.stamp(n, q, m, d)),
        "stamped": z3.ForAll([n, q, m], w.stamped(n, q, m) == v.stamped(n, q, m)),
    }
