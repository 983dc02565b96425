"""The setting of an exploration: protocol, size, network and allowed faults; and the steps of an execution."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Literal, NamedTuple

from thence.core.model.faults import groups_of
from thence.core.model.plain import Row
from thence.core.model.roster import Roster, positions
from thence.core.protocols.base import Member
from thence.core.protocols.registry import REGISTRY, ProtocolEntry, check_options, lookup
from thence.core.wire.sets import rename_mask
from thence.errors import MisuseError
from thence.lab.explorer.judge_memory import Perm

VariantFault = Literal["unsafe", "stuck", "not minimal", "over its bound"]


@dataclass(frozen=True, slots=True)
class Variant:
    """A protocol as its paper prints it, shown to fail and never registered.

    It differs from ours in nothing but the cited line. Tests play its smallest execution and the explorer finds one.
    """

    protocol: type[Member]
    of: str
    """the registered protocol it varies"""
    erratum: int
    """the erratum that speaks of it"""
    fault: VariantFault
    line: str
    """what the paper says"""
    smallest: str
    """the smallest execution known to show its fault: sends and arrivals in the test notation"""
    processes: int = 3
    fifo: bool = False
    """whether the paper's channels, and so the counterexample's, are FIFO"""

    @property
    def name(self) -> str:
        """The name of the protocol in the explorer."""
        return self.protocol.name

    @property
    def entry(self) -> ProtocolEntry:
        """The registry's entry of the varied protocol, without the requirements that the printed form omits."""
        ours = REGISTRY[self.of]
        needs = tuple(need for need in ours.needs if need != "broadcast only")
        return replace(ours, protocol=self.protocol, needs=needs)


DETECTORS = ("eager", "falling", "any")
DESTINATIONS = ("unicast", "any", "broadcast")


class CopyName(NamedTuple):
    """A copy in flight to a process: of this message, from that process, the nth (from 0) of equal ones."""

    source: int
    sender: int
    number: int
    kind: str
    nth: int = 0


class Start(NamedTuple):
    """Choices made before the first step: which processes crash, and the failure detector's output at each."""

    faulty: int = 0
    trust: tuple[int, ...] = ()


class Step(NamedTuple):
    """One step of an execution: `send`, `receive`, `lose`, `crash`, `trust` or `link`, always at one process."""

    kind: str
    process: int
    target: int = 0
    """destinations of a send, processes trusted from now on, the process that a link is opened to"""
    copy: CopyName | None = None
    """what is received or lost"""


MOST_EXPLORED = 8
"""Their renamings, 40,320, are looked at for each state."""
MOST_MESSAGES = 1000
"""Far more than can be explored; the tables of facts grow with their square."""


@dataclass(frozen=True)
class Setting:
    """A bounded system: everything that can happen in it is explored."""

    protocol: str
    processes: int = 3
    messages: int = 3
    destinations: str = "unicast"
    """`unicast`, `any` non-empty set, or `broadcast` (all others)"""
    to_self: bool = False
    """whether a process may also address itself"""
    fifo: bool = False
    loss: int = 0
    """how many copies the network may lose"""
    crashes: int = 0
    """how many processes may crash"""
    links: int = 0
    """how many links of the overlay may be opened"""
    detector: str = "eager"
    """`eager`: each process trusts as few as is legal from the start; `falling`: all processes, until it falls to that;
    `any`: all processes at first, then at any times any legal sets, `changes` of them at each process
    """
    changes: int = 1
    """how often the detector `any` changes its output at each process, before it must become complete"""
    groups: str = ""
    options: Row = field(default_factory=dict)
    variant: Variant | None = None
    """the printed form of that name, if it is not in the registry"""

    def __post_init__(self) -> None:
        """Reject settings that the protocol does not support."""
        if self.variant is not None and self.variant.name != self.protocol:
            raise MisuseError(f"protocol {self.protocol!r} given with the printed form {self.variant.name!r}")
        if self.destinations not in DESTINATIONS:
            raise MisuseError(f"destinations {self.destinations!r} is not one of {', '.join(DESTINATIONS)}")
        if self.detector not in DETECTORS:
            raise MisuseError(f"detector {self.detector!r} is not one of {', '.join(DETECTORS)}")
        if self.processes < 1:
            raise MisuseError(f"{self.processes} processes; an exploration needs one at least")
        for what in ("messages", "loss", "crashes", "links", "changes"):
            if getattr(self, what) < 0:
                raise MisuseError(f"{what} {getattr(self, what)}; 0 or more is accepted")
        if self.crashes > self.processes:
            raise MisuseError(f"{self.crashes} crashes among {self.processes} processes; each crashes once at most")
        check_options(self.entry, self.options)
        if "groups" in self.options:
            raise MisuseError("groups are given by --groups, as in --groups 'ab|c'; leave out the option of that name")
        if self.groups and not self.grouped:
            raise MisuseError(f"protocol {self.protocol} knows no groups; leave --groups out")
        needs = self.entry.needs
        if "fifo" in needs and not self.fifo:
            raise MisuseError(f"protocol {self.protocol} needs FIFO channels; explore it with --fifo")
        if "broadcast only" in needs and self.destinations != "broadcast":
            raise MisuseError(
                f"protocol {self.protocol} is for broadcast only; explore it with --destinations broadcast"
            )
        if "unicast only" in needs and self.destinations != "unicast":
            raise MisuseError(f"protocol {self.protocol} is for unicast only; explore it with --destinations unicast")
        if self.crashes and "failure detector" not in needs:
            raise MisuseError(f"protocol {self.protocol} does not say what a crash means to it; leave --crashes out")
        if self.detector != "eager" and not self.crashes:
            raise MisuseError(f"--detector {self.detector} does nothing where no process crashes; say --crashes, too")
        if self.changes != 1 and self.detector != "any":
            raise MisuseError(f"--changes does nothing with --detector {self.detector}; leave it out")
        if self.links and "overlay" not in needs:
            raise MisuseError(f"protocol {self.protocol} has no overlay to open links in; leave --links out")
        if self.loss and "overlay" in needs:
            raise MisuseError(f"protocol {self.protocol} assumes links that lose nothing; leave --loss out")
        if self.loss and "failure detector" in needs:
            raise MisuseError(f"protocol {self.protocol} assumes quasi-reliable links; copies are lost by crashes only")

    @property
    def entry(self) -> ProtocolEntry:
        """The registry's entry of the protocol."""
        return lookup(self.protocol) if self.variant is None else self.variant.entry

    @property
    def per_group(self) -> bool:
        """Whether the failure detector is accurate in each group; read literally, the paper's need not be."""
        return not getattr(self.entry.protocol, "literal_detector", False)

    @property
    def grouped(self) -> bool:
        """Whether messages address whole groups."""
        return "groups" in self.entry.needs

    def row(self) -> Row:
        """Return it as plain data; `printed` says whether the protocol is a variant."""
        stated = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "variant"}
        return {**stated, "options": dict(self.options), "printed": self.variant is not None}

    def roster(self) -> Roster:
        """Return the processes a, b, c, ..."""
        return Roster.of(self.processes)

    def group_masks(self) -> tuple[int, ...]:
        """Return the groups as masks; each process is one if none are given."""
        return groups_of(self.groups, self.roster())

    def member(self, process: int) -> Member:
        """Make the member of the process at a position."""
        options = dict(self.options)
        if self.grouped and "groups" in self.entry.protocol.options:
            options.setdefault("groups", self.groups)
        return self.entry.protocol(self.roster(), process, **options)

    def addressable(self, process: int) -> list[int]:
        """Return the sets a process may send to, smallest first; on a topology, sets of its neighbours."""
        reach: int = (1 << self.processes) - 1
        if "topology" in self.entry.needs:
            reach &= getattr(self.member(process), "reach", reach)
        if not self.to_self and not self.grouped:
            reach &= ~(1 << process)
        units = [mask for mask in self.group_masks() if mask & reach] if self.grouped else [
            1 << d for d in positions(reach)
        ]  # fmt: skip
        if self.destinations == "broadcast":
            return [sum(units)] if units else []
        if self.destinations == "unicast":
            return units
        sets = [sum(units[i] for i in positions(pick)) for pick in range(1, 1 << len(units))]
        return sorted(sets, key=lambda mask: (mask.bit_count(), mask))

    def check_size(self) -> None:
        """Refuse a system too large to be looked at whole; a random walk may be larger."""
        if self.processes > MOST_EXPLORED:
            raise MisuseError(f"{self.processes} processes; from 1 to {MOST_EXPLORED} can be explored")
        if self.messages > MOST_MESSAGES:
            raise MisuseError(f"{self.messages} messages; up to {MOST_MESSAGES} are accepted")

    def symmetries(self, perms: list[Perm]) -> list[Perm]:
        """Return the renamings under which the system looks the same; identity first."""
        identity = tuple(range(self.processes))
        member = vars(self.member(0))
        groups, levels = set(self.group_masks()) if self.grouped else set(), _levels(self.member(0))
        links = [getattr(self.member(p), "links", 0) for p in identity] if "overlay" in self.entry.needs else []

        def kept(perm: Perm) -> bool:
            """Return whether a renaming keeps groups and their first processes, coordinators and links."""
            moved = {sum(1 << perm[p] for p in positions(g)): perm[next(positions(g))] for g in groups}
            alike = moved.keys() == groups and all(next(positions(g)) == first for g, first in moved.items())
            alike = alike and all(rename_mask(mask, perm) == links[perm[p]] for p, mask in enumerate(links))
            return alike and all(over[perm[p]] == perm[over[p]] for over in levels for p in identity)

        if member.get("separators"):
            return [identity]
        return [identity] + [perm for perm in perms if perm != identity and kept(perm)]


def _levels(member: Member | None) -> list[list[int]]:
    """Return the coordinator of each process, at each level of a hierarchy."""
    over = getattr(member, "over", None)
    return [] if over is None else [over, *_levels(getattr(member, "upper", None))]
