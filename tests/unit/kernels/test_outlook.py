"""Which rows can be on a cycle: components against their definition, in plain Python and compiled; when to look."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, chain
from random import Random

import numpy as np
import pytest

from thence.kernels.compiling import loop
from thence.kernels.outlook import ALONE, PATIENCE, Outlook, components

Graph = list[list[int]]
COMPILED = loop(components)


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


def in_plain_python(graph: Graph) -> tuple[bool, list[int]]:
    start = [0, *accumulate(map(len, graph))]
    room = [[value] * len(graph) for value in (0, 7, 7, ALONE)]
    found = components(start, list(chain.from_iterable(graph)), list(start), *room)
    return found, room[-1]


def compiled(graph: Graph) -> tuple[bool, list[int]]:
    start = np.array([0, *accumulate(map(len, graph))], np.int64)
    room = [np.full(len(graph), value, np.int64) for value in (0, 7, 7, ALONE)]
    causes = np.array(list(chain.from_iterable(graph)), np.int64)
    found = COMPILED(start, causes, start.copy(), *room)
    return found, room[-1].tolist()


@pytest.mark.parametrize("way", [in_plain_python, compiled])
def test_components_are_those_of_the_definition(way: Callable[[Graph], tuple[bool, list[int]]]) -> None:
    several = 0
    for seed in range(400):
        graph = random_graph(Random(f"graph {seed}"))
        found, groups = way(graph)
        wanted = by_definition(graph)
        several += len(wanted) > 1
        assert groups_in(groups) == wanted, f"seed {seed}: {graph}"
        assert found == bool(wanted), f"seed {seed}: {graph}"
    assert several > 25


def test_a_long_chain_is_no_recursion() -> None:
    size = 50_000
    forwards: Graph = [[n + 1] if n + 1 < size else [] for n in range(size)]
    assert in_plain_python(forwards) == (False, [ALONE] * size)
    assert len(set(in_plain_python([*forwards[:-1], [0]])[1])) == 1


def test_a_look_is_due_after_as_many_steps_as_rows() -> None:
    assert Outlook(1000, 1000).patience == PATIENCE * 1000


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
