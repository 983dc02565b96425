"""KS98 for any number of processes and messages: an inductive invariant, checked by Z3.

    python formal/prove.py             prove it, then try each mutant
    python formal/prove.py --verbose   and say how long each obligation took

Processes and messages are uninterpreted sorts, so nothing is bounded. The state is that of KS.tla with its history (who
has which messages in its causal past, where they are delivered), and the two steps that matter are `send` and
`deliver`: a copy in flight and a held copy are the same here. Each part of the invariant is shown to hold before the
first step and to be kept by each step, given the parts it names. What it says, in the end:

- causal order: a copy is delivered only when all causes addressed to its destination are delivered there;
- the delivery rule waits for nothing else;
- logs and stamps hold exactly the facts of the propagation constraints (PC1, PC2, and the exception for a copy's own
  destination);
- the newest message of each sender of the past has an entry, so that absence can speak (RCV(4));
- nothing waits for ever: where all that was sent to a process has arrived, some of it can be delivered until all is.
  Each delivery leaves one message fewer, so where arrivals and deliveries are fair, finitely many sends are delivered.

Not shown: that the code does these steps (the traces and TLC are for that). First-order logic cannot say that sets are
finite, so in four places, named `greatest` and `least`, we assume of one set that it has such an element: finite sets
ordered by `before` or by count have.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from time import process_time

import z3
from ks_invariant import (
    ABOUT,
    NEEDS,
    PARTS,
    State,
    causal_order,
    clock_is_delivery,
    closed,
    count,
    counted,
    d,
    exact_log,
    exact_stamp,
    k,
    m,
    n,
    needed,
    newer,
    newest_in_log,
    newest_in_stamp,
    noted,
    one_name,
    p,
    q,
    sender,
    strict,
    to,
    x,
)  # fmt: skip
from ks_steps import Merge, Rules, Step, a, all_causes, b, deliver, new, rule, send

SEED, PATIENCE = 1, 4_000
"""of each question to Z3; milliseconds"""


def greatest_cause(v: State) -> z3.BoolRef:
    """Greatest: of the undelivered causes of `new` addressed to b that are m or after it, one is before no other."""
    inside = lambda y: z3.And(v.before(y, new), to(y, b), z3.Not(v.done(y, b)), z3.Or(y == m, v.before(m, y)))  # noqa: E731
    top = z3.Exists([x], z3.And(inside(x), z3.ForAll([k], z3.Implies(inside(k), z3.Not(v.before(x, k))))))
    return z3.ForAll([m], z3.Implies(inside(m), top))


def waiting(v: State, y: z3.ExprRef) -> z3.BoolRef:
    """The message was sent to b and is not delivered there."""
    return z3.And(v.sent(y), to(y, b), z3.Not(v.done(y, b)))


def least_waiting(v: State) -> z3.BoolRef:
    """Least: something waits at b, and one message that does has no cause that does."""
    return z3.Exists([x], z3.And(waiting(v, x), z3.ForAll([k], z3.Implies(waiting(v, k), z3.Not(v.before(k, x))))))


def greatest_entry(has: Callable[[z3.ExprRef], z3.BoolRef]) -> z3.BoolRef:
    """Greatest: of the entries of one sender, one has the greatest count."""
    top = z3.Exists(
        [x], z3.And(has(x), sender(x) == sender(m), z3.ForAll([k], z3.Implies(has(k), z3.Not(newer(k, x)))))
    )
    return z3.ForAll([m], z3.Implies(has(m), top))


@dataclass
class Proof:
    """Asks Z3 for each obligation and keeps the answers."""

    rules: Rules = field(default_factory=Rules)
    patience: int = PATIENCE
    verbose: bool = False
    open: list[str] = field(default_factory=list)
    """obligations that were not proved"""
    answers: dict[str, str] = field(default_factory=dict)

    def holds(self, name: str, *given: z3.BoolRef, goal: z3.BoolRef) -> None:
        solver = z3.Solver()
        solver.set("timeout", self.patience)
        solver.set("random_seed", SEED)
        solver.add(one_name(State("")), *given, z3.Not(goal))
        began = process_time()
        answer = str(solver.check())
        self.answers[name] = answer
        if answer != "unsat":
            self.open.append(name)
        if self.verbose:
            print(
                f"  {'proved' if answer == 'unsat' else answer:8} {process_time() - began:6.2f} s  {name}", flush=True
            )

    def run(self) -> bool:
        """Check every obligation; return whether all are proved."""
        v, w = State(""), State("'")
        for part in PARTS:
            self.holds(f"at first: {part.__name__}", *start(v), goal=part(v))
        rules = self.rules
        self.holds(
            "the rule is met only when all causes are delivered",
            strict(v), closed(v), noted(v), exact_stamp(v), causal_order(v), clock_is_delivery(v), greatest_cause(v),
            v.sent(new), to(new, b), z3.Not(v.done(new, b)), rule(v, rules), goal=all_causes(v),
        )  # fmt: skip
        self.holds(
            "the rule is met when all causes are delivered",
            strict(v), closed(v), exact_stamp(v), clock_is_delivery(v),
            v.sent(new), to(new, b), all_causes(v), goal=rule(v, rules),
        )  # fmt: skip
        self.holds(
            "of what has arrived and is not delivered, something meets the rule",
            strict(v), closed(v), exact_stamp(v), clock_is_delivery(v), least_waiting(v),
            goal=z3.Exists([new], z3.And(waiting(v, new), rule(v, rules))),
        )  # fmt: skip
        self.steps(v, w)
        return not self.open

    def absence(self, v: State, merge: Merge, copy: z3.BoolRef) -> list[z3.BoolRef]:
        """Prove what entries say of the messages around them; return it."""
        entry, arriving = (lambda y: v.entry(b, y)), merge.arriving
        mine, theirs = (lambda y: v.past(b, y)), (lambda y: z3.Or(v.before(y, new), y == new))
        order, found = [strict(v), closed(v), counted(v), copy], []
        for whose, has, within, part in (
            ("log", entry, mine, newest_in_log),
            ("stamp", arriving, theirs, newest_in_stamp),
        ):
            above = z3.Exists([x], z3.And(has(x), newer(x, m)))
            inside = z3.ForAll([m], z3.Implies(has(m), z3.And(within(m), v.sent(m))))
            below = z3.ForAll([m, x], z3.Implies(z3.And(has(x), newer(x, m), v.sent(m)), within(m)))
            absent = z3.ForAll([m], z3.Implies(z3.And(within(m), z3.Not(has(m))), above))
            self.holds(f"deliver: an entry of the {whose} is of its past", *order, part(v), goal=inside)
            self.holds(
                f"deliver: what is older than an entry of the {whose} is of its past", *order, inside, goal=below
            )
            self.holds(
                f"deliver: what has no entry in the {whose} is older than one that has", copy, part(v), goal=absent
            )
            found += [inside, below, absent]
        facts = z3.And(
            z3.ForAll([m, d], z3.Implies(v.log(b, m, d), v.entry(b, m))),
            z3.ForAll([m, d], z3.Implies(merge.learned(m, d), arriving(m))),
        )
        self.holds("deliver: a fact has an entry", copy, newest_in_log(v), newest_in_stamp(v), goal=facts)
        return [*found, facts]

    def newest(self, v: State, w: State, merge: Merge, step: Step, lemmas: list[z3.BoolRef]) -> list[z3.BoolRef]:
        """Prove that the newest entry of each sender outlives a merge; return what is needed for that."""
        either = merge.either
        top = z3.Not(z3.Exists([k], z3.And(either(k), newer(k, m))))
        stays = z3.ForAll([m], z3.Implies(z3.And(either(m), top), w.entry(b, m)))
        self.holds("deliver: the newest entry of both stays", step["entry"], goal=stays)
        known = z3.Or(v.past(b, m), v.before(m, new), m == new)
        above = z3.Exists([k], z3.And(either(k), sender(k) == sender(m), count(k) >= count(m)))
        covered = z3.ForAll([m], z3.Implies(known, above))
        self.holds("deliver: an entry of one of both is as new", *lemmas, goal=covered)
        kept = z3.Exists([k], z3.And(w.entry(b, k), sender(k) == sender(m), count(k) >= count(m)))
        here = z3.ForAll([m], z3.Implies(w.past(b, m), kept))
        self.holds("deliver: newest_in_log here", stays, covered, greatest_entry(either), step["past"], goal=here)
        return [here]

    def steps(self, v: State, w: State) -> None:
        """Check that each step keeps each part."""
        rules, merge = self.rules, Merge(v, self.rules)
        copy = z3.And(v.sent(new), to(new, b), z3.Not(v.done(new, b)))
        lemmas = self.absence(v, merge, copy)
        means = z3.ForAll([m, d], merge.after(m, d) == merge.meant(m, d))
        self.holds("deliver: absence of an entry says what it means", *lemmas, goal=means)
        union = lambda y: z3.Or(v.past(b, y), v.before(y, new), y == new)  # noqa: E731
        delivered = z3.Or(v.known(b, m, d), v.carried(new, m, d), z3.And(m == new, d == b))
        right = z3.ForAll([m, d], merge.meant(m, d) == needed(v, union, delivered))
        self.holds(
            "deliver: what it means is what is needed", strict(v), closed(v), noted(v), exact_log(v), exact_stamp(v),
            copy, goal=right,
        )  # fmt: skip
        for name, step in (("send", send(v, w, rules)), ("deliver", deliver(v, w, rules))):
            for part in PARTS:
                given = [other(v) for other in NEEDS[part]]
                given += [step[key] for key in ("guard", *ABOUT[part].split())]
                if name == "deliver":
                    given.append(all_causes(v))
                    given += [means, right] if part is exact_log else []
                    given += self.newest(v, w, merge, step, lemmas) if part is newest_in_log else []
                elif part in (newest_in_log, newest_in_stamp):
                    given.append(greatest_entry(lambda y: v.entry(a, y)))
                goal = part(w)
                goals = goal.children() if z3.is_and(goal) else [goal]
                for number, each in enumerate(goals, 1):
                    self.holds(f"{name}: {part.__name__}{f' {number}' if len(goals) > 1 else ''}", *given, goal=each)


def start(v: State) -> list[z3.BoolRef]:
    """Nothing is sent."""
    return [
        z3.ForAll([m, n, p, q, d], z3.Not(z3.Or(
            v.sent(m), v.before(m, n), v.past(p, m), v.done(m, p), v.known(p, m, d), v.carried(n, m, d),
            v.log(p, m, d), v.entry(p, m),
        ))),
        z3.ForAll([p, q], z3.And(v.sr(p, q) == 0, v.clock(p) == 0)),
    ]  # fmt: skip


MUTANTS = list(Rules.__dataclass_fields__)
"""one rule left out"""


def main() -> int:
    """Prove it; then leave out one rule at a time, and see that it cannot be proved."""
    began = process_time()
    proof = Proof(verbose="--verbose" in sys.argv)
    proved = proof.run()
    done, seconds = len(proof.answers) - len(proof.open), process_time() - began
    print(f"KS for any n: {done} of {len(proof.answers)} obligations proved, {seconds:.1f} s")
    for name in proof.open:
        print(f"  not proved: {name} ({proof.answers[name]})")
    caught = [_fails(name) for name in MUTANTS]
    return 0 if proved and all(caught) else 1


def _fails(name: str) -> bool:
    """Tell whether the proof fails without a rule, and say where."""
    mutant = Proof(Rules(**{name: False}))
    mutant.run()
    found = ", ".join(f"{each} ({mutant.answers[each]})" for each in mutant.open) or "PROVED, which it must not be"
    print(f"without {name}: {found}", flush=True)
    return bool(mutant.open)


if __name__ == "__main__":
    sys.exit(main())
