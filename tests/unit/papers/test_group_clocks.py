"""A vector clock for each group: causal order over groups that overlap, and the sizes of table 7.1."""

from __future__ import annotations

from dataclasses import replace

import pytest

from thence.core.model.message import Copy
from thence.core.model.order import judge
from thence.core.model.roster import Roster
from thence.errors import MisuseError, PeerError
from thence.lab.papers.chapter7 import PLACEMENTS, office
from thence.lab.papers.chapter7.experiments import PUBLISHED
from thence.lab.papers.chapter7.group_clocks import GroupClocks, group_run


@pytest.mark.parametrize("processes", [6, 10])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_table_71_measured(placement: str, processes: int) -> None:
    """10 and 14 elements on every copy, in every placement; nothing too early and nothing left over."""
    groups = office(placement, processes).groups
    events, sizes = group_run(groups, seed=3, messages=120)
    assert set(sizes) == {PUBLISHED["vector clocks"][processes]}
    judgement = judge(events)
    assert not judgement.violations
    sent = sum(len(event.destinations or ()) for event in events if event.kind == "send")
    assert sum(event.kind == "deliver" for event in events) == sent


@pytest.mark.parametrize("seed", range(8))
def test_causal_order_over_overlapping_groups(seed: int) -> None:
    groups = {"x": ("a", "b", "c"), "y": ("c", "d", "e"), "z": ("e", "a"), "w": ("b", "d")}
    events, _ = group_run(groups, seed, messages=80)
    assert not judge(events).violations


def test_without_the_vectors_of_other_groups_it_is_not_causal() -> None:
    """A clock of the message's own group alone misses what came round through another group."""

    class OwnGroupOnly(GroupClocks):
        """Carries the vector of its own group."""

        def _send(self, destinations: int, context: object, token: object):  # type: ignore[no-untyped-def]
            sent = super()._send(destinations, context, token)
            group = destinations | self.bit
            for copy in sent.copies:
                object.__setattr__(copy, "stamp", tuple(each for each in copy.stamp if each[0] == group))
            return sent

        def _check(self, copy: Copy) -> None:
            pass

    roster, groups = Roster("abc"), "a,c/a,b/b,c"
    a, b, c = (OwnGroupOnly(roster, name, groups=groups) for name in "abc")
    late = a.send(["c"]).copies[0]
    b.receive(a.send(["b"]).copies[0])
    assert [type(effect).__name__ for effect in c.receive(b.send(["c"]).copies[0])] == ["Deliver"], "too early"
    a, b, c = (GroupClocks(roster, name, groups=groups) for name in "abc")
    late = a.send(["c"]).copies[0]
    b.receive(a.send(["b"]).copies[0])
    assert [type(effect).__name__ for effect in c.receive(b.send(["c"]).copies[0])] == ["Hold"]
    assert [type(effect).__name__ for effect in c.receive(late)] == ["Deliver", "Deliver"]


def test_wire_and_snapshots() -> None:
    roster, groups = Roster("abc"), "a,b/b,c"
    a, b = (GroupClocks(roster, name, groups=groups) for name in "ab")
    copy = a.send(["b"]).copies[0]
    b.receive(b.decode(a.encode(copy), source="a"))
    again = GroupClocks.restore(b.snapshot())
    assert again.state() == b.state()
    assert again.send(["c"]).copies[0].stamp == b.send(["c"]).copies[0].stamp


def test_a_stamp_that_cannot_be_is_refused() -> None:
    a, b = (GroupClocks(Roster("abc"), name, groups="a,b/b,c") for name in "ab")
    copy = a.send(["b"]).copies[0]
    for stamp in (((0b101, {0: 1}),), ((0b011, {1: 7}), (0b110, {})), ((0b011, {2: 1}), (0b110, {}))):
        with pytest.raises(PeerError):
            b.receive(replace(copy, stamp=stamp))
    assert [type(effect).__name__ for effect in b.receive(copy)] == ["Deliver"]


def test_messages_to_less_than_a_group_are_refused() -> None:
    a = GroupClocks(Roster("abc"), "a", groups="a,b,c")
    with pytest.raises(MisuseError, match="not the others of one group"):
        a.send(["b"])
    with pytest.raises(MisuseError, match="needs groups"):
        GroupClocks(Roster("abc"), "a")
