"""Every protocol explored: verdict, states and depth are pinned, so that a change of coverage is seen."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from support.soak import first

from thence.core.model.minimum import Minimum
from thence.core.protocols.base import Member
from thence.core.protocols.ks import KS
from thence.core.protocols.registry import REGISTRY
from thence.core.protocols.relaying import RelayingMember
from thence.errors import MisuseError
from thence.lab.explorer.graph import state_graph
from thence.lab.explorer.judge_memory import CausalPast, Needed, Space
from thence.lab.explorer.search import explore
from thence.lab.explorer.setting import Setting, Step
from thence.lab.explorer.witness import Start, replay
from thence.lab.papers.variants import setting_of

PINS: dict[tuple[str, int, int, str, int], tuple[str, int, int]] = {
    ("a-causal", 3, 2, "unicast", 0): ("holds", 158, 6),
    ("a-causal", 3, 2, "unicast", 1): ("holds", 795, 7),
    ("a-causal", 3, 1, "any", 1): ("holds", 1061, 9),
    ("a-fifo", 3, 2, "unicast", 0): ("holds", 70, 4),
    ("a-fifo", 3, 2, "unicast", 1): ("holds", 379, 5),
    ("a-fifo", 3, 1, "any", 1): ("holds", 986, 9),
    ("acked", 3, 3, "unicast", 0): ("holds", 433, 9),
    ("bounded", 3, 2, "any", 0): ("holds", 116, 5),
    ("bounded", 3, 3, "unicast", 0): ("holds", 222, 6),
    ("bss", 3, 3, "broadcast", 0): ("holds", 168, 8),
    ("central", 3, 2, "any", 0): ("holds", 589, 7),
    ("central", 3, 3, "unicast", 0): ("holds", 2003, 9),
    ("ci-dc", 3, 2, "any", 0): ("holds", 136, 5),
    ("ci-dc", 3, 3, "unicast", 0): ("holds", 325, 6),
    ("ech", 3, 2, "any", 0): ("holds", 106, 5),
    ("ech", 3, 3, "unicast", 0): ("holds", 176, 6),
    ("ech-r9", 3, 2, "any", 0): ("holds", 106, 5),
    ("ech-r9", 3, 3, "unicast", 0): ("holds", 176, 6),
    ("epochs", 3, 2, "any", 0): ("holds", 116, 5),
    ("epochs", 3, 3, "unicast", 0): ("holds", 222, 6),
    ("fifo", 3, 2, "any", 0): ("holds", 85, 5),
    ("fifo", 3, 3, "unicast", 0): ("holds", 168, 6),
    ("gossip", 3, 2, "any", 0): ("holds", 116, 5),
    ("gossip", 3, 3, "unicast", 0): ("holds", 222, 6),
    ("hierarchy", 3, 2, "any", 0): ("holds", 589, 7),
    ("hierarchy", 3, 3, "unicast", 0): ("holds", 2003, 9),
    ("history", 3, 2, "any", 0): ("holds", 114, 5),
    ("history", 3, 3, "unicast", 0): ("holds", 209, 6),
    ("ks", 3, 2, "any", 0): ("holds", 136, 5),
    ("ks", 3, 3, "unicast", 0): ("holds", 325, 6),
    ("ks-ft", 3, 2, "unicast", 0): ("holds", 161, 6),
    ("ks-ft", 3, 2, "unicast", 1): ("holds", 816, 7),
    ("ks-ft", 3, 1, "any", 1): ("holds", 1061, 9),
    ("ks-hardware", 3, 2, "any", 0): ("holds", 113, 5),
    ("ks-hardware", 3, 3, "unicast", 0): ("holds", 222, 6),
    ("pc-broadcast", 3, 2, "broadcast", 0): ("holds", 187, 9),
    ("prs", 3, 2, "any", 0): ("holds", 105, 5),
    ("prs", 3, 3, "unicast", 0): ("holds", 178, 6),
    ("rst", 3, 2, "any", 0): ("holds", 111, 5),
    ("rst", 3, 3, "unicast", 0): ("holds", 207, 6),
    ("serial-broadcast", 3, 3, "broadcast", 0): ("holds", 179, 8),
    ("serial-multicast", 3, 2, "any", 0): ("holds", 110, 5),
    ("serial-multicast", 3, 3, "unicast", 0): ("holds", 319, 6),
    ("ses", 3, 2, "any", 0): ("holds", 116, 5),
    ("ses", 3, 3, "unicast", 0): ("holds", 240, 6),
    ("synchronous", 3, 3, "unicast", 0): ("holds", 645, 9),
    ("two-hop", 3, 2, "any", 0): ("holds", 104, 5),
    ("two-hop", 3, 3, "unicast", 0): ("holds", 175, 6),
    ("unordered", 3, 2, "any", 0): ("fails", 13, 4),
    ("unordered", 3, 3, "unicast", 0): ("fails", 13, 4),
}
"""(protocol, processes, messages, destinations, crashes): (verdict, states, depth)"""


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: "-".join(map(str, pin)))
def test_verdict_states_and_depth(pin: tuple[str, int, int, str, int]) -> None:
    protocol, processes, messages, destinations, crashes = pin
    fifo = "fifo" in REGISTRY[protocol].needs
    found = explore(Setting(protocol, processes, messages, destinations, crashes=crashes, fifo=fifo))
    assert (found.verdict, found.states, found.depth) == PINS[pin]
    assert found.complete == (found.verdict == "holds")


@pytest.mark.parametrize(("messages", "destinations", "states"), [(2, "any", 2006), (3, "unicast", 7563)])
def test_representatives_of_two_zones(messages: int, destinations: str, states: int) -> None:
    """Three processes are one zone unless zones are given: then no representative ever writes to another."""
    found = explore(Setting("hierarchy", 3, messages, destinations, options={"zones": "ab|c"}))
    assert (found.verdict, found.complete, found.states) == ("holds", True, states)


@pytest.mark.parametrize(
    ("processes", "messages", "destinations", "zones", "states"),
    [
        (3, 2, "any", "(a|b)|(c)", 5718),
        (3, 3, "unicast", "(a|b)|(c)", 17684),
        (4, 2, "unicast", "(a|b)|(c|d)", 1968),
        (4, 2, "unicast", "((a|b))|((c|d))", 2748),
    ],
)
def test_representatives_of_representatives(
    processes: int, messages: int, destinations: str, zones: str, states: int
) -> None:
    """Three levels and four."""
    found = explore(Setting("hierarchy", processes, messages, destinations, options={"zones": zones}))
    assert (found.verdict, found.complete, found.states) == ("holds", True, states)


@pytest.mark.parametrize("level", [KS, RelayingMember])
def test_each_level_of_a_hierarchy_is_needed(level: type[Member], monkeypatch: pytest.MonkeyPatch) -> None:
    """If the top, or the levels below it, deliver on arrival, causal order breaks."""
    monkeypatch.setattr(level, "needs", staticmethod(lambda copy, me: ()))
    found = explore(Setting("hierarchy", 3, 3, "unicast", options={"zones": "(a|b)|(c)"}))
    assert found.verdict == "fails"
    assert found.failures[0].problem.property == "causal order"


LINE, RING = "a:b;b:c", "a:bd;c:bd"


@pytest.mark.parametrize(
    ("processes", "messages", "links", "overlay", "states"),
    [(3, 3, 1, LINE, 8797), (3, 2, 2, LINE, 6595), (4, 2, 1, f"{LINE};c:d", 15291), (4, 2, 0, RING, 607)],
)
def test_links_that_become_safe(processes: int, messages: int, links: int, overlay: str, states: int) -> None:
    """Broadcast over overlays of FIFO links, with links opened at any time."""
    options = {"overlay": overlay}
    found = explore(Setting("pc-broadcast", processes, messages, "broadcast", fifo=True, links=links, options=options))
    assert (found.verdict, found.complete, found.states) == ("holds", True, states)


def test_every_protocol_is_pinned() -> None:
    assert {pin[0] for pin in PINS} == set(REGISTRY)


@pytest.mark.parametrize(
    ("protocol", "size", "states"),
    [
        ("a-fifo", {"messages": 2, "changes": 1}, 2823),
        ("a-causal", {"messages": 2, "changes": 1}, 5642),
        ("ks-ft", {"messages": 1, "changes": 2}, 1341),
        ("ks-ft", {"messages": 1, "destinations": "any"}, 11800),
    ],
)
def test_detectors_with_any_legal_history(protocol: str, size: dict, states: int) -> None:
    """Groups of one: who lives must be trusted, who will crash need not be."""
    found = explore(Setting(protocol, 3, crashes=1, detector="any", **size))
    assert (found.verdict, found.states) == ("holds", states)


@pytest.mark.parametrize(
    ("protocol", "changes", "states"), [("a-fifo", 2, 4330), ("a-causal", 1, 877), ("ks-ft", 1, 877)]
)
def test_a_final_output_need_not_name_all_that_live(protocol: str, changes: int, states: int) -> None:
    """One correct process of each group is enough: the least is among what executions end with, and all of it holds."""
    setting = Setting(protocol, 2, 1, groups="ab", crashes=1, detector="any", changes=changes)
    found = explore(setting)
    assert (found.verdict, found.states) == ("holds", states)
    ends = [node for node in state_graph(setting).nodes if node["at rest"] and not node["crashed"]]
    assert {"a": ["b"], "b": ["b"]} in [node["trust"] for node in ends]
    assert {"a": ["b"], "b": ["a"]} in [node["trust"] for node in ends]


@pytest.mark.parametrize("of", first(1, [("ks-ft", "", 0), ("a-fifo", "ab", 2), ("a-causal", "ab", 2)]), ids=str)
def test_how_often_a_detector_must_change_its_mind(of: tuple[str, str, int]) -> None:
    """Beyond that it leads to no other end: with one message, twice in a group of two, and never in groups of one."""
    protocol, groups, enough = of

    def ends(changes: int) -> set[Hashable]:
        setting = Setting(protocol, 2, 1, groups=groups, crashes=1, detector="any", changes=changes)
        return explore(setting, collect=True).terminals

    assert ends(enough) == ends(enough + 1) == ends(enough + 2)
    assert enough == 0 or ends(enough - 1) < ends(enough)


def test_a_detector_that_is_accurate_over_all_groups_only_is_caught_with_any_history_too() -> None:
    """Erratum 18."""
    found = explore(setting_of("a-fifo-theta", 3, 1, "any", crashes=1, detector="any"))
    assert found.verdict == "fails"


@pytest.mark.parametrize("protocol", ["unordered", "fifo"])
@pytest.mark.parametrize("fifo", [False, True])
def test_liars_are_caught(protocol: str, fifo: bool) -> None:
    """On FIFO channels it takes the triangle, three messages, to catch them."""
    found = explore(Setting(protocol, 3, 3, fifo=fifo), properties=frozenset({"causal order"}))
    assert found.verdict == "fails"


def test_exact_facts_agree_with_the_definition() -> None:
    """The incremental sets behind `exact facts` are those of `core/model/minimum.py`, along a whole execution."""
    setting = Setting("ks", 3, 4, "any")
    steps: list[Step] = []
    space = Space(3, 4)
    checked = 0
    for choice in range(60):
        steps = []
        system = None
        for turn in range(9):
            result = replay(setting, Start(), tuple(steps), frozenset({"causal order", "exact facts"}))
            system, moves = result.system, result.moves
            assert moves is not None
            assert result.problem is None
            options = [step for p in range(3) for step in moves.steps(system, p)]
            if not options:
                break
            steps.append(options[(choice * 7 + turn * 5 + choice // 3) % len(options)])
            checked += _same_facts(result, space)
    print(f"{checked} logs compared")
    assert checked > 200


def _same_facts(result, space: Space) -> int:
    needed, roster = result.system.needed, result.moves.roster
    assert isinstance(needed, Needed)
    compared = 0
    if not result.events:
        return 0
    minimum = Minimum(result.events)
    for p, name in enumerate(roster.names):
        last = max((e.index for e in result.events if e.process == name), default=0)
        if not last:
            continue
        expected = 0
        for message, destination in minimum.in_log(name, last):
            expected |= space.bit(
                space.slot(roster.position(message[0]), int(message[1:])), roster.position(destination)
            )
        assert needed.in_log(p) == expected
        compared += 1
    return compared


def test_two_pasts_that_differ_only_in_what_is_over_are_one() -> None:
    first = explore(Setting("unordered", 2, 4), properties=frozenset({"no duplicates"}))
    assert first.verdict == "holds"
    assert CausalPast((0, 0)) == CausalPast((0, 0), (), 0, 0, 0, 0)


def test_a_time_limit_is_reported() -> None:
    found = explore(Setting("ks", 3, 5, "any"), time_limit=0.0)
    assert (found.verdict, found.complete, found.stopped) == ("unknown", False, "time ran out")


@pytest.mark.parametrize(
    "wrong",
    [
        {"protocol": "bss"},
        {"protocol": "ks", "crashes": 1},
        {"protocol": "a-causal", "loss": 1},
        {"protocol": "ks", "destinations": "all"},
        {"protocol": "ks-lookahead"},
        {"protocol": "nothing"},
        {"protocol": "ks", "detector": "perfect"},
        {"protocol": "ks", "processes": 0},
    ],
    ids=str,
)
def test_what_cannot_be_explored_is_refused(wrong: dict) -> None:
    with pytest.raises(MisuseError):
        Setting(**wrong)
