"""Workloads: the right destinations, the right rate, and nothing that depends on a protocol."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from thence.core.model.roster import Roster
from thence.lab.simulator import Scenario
from thence.lab.simulator.fanout import destination_chooser, parse_fanout
from thence.lab.simulator.random_streams import Streams
from thence.lab.simulator.workload import Request

ALL = ["poisson", "hotspot:2,0.5", "bursts:0.5,1", "groups:4x3", "groups:abc/cde/fa", "request-reply:2", "replicated"]


def requests(**changes: object) -> list[Request]:
    scenario = Scenario(processes=6, **{"messages": 2000, **changes})  # type: ignore[arg-type]
    return list(scenario.traffic(Streams(scenario.seed)).requests())


@pytest.mark.parametrize("text", ALL)
def test_in_order_and_again(text: str) -> None:
    made = requests(workload=text)
    assert made == requests(workload=text)
    assert made != requests(workload=text, seed=2)
    assert [r.time for r in made] == sorted(r.time for r in made)
    assert all(r.destinations and not r.destinations >> 6 for r in made)
    assert not any(r.destinations >> r.process & 1 for r in made)


@pytest.mark.parametrize("text", ALL)
def test_mean_rate(text: str) -> None:
    made = requests(workload=text, messages=6000, rate=5.0)
    senders = len({r.process for r in made})
    assert len(made) / (made[-1].time * senders) == pytest.approx(5.0, rel=0.15)


@pytest.mark.parametrize("size", [3, 6, 13, 14, 20])
@pytest.mark.parametrize("to_self", [False, True])
def test_uniform_fanout(size: int, to_self: bool) -> None:
    draw = destination_chooser("uniform", size, Streams(1).destinations, to_self=to_self)
    most = size if to_self else size - 1
    masks = [draw(1) for _ in range(4000)]
    numbers = Counter(mask.bit_count() for mask in masks)
    assert set(numbers) == set(range(1, most + 1))
    assert sum(m.bit_count() for m in masks) / 4000 == pytest.approx((most + 1) / 2, rel=0.1)
    members = Counter(p for mask in masks for p in range(size) if mask >> p & 1)
    assert set(members) == set(range(size)) - (set() if to_self else {1})
    assert max(members.values()) < 1.2 * min(members.values())


@pytest.mark.parametrize(("text", "number"), [("unicast", 1), ("broadcast", 5), ("3", 3)])
def test_fixed_fanout(text: str, number: int) -> None:
    assert parse_fanout(text, 6) == number
    assert {r.destinations.bit_count() for r in requests(fanout=text)} == {number}


def test_hot_spot_gets_its_share() -> None:
    hot = sum(r.destinations & 1 for r in requests(workload="hotspot:1,0.9", fanout="unicast") if r.process)
    cold = sum(r.destinations >> 1 & 1 for r in requests(workload="hotspot:1,0.9", fanout="unicast") if r.process != 1)
    assert hot > 10 * cold
    assert {r.destinations.bit_count() for r in requests(workload="hotspot:2", fanout="2")} == {2}


def test_groups_as_given() -> None:
    roster = Roster.of(6)
    allowed = {roster.mask("abc"), roster.mask("cde"), roster.mask("fa")}
    for request in requests(workload="groups:abc/cde/fa"):
        assert request.destinations | 1 << request.process in allowed
    own = {r.destinations for r in requests(workload="groups:abc/cde/fa", to_self=True)}
    assert own == allowed


def test_a_holder_updates_itself_where_it_may() -> None:
    made = requests(workload="replicated:4,3", to_self=True)
    assert all(r.destinations >> r.process & 1 for r in made)
    assert {r.destinations.bit_count() for r in made} == {3}
    assert [r.destinations & ~(1 << r.process) for r in made] == [
        r.destinations for r in requests(workload="replicated:4,3")
    ]


def test_bursts_are_bursty() -> None:
    def spread(text: str) -> float:
        times = [r.time for r in requests(workload=text, messages=4000) if r.process == 0]
        gaps = [b - a for a, b in pairwise(times)]
        mean = sum(gaps) / len(gaps)
        return sum((g - mean) ** 2 for g in gaps) / len(gaps) / mean**2

    assert spread("bursts:1,5") > 4 * spread("poisson")


def test_labels() -> None:
    assert {r.label for r in requests()} == {None}
    assert {r.label for r in requests(labels=1)} == {"l1"}
    counts = Counter(r.label for r in requests(labels=3))
    assert set(counts) == {"l1", "l2", "l3"}
    assert min(counts.values()) > 500


@pytest.mark.parametrize("fanout", ["uniform", "unicast", "broadcast", "2"])
@pytest.mark.parametrize("text", ["poisson", "hotspot:2,0.5", "bursts:0.5,1"])
@pytest.mark.parametrize("separators", ["", "c:ab|def;c:def|ab"])
def test_a_process_draws_itself_like_any_other(text: str, fanout: str, separators: str) -> None:
    """Of the n it can send to, itself among them: one in n of unicasts, two in n of two, all of broadcasts."""
    options = (("separators", separators),)
    made = requests(protocol="ech-r9", workload=text, fanout=fanout, to_self=True, options=options, messages=6000)
    for process, name in enumerate("abcdef"):
        near = {"a": 3, "b": 3, "c": 6}.get(name, 4) if separators else 6
        own = [r.destinations >> process & 1 for r in made if r.process == process]
        expected = {"uniform": (near + 1) / 2 / near, "unicast": 1 / near, "broadcast": 1.0, "2": 2 / near}[fanout]
        if not text.startswith("hotspot"):
            assert sum(own) / len(own) == pytest.approx(expected, abs=0.06)
        assert any(own)


def test_uniform_fanout_counts_neighbours() -> None:
    made = requests(protocol="ech-r9", options=(("separators", "c:ab|def;c:def|ab"),), messages=6000)
    for process, most in enumerate((2, 2, 5, 3, 3, 3)):
        numbers = Counter(r.destinations.bit_count() for r in made if r.process == process)
        assert set(numbers) == set(range(1, most + 1))
        assert max(numbers.values()) < 1.4 * min(numbers.values())
