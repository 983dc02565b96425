"""Networks: when copies arrive, by hand."""

from __future__ import annotations

from math import exp
from statistics import fmean, median

import pytest

from thence.core.model.roster import Roster
from thence.lab.simulator.network import Network, parse_partition
from thence.lab.simulator.random_streams import Streams

ABC = Roster("abc")


def network(delay: str = "exponential:0.05", **more: object) -> Network:
    return Network(ABC, Streams(1), delay, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "low", "mean", "high"),
    [
        ("constant:0.5", 0.5, 0.5, 0.5),
        ("uniform:1,3", 1.0, 2.0, 3.0),
        ("exponential:2", 0.0, 2.0, 40.0),
        ("pareto:2,3", 4 / 3, 2.0, 1000.0),
        ("matrix:exponential:1,4,1/1,1,1/1,1,1", 0.0, 4.0, 60.0),
    ],
)
def test_delays(spec: str, low: float, mean: float, high: float) -> None:
    travel = network(spec).message
    taken = [travel(10.0, 0, 1) - 10.0 for _ in range(20_000)]
    assert min(taken) >= low - 1e-9
    assert max(taken) <= high + 1e-9
    assert fmean(taken) == pytest.approx(mean, rel=0.05)


def test_heavy_tails() -> None:
    travel = network("lognormal:2,1").message
    taken = sorted(travel(0.0, 0, 1) for _ in range(20_000))
    assert median(taken) == pytest.approx(2.0, rel=0.05)
    assert fmean(taken) == pytest.approx(2 * exp(0.5), rel=0.1)
    assert network("pareto:1").message(0.0, 0, 1) >= 1 / 3


def test_links() -> None:
    travel = network("constant:1;a>*=constant:2;a>b=constant:3;*>c=constant:4").message
    assert [travel(0.0, s, d) for s, d in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2))] == [2, 3, 4, 1, 4]
    travel = network("matrix:constant:0,1,2/3,4,5/6,7,8").message
    assert [travel(1.0, s, d) for s, d in ((0, 1), (1, 0), (2, 2))] == [2, 4, 9]


def test_fifo_never_overtakes_on_a_link_and_protocol_messages_count() -> None:
    made = network("exponential:1", fifo=True)
    times, loose = [], network("exponential:1")
    for step in range(500):
        travel = made.hop if step % 3 == 0 else made.message
        times.append(travel(step * 0.01, 0, 1))
    assert times == sorted(times)
    free = [loose.message(step * 0.01, 0, 1) for step in range(500)]
    assert free != sorted(free)


def test_adversarial_reverses_what_is_under_way() -> None:
    travel = network("adversarial:1").message
    reversed_pairs = total = 0
    now, before = 0.0, 0.0
    for step in range(2000):
        now = step * 0.05
        arrival = travel(now, 0, 1)
        assert arrival > now
        if before > now + 1e-5:
            total += 1
            reversed_pairs += arrival < before
        before = arrival
    assert total > 500
    assert reversed_pairs == total


def test_streams_of_messages_and_hops_are_apart() -> None:
    one, other = network(), network()
    for _ in range(5):
        other.hop(0.0, 0, 1)
    assert [one.message(0.0, 0, 1) for _ in range(5)] == [other.message(0.0, 0, 1) for _ in range(5)]


def test_partition_holds_back_until_it_heals() -> None:
    travel = network("constant:1", partitions=("2-5:a|bc", "5-6:ab|c")).message
    assert travel(1.9, 0, 1) == pytest.approx(2.9)
    assert travel(2.0, 0, 1) == 6.0
    assert travel(2.0, 0, 2) == 7.0  # parted again when the first one heals
    assert travel(2.0, 1, 2) == 3.0
    assert travel(6.0, 0, 2) == 7.0


def test_partition_text() -> None:
    assert parse_partition("1.5-4:a|b", ABC).side == (0, 1, 0)
    assert parse_partition("0-1:a,b|c", ABC).side == (0, 0, 1)


def test_loss_and_duplicates_in_their_shares() -> None:
    made = network(loss=0.2, duplicates=0.3)
    drawn = [made.times() for _ in range(10_000)]
    assert drawn.count(0) / 10_000 == pytest.approx(0.2, abs=0.02)
    assert drawn.count(2) / 10_000 == pytest.approx(0.3, abs=0.02)
