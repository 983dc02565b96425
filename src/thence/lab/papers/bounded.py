"""Bounded timestamps: how many numbers a stamp has, how large they get, and whether three epoch values suffice.

`epochs` (Protocol 3) and `bounded` (Protocol 4) are the paper's with the repairs of errata 22 and 23; their printed
forms stand beside them. A violation is a delivery before a cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2
from typing import TYPE_CHECKING

from thence.core.model.plain import Row
from thence.core.protocols.base import Member
from thence.core.protocols.effects import Sent
from thence.core.protocols.wire import MESSAGE_AT
from thence.lab.papers.claims import Claim, ClaimJudgement, DataRows, DataSets, NoDataError, found, near
from thence.lab.papers.estimates import mean_of, rows_with, total
from thence.lab.papers.paper import Drawing, Paper, Scale
from thence.lab.papers.variants import VARIANTS
from thence.lab.simulator import Meter, Observer, Scenario, Simulation
from thence.lab.simulator.confidence import Estimate, estimate
from thence.tables.result_table import ResultTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOUNDED_SIZES = ((3, 6), (3, 5, 10, 20), (3, 5, 10, 20, 40))
SAME = 0.05
EPOCHS = 3
FAMILY = ("bounded", "gossip")


class Stamps(Observer):
    """Watches the numbers in stamps and counts how often a process enters a new epoch."""

    def __init__(self) -> None:
        self.largest = self.longest = self.entered = 0
        self._epochs: dict[int, int] = {}

    def begin(self, simulation: Simulation) -> None:
        """Remember the members whose stamps are measured."""
        self.members = simulation.members

    def sent(self, now: float, process: int, sent: Sent, asked: float) -> None:
        """Look at the stamp and at the sender's epoch."""
        self.largest = max(self.largest, *(max(row) for rows in sent.copies[0].stamp[:2] for row in rows))
        self.longest = max(self.longest, len(self.members[process].encode(sent.copies[0])))
        epoch = getattr(self.members[process], "epoch", 0)
        self.entered += self._epochs.get(process, epoch) != epoch
        self._epochs[process] = epoch


def measured(scenario: Scenario, members: Sequence[Member] | None = None) -> Row:
    """Run a scenario, perhaps with members of a printed form, and say what its stamps were like."""
    stamps, meter = Stamps(), Meter()
    outcome = Simulation(scenario, meter, stamps, members=members).run()
    measures = meter.measures()
    size = measures["bytes_per_copy"]
    return {
        "protocol": scenario.protocol, "processes": scenario.processes, "messages": scenario.messages,
        "bound": scenario.bound, "seed": scenario.seed, "entries": measures.mean("entries_per_copy"),
        "bytes": None if size is None else size.mean, "bytes_ci95": None if size is None else size.half,
        "largest": stamps.largest, "bytes_max": stamps.longest, "epochs": stamps.entered, "deadlock": outcome.deadlock,
        "violations": measures.early,
    }  # fmt: skip


def printed(name: str, scenario: Scenario) -> Row:
    """Simulate a scenario with a printed form of the protocol, and return its measures."""
    kind = VARIANTS[name].protocol
    options: Row = {} if scenario.bound is None else {"bound": scenario.bound}
    members = [kind(scenario.roster, place, **options) for place in range(scenario.processes)]
    return measured(scenario, members) | {"protocol": name}


def measure(scale: Scale) -> dict[str, DataRows]:
    """Run the protocols over n, over the length of the run, and over the bound."""
    seeds = scale.seeds(2, 5, 10)
    many = range(scale.seed, scale.seed + scale.pick(30, 40, 200))
    lengths = scale.pick((200, 800), (500, 1000, 2000, 4000), (1000, 4000, 16_000, 32_000))
    long = scale.pick((100, 1000), (100, 1000, 10_000, 100_000), (100, 1000, 10_000, 100_000))
    unicasts = Scenario("epochs", 3, 60, fanout="unicast", delay="adversarial:0.05")
    tight = Scenario("bounded", 3, 200, bound=1)
    return {
        "sizes": [measured(Scenario("epochs", n, 20 * n)) for n in scale.sizes(BOUNDED_SIZES)],
        "lengths": [
            measured(Scenario(protocol, 4, messages, bound=100 if protocol == "bounded" else None, seed=seed))
            for protocol in FAMILY for messages in lengths for seed in seeds
        ],
        "long": [
            measured(Scenario(protocol, 4, messages, bound=100 if protocol == "bounded" else None, seed=scale.seed))
            for protocol in FAMILY for messages in long
        ],
        "bounds": [
            measured(Scenario("bounded", 3, lengths[0], bound=bound, seed=seed))
            for bound in (4, 8, 16, 32) for seed in seeds
        ],
        "three epochs": [measured(unicasts.with_(seed=seed)) for seed in many],
        "as printed": [printed("epochs-wrap", unicasts.with_(seed=seed)) for seed in many],
        "one too many": [printed("bounded-printed", tight.with_(seed=seed)) for seed in seeds],
    }  # fmt: skip


# -- claims ----------------------------------------------------------------------------------------------------------


def _square(data: DataSets) -> ClaimJudgement:
    shown = {row["processes"]: row["entries"] / row["processes"] ** 2 for row in data["sizes"]}
    return found([value == 2.0 for value in shown.values()], ", ".join(f"n = {n}: {v:g} n²" for n, v in shown.items()))


def _three(data: DataSets) -> ClaimJudgement:
    rows = data["three epochs"]
    entered, wrong = total(rows, "epochs"), total(rows, "violations") + total(rows, "deadlock")
    text = f"{wrong} violations in {len(rows)} runs that entered {entered} epochs"
    return found([False if wrong else True if entered > EPOCHS * len(rows) else None], text)


def _three_printed(data: DataSets) -> ClaimJudgement:
    rows = data["as printed"]
    wrong, entered = sum(bool(row["violations"] or row["deadlock"]) for row in rows), total(rows, "epochs")
    text = f"{wrong} of {len(rows)} runs go wrong, {entered} epochs entered"
    return found([False if wrong else True if entered > EPOCHS * len(rows) else None], text)


def _within(data: DataSets) -> ClaimJudgement:
    most = {b: max(row["largest"] for row in rows_with(data["bounds"], bound=b)) for b in _bounds(data)}
    text = ", ".join(f"B = {b}: {m} of {3 * b}, {bits(b)} bits" for b, m in most.items())
    return found([m <= 3 * b for b, m in most.items()], f"largest number, {text}")


def _bounds(data: DataSets) -> list[int]:
    return sorted({row["bound"] for row in data["bounds"]})


def bits(bound: int) -> int:
    """Return the bits of a number: one of three epochs and one of B sends, or nothing."""
    return ceil(log2(3 * bound + 1))


def most_bytes(processes: int, bound: int) -> int:
    """Return the bytes that no stamp of Protocol 4 exceeds, among at most 7 processes, without a label."""
    counts = ceil(log2(2 * bound + 1))
    rows = 2 * processes * (1 + ceil(processes * bits(bound) / 8)) + 1 + ceil(processes * counts / 8)
    return MESSAGE_AT + 1 + ceil(counts / 7) + 1 + rows


def _never_longer(data: DataSets) -> ClaimJudgement:
    ours, other = ({row["messages"]: row["bytes_max"] for row in rows_with(data["long"], protocol=p)} for p in FAMILY)
    if not ours:
        raise NoDataError("runs of several lengths")
    most = most_bytes(4, 100)
    text = ", ".join(f"{size:,} messages: {longest}" for size, longest in ours.items())
    text += f"; none can exceed {most}; unbounded {', '.join(map(str, other.values()))}"
    return found([longest <= most for longest in ours.values()], f"longest stamp, {text}")


def lengths(data: DataSets, protocol: str) -> dict[float, Estimate]:
    """Return the bytes of a stamp over the length of the run."""
    rows = rows_with(data["lengths"], protocol=protocol)
    sizes = sorted({row["messages"] for row in rows})
    if len(sizes) < 2:
        raise NoDataError("runs of several lengths")
    return {size: mean_of(rows_with(rows, messages=size), "bytes") for size in sizes}


def _whatever_length(data: DataSets) -> ClaimJudgement:
    ours, other = lengths(data, "bounded"), lengths(data, "gossip")
    first, last = list(ours)[-2:]
    rows = rows_with(data["lengths"], protocol="bounded")
    grown = estimate([
        row["bytes"] / before["bytes"]
        for before in rows_with(rows, messages=first) for row in rows_with(rows, messages=last, seed=before["seed"])
    ])  # fmt: skip
    if grown is None:
        raise NoDataError("the same seeds at both lengths")
    text = f"{first:g} and {last:g} messages: {ours[first]} and {ours[last]} bytes, a factor of {grown}"
    text += f"; unbounded {other[first]} and {other[last]}"
    return found([near(grown, 1.0, SAME), max(row["largest"] for row in rows) <= 300], text)


def _at_most(data: DataSets) -> ClaimJudgement:
    if not data["one too many"]:
        raise NoDataError("the printed form")
    most, bound = max(row["largest"] for row in data["one too many"]), data["one too many"][0]["bound"]
    return found([most <= 3 * bound], f"numbers up to {most} with B = {bound}, where 3B = {3 * bound}")


CLAIMS = (
    Claim("square", "Protocols 2 to 4", "stamps of O(N²) numbers", "2 n² numbers on every copy, at every n", _square),
    Claim("three-epochs", "Protocol 3, repaired", "three epoch values suffice",
        "no violation and no deadlock in runs that enter more than three epochs on the mean", _three),
    Claim("three-epochs-printed", "Protocol 3, as printed", "three epoch values suffice, modulo 3",
        "the same; differs if one run goes wrong (erratum 22)", _three_printed),
    Claim("log-b", "Protocol 4", "with at most B sends an epoch each number needs O(log B) bits",
        "no number above 3B, which is one of three epochs and one of B sends", _within),
    Claim("any-length", "Protocol 4", "whatever the length of the run",
        "at B = 100, bytes of a stamp in the longest runs over those in the next shorter of the same seed: within 5 % "
        "of 1, interval included; and no number above 3B", _whatever_length),
    Claim("never-longer", "Protocol 4",
        "O(N² log B) bits of control data on each message, regardless of the length of the computation",
        "at B = 100, no stamp, header and all, longer than its 2 n² timestamps of log2(3B + 1) bits, n + 1 counts of "
        "log2(2B + 1), sender, destinations and fixed header; runs up to 100,000 messages", _never_longer),
    Claim("b-sends", "Protocol 4, as printed", "at most B sends an epoch (test t ≤ B)",
        "no number above 3B; differs if there is one (erratum 23)", _at_most),
)  # fmt: skip


# -- shown -----------------------------------------------------------------------------------------------------------


def tables(data: DataSets) -> list[ResultTable]:
    """Return sizes over n, over the bound, and over the length of the run."""
    sizes = tuple((row["processes"], row["entries"], 2 * row["processes"] ** 2, row["bytes"]) for row in data["sizes"])
    bounds = tuple(
        (b, 3 * b, max(row["largest"] for row in rows), bits(b), str(mean_of(rows, "bytes")), total(rows, "deadlock"))
        for b, rows in ((b, rows_with(data["bounds"], bound=b)) for b in _bounds(data))
    )
    ours, other = lengths(data, "bounded"), lengths(data, "gossip")
    long = tuple((f"{size:g}", str(ours[size]), str(other[size])) for size in ours)
    shown = {p: {row["messages"]: row for row in rows_with(data["long"], protocol=p)} for p in FAMILY}
    longest = tuple(
        (f"{size:,}", *(value for p in FAMILY for value in (shown[p][size]["bytes"], shown[p][size]["bytes_max"])))
        for size in shown["bounded"]
    )
    return [
        ResultTable("Numbers on a stamp", ("n", "ours", "2 n²", "bytes"), sizes),
        ResultTable("The bound B, n = 3", (
              "B", "3B", "largest number", "bits each", "bytes of a stamp", "deadlocks"), bounds,
              "A bound can deadlock (erratum 23): those runs end early."),
        ResultTable("The length of the run, n = 4: bytes of a stamp",
              ("messages", "bounded, B = 100", "gossip, unbounded"), long),
        ResultTable("Bytes of a stamp in long runs, n = 4", ("messages", "bounded, B = 100: mean", "longest",
              "gossip, unbounded: mean", "longest"), longest, f"With B = 100 none can exceed {most_bytes(4, 100)}."),
    ]  # fmt: skip


def plots(data: DataSets, draw: Drawing) -> dict[str, Figure]:
    """Return the bytes of a stamp over the length of the run."""
    drawn, (panel,) = draw.figure(6.0, 3.4)
    both = {"bounded, B = 100": lengths(data, "bounded"), "gossip, unbounded": lengths(data, "gossip")}
    draw.curves(panel, both, x="messages in the run", y="bytes of a stamp, n = 4")
    panel.set_ylim(bottom=0)
    draw.legend(drawn, panel)
    return {"bounded-length": drawn}


PAPER = Paper(
    "bounded",
    "Causal ordering with bounded timestamps",
    (
        "Traffic is open: destinations evenly, exponential delays of 50 ms; for three epochs, unicasts and adversarial "
        "delays, under which the printed form goes wrong most often of the seven networks that were tried.",
        "Bytes of a stamp include its header. Counts, by which messages are named, travel modulo 2B.",
        "Protocols 3 and 4 are run with the repairs of errata 22 and 23, and as printed.",
    ),
    CLAIMS,
    tables,
    plots,
    measure=measure,
    sizes=BOUNDED_SIZES,
)
