"""The discrete-event driver: scenarios (workload, network, faults, protocol, seed), runs, records, measures.

from thence.lab.simulator import Scenario, simulate

result = simulate(Scenario(protocol="ks", processes=8, messages=1000), trace=True)
result.outcome.deliveries, result.measures["bytes_per_copy"], result.recorder.events
"""

from thence.lab.simulator.metrics import Measures, Meter, over_seeds
from thence.lab.simulator.outcome import RunOutcome, explain
from thence.lab.simulator.record import ArrivalRecorder, RunRecorder
from thence.lab.simulator.run import Result, replicate, simulate
from thence.lab.simulator.scenario import Scenario, scenario_of
from thence.lab.simulator.simulation import Observer, Simulation

__all__ = [
    "ArrivalRecorder",
    "Measures",
    "Meter",
    "Observer",
    "Result",
    "RunOutcome",
    "RunRecorder",
    "Scenario",
    "Simulation",
    "explain",
    "over_seeds",
    "replicate",
    "scenario_of",
    "simulate",
]
