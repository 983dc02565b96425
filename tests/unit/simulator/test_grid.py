"""A grid becomes scenarios; a mistake names its line before anything runs."""

from __future__ import annotations

import pytest

from thence.errors import MisuseError
from thence.lab.simulator.scenario import Scenario
from thence.lab.sweep.grid import parse_grid, work

GOOD = """
[[grid]]
protocol = ["ks", "rst"]
processes = [
  5,   # a comment with a ] in it
  10,
]
delay = ["exponential:0.05", 'constant:0.1']
seed = { from = 1, to = 3 }

[[grid]]
protocol = "bss"
fanout = "broadcast"
options = {}

[measure]
warmup = 0.1
batches = 10
"""


def test_every_combination_once_the_dearest_first() -> None:
    grid = parse_grid(GOOD)
    assert len(grid.scenarios) == 2 * 2 * 2 * 3 + 1
    assert len({each.id for each in grid.scenarios}) == len(grid.scenarios)
    works = [each.work for each in grid.scenarios]
    assert works == sorted(works, reverse=True)
    assert {each.line for each in grid.scenarios} == {2, 11}
    assert (grid.warmup, grid.batches) == (0.1, 10)
    assert all(each.scenario.name == each.id for each in grid.scenarios)


def test_an_id_depends_on_what_the_scenario_says_alone() -> None:
    one = parse_grid('[grid]\nprotocol = "ks"\nseed = [1, 2]\n')
    two = parse_grid('[[grid]]\nseed = 2\n[[grid]]\nprotocol = ["ks", "ks"]\nseed = { from = 1, to = 2 }\n')
    assert {each.id for each in one.scenarios} == {each.id for each in two.scenarios}
    other = parse_grid('[grid]\nprotocol = "ks"\nrate = 11\n')
    assert not {each.id for each in other.scenarios} & {each.id for each in one.scenarios}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[grid]\nprotocol = ["ks",\n  "bss"]\n', "g.toml:3: protocol = 'bss': protocol bss needs broadcast only"),
        ("[grid]\nrate = -1\n", "g.toml:2: rate = -1: rate -1"),
        ("[grid]\nseed = 1\n\nprotocol = 'kss'\n", "g.toml:4: protocol = 'kss': no protocol 'kss'"),
        ("[grid]\nprocesses = [5,\n\n1]\n", "g.toml:4: processes = 1: 1 process has no other to send to"),
        ("[grid]\nfanout = ['uniform', # '\n'9']\nprocesses = 5", "g.toml:3: fanout = '9': fan-out 9 is larger"),
        ("[[grid]]\nseed = 1\n[[grid]]\nloss = 0.5\n", "g.toml:4: loss = 0.5: protocol ks does not bear loss"),
        ("[grid]\nseed = [1, 'a']\n", "g.toml:2: seed = 'a': scenario: seed is 'a'; int is accepted"),
        ("[grid]\nseed = []\n", "g.toml:2: seed has no values"),
        ("[grid]\nnodes = 3\n", "g.toml:2: a scenario has no 'nodes'"),
        ("[grid]\nrate = -1\nprotocol = 'x'\n", "g.toml:1: "),
        ("grids = 1\n", "g.toml:1: no 'grids' here"),
        ("[measure]\nwarmup = 0.1\n", "holds no scenarios"),
        ("grid = 3\n", "holds no scenarios"),
        ("[grid]\nseed = 1\n[measure]\nwarmup = 2\n", "g.toml:4: warmup = 2"),
        ("[grid]\nseed = 1\n[measure]\nbatch = 2\n", "g.toml:4: batch = 2"),
        ("[grid]\nseed = { from = 1, to = 10000000 }\n", "g.toml:1: 10000000 scenarios in one block"),
        ("[grid\n", "is not TOML"),
    ],
)
def test_a_mistake_names_its_line(text: str, said: str) -> None:
    with pytest.raises(MisuseError) as caught:
        parse_grid(text, name="g.toml")
    assert said in str(caught.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(MisuseError) as caught:
        parse_grid("[grid]\nprotocol = ['x', 'y']\nprocesses = [4, 5]\n", name="g")
    assert "no protocol 'x'" in str(caught.value)
    assert "no protocol 'y'" in str(caught.value)
    assert "(and 1 more like it)" in str(caught.value)


def test_work_grows_with_everything_that_costs() -> None:
    small = Scenario(processes=5, messages=10)
    assert work(small) < work(small.with_(messages=20)) < work(small.with_(messages=20, processes=10))
    assert work(small.with_(fanout="unicast")) < work(small.with_(fanout="3")) < work(small.with_(fanout="broadcast"))
    assert work(small.with_(workload="groups:2x3")) > 0


def test_a_topology_is_an_option_like_any_other() -> None:
    text = """
[grid]
protocol = "ech-r9"
processes = 5
workload = ["poisson", "bursts"]
to_self = [false, true]
options = [{ separators = "c:ab|de" }, { separators = "b:a|cde" }]
"""
    assert {dict(each.scenario.options)["separators"] for each in parse_grid(text).scenarios} == {"c:ab|de", "b:a|cde"}
    assert len(parse_grid(text).scenarios) == 8
    with pytest.raises(MisuseError, match=r"grid:5: workload = 'replicated': workload replicated draws sets"):
        parse_grid(text.replace("bursts", "replicated"))
