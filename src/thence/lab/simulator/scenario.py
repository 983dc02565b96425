"""A scenario: everything that defines one simulated run, as one frozen value.

Invariant: two equal scenarios give the same run, to the byte. Whatever cannot be run (an unknown name, a number that
makes no sense, a protocol that needs what the network or the workload does not give) is refused by `check`, before
anything starts, with a sentence that says what would have been accepted.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace

from thence.core.model.faults import groups_of
from thence.core.model.plain import Fields, Option, Row
from thence.core.model.roster import Roster
from thence.core.protocols.base import Member
from thence.core.protocols.registry import Need, ProtocolEntry, check_options, create, lookup
from thence.errors import MisuseError
from thence.lab.simulator.network import Network, check_share
from thence.lab.simulator.random_streams import Streams
from thence.lab.simulator.workload import OWN_DESTINATIONS, Workload, compile_workload

MOST_PROCESSES = 10_000
LEAST_RATE, MOST_RATE = 1e-6, 1e9


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run: protocol, workload, network, faults, seed."""

    protocol: str = "ks"
    processes: int = 8
    messages: int = 1000
    """requests to send over all processes, answers included"""
    fanout: str | None = None
    """uniform (if not given), unicast, broadcast or a number; see lab/simulator/fanout.py"""
    workload: str = "poisson"
    """see lab/simulator/workload.py"""
    rate: float = 10.0
    """requests per second of each process, on the mean"""
    delay: str = "exponential:0.05"
    """see lab/simulator/delays.py"""
    fifo: bool = False
    to_self: bool = False
    """whether a process may be among its own destinations"""
    labels: int = 0
    """how many independent causal orders; 0 is the one order without a label"""
    bound: int | None = None
    """the option `bound` of protocols that have it"""
    crashes: int = 0
    links: int = 0
    """links that processes of an overlay open at random times"""
    loss: float = 0.0
    duplicates: float = 0.0
    partitions: tuple[str, ...] = ()
    """see lab/simulator/network.py"""
    options: tuple[tuple[str, Option], ...] = ()
    """further options of the protocol"""
    seed: int = 1
    run: str = ""
    """name of the run; the scenario's own words if empty"""

    def __post_init__(self) -> None:
        """Take a number as a fan-out, too: it is what its text is."""
        if self.fanout is not None:
            object.__setattr__(self, "fanout", str(self.fanout))

    @property
    def name(self) -> str:
        """Name of the run in the trace."""
        if self.run:
            return self.run
        own = self.workload.split(":")[0] in OWN_DESTINATIONS
        traffic = self.workload if own else (self.fanout or "uniform")
        return f"{self.protocol}-n{self.processes}-{traffic}-seed{self.seed}"

    @property
    def entry(self) -> ProtocolEntry:
        """The registry's entry of the protocol."""
        return lookup(self.protocol)

    @property
    def roster(self) -> Roster:
        """The processes of the scenario, by position."""
        return Roster.of(self.processes)

    @property
    def groups(self) -> tuple[int, ...]:
        """The disjoint groups that the protocol's option of that name gives, none if it is not given."""
        text = str(dict(self.options).get("groups", ""))
        return groups_of(text, self.roster) if text else ()

    def with_(self, **changes: Option) -> Scenario:
        """Return a scenario that differs in these fields."""
        return replace(self, **changes)

    def row(self) -> Row:
        """Return it as plain data; `scenario_of` reads it back."""
        row = asdict(self)
        row["partitions"], row["options"] = list(self.partitions), dict(self.options)
        return row

    def members(self) -> list[Member]:
        """Make one member of the protocol for each process."""
        options = dict(self.options)
        if self.bound is not None:
            options["bound"] = self.bound
        check_options(self.entry, options)
        if options.get("explicit"):
            raise MisuseError(
                "a simulated application passes no contexts, so with explicit=true nothing would depend on "
                "what was delivered; leave the option out"
            )
        roster = self.roster
        return [create(self.protocol, roster, position, **options) for position in range(self.processes)]

    @property
    def reach(self) -> tuple[int, ...]:
        """The processes that each process can send to, on a topology; () if that is every process."""
        text = dict(self.options).get("separators", "")
        if "topology" not in self.entry.needs or not text:
            return ()
        from thence.core.protocols.ech_r9 import read_separators

        return read_separators(str(text), self.roster)[2]

    def traffic(self, streams: Streams) -> Workload:
        """Make the workload, which decides who sends what and when."""
        return compile_workload(
            self.workload,
            self.fanout,
            self.roster,
            streams,
            messages=self.messages,
            rate=self.rate,
            to_self=self.to_self,
            labels=self.labels,
            groups=self.groups,
            reach=self.reach,
        )

    def network(self, streams: Streams) -> Network:
        """Make the network, with its delays, order and loss."""
        return Network(
            self.roster,
            streams,
            self.delay,
            fifo=self.fifo,
            partitions=self.partitions,
            loss=self.loss,
            duplicates=self.duplicates,
        )

    def check(self) -> ProtocolEntry:
        """Reject a scenario that cannot be run, with the reason; return the registry's entry of the protocol."""
        _check_numbers(self)
        entry = self.entry
        workload = self.traffic(Streams(self.seed))
        self.network(Streams(self.seed))
        _check_needs(self, entry, workload)
        if self.links and "overlay" not in entry.needs:
            raise MisuseError(f"protocol {self.protocol} has no overlay to open links in; pc-broadcast has")
        if self.loss and not bears_loss(entry):
            raise MisuseError(
                f"protocol {self.protocol} does not bear loss: what waits for a lost copy waits forever; "
                f"protocols that do: {', '.join(bearing_loss())}"
            )
        self.members()
        return entry


def scenario_of(row: Fields) -> Scenario:
    """Return the checked scenario that plain data describes: JSON, a line of a grid, a row of a table."""
    known = {field.name: field for field in fields(Scenario)}
    for key in row:
        if key not in known:
            raise MisuseError(f"a scenario has no {key!r}; it has {', '.join(known)}")
    values = dict(row)
    for key, value in values.items():
        wanted = _TYPES[str(known[key].type)]
        if (isinstance(value, bool) and bool not in wanted) or not isinstance(value, wanted):
            names = " or ".join("null" if kind is type(None) else kind.__name__ for kind in wanted)
            raise MisuseError(f"scenario: {key} is {value!r}; {names} is accepted")
    values["partitions"] = tuple(values.get("partitions", ()))
    values["options"] = tuple(sorted(dict(values.get("options", {})).items()))
    scenario = Scenario(**values)
    scenario.check()
    return scenario


_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "str | None": (str, int, type(None)),  # a fan-out, which may be a number
    "int | None": (int, type(None)),
    "tuple[str, ...]": (tuple, list),
    "tuple[tuple[str, Option], ...]": (dict, tuple, list),
}


def _check_numbers(scenario: Scenario) -> None:
    if not 1 <= scenario.processes <= MOST_PROCESSES:
        raise MisuseError(f"{scenario.processes} processes; from 1 to {MOST_PROCESSES} are accepted")
    for name, least in (("messages", 0), ("labels", 0), ("crashes", 0), ("links", 0)):
        if getattr(scenario, name) < least:
            raise MisuseError(f"{name} {getattr(scenario, name)}; {least} or more is accepted")
    if scenario.crashes > scenario.processes:
        raise MisuseError(f"{scenario.crashes} crashes among {scenario.processes} processes; each crashes at most once")
    if not LEAST_RATE <= scenario.rate <= MOST_RATE:
        raise MisuseError(f"rate {scenario.rate}; from {LEAST_RATE:g} to {MOST_RATE:g} requests a second are accepted")
    names = [name for name, _ in scenario.options] + ["bound"] * (scenario.bound is not None)
    for name in names:
        if names.count(name) > 1:
            raise MisuseError(f"option {name} is given more than once; once is accepted")
    check_share(scenario.loss, "loss")
    check_share(scenario.duplicates, "duplicates")
    if scenario.loss + scenario.duplicates >= 1:
        raise MisuseError("loss and duplicates together must stay below 1")


ALWAYS: frozenset[Need] = frozenset(
    {
        "fixed membership",
        "serialized sends",
        "coordinator",
        "own sends at the receiver",
        "groups",
        "failure detector",
        "topology",
        "overlay",
    }
)
"""What this simulator gives in every scenario: no process joins or leaves, one token goes from sender to sender,
crashes are reported, messages address whole groups (each process is one, unless the option `groups` says otherwise),
and processes send to their neighbours (to all, unless the option `separators` says otherwise). Every process can
be reached from every other, so whatever overlay an option asks for is there.
"""

HINTS: dict[Need, str] = {
    "fifo": "a FIFO network (--fifo)",
    "broadcast only": "a workload that only broadcasts (--fanout broadcast, without --self)",
    "unicast only": "a workload of unicasts (--fanout unicast)",
}


def given(scenario: Scenario, workload: Workload) -> frozenset[Need]:
    """Return the needs of the registry that this scenario meets."""
    found: set[Need] = set(ALWAYS)
    if scenario.fifo:
        found.add("fifo")
    if "broadcast" in workload.shapes:
        found.add("broadcast only")
    if "unicast" in workload.shapes:
        found.add("unicast only")
    return frozenset(found)


def _check_needs(scenario: Scenario, entry: ProtocolEntry, workload: Workload) -> None:
    have = given(scenario, workload)
    missing = [need for need in entry.needs if need not in have]
    if missing:
        wanted = "; ".join(HINTS.get(need, f"{need}, which no simulated scenario gives yet") for need in missing)
        raise MisuseError(f"protocol {entry.name} needs {', '.join(missing)}; it can run with {wanted}")


def bears_loss(entry: ProtocolEntry) -> bool:
    """Return whether a protocol still makes sense when copies are lost: it never waits for another message."""
    return entry.guarantee == "none"


def bearing_loss() -> list[str]:
    """Return the names of the protocols that bear loss."""
    from thence.core.protocols.registry import REGISTRY

    return sorted(name for name, entry in REGISTRY.items() if bears_loss(entry))
