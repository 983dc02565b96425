"""The networks of chapter 7 and what the experiments measure on them."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from thence.errors import MisuseError
from thence.lab.papers.chapter7.experiments import SCENARIOS, mean, stamp_sizes
from thence.lab.papers.chapter7.networks import PLACEMENTS, broadcasts, gateway, office
from thence.lab.papers.separators_runs import READINGS
from thence.lab.topology.separators import check_separator


@pytest.mark.parametrize("processes", [6, 10])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_every_placement_fits_the_text(placement: str, processes: int) -> None:
    network = office(placement, processes)
    six = office(placement)
    assert {name: len(group) for name, group in six.groups.items()} == {"GA": 3, "GB": 3, "GC": 2, "GD": 2}
    assert network.groups["GC"] == ("pa", "pf")
    assert "pa" in network.groups["GA"], "p1 can send to GA and GC"
    assert {name for group in network.groups.values() for name in group} == set(network.extended.processes)
    assert len(network.extended.processes) == processes
    routes = network.extended.routes
    assert [name[0] for name in routes.path("pa", "pf")] == list("pnddnp")
    assert routes.addressed("na", "da") == {"da", "db"}
    for separator in network.extended.at(network.extended.separators):
        check_separator(network.extended.graph, separator)
    new = [name for name in network.extended.processes if name not in six.extended.processes]
    assert [routes.path(name, "dc")[1] for name in new] == (["na", "na", "nc", "nc"] if processes == 10 else [])


def test_misuse_of_networks() -> None:
    with pytest.raises(MisuseError, match="no placement 'x'; there are ring 2-2-2"):
        office("x")
    with pytest.raises(MisuseError, match="7 processes; chapter 7 has 6 and 10"):
        office(processes=7)
    with pytest.raises(MisuseError, match="no kind 'star'"):
        broadcasts("star")
    with pytest.raises(MisuseError, match="1 processes on a broadcast network"):
        gateway(1)
    with pytest.raises(MisuseError, match="no separator 'S7'; there are S1, S2, S3"):
        stamp_sizes(office(), ["S7"])


def test_separators_shrink_stamps_in_every_placement() -> None:
    """Errata 17: the figure is lost and the values vary with it, but the order of the three rows never does."""
    for place, (together, literal) in product(PLACEMENTS, READINGS.values()):
        runs = (
            stamp_sizes(office(place, 6), chosen, 1, messages=50, together=together, literal=literal)
            for chosen in SCENARIOS.values()
        )
        one, two, three = (run.average for run in runs)
        assert one > two > three, (place, together, literal)


def test_histories_grow_if_r6_3_is_taken_to_the_letter() -> None:
    """Stamps stay small, for neighbours were told; histories keep what a process will never speak of again."""
    literal, ours = ([stamp_sizes(office(), (), messages=m, literal=how) for m in (60, 240)] for how in (True, False))
    grown = [mean(found.histories["db"]) for found in literal]
    steady = [mean(found.histories["db"]) for found in ours]
    assert grown[1] > 2 * grown[0]
    assert steady[1] < 1.3 * steady[0] < 20


def test_a_gateway_keeps_the_large_group_out_of_the_small_one() -> None:
    """Figure 7.5: "less than 5" elements with the separator, and a multiple without."""
    network = gateway(3, 12)
    without, with_it = (stamp_sizes(network, names, messages=250) for names in ((), ("S",)))
    assert with_it.focus_average < 5
    assert without.focus_average > 1.3 * with_it.focus_average
    assert mean(without.histories["sa"]) > 3 * mean(with_it.histories["sa"])


@pytest.mark.parametrize("kind", ["pairs", "ring"])
def test_pairs_of_gateways_do_the_same(kind: str) -> None:
    """Figures 7.6 and 7.7: histories at p1 are much larger without separators."""
    network = broadcasts(kind, 4)
    without, with_it = (stamp_sizes(network, names, messages=250) for names in ((), tuple(network.extended.separators)))
    assert without.focus_average > with_it.focus_average
    assert mean(without.histories["xa"]) > 2 * mean(with_it.histories["xa"])


def test_a_measurement_is_a_function_of_its_arguments() -> None:
    one, two = (stamp_sizes(office(), ("S2",), 7, messages=60) for _ in range(2))
    assert one == two
    assert one.stamps != stamp_sizes(office(), ("S2",), 8, messages=60).stamps
    assert set(one.histories) == {"pc", "db", "dc"}
    assert one.average == pytest.approx(mean(one.stamps))


def test_means() -> None:
    assert mean(Counter({2: 3, 4: 1})) == 2.5
    assert mean(Counter()) == 0.0
