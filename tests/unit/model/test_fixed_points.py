"""Fixed points, endpoints, and why a fact is on a copy, by definition; held equal to the minimum and to `ks`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.some import some
from support.walk import walk

from thence.core.model.events import parse
from thence.core.model.fixed_points import FixedPoints
from thence.core.model.order import usable
from thence.errors import MisuseError

RUN = parse("a!1>bc a!2>d d?a2 d!1>b b?a1 b?d1 b!1>c c?a1 c?b1 c!1>b")


def points(message: str, destination: str) -> list[tuple[str, str | None]]:
    return [(point.kind, point.event.message) for point in FixedPoints(RUN).fixed_points(message, destination)]


def test_where_a_fact_ends() -> None:
    """a1 to b: d1 takes over (FP2), then it is delivered (FP1); a1 to c: b1 takes over, then it is delivered."""
    assert points("a1", "b") == [("FP2", "d1"), ("FP1", "a1")]
    assert points("a1", "c") == [("FP2", "b1"), ("FP1", "a1")]
    assert points("d1", "b") == [("FP1", "d1")]


def test_why_a_fact_is_on_a_copy() -> None:
    asked = FixedPoints(RUN)
    carried = asked.why(("a1", "b"), ("d1", "b"))
    assert carried.needed
    assert [event.message for event in carried.path] == ["a1", "a2", "a2", "d1"]
    assert carried.sentence() == (
        'the copy of d1 to b must carry "b is a destination of a1", by way of: a sent a1 to b, c; a sent a2 to d; '
        "d delivered a2; d sent d1 to b; when d1 was sent, nothing in its causal past was the delivery of a1 at b, "
        "or sent to b after a1"
    )
    delivered = asked.why(("a1", "b"), ("b1", "c"))
    assert not delivered.needed
    assert delivered.sentence() == (
        'the copy of b1 to c need not carry "b is a destination of a1": b had delivered a1 in the causal past of b1'
    )
    replaced = asked.why(("a1", "c"), ("c1", "b"))
    assert replaced.ended is not None
    apart = asked.why(("d1", "b"), ("a2", "d"))
    assert apart.path == ()
    assert apart.sentence().endswith(": d1 was not sent causally before a2")
    own = asked.why(("a1", "b"), ("a1", "c"))
    assert not own.needed
    assert own.sentence().endswith(": a copy names the destinations of its own message anyway")


def test_what_takes_over_goes_to_the_destination_alone() -> None:
    """a2 to b and c takes over a1's duty at b: its copy to b carries the fact, its copy to c does not."""
    asked = FixedPoints(parse("a!1>b a!2>bc c?a2 c!1>b b?a1 b?a2 b?c1"))
    assert asked.why(("a1", "b"), ("a2", "b")).needed
    other = asked.why(("a1", "b"), ("a2", "c"))
    assert (other.needed, other.ended) == (False, None)
    assert other.sentence().endswith(": the copy of a2 to b must")
    later = asked.why(("a1", "b"), ("c1", "b"))
    assert not later.needed
    assert later.sentence().endswith(": a2, sent to b after a1, waits for it there")


def test_what_ends_a_fact_elsewhere_is_no_reason() -> None:
    """b has delivered a1 before c1 is sent, but c cannot know; what c can know of is that a2 waits for a1."""
    asked = FixedPoints(parse("a!1>b a!2>bc b?a1 c?a2 c!1>d d?c1 b?a2"))
    why = asked.why(("a1", "b"), ("c1", "d"))
    assert why.ended is not None
    assert (why.ended.kind, why.ended.event.message) == ("FP2", "a2")


def test_a_path_names_only_the_turns() -> None:
    """What a process does between the row at which the path comes to it and the one at which it leaves is left out."""
    asked = FixedPoints(parse("a!1>c a!2>d a!3>d a!4>b b?a4 b!1>d b!2>c"))
    path = asked.why(("a1", "c"), ("b2", "c")).path
    assert [(event.kind, event.message) for event in path] == [
        ("send", "a1"), ("send", "a4"), ("deliver", "a4"), ("send", "b2"),
    ]  # fmt: skip


def test_endpoints_of_a_run_worked_out_by_hand() -> None:
    """a1 to b ends where b delivers it, where d1 takes over, and where e, which knew of it by a3, hears of d1 by d2.

    b's later rows and e's later rows are after an endpoint of the same process, so they are none.
    """
    run = parse("a!1>b a!2>d a!3>e e?a3 d?a2 d!1>b d!2>e e?d2 e!1>d b?a1 b?d1 b!1>e e?b1 d?e1")
    ends = [(event.process, event.kind, event.message) for event in FixedPoints(run).endpoints("a1", "b")]
    assert ends == [("d", "send", "d1"), ("e", "deliver", "d2"), ("b", "deliver", "a1")]


def on_paths(asked: FixedPoints, message: str, destination: str) -> set[int]:
    """Definition 4, by walking every causal path from the send up to its first event in the future of a fixed point."""
    execution = asked.execution
    place = {(event.process, event.index): number for number, event in enumerate(execution.events)}
    fixed = {place[p.event.process, p.event.index] for p in asked.fixed_points(message, destination)}
    effects: dict[int, list[int]] = {number: [] for number in range(len(execution.events))}
    for effect, causes in enumerate(execution.causes):
        for cause in causes:
            effects[cause].append(effect)
    found, walked, waiting = set(fixed), set[int](), [execution.send[message]]
    while waiting:
        for effect in effects[waiting.pop()]:
            if effect in fixed or any(execution.before(point, effect) for point in fixed):
                found.add(effect)
            elif effect not in walked:
                walked.add(effect)
                waiting.append(effect)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_endpoints_are_the_earliest_on_every_path(seed: int) -> None:
    asked = FixedPoints(usable(walk("ks", 4, 14, seed).events)[0])
    for fact in some(asked.facts()):
        ends = {asked.execution.events.index(event) for event in asked.endpoints(*fact)}
        assert ends == on_paths(asked, *fact), fact


def test_what_is_no_fact_is_refused() -> None:
    asked = FixedPoints(RUN)
    with pytest.raises(MisuseError, match="no message 'z9'"):
        asked.why(("z9", "b"), ("d1", "b"))
    with pytest.raises(MisuseError, match="a1 does not go to 'd'; it goes to b, c"):
        asked.fixed_points("a1", "d")
    with pytest.raises(MisuseError, match="no message 'a1' was sent in this run; there are none"):
        FixedPoints([]).fixed_points("a1", "b")
    with pytest.raises(MisuseError, match="rows of 2 labels \\(None, 'x'\\), each an order of its own"):
        FixedPoints([*RUN, replace(RUN[0], label="x", index=9, process="z")])


@pytest.mark.parametrize("seed", range(6))
def test_a_fact_is_on_a_copy_exactly_where_no_fixed_point_has_ended_it(seed: int) -> None:
    """Theorems 1 and 2 for one run: the answer of `why`, the minimum, and the fixed points agree on every copy."""
    run = walk("ks", 4, 12, seed)
    asked = FixedPoints(usable(run.events)[0])
    execution = asked.execution
    copies = [(m, d) for m, place in execution.send.items() for d in execution.events[place].destinations or ()]
    for copy in some(copies):
        needed = asked.on_copy(*copy)
        for fact in some(asked.facts()):
            found = asked.why(fact, copy)
            assert found.needed == (fact in needed)
            assert found.needed <= bool(found.path)
            assert not (found.needed and found.ended)


@pytest.mark.parametrize("seed", range(6))
def test_fixed_points_are_concurrent_and_endpoints_end_every_path(seed: int) -> None:
    run = walk("ks", 4, 14, seed)
    asked = FixedPoints(usable(run.events)[0])
    execution = asked.execution
    place = {id(event): number for number, event in enumerate(execution.events)}
    for fact in some(asked.facts()):
        sends = [place[id(p.event)] for p in asked.fixed_points(*fact) if p.kind == "FP2"]
        assert not any(execution.before(one, other) for one in sends for other in sends)
        ends = [place[id(event)] for event in asked.endpoints(*fact)]
        for name, rows in execution.rows.items():
            past = [row for row in rows if execution.before(execution.send[fact[0]], row)]
            for row in past:
                over = any(end == row or execution.before(end, row) for end in ends)
                assert over == (fact not in asked.in_log(name, execution.events[row].index)), (fact, row)
