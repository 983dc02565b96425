"""Fixed points, endpoints, and why a fact is on a copy, by definition; held equal to the minimum and to `ks`."""

from __future__ import annotations

import pytest
from support.walk import walk

from thence.errors import MisuseError
from thence.model.events import parse
from thence.model.fixed_points import FixedPoints
from thence.model.order import usable

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
        'the copy of d1 to b carries "b is a destination of a1", by way of: a sent a1 to b, c; a sent a2 to d; '
        "d delivered a2; d sent d1 to b; when d1 was sent, nobody in its causal past had delivered a1 at b, "
        "nor sent anything to b after a1"
    )
    delivered = asked.why(("a1", "b"), ("b1", "c"))
    assert not delivered.needed
    assert "need not carry" in delivered.sentence()
    replaced = asked.why(("a1", "c"), ("c1", "b"))
    assert replaced.ended is not None
    apart = asked.why(("d1", "b"), ("a2", "d"))
    assert apart.path == ()
    assert "was not sent causally before" in apart.sentence()


def test_what_is_no_fact_is_refused() -> None:
    asked = FixedPoints(RUN)
    with pytest.raises(MisuseError, match="no message 'z9'"):
        asked.why(("z9", "b"), ("d1", "b"))
    with pytest.raises(MisuseError, match="a1 does not go to 'd'; it goes to b, c"):
        asked.fixed_points("a1", "d")


@pytest.mark.parametrize("seed", range(6))
def test_a_fact_is_on_a_copy_exactly_where_no_fixed_point_has_ended_it(seed: int) -> None:
    """Theorems 1 and 2 for one run: the answer of `why`, the minimum, and the fixed points agree on every copy."""
    run = walk("ks", 4, 12, seed)
    asked = FixedPoints(usable(run.events)[0])
    execution = asked.execution
    copies = [(m, d) for m, place in execution.send.items() for d in execution.events[place].destinations or ()]
    for copy in copies:
        needed = asked.on_copy(*copy)
        for fact in asked.facts():
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
    for fact in asked.facts():
        sends = [place[id(p.event)] for p in asked.fixed_points(*fact) if p.kind == "FP2"]
        assert not any(execution.before(one, other) for one in sends for other in sends)
        ends = [place[id(event)] for event in asked.endpoints(*fact)]
        for name, rows in execution.rows.items():
            past = [row for row in rows if execution.before(execution.send[fact[0]], row)]
            for row in past:
                over = any(end == row or execution.before(end, row) for end in ends)
                assert over == (fact not in asked.in_log(name, execution.events[row].index)), (fact, row)
