"""`ks` with stamps as differences: the same executions as `ks` on FIFO links, and the printed form is not."""

from __future__ import annotations

import pytest

from thence.core.model.order import judge
from thence.core.model.roster import Roster
from thence.core.protocols.effects import Sent
from thence.core.protocols.ks import KS
from thence.core.wire.dependency_log_cy import Log
from thence.errors import PeerError
from thence.lab.explorer.search import explore
from thence.lab.explorer.setting import Setting, Variant
from thence.lab.papers.differences import KSDifferences, applied, difference
from thence.lab.papers.variants import VARIANTS
from thence.lab.simulator.record import RunRecorder
from thence.lab.simulator.scenario import Scenario
from thence.lab.simulator.simulation import Simulation

ORDERLY = frozenset({"causal order", "no duplicates"})
SAFE = Variant(KSDifferences, "ks", 4, "unsafe", "", "", fifo=True)


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("workload", ["poisson", "bursts", "hotspot"])
def test_the_same_run_and_the_same_logs_as_ks(seed: int, workload: str) -> None:
    scenario = Scenario("ks", 6, 150, workload=workload, fifo=True, seed=seed)
    found = []
    for kind in (KS, KSDifferences):
        recorder, members = RunRecorder(), [kind(scenario.roster, place) for place in range(6)]
        Simulation(scenario, recorder, members=members).run()
        assert judge(recorder.rows, "causal").violations == []
        rows = [(row.process, row.kind, row.message, row.time) for row in recorder.rows]
        found.append((rows, [member.log for member in members]))
    assert found[0] == found[1]
    assert len(found[0][0]) > 300


@pytest.mark.parametrize(("processes", "messages", "destinations"), [(3, 4, "unicast"), (3, 3, "any"), (2, 4, "any")])
def test_every_execution_on_fifo_links(processes: int, messages: int, destinations: str) -> None:
    setting = Setting("ks-differences", processes, messages, destinations, fifo=True, variant=SAFE)
    ours = explore(setting, reduce=False, properties=ORDERLY)
    plain = explore(Setting("ks", processes, messages, destinations, fifo=True), reduce=False, properties=ORDERLY)
    assert (ours.verdict, plain.verdict) == ("holds", "holds")
    assert ours.states >= plain.states > 100, "it remembers more, and forgets nothing that ks knows"


def test_the_printed_form_is_unsafe_on_fifo_links_too() -> None:
    once = Setting("ks-once", 3, 4, "unicast", fifo=True, variant=VARIANTS["ks-once"])
    found = explore(once, properties=ORDERLY)
    assert found.verdict == "fails"


def test_what_is_gone_is_named() -> None:
    before = Log({0: ((1, 0b10), (3, 0b100)), 2: ((1, 0),)})
    after = Log({0: ((3, 0b110),), 1: ((1, 1),), 2: ((1, 0),)})
    changed, gone = difference(before, after)
    assert (dict(changed.items()), gone) == ({0: ((3, 0b110),), 1: ((1, 1),)}, 0b001)
    assert applied(before, changed, gone) == after
    with pytest.raises(PeerError, match="drops entry 4 of a stamp that has 3"):
        applied(before, changed, 0b1000)


@pytest.mark.parametrize("version", [1, 2])
def test_on_the_wire_and_off_a_link_that_is_not_fifo(version: int) -> None:
    roster = Roster.of(3)
    a, b = KSDifferences(roster, 0), KSDifferences(roster, 1)
    sent = [a.send(mask) for mask in (0b100, 0b010, 0b110, 0b010)]
    copies = [copy for each in sent if isinstance(each, Sent) for copy in each.copies if copy.destination == 1]
    coded = [b.decode(a.encode(copy, version=version), source=0) for copy in copies]
    assert coded == copies
    with pytest.raises(PeerError, match=r"is a difference from message 2 on its link, but 0 was the last to arrive"):
        b.receive(coded[1])
    for copy in coded:
        b.receive(copy)
    restored = KSDifferences.restore(b.snapshot())
    assert (restored.state(), restored.received_last) == (b.state(), b.received_last)
    with pytest.raises(PeerError, match="the link must be FIFO"):
        b.receive(coded[-1])
