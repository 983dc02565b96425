"""Communication graphs and their separators: read, computed, checked."""

from __future__ import annotations

from itertools import combinations
from random import Random

import networkx as nx
import pytest
from support.neighbours import random_graph, random_separators

from thence.core.model.roster import Roster
from thence.core.protocols.ech_r9 import cuts_of, neighbours
from thence.errors import MisuseError
from thence.lab.topology.graph import broadcast, components, graph_of
from thence.lab.topology.separators import (
    Separator,
    articulations,
    between,
    both_ways,
    check_separator,
    even_separators,
    given,
    minimum_cuts,
    most_even,
    option_text,
)

LINE = graph_of("a-c b-c c-d d-e")


def names(*sets: str) -> list[frozenset[str]]:
    return [frozenset(s) for s in sets]


def test_links_as_text_or_pairs() -> None:
    graph = graph_of([("pa", "na"), ("na", "da")])
    assert Roster(graph) == Roster(["pa", "na", "da"])
    assert Roster(graph_of("b-a", processes="abcab"[:2])) == Roster("ab")
    assert nx.utils.graphs_equal(graph_of(broadcast("abc")), graph_of("a-b a-c b-c"))


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ("a-b c-d", "2 components: {a, b} and {c, d}; it must be connected"),
        ("a-a", "joins a process to itself"),
        ("a-b-c", "'a-b-c' does not join two processes; a-b is accepted"),
        ("a-", "does not join two processes"),
        ("", "without processes"),
    ],
)
def test_a_wrong_graph_says_what_is_wrong(links: str, message: str) -> None:
    with pytest.raises(MisuseError) as error:
        graph_of(links)
    assert message in str(error.value)


def test_components_in_order() -> None:
    assert components(LINE, "c") == [["a"], ["b"], ["d", "e"]]


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (("c", "a", "de"), "leaves out b; its sets hold every process"),
        (("c", "ab", "cde"), "names c twice"),
        (("c", "ab", "dex"), "names x, not in the graph; it holds a, c, b, d, e"),
        (("c", "abde", ""), "has no backward set"),
        (("d", "abce", "d"), "names d twice"),
        (("b", "ac", "de"), "separates nothing: the link c-d joins its forward and backward sets"),
    ],
)
def test_a_wrong_separator_says_what_was_found(sets: tuple[str, str, str], message: str) -> None:
    with pytest.raises(MisuseError) as error:
        check_separator(LINE, Separator(*names(*sets)))
    assert message in str(error.value)


def test_a_separator_given_by_what_is_ahead() -> None:
    assert given(LINE, "c", "e") == Separator(*names("c", "de", "ab"))
    assert given(LINE, "c", "ae") == Separator(*names("c", "ade", "b"))
    with pytest.raises(MisuseError, match="without a the graph is still connected"):
        given(LINE, "a", "e")
    with pytest.raises(MisuseError, match="c cannot be both in a separator and ahead of it"):
        given(LINE, "c", "ce")
    with pytest.raises(MisuseError, match="has no backward set"):
        given(LINE, "c", "abd")


def test_both_ways_sets_each_part_against_the_rest() -> None:
    found = {str(separator) for separator in both_ways(LINE, "c")}
    assert found == {"c:a|b,d,e", "c:b,d,e|a", "c:b|a,d,e", "c:a,d,e|b", "c:d,e|a,b", "c:a,b|d,e"}
    assert len(both_ways(LINE, "d")) == 2


def test_balance() -> None:
    assert most_even(LINE, "c").balance == 1.0
    assert most_even(LINE, "d").balance == pytest.approx(1 / 3)
    assert given(LINE, "d", "e").reversed.forward == frozenset("abc")


def test_articulation_points_and_minimum_cuts() -> None:
    assert articulations(LINE) == names("c", "d")
    square = graph_of("a-b b-c c-d d-a")
    assert articulations(square) == []
    assert minimum_cuts(square) == names("ac", "bd")
    assert minimum_cuts(graph_of(broadcast("abcd"))) == []
    assert between(square, "a", "c") == frozenset("bd")
    with pytest.raises(MisuseError, match="nothing separates a from b: they are linked"):
        between(square, "a", "b")


def test_choosing_by_size_and_balance() -> None:
    assert even_separators(LINE) == names("c", "d")
    assert even_separators(LINE, balance=0.5) == names("c")
    assert even_separators(LINE, most=1) == names("c")
    with pytest.raises(MisuseError, match=r"balance 1.5; from 0"):
        even_separators(LINE, balance=1.5)


def test_computed_separators_are_separators_by_definition() -> None:
    """On random graphs: every path from F to B meets S, nothing smaller than a minimum cut separates, and the text of
    the option brings back the sets and forbids no link."""
    for seed in range(60):
        graph = random_graph(Random(seed))
        sets = even_separators(graph)
        found = [s for members in sets for s in both_ways(graph, members)]
        found += random_separators(graph, Random(seed), 6)
        for separator in found:
            check_separator(graph, separator)
            rest = graph.subgraph(set(graph) - separator.members)
            assert not any(nx.has_path(rest, f, b) for f in separator.forward for b in separator.backward), (
                f"seed {seed}"
            )
        least = min(map(len, minimum_cuts(graph)), default=len(graph))
        for size in range(1, min(least, 3)):
            for members in combinations(graph, size):
                assert len(components(graph, members)) == 1, f"seed {seed}: {members}"
        roster = Roster(graph)
        cuts = cuts_of(option_text(found), roster)
        assert [tuple(map(roster.members, cut)) for cut in cuts] == [
            tuple(tuple(name for name in graph if name in part) for part in (s.members, s.forward, s.backward))
            for s in found
        ]
        near = neighbours(cuts, roster)
        assert all(near[roster.position(a)] >> roster.position(b) & 1 for a, b in graph.edges), f"seed {seed}"
