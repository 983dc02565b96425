"""PRS as reconstructed: each of its two prunings matters, and reading more rows would prune more than is said of it."""

from __future__ import annotations

import pytest

from thence.core.model.message import Copy
from thence.core.model.roster import Roster, positions
from thence.core.protocols.counts_cy import later_pairs, packed, pairs_in
from thence.core.protocols.effects import Effect
from thence.core.protocols.prs import NO_PAIRS, PRS
from thence.lab.simulator import Meter, Scenario, Simulation


def joined(rows: dict[int, bytearray], more: bytearray, position: int) -> bytearray:
    return later_pairs(rows.get(position, NO_PAIRS), more, NO_PAIRS)


class RowsKept(PRS):
    """The rows of those addressed are added, not subtracted."""

    def _delivered(self, copy: Copy) -> list[Effect]:
        kept = {d: joined(self.before, copy.stamp.get(d, NO_PAIRS), d) for d in positions(copy.destinations)}
        effects = super()._delivered(copy)
        self.before |= {d: joined(self.before, pairs, d) for d, pairs in kept.items() if d != self.me}
        return effects


class NoRecord(PRS):
    """Nothing is known of deliveries elsewhere."""

    def _note(self, copy: Copy) -> None:
        pass


class AllRows(PRS):
    """Deliveries elsewhere are read from every row."""

    def _note(self, copy: Copy) -> None:
        super()._note(copy)
        for pairs in copy.stamp.values() if copy.sender != self.me else ():
            knew = packed(pair for pair in pairs_in(pairs) if pair[0] != copy.sender)
            self.elsewhere = self.elsewhere | {copy.sender: joined(self.elsewhere, knew, copy.sender)}


def pairs_of(kind: type[PRS], fanout: str) -> float:
    """Return the pairs on a copy over n², once stamps have grown; nothing may go before a cause."""
    scenario = Scenario("prs", 12, 1200, fanout=fanout)
    meter = Meter()
    outcome = Simulation(scenario, meter, members=[kind(scenario.roster, place) for place in range(12)]).run()
    measures = meter.measures()
    assert (measures.early, outcome.stuck) == (0, [])
    found = measures.mean("entries_per_copy")
    assert found is not None
    return found / 12**2


def test_what_an_addressed_row_covers_is_subtracted() -> None:
    """b knows of x1 to c, and so does a2, which goes to c as well and waits for x1 there: b keeps a2 alone."""
    a, b, x = (PRS(Roster("abcx"), name) for name in "abx")
    x.send(["c"])
    a.receive(x.send(["a"]).copies[0])
    b.receive(a.send(["b"]).copies[0])
    assert b.before == {2: packed([(3, 1)])}
    b.receive(a.send(["b", "c"]).copies[0])
    assert b.before == {2: packed([(0, 2)])}


@pytest.mark.parametrize(("fanout", "kind"), [("unicast", NoRecord), ("uniform", NoRecord), ("uniform", RowsKept)])
def test_without_a_pruning_more_travels(fanout: str, kind: type[PRS]) -> None:
    ours, other = pairs_of(PRS, fanout), pairs_of(kind, fanout)
    print(f"{fanout}: {ours:.3f} n² pairs, {kind.__name__} {other:.3f}")
    assert ours < 0.95 * other


def test_to_read_every_row_would_prune_more() -> None:
    """The ci-dc paper says how much PRS carries, and that is more: so it reads one."""
    assert pairs_of(AllRows, "unicast") < 0.9 * pairs_of(PRS, "unicast")


def test_facts_are_counted_without_a_list_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stamp has up to n² pairs, and every stamp of a simulated run is counted."""
    pairs = {1: packed([(0, 3), (2, 1)]), 2: packed([(0, 3)])}
    copy = Copy(0, 4, 0b10, 0, 1, pairs)
    assert PRS.facts(copy) == sum(mask.bit_count() for _, mask in PRS.dependencies(copy)) == 3
    monkeypatch.setattr(PRS, "dependencies", None)
    assert PRS.facts(copy) == 3
