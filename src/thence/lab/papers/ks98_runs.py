"""The runs behind the claims of KS98: every copy and log against the minimum by definition, and the special cases."""

from __future__ import annotations

from collections.abc import Sequence

from thence.core.model.message import Copy
from thence.core.model.message_names import name_of
from thence.core.model.minimum import Fact, Minimum
from thence.core.model.order import judge
from thence.core.model.plain import Row
from thence.core.model.roster import Roster, positions
from thence.core.protocols.base import Member
from thence.core.protocols.effects import Sent
from thence.lab.papers.ci_dc_runs import worst_case
from thence.lab.papers.claims import DataRows
from thence.lab.papers.ks98_processing import processing
from thence.lab.papers.paper import Scale
from thence.lab.simulator import Observer, RunRecorder, Scenario, Simulation

KS98_SIZES = ((5, 10), (5, 10, 20, 40), (5, 10, 20, 40, 60))
PROCESSING_SIZES = ((5, 6, 7, 8, 10), (5, 6, 8, 10, 20, 40), (5, 6, 8, 10, 20, 40, 60))
"""two sizes more than the degree that a claim speaks of, so that a higher degree shows"""
SPECIAL: dict[str, str] = {
    "bss": "broadcast",
    "serial-broadcast": "broadcast",
    "serial-multicast": "uniform",
    "synchronous": "unicast",
    "acked": "unicast",
    "two-hop": "uniform",
    "central": "uniform",
    "hierarchy": "uniform",
    "ks": "uniform",
}
"""fan-out of each"""


class Facts(Observer):
    """Keeps the facts on every copy that arrives, and in the log of a process after each of its events."""

    def __init__(self, recorder: RunRecorder) -> None:
        """Follow this recorder, which must note an event first."""
        self.recorder = recorder
        self.copies: list[tuple[str, str, set[Fact]]] = []
        self.logs: list[tuple[str, int, set[Fact]]] = []
        self._last: tuple[str, int, set[Fact]] | None = None

    def begin(self, simulation: Simulation) -> None:
        """Remember the members whose logs are compared."""
        self.members, self.roster = simulation.members, simulation.roster

    def sent(self, now: float, process: int, sent: Sent, asked: float) -> None:
        """Keep the sender's log as of this send."""
        self._flush()
        self._log(process)

    def arrived(self, now: float, copy: Copy) -> None:
        """Keep what the copy carries; what came before is over."""
        self._flush()
        stamp = self.members[copy.destination].dependencies(copy) or []
        found = {
            (name(self.roster, m.sender, m.count), self.roster.name(d)) for m, mask in stamp for d in positions(mask)
        }
        self.copies.append((name(self.roster, copy.sender, copy.count), self.roster.name(copy.destination), found))

    def delivered(self, now: float, copy: Copy) -> None:
        """Keep the log; of several deliveries in one step, the last is the one it belongs to."""
        self._log(copy.destination)

    def end(self, now: float) -> None:
        """Keep the log of the last event."""
        self._flush()

    def _log(self, process: int) -> None:
        held = {
            (name(self.roster, m.sender, m.count), self.roster.name(d))
            for m, d in self.members[process].log_facts() or ()
        }
        self._last = (self.roster.name(process), self.recorder.rows[-1].index, held)

    def _flush(self) -> None:
        if self._last is not None:
            self.logs.append(self._last)
        self._last = None


def name(roster: Roster, sender: int, count: int) -> str:
    """Name a message as the simulator does."""
    return name_of(roster.name(sender), count)


def compared(scenario: Scenario, members: list[Member] | None = None) -> Row:
    """Run a scenario and compare every copy and every log with the minimum; members may be those of a printed form."""
    recorder = RunRecorder()
    facts = Facts(recorder)
    Simulation(scenario, recorder, facts, members=members).run()
    minimum = Minimum([event for event in recorder.rows if event.kind != "receive"])
    return {
        "processes": scenario.processes, "fanout": scenario.fanout, "fifo": scenario.fifo, "seed": scenario.seed,
        "copies": len(facts.copies), "logs": len(facts.logs),
        "copies off": sum(found != minimum.on_copy(message, to) for message, to, found in facts.copies),
        "logs off": sum(held != minimum.in_log(process, index) for process, index, held in facts.logs),
        "largest": max((len(held) for *_, held in [*facts.copies, *facts.logs]), default=0),
    }  # fmt: skip


class LargestStamps(Observer):
    """Keeps the most entries on a copy to a destination, and the most entries and facts on a hop."""

    def __init__(self) -> None:
        self.entries = self.hops = self.hop_facts = 0

    def begin(self, simulation: Simulation) -> None:
        """Remember a member that can measure stamps."""
        self.member = simulation.members[0]

    def arrived(self, now: float, copy: Copy) -> None:
        """Measure the stamp of a copy, and keep the largest."""
        self.entries = max(self.entries, self.member.entries(copy))

    def hops_sent(self, now: float, copies: Sequence[Copy]) -> None:
        """Measure protocol messages or relayed copies."""
        self.hops = max(self.hops, *map(self.member.entries, copies))
        self.hop_facts = max(self.hop_facts, *(self.member.facts(copy) or 0 for copy in copies))


def special(protocol: str, n: int, messages: int, seed: int) -> Row:
    """Run a special case and return the largest sizes, judged by its own guarantee."""
    scenario = Scenario(protocol, n, messages, fanout=SPECIAL[protocol], seed=seed)
    recorder, sizes = RunRecorder(), LargestStamps()
    Simulation(scenario, recorder, sizes).run()
    verdict = judge(recorder.rows, scenario.entry.guarantee)
    wrong = len(verdict.violations) + len(verdict.undelivered)
    return {"protocol": protocol, "processes": n, "seed": seed, "entries": sizes.entries, "hops": sizes.hops,
            "hop facts": sizes.hop_facts, "wrong": wrong}  # fmt: skip


def measure(scale: Scale) -> dict[str, DataRows]:
    """Compare with the minimum, run the special cases, and build the worst case."""
    seeds = scale.seeds(2, 12, 60)
    sizes = scale.sizes(KS98_SIZES)
    return {
        "exact": [
            compared(Scenario("ks", 3 + seed % 4, 50, fanout=fanout, fifo=fifo, delay=delay, seed=seed))
            for seed in seeds for fanout in ("uniform", "unicast") for fifo in (False, True)
            for delay in ("exponential:0.1", "adversarial:0.1")
        ],
        "special": [special(p, n, 6 * n, scale.seed) for p in SPECIAL for n in sizes],
        "worst case": [{"processes": n, "facts": worst_case(n, "ks")} for n in sizes],
        "processing": [processing(n) for n in scale.sizes(PROCESSING_SIZES)],
    }  # fmt: skip
