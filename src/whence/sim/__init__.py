"""The discrete-event driver: scenarios (workload, network, faults, protocol, seed), runs, records, measures.

from whence.sim import Scenario, simulate

result = simulate(Scenario(protocol="ks", processes=8, messages=1000), trace=True)
result.outcome.deliveries, result.measures["bytes_per_copy"], result.recorder.events
"""

from whence.sim.engine import Engine, Observer
from whence.sim.metrics import Measures, Meter, over_seeds
from whence.sim.outcome import Outcome, explain
from whence.sim.record import ArrivalRecorder, Recorder
from whence.sim.run import Result, replicate, simulate
from whence.sim.scenario import Scenario, scenario_of

__all__ = [
    "ArrivalRecorder",
    "Engine",
    "Measures",
    "Meter",
    "Observer",
    "Outcome",
    "Recorder",
    "Result",
    "Scenario",
    "explain",
    "over_seeds",
    "replicate",
    "scenario_of",
    "simulate",
]
