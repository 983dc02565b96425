"""The reduction is held equal to naive enumeration: same systems at rest, same failures, on every small system."""

from __future__ import annotations

import pytest
from support.soak import first

from thence.core.protocols.ack_member import AckMember
from thence.lab.explorer.search import explore, independent
from thence.lab.explorer.setting import Setting, Step
from thence.lab.papers.variants import setting_of

SMALL = [
    {"processes": 3, "messages": 3, "destinations": "unicast"},
    {"processes": 3, "messages": 2, "destinations": "any"},
    {"processes": 2, "messages": 2, "destinations": "any", "to_self": True},
    {"processes": 3, "messages": 3, "destinations": "unicast", "fifo": True},
    {"processes": 2, "messages": 3, "destinations": "unicast", "loss": 1},
    {"processes": 3, "messages": 2, "destinations": "any", "loss": 1, "fifo": True},
]
PROTOCOLS = ["ks", "rst", "ses", "unordered", "fifo"]
CRASHING = [
    {"protocol": "a-fifo", "processes": 2, "messages": 1, "destinations": "any", "crashes": 1},
    {"protocol": "a-causal", "processes": 2, "messages": 2, "destinations": "unicast", "crashes": 1},
    {"protocol": "a-causal", "processes": 3, "messages": 1, "destinations": "unicast", "crashes": 1},
    {"protocol": "ks-ft", "processes": 2, "messages": 1, "destinations": "unicast", "crashes": 1, "groups": "ab"},
    {"protocol": "ks-ft", "processes": 2, "messages": 1, "destinations": "any", "crashes": 1, "detector": "falling"},
    {"protocol": "a-causal", "processes": 2, "messages": 1, "destinations": "any", "crashes": 1, "detector": "any"},
    {"protocol": "ks-ft", "processes": 2, "messages": 1, "crashes": 1, "detector": "any", "changes": 2},
]


def both(setting: Setting, **options):
    reduced = explore(setting, first=False, collect=True, **options)
    naive = explore(setting, first=False, collect=True, reduce=False)
    return reduced, naive


@pytest.mark.parametrize("size", SMALL, ids=lambda size: "-".join(map(str, size.values())))
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_reduced_equals_naive(protocol: str, size: dict) -> None:
    reduced, naive = both(Setting(protocol, **size))
    assert reduced.terminals == naive.terminals
    assert reduced.kinds == naive.kinds
    assert reduced.verdict == naive.verdict
    assert reduced.states < naive.states or size["processes"] == 2


LINE = {"overlay": "a:b;b:c"}
SPECIAL = [
    {"protocol": "serial-multicast", "messages": 3},
    {"protocol": "serial-multicast", "messages": 2, "destinations": "any", "fifo": True},
    {"protocol": "serial-broadcast", "messages": 3, "destinations": "broadcast"},
    {"protocol": "serial-broadcast-own", "messages": 3, "destinations": "broadcast"},
    {"protocol": "ech-r9", "messages": 2, "destinations": "any"},
    {"protocol": "central", "messages": 2, "destinations": "any"},
    {"protocol": "pc-broadcast", "messages": 2, "destinations": "broadcast", "fifo": True},
    {"protocol": "pc-broadcast", "messages": 1, "links": 1, "destinations": "broadcast", "fifo": True, "options": LINE},
    {
        "protocol": "pc-broadcast-eager",
        "links": 1,
        "destinations": "broadcast",
        "fifo": True,
        "messages": 2,
        "options": LINE,
    },
    {"protocol": "hierarchy", "processes": 4, "messages": 2, "options": {"zones": "ab|cd"}},
    {"protocol": "ech-r9", "messages": 3, "options": {"separators": "a:b|c;a:c|b"}},
    {"protocol": "serial-multicast-log", "messages": 3, "destinations": "any"},
]
"""tokens are renamed with their processes, coordinators with whom they serve; separators and overlays forbid it"""


@pytest.mark.parametrize("size", first(11, SPECIAL), ids=lambda size: "-".join(map(str, size.values())))
def test_reduced_equals_naive_with_tokens_and_separators(size: dict) -> None:
    reduced, naive = both(setting_of(**size))
    assert reduced.terminals == naive.terminals
    assert reduced.kinds == naive.kinds
    assert reduced.states < naive.states or {"separators", "overlay"} & set(size.get("options", {}))


@pytest.mark.parametrize("size", CRASHING, ids=lambda size: "-".join(map(str, size.values())))
def test_reduced_equals_naive_with_crashes(size: dict) -> None:
    reduced, naive = both(Setting(**size))
    assert reduced.terminals == naive.terminals
    assert reduced.kinds == naive.kinds == set()


@pytest.mark.parametrize("size", CRASHING, ids=lambda size: "-".join(map(str, size.values())))
@pytest.mark.parametrize("counts", [True, False])
def test_copies_that_are_spent_can_be_left_out(size: dict, counts: bool) -> None:
    """Same systems at rest as the naive search that receives or loses each of them."""
    setting = Setting(**size, options={"counts": counts})
    reduced, naive = both(setting, drop_spent=True)
    assert reduced.terminals == naive.terminals
    assert reduced.kinds == naive.kinds == set()
    alike = explore(setting, first=False, collect=True, reduce=False, drop_spent=True)
    assert alike.terminals == naive.terminals


def test_spent_copies_are_fewer_states() -> None:
    setting = Setting("ks-ft", 3, 3, crashes=1)
    assert explore(setting, drop_spent=True).states < 0.8 * explore(setting).states


def test_leaving_out_too_much_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """If any OK counted as spent, nothing would be delivered, and systems at rest would say so."""
    monkeypatch.setattr(AckMember, "spent", lambda self, copy: copy.kind == "ok")
    setting = Setting("a-causal", 3, 1, "any", crashes=1)
    assert explore(setting, drop_spent=True).verdict == "fails"


def test_a_broken_independence_relation_is_caught() -> None:
    """If a reception counts as independent of the next send of its own process, causal chains are never made."""

    def broken(silent: Step, other: Step) -> bool:
        return independent(silent, other) or other.kind == "send"

    reduced, naive = both(Setting("ks", 3, 3), independence=broken)
    assert reduced.terminals < naive.terminals
    causal = frozenset({"causal order"})
    assert explore(Setting("fifo", 3, 3), properties=causal, independence=broken).verdict == "holds"
    assert explore(Setting("fifo", 3, 3), properties=causal).verdict == "fails"


def test_symmetric_systems_share_a_key() -> None:
    """Two first sends that differ by names only are one state: 3 processes have one first unicast, not six."""
    whole = explore(Setting("ks", 3, 1))
    assert whole.states < 12
    assert whole.executions == 1 + 6
