"""Members of `ks-ft` with one mistake each, and their simulated runs with crashes, recorded for `conform`."""

from __future__ import annotations

from collections.abc import Iterable

from support.mutant_ks import clear, log_of, low
from thence.core.model.events import Event
from thence.core.model.message import Copy, Stamp
from thence.core.protocols.ack_receiver import OK
from thence.core.protocols.effects import Effect
from thence.core.protocols.ks_ft import KsFt, KsOkays
from thence.core.wire.dependency_log_cy import Log
from thence.lab.simulator.record import RunRecorder
from thence.lab.simulator.scenario import Scenario
from thence.lab.simulator.simulation import Simulation


class DropsAFact(KsFt):
    """A stamp lacks one fact."""

    def stamped(self, destinations: int) -> Stamp:
        numbers, log = super().stamped(destinations)
        entries = clear(log)
        full = [key for key, mask in entries.items() if mask]
        return (numbers, log_of(entries | {full[0]: entries[full[0]] & ~low(entries[full[0]])}, log)) if full else (
            numbers, log
        )  # fmt: skip


class KeepsWhatIsCovered(KsFt):
    """PC2 left out at a send: the log keeps facts about the destinations of a later message."""

    def stamped(self, destinations: int) -> Stamp:
        before = self.log
        stamp = super().stamped(destinations)
        self.log = before.appended(self.me, self.count, destinations)
        return stamp


class ForgetsTheMerge(KsFt):
    """A delivery teaches nothing."""

    def _delivered(self, copy: Copy) -> list[Effect]:
        return []


class ForgetsTheStamp(KsFt):
    """A delivery teaches the message, not what it carried."""

    def _delivered(self, copy: Copy) -> list[Effect]:
        self.log = self.log.merged(Log().appended(copy.sender, copy.count, copy.destinations & ~self.ended))
        return []


class EndsFactsOfGroups(KsFt):
    """PC1 in groups of several: one member's delivery ends the fact for itself."""

    def begin(self) -> None:
        super().begin()
        self.ended = self.bit


class HoldsNothingBack(KsFt):
    """A send does not wait for earlier ones to be secured (errata 20)."""

    def _unsecured(self, destinations: int) -> list[int]:
        return []


class _Early(KsOkays):
    def missing(self, copy: Copy) -> list[tuple[int, int]]:
        return []


class DeliversEarly(KsFt):
    """Causes are not waited for."""

    receives = _Early


class _Unsecured(KsOkays):
    def secured(self, destinations: int, okayed: int) -> bool:
        return True


class DeliversWithoutOkays(KsFt):
    """Line 17 left out: OKs are not waited for."""

    receives = _Unsecured


class _Hasty(KsOkays):
    def _tell(self, home: Copy, kind: str) -> list[Effect]:
        return super()._tell(home, OK)


class OkaysOutOfOrder(KsFt):
    """Line 12 left out: what is not next is OKed, not handed on."""

    receives = _Hasty


class IgnoresTheDetector(KsFt):
    """What no longer waits for a trusted process still waits."""

    def trusted(self, processes: Iterable[str]) -> list[Effect]:
        return []


MUTANTS = (
    DropsAFact, KeepsWhatIsCovered, ForgetsTheMerge, ForgetsTheStamp, EndsFactsOfGroups, HoldsNothingBack,
    DeliversEarly, DeliversWithoutOkays, OkaysOutOfOrder, IgnoresTheDetector,
)  # fmt: skip


def recorded(kind: type[KsFt], seed: int, *, groups: str = "", crashes: int = 1, messages: int = 25) -> list[Event]:
    """Simulate five processes, one or more of which crash, and record the run with its hops."""
    options = (("groups", groups),) if groups else ()
    scenario = Scenario(
        "ks-ft", 5, messages, rate=40.0, crashes=crashes, seed=seed, run=f"{kind.__name__} {seed}", options=options
    )
    recorder = RunRecorder(stamps=True)
    members = [kind(scenario.roster, place, **dict(options)) for place in range(5)]
    Simulation(scenario, recorder, members=members).run()
    return recorder.events
