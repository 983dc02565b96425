"""Walks, clocks, excerpts and paths against the definition, on random executions."""

from __future__ import annotations

import io
from collections import deque
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from support.causal_walks import path

from thence.core.model.events import Event
from thence.core.model.order import Execution, by_label, judge
from thence.tables.explain.causality import causal_order, vector_clocks
from thence.tables.explain.clock_findings import audit_clocks
from thence.tables.explain.scene import shown_by, violated
from thence.tables.explain.sentence import PathStep, sentence
from thence.tables.export.around import around
from thence.tables.export.shiviz import write_shiviz
from thence.tables.files.shiviz import ClockEvent, parse_log


def execution(seed: int, *, labels: int = 1) -> list[Event]:
    """Return a run in which anything may be delivered at any time, often too early, sometimes twice or never."""
    rng = Random(seed)
    names = [chr(97 + n) for n in range(rng.randint(1, 8))]
    width = rng.choice([0.15, 0.3, 0.6])
    indexes = dict.fromkeys(names, 0)
    counts = dict.fromkeys(names, 0)
    flying: list[tuple[str, str, str | None]] = []
    events: list[Event] = []
    for order in range(rng.randint(0, 90)):
        process = rng.choice(names)
        here = [copy for copy in flying if copy[1] == process]
        indexes[process] += 1
        place = ("run", process, indexes[process])
        chance = rng.random()
        if here and chance < 0.55:
            copy = rng.choice(here)
            kind = "receive" if rng.random() < 0.15 else "deliver"
            if kind == "deliver" and rng.random() < 0.95:
                flying.remove(copy)
            events.append(Event(*place, kind, copy[0], label=copy[2], order=order))  # type: ignore[arg-type]
        elif chance < 0.9:
            counts[process] += 1
            message = f"{process}{counts[process]}"
            to = tuple(name for name in names if rng.random() < width)
            label = rng.choice([None, "red", "blue"][:labels])
            events.append(Event(*place, "send", message, to, label, order))
            flying += [(message, name, label) for name in to]
        else:
            events.append(Event(*place, "internal", order=order))
    return events


SEEDS = st.integers(0, 2**32)


def test_random_executions_have_what_is_checked_in_them() -> None:
    runs = [execution(seed) for seed in range(60)]
    assert sum(bool(judge(events).violations) for events in runs) > 20
    assert sum(bool(Execution(events).send) for events in runs) > 50


@given(SEEDS)
def test_clocks_are_happened_before(seed: int) -> None:
    events = [event for event in execution(seed) if event.kind != "receive"]
    judged = Execution(events)
    clocks = list(vector_clocks(events))
    assert len(clocks) == len(events)
    for one, first in enumerate(clocks):
        for two, second in enumerate(clocks):
            below = all(count <= second.get(name, 0) for name, count in first.items())
            assert below == (one == two or judged.before(one, two))


@given(SEEDS, st.randoms(use_true_random=False))
def test_a_causal_order_is_found_from_any_order(seed: int, rng: Random) -> None:
    events = execution(seed)
    shuffled = [Event(e.run, e.process, e.index, e.kind, e.message, e.destinations, e.label) for e in events]
    rng.shuffle(shuffled)
    found = causal_order(shuffled)
    assert set(found) == set(shuffled)
    place = {(e.process, e.index): number for number, e in enumerate(found)}
    sends = {e.message: number for number, e in enumerate(found) if e.kind == "send"}
    for number, event in enumerate(found):
        assert place.get((event.process, event.index - 1), -1) < number
        assert event.kind not in ("deliver", "receive") or sends[event.message] < number


def fewest(events: list[Event], missing: str, early: str) -> int:
    """Return the fewest messages from send to send, by 0-1 breadth-first search over single rows."""
    rows = [event for event in events if event.kind != "receive"]
    keys = {(e.process, e.index): e for e in rows}
    following = {}
    for process in {e.process for e in rows}:
        own = sorted(e.index for e in rows if e.process == process)
        following.update({(process, i): (process, j) for i, j in pairwise(own)})
    start = next((e.process, e.index) for e in rows if e.kind == "send" and e.message == missing)
    goal = next((e.process, e.index) for e in rows if e.kind == "send" and e.message == early)
    best = {start: 0}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        steps = [(following[here], 0)] if here in following else []
        if keys[here].kind == "send":
            message = keys[here].message
            steps += [((e.process, e.index), 1) for e in rows if e.kind == "deliver" and e.message == message]
        for there, cost in steps:
            if best[here] + cost < best.get(there, 10**9):
                best[there] = best[here] + cost
                queue.appendleft(there) if cost == 0 else queue.append(there)
    return best[goal]


def hops(events: list[Event], steps: list[PathStep]) -> int:
    """Check that a path is a chain of rows of the trace, step by step; return how many messages it takes."""
    rows = {(e.process, e.index): e for e in events}
    count = 0
    for step in steps:
        event = rows[step.process, step.index]
        assert (event.kind, event.message) == (step.kind, step.message)
    for one, two in pairwise(steps):
        if one.process == two.process and one.index < two.index:
            continue
        assert (one.kind, two.kind, one.message) == ("send", "deliver", two.message)
        count += 1
    return count


@settings(max_examples=300)
@given(SEEDS, st.integers(1, 3))
def test_every_violation_has_a_real_and_shortest_path(seed: int, labels: int) -> None:
    events = execution(seed, labels=labels)
    violations = judge(events).violations
    assert None not in [path(events, violation) for violation in violations]
    for violation in violations:
        steps = path(events, violation)
        assert steps is not None
        assert (steps[0].kind, steps[0].message) == ("send", violation.missing)
        assert (steps[-1].kind, steps[-1].message) == ("send", violation.early)
        label = next(e.label for e in events if e.kind == "send" and e.message == violation.early)
        same = [event for event in events if event.label == label]
        assert hops(same, steps) == fewest(same, violation.missing, violation.early)
        assert violation.missing in sentence(steps, violation)
        assert len(shown_by(events, violated(violation, steps))) <= len(steps) + 2


@given(SEEDS)
def test_the_part_around_a_message_shows_its_violations(seed: int) -> None:
    events = execution(seed)
    violations = judge(events).violations
    named = {message for violation in violations for message in (violation.early, violation.missing)}
    kept = {message: set(around(events, message)) for message in named}
    for violation in violations:
        shown = set(shown_by(events, violated(violation, path(events, violation))))
        assert shown <= kept[violation.early] & kept[violation.missing]
    assert all(kept.values())


def logged(events: list[Event], message: str | None) -> list[ClockEvent]:
    stream = io.BytesIO()
    write_shiviz(events, stream, around=message)
    found = list(parse_log(stream.getvalue().decode(), "f"))
    assert all(isinstance(each, ClockEvent) for each in found)
    return [each for each in found if isinstance(each, ClockEvent)]


@given(SEEDS, st.integers(1, 3))
def test_a_trace_as_a_log_keeps_the_rules_of_clocks(seed: int, labels: int) -> None:
    events = execution(seed, labels=labels)
    log = logged(events, None)
    assert len(log) == sum(len(part) for part in by_label(events).values())
    audit = audit_clocks(log)
    assert (audit.findings, audit.notes) == ([], [])


@given(SEEDS)
def test_an_excerpt_keeps_what_happened_before_what(seed: int) -> None:
    events = execution(seed)
    judged = Execution(events)
    place = {(e.process, e.index): number for number, e in enumerate(judged.events)}
    excerpts = {message: around(events, message) for message in list(judged.send)[:5]}
    assert all({message} <= {e.message for e in rows if e.kind == "send"} for message, rows in excerpts.items())
    for message, rows in excerpts.items():
        log = logged(events, message)
        assert audit_clocks(log).findings == []
        own = {
            (e.process, position): e
            for p in {e.process for e in rows}
            for position, e in enumerate(sorted((e for e in rows if e.process == p), key=lambda e: e.index), 1)
        }
        sent = {e.message for e in rows if e.kind == "send"}
        assert all(e.message in sent for e in rows if e.kind in ("deliver", "receive"))
        for one in log:
            for two in log:
                first, second = own[one.host, one.own], own[two.host, two.own]
                if "receive" in (first.kind, second.kind):
                    continue
                below = all(count <= two.clock.get(name, 0) for name, count in one.clock.items())
                a, b = place[first.process, first.index], place[second.process, second.index]
                assert below == (a == b or judged.before(a, b))
