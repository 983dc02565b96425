"""Which rows can be on a cycle: components against their definition; when to look."""

from __future__ import annotations

from array import array
from itertools import accumulate, chain
from random import Random

from thence.core.model.strong_components_cy import ALONE, number_components
from thence.tables.delivery.possible_cycles import LOOK_AFTER, Outlook

Graph = list[list[int]]


def random_graph(random: Random) -> Graph:
    """Sparse or dense, mostly forwards or in any direction, with edges that are doubled."""
    size, most, near = random.randint(0, 20), random.choice([1, 2, 2, 4]), random.random() < 0.5
    pool = [range(max(0, n - 3), min(size, n + 2)) if near else range(size) for n in range(size)]
    return [[random.choice(pool[n]) for _ in range(random.randint(0, most))] for n in range(size)]


def by_definition(graph: Graph) -> set[frozenset[int]]:
    """Rows that are in reach of each other, without those that are so of none other."""
    reach = [set(causes) for causes in graph]
    for _ in graph:
        reach = [set(each).union(*(reach[n] for n in each)) for each in reach]
    size = range(len(graph))
    found = {frozenset(m for m in size if m == n or (m in reach[n] and n in reach[m])) for n in size}
    return {each for each in found if len(each) > 1}


def groups_in(groups: list[int]) -> set[frozenset[int]]:
    return {frozenset(n for n, each in enumerate(groups) if each == one) for one in set(groups) - {ALONE}}


def searched(graph: Graph) -> tuple[bool, list[int]]:
    start = array("q", [0, *accumulate(map(len, graph))])
    number, low, under, groups = (array("q", [value]) * len(graph) for value in (0, 7, 7, ALONE))
    found = number_components(start, array("q", chain.from_iterable(graph)), start[:], number, low, under, groups)
    return found, groups.tolist()


def test_components_are_those_of_the_definition() -> None:
    several = 0
    for seed in range(400):
        graph = random_graph(Random(f"graph {seed}"))
        found, groups = searched(graph)
        wanted = by_definition(graph)
        several += len(wanted) > 1
        assert groups_in(groups) == wanted, f"seed {seed}: {graph}"
        assert found == bool(wanted), f"seed {seed}: {graph}"
    assert several > 25


def test_a_long_chain_is_no_recursion() -> None:
    size = 50_000
    forwards: Graph = [[n + 1] if n + 1 < size else [] for n in range(size)]
    assert searched(forwards) == (False, [ALONE] * size)
    assert len(set(searched([*forwards[:-1], [0]])[1])) == 1


def test_a_look_is_due_after_as_many_steps_as_rows() -> None:
    assert Outlook(1000, 1000).patience == LOOK_AFTER * 1000


def test_looks_reach_less_far_where_they_find_something() -> None:
    """First to the end; then, as long as walks take long all the same, less and less far, and less often."""
    outlook = Outlook(900, 1000)
    reached, patience = [], []
    for _ in range(5):
        reached.append(outlook.reach(100))
        patience.append(outlook.patience)
        outlook.looked(reached[-1], found=True)
    assert reached == [1000, 887, 493, 296, 198]
    assert patience == [900, 900, 1800, 2700, 3600]


def test_where_a_look_ends_the_next_reaches_to_the_end() -> None:
    outlook = Outlook(900, 1000)
    outlook.looked(1000, found=True)
    outlook.looked(outlook.reach(100), found=False)
    assert (outlook.reach(900), outlook.patience) == (1000, 900)
