"""Simulates a scenario in one call, with the records and measures that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from thence.core.model.events import Event
from thence.core.model.order import Judgement, judge
from thence.core.model.plain import Row
from thence.lab.simulator.cpu import CpuClock
from thence.lab.simulator.metrics import Measures, Meter, StampMeasure, over_seeds
from thence.lab.simulator.outcome import RunOutcome
from thence.lab.simulator.record import ArrivalRecorder, RunRecorder
from thence.lab.simulator.scenario import Scenario
from thence.lab.simulator.simulation import Observer, Simulation
from thence.lab.simulator.workload import Request


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run; `recorder`, `arrivals`, `measures` and `cpu` only on request."""

    scenario: Scenario
    outcome: RunOutcome
    measures: Measures | None = None
    recorder: RunRecorder | None = None
    arrivals: ArrivalRecorder | None = None
    cpu: list[Row] | None = None

    @property
    def events(self) -> list[Event]:
        """The rows of the run itself, hops left out."""
        return [] if self.recorder is None else self.recorder.rows

    def judge(self) -> Judgement:
        """Judge the recorded run by definition, against what its protocol promises."""
        return judge(self.events, self.scenario.entry.guarantee)

    def row(self) -> Row:
        """Return everything but the tables as plain data."""
        row: Row = {"scenario": self.scenario.row(), "outcome": self.outcome.row()}
        if self.measures is not None:
            row["measures"] = self.measures.row()
        if self.cpu is not None:
            row["cpu"] = self.cpu
        return row


def simulate(
    scenario: Scenario,
    *,
    measure: bool = True,
    trace: bool = False,
    stamps: bool = False,
    arrivals: bool = False,
    cpu: bool = False,
    warmup: float = 0.2,
    batches: int = 20,
    watch: Iterable[Observer] = (),
    through: Callable[[Iterator[Request]], Iterator[Request]] = iter,
) -> Result:
    """Run a scenario; `trace` keeps its events, `arrivals` its arrivals, `cpu` times every operation."""
    sizes = StampMeasure()
    recorder = RunRecorder(stamps=stamps, sizes=sizes) if trace else None
    arriving = ArrivalRecorder() if arrivals else None
    meter = Meter(warmup=warmup, batches=batches, sizes=sizes) if measure else None
    observers = [each for each in (recorder, arriving, meter, *watch) if each is not None]
    clock = CpuClock(scenario.members()) if cpu else None
    simulation = Simulation(scenario, *observers, members=None if clock is None else clock.members, through=through)
    outcome = simulation.run()
    measures = None if meter is None else meter.measures()
    return Result(scenario, outcome, measures, recorder, arriving, None if clock is None else clock.rows())


def replicate(scenario: Scenario, seeds: Iterable[int], *, warmup: float = 0.2) -> Measures:
    """Run a scenario once for each seed and join the measures, with intervals over the seeds."""
    runs = [simulate(scenario.with_(seed=seed), warmup=warmup).measures for seed in seeds]
    return over_seeds([run for run in runs if run is not None])
