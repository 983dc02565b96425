"""Every violation has a path; it is a causal chain of usable rows, as short as any, whatever `order` says."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from support.causal_walks import path
from support.some import some
from support.tables import normal
from support.traces import Knobs, random_trace, spoil

from thence.core.model.events import Event, parse
from thence.core.model.order import judge, usable
from thence.tables.judge import proof_path as kernel
from thence.tables.judge.proof_path import shortest_paths
from thence.tables.judge.stored_rows import JudgedEvents, TableRows


def check(events: list[Event], *, order: bool = True, ask: str = "") -> int:
    """Ask for all paths of a run at once and hold each against breadth-first search over the usable rows."""
    judged = judge(events)
    violations = [*judged.violations, *judged.possible]
    good, _ = usable(events)
    at = {(e.process, e.index): e for e in good}
    asked = [(v.missing, v.early) for v in violations]
    for violation, found in zip(violations, shortest_paths(normal(events, order=order), asked), strict=True):
        known = path(good, violation)
        assert found is not None, f"{ask}: {violation}"
        assert known is not None
        assert (found[0].message, found[-1]) == (violation.missing, known[-1])
        assert len(found) == len(known), f"{ask}: {violation}"
        for one, two in pairwise(found):
            assert {(s.process, s.index) for s in (one, two)} <= at.keys(), f"{ask}: a row that was set aside"
            same = one.process == two.process and one.index < two.index
            carried = one.kind == "send" and two.kind == "deliver" and one.message == two.message
            assert same or carried
    return len(violations)


@pytest.mark.parametrize("seed", range(15))
def test_as_short_as_by_breadth_first_search(seed: int) -> None:
    knobs = Knobs(processes=2 + seed % 7, steps=150, late=0.4, slow=0.4, labels=((None,), ("red", None))[seed % 2])
    check(random_trace(seed, knobs), ask=f"seed {seed}")


def test_spoilt_rows_prove_nothing_and_a_wrong_order_hides_nothing() -> None:
    proved = 0
    for seed in range(120):
        events = spoil(random_trace(seed), seed)
        places = list(range(len(events)))
        Random(seed).shuffle(places)
        proved += check(events, ask=f"seed {seed}")
        wrong = [replace(e, order=place) for e, place in zip(events, places, strict=True)]
        taken = sorted(wrong, key=lambda e: e.order or 0)  # what stands first in the order is what counts
        proved += check(taken, ask=f"seed {seed}, wrong order")
    assert proved > 400


def test_a_path_leads_through_no_row_that_was_set_aside() -> None:
    """The way over q's delivery of n is shorter to see, but that row lies on a cycle."""
    rows = [
        ("p", "deliver", "k"), ("p", "send", "m", "dw"), ("p", "send", "n", "q"),
        ("q", "deliver", "n"), ("q", "send", "k", "p"), ("q", "deliver", "x"), ("q", "send", "e", "d"),
        ("w", "deliver", "m"), ("w", "send", "x", "q"), ("d", "deliver", "e"), ("d", "deliver", "m"),
    ]  # fmt: skip
    indexes: dict[str, int] = {}
    events = []
    for process, kind, message, *to in rows:
        indexes[process] = indexes.get(process, 0) + 1
        events.append(Event("r", process, indexes[process], kind, message, tuple(to[0]) if to else None))  # type: ignore[arg-type]
    assert check(events, order=False) == 1
    (found,) = shortest_paths(normal(events), [("m", "e")])
    assert [(s.process, s.message) for s in found or ()] == [
        ("p", "m"), ("w", "m"), ("w", "x"), ("q", "x"), ("q", "e"),
    ]  # fmt: skip


def test_an_order_that_runs_backwards() -> None:
    events = parse("a!1>bc b?a1 b!1>c c?b1 c?a1")
    backwards = [replace(e, order=5 - place) for place, e in enumerate(events)]
    (found,) = shortest_paths(normal(backwards), [("a1", "b1")])
    assert [(s.process, s.kind, s.message) for s in found or ()] == [
        ("a", "send", "a1"), ("b", "deliver", "a1"), ("b", "send", "b1"),
    ]  # fmt: skip


def test_many_questions_take_several_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "CLOCK_BYTES", 2000)
    assert check(random_trace(3, Knobs(processes=6, steps=300, late=0.8, slow=0.5))) > 20


def test_what_is_not_there_has_no_path() -> None:
    events = normal(parse("a!1>b b!1>a a?b1 b?a1"))
    assert shortest_paths(events, [("a1", "b1"), ("a1", "nobody"), ("nobody", "a1"), ("a1", "a1")]) == [None] * 4
    assert shortest_paths(events, []) == []


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_what_may_lie_on_a_path_is_loaded_to_its_ends(size: int) -> None:
    """Of a run in order, all rows from the one send to the other, wherever parts begin and end, and no others."""
    events = random_trace(5, Knobs(processes=5, steps=120, late=0.4, slow=0.4))
    violations = judge(events).violations
    table, at = normal(events), {e.message: e.order or 0 for e in events if e.kind == "send"}
    stored = JudgedEvents([TableRows("r", table.slice(start, size)) for start in range(0, len(table), size)], {"r"})
    for each in some(violations):
        low, high = at[each.missing], at[each.early]
        near = stored.of_run("r", [(each.missing, each.early)])
        wanted = [order for order in table.column("order").to_pylist() if low <= order <= high]
        assert sorted(near.column("order").to_pylist()) == sorted(wanted)
