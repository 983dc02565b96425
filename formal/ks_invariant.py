"""The state of KS98 over any number of processes and messages, and the invariant, part by part."""

from __future__ import annotations

from collections.abc import Callable

import z3

P, M = z3.DeclareSort("Process"), z3.DeclareSort("Message")
B, N = z3.BoolSort(), z3.IntSort()
sender, count, to = z3.Function("sender", M, P), z3.Function("count", M, N), z3.Function("to", M, P, B)
p, q, d, s = z3.Consts("p q d s", P)
m, n, k, x = z3.Consts("m n k x", M)

RELATIONS: dict[str, tuple[z3.SortRef, ...]] = {
    "sent": (M, B),
    "clock": (P, N),
    "before": (M, M, B),  # the send of one happened before the send of the other
    "past": (P, M, B),  # the send is in the causal past of the process
    "done": (M, P, B),  # delivered there
    "sr": (P, P, N),
    "known": (P, M, P, B),  # the delivery of the message at the second process is in the causal past of the first
    "carried": (M, M, P, B),  # ... of the send of the first message
    "log": (P, M, P, B),  # the fact is in the log
    "entry": (P, M, B),  # the message has an entry in the log, perhaps an empty one
    "stamp": (M, P, M, P, B),  # the fact is on the copy of the first message to the first process
    "stamped": (M, P, M, B),  # the message has an entry there
}


class State:
    """The relations, before or after a step."""

    def __init__(self, name: str) -> None:
        for relation, sorts in RELATIONS.items():
            setattr(self, relation, z3.Function(f"{relation}{name}", *sorts))

    def __getattr__(self, name: str) -> z3.FuncDeclRef:
        raise AttributeError(name)


def newer(one: z3.ExprRef, other: z3.ExprRef) -> z3.BoolRef:
    """One message is a later one of the sender of the other."""
    return z3.And(sender(one) == sender(other), count(one) > count(other))


def one_name(_: State) -> z3.BoolRef:
    """Messages are what their sender and count say."""
    same = z3.And(sender(m) == sender(n), count(m) == count(n))
    return z3.ForAll([m, n], z3.Implies(same, m == n))


def strict(v: State) -> z3.BoolRef:
    """Happened-before among sends is a strict order."""
    return z3.And(
        z3.ForAll([m, n], z3.Implies(v.before(m, n), z3.And(v.sent(m), v.sent(n)))),
        z3.ForAll([m], z3.Not(v.before(m, m))),
        z3.ForAll([m, n, k], z3.Implies(z3.And(v.before(m, n), v.before(n, k)), v.before(m, k))),
    )


def closed(v: State) -> z3.BoolRef:
    """Pasts are closed, and hold what was sent and delivered."""
    return z3.And(
        z3.ForAll([p, m], z3.Implies(v.past(p, m), v.sent(m))),
        z3.ForAll([p, m, n], z3.Implies(z3.And(v.past(p, n), v.before(m, n)), v.past(p, m))),
        z3.ForAll([m], z3.Implies(v.sent(m), v.past(sender(m), m))),
        z3.ForAll([m, p], z3.Implies(v.done(m, p), z3.And(to(m, p), v.past(p, m)))),
    )


def counted(v: State) -> z3.BoolRef:
    """A process numbers its messages from 1, and sends them in that order."""
    return z3.And(
        z3.ForAll([m], z3.Implies(v.sent(m), z3.And(count(m) >= 1, count(m) <= v.clock(sender(m))))),
        z3.ForAll([m, n], z3.Implies(z3.And(v.sent(m), v.sent(n), newer(n, m)), v.before(m, n))),
        z3.ForAll([s], v.clock(s) >= 0),
    )


def noted(v: State) -> z3.BoolRef:
    """What is known to be delivered is."""
    return z3.And(
        z3.ForAll([p, m, d], z3.Implies(v.known(p, m, d), z3.And(v.done(m, d), v.past(p, m)))),
        z3.ForAll([m, p], z3.Implies(v.done(m, p), v.known(p, m, p))),
        z3.ForAll([n, m, d], z3.Implies(v.carried(n, m, d), z3.And(v.done(m, d), v.before(m, n)))),
    )


def needed(v: State, within: Callable[[z3.ExprRef], z3.BoolRef], delivered: z3.BoolRef) -> z3.BoolRef:
    """The propagation constraints: m is in this past, not known delivered at d (PC1), not covered (PC2)."""
    covered = z3.Exists([k], z3.And(within(k), to(k, d), v.before(m, k)))
    return z3.And(within(m), to(m, d), z3.Not(delivered), z3.Not(covered))


def exact_log(v: State) -> z3.BoolRef:
    """A log holds the facts that the propagation constraints require, and no others."""
    return z3.ForAll([p, m, d], v.log(p, m, d) == needed(v, lambda y: v.past(p, y), v.known(p, m, d)))


def exact_stamp(v: State) -> z3.BoolRef:
    """So does a stamp; of facts about the destinations of its message, only those about its own."""
    right = z3.And(
        needed(v, lambda y: v.before(y, n), v.carried(n, m, d)), z3.Or(z3.Not(to(n, d)), d == q)
    )  # fmt: skip
    return z3.ForAll([n, q, m, d], z3.Implies(z3.And(v.sent(n), to(n, q)), v.stamp(n, q, m, d) == right))


def newest_in_log(v: State) -> z3.BoolRef:
    """Entries are of the past, facts have entries, and each sender of the past has an entry at least as new."""
    newest = z3.Exists([k], z3.And(v.entry(p, k), sender(k) == sender(m), count(k) >= count(m)))
    return z3.And(
        z3.ForAll([p, m], z3.Implies(v.entry(p, m), v.past(p, m))),
        z3.ForAll([p, m, d], z3.Implies(v.log(p, m, d), v.entry(p, m))),
        z3.ForAll([p, m], z3.Implies(v.past(p, m), newest)),
    )


def newest_in_stamp(v: State) -> z3.BoolRef:
    """The same of stamps."""
    newest = z3.Exists([k], z3.And(v.stamped(n, q, k), sender(k) == sender(m), count(k) >= count(m)))
    copy = z3.And(v.sent(n), to(n, q))
    return z3.And(
        z3.ForAll([n, q, m], z3.Implies(z3.And(copy, v.stamped(n, q, m)), v.before(m, n))),
        z3.ForAll([n, q, m, d], z3.Implies(z3.And(copy, v.stamp(n, q, m, d)), v.stamped(n, q, m))),
        z3.ForAll([n, q, m], z3.Implies(z3.And(copy, v.before(m, n)), newest)),
    )


def causal_order(v: State) -> z3.BoolRef:
    """What is delivered has all its causes delivered."""
    early = z3.And(v.done(n, p), v.before(m, n), to(m, p), z3.Not(v.done(m, p)))
    return z3.ForAll([m, n, p], z3.Not(early))


def clock_is_delivery(v: State) -> z3.BoolRef:
    """SR counts what is delivered: a message sent to p is delivered there iff SR has reached its count."""
    reached = count(m) <= v.sr(p, sender(m))
    return z3.And(
        z3.ForAll([m, p], z3.Implies(z3.And(v.sent(m), to(m, p)), v.done(m, p) == reached)),
        z3.ForAll([p, s], v.sr(p, s) <= v.clock(s)),
    )


PARTS = (
    strict, closed, counted, noted, exact_log, exact_stamp, newest_in_log, newest_in_stamp, causal_order,
    clock_is_delivery,
)  # fmt: skip
NEEDS: dict[Callable[[State], z3.BoolRef], tuple[Callable[[State], z3.BoolRef], ...]] = {
    strict: (strict, closed),
    closed: (strict, closed, counted),
    counted: (strict, closed, counted),
    noted: (strict, closed, noted),
    exact_log: (strict, closed, noted, exact_log),
    exact_stamp: (strict, closed, noted, exact_log, exact_stamp),
    newest_in_log: (strict, closed, counted, newest_in_log, newest_in_stamp),
    newest_in_stamp: (strict, closed, newest_in_log, newest_in_stamp),
    causal_order: (strict, closed, causal_order),
    clock_is_delivery: (strict, closed, counted, causal_order, clock_is_delivery),
}
"""what must hold before a step so that a part holds after it"""
ABOUT = {
    strict: "sent before", closed: "sent past before done", counted: "sent clock before",
    noted: "known done past carried before", exact_log: "log past known before",
    exact_stamp: "stamp before carried sent", newest_in_log: "entry log past",
    newest_in_stamp: "stamped stamp before sent", causal_order: "done before", clock_is_delivery: "done sr clock sent",
}  # fmt: skip
"""the relations that a part speaks of: what a step does to the others is left out of the question"""
