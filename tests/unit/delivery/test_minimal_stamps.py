"""Minimal stamps afterwards, against the definition."""

from __future__ import annotations

import pytest
from support.arrivals import play
from support.some import some

from thence import Orderer
from thence.core.model.events import parse
from thence.core.model.order import Execution
from thence.tables.delivery.minimal_stamps import from_causes, stamp_run


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("protocol", ["ks", "unordered"])
def test_the_last_causes_and_no_others(protocol: str, seed: int) -> None:
    """Also from a run that was not delivered in causal order: happened-before is what counts."""
    run = play(protocol, seed, senders=4, sinks=2, messages=60)
    execution = Execution(run.events)
    goes_to = {e.message: e.destinations or () for e in run.events if e.kind == "send"}
    for made in some(stamp_run(run.events, run.roster)):
        before = [m for m, ds in goes_to.items() if made.destination in ds and execution.precedes(m, made.message)]  # type: ignore[arg-type]
        last = {m for m in before if not any(execution.precedes(m, other) for other in before if other != m)}  # type: ignore[arg-type]
        assert set(made.depends_on) == last, f"{made} seed {seed}"


def test_stamps_and_explicit_causes_deliver_alike() -> None:
    run = play("ks", 9, senders=4, sinks=2, messages=80)
    rows = [s._asdict() for s in stamp_run(run.events, run.roster) if s.destination in ("e", "f")]
    rows.reverse()
    by_stamp = [(r["destination"], r["message"]) for r in Orderer("stamp", roster=run.roster).deliver(rows)]
    by_cause = [(r["destination"], r["message"]) for r in Orderer("depends_on").deliver(rows)]
    assert by_stamp == by_cause
    assert {r["outcome"] for r in Orderer("stamp", roster=run.roster).deliver(rows)} == {"delivered"}


def test_a_cause_that_never_comes_here_neither_blocks_nor_hides() -> None:
    events = parse("a!1>bd b?a1 b!1>c c?b1 c!1>d")
    stamped = {(s.message, s.destination): s.depends_on for s in stamp_run(events)}
    assert stamped["c1", "d"] == ("a1",)
    told = {
        (m, d): last
        for m, d, last in from_causes(
            {"x": ["d"], "y": ["e"], "z": ["d"], "w": ["d"]}, {"y": ["x"], "z": ["y", "x"], "w": ["z", "x", "far"]}
        )
    }
    assert told["z", "d"] == ("x",)
    assert told["w", "d"] == ("z", "far")
    assert told["y", "e"] == ()
