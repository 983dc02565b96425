"""Registry of protocols: the requirements of each on its driver, and its guarantees.

New here? `FOR_USE` below lists the six protocols for use, and when to use each. All others exist for comparison:
they reproduce the papers, or show what a promise costs.

To add a protocol: write its file, give it the next free wire number, and add its entry here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from thence.core.model.order import Guarantee
from thence.core.model.plain import Option, Row
from thence.core.model.roster import Roster
from thence.core.protocols.a_causal import ACausal
from thence.core.protocols.a_fifo import AFifo
from thence.core.protocols.acked import Acked
from thence.core.protocols.base import Member
from thence.core.protocols.bounded import Bounded
from thence.core.protocols.bss import BSS
from thence.core.protocols.central import Central
from thence.core.protocols.ci_dc import CiDc
from thence.core.protocols.ech import ECH
from thence.core.protocols.ech_r9 import ECHR9
from thence.core.protocols.epochs import Epochs
from thence.core.protocols.fifo import Fifo
from thence.core.protocols.gossip import Gossip
from thence.core.protocols.hierarchy import Hierarchy
from thence.core.protocols.history import History
from thence.core.protocols.ks import KS
from thence.core.protocols.ks_ft import KsFt
from thence.core.protocols.ks_hardware import KSHardware
from thence.core.protocols.pc_broadcast import PCBroadcast
from thence.core.protocols.prs import PRS
from thence.core.protocols.rst import RST
from thence.core.protocols.serial_broadcast import SerialBroadcast
from thence.core.protocols.serial_multicast import SerialMulticast
from thence.core.protocols.ses import SES
from thence.core.protocols.synchronous import Synchronous
from thence.core.protocols.two_hop import TwoHop
from thence.core.protocols.unordered import Unordered
from thence.core.wire.codec import ADDED, BOOL, INT, TEXT, Shape
from thence.errors import MisuseError, PeerError

Need = Literal[
    "fifo",
    "fixed membership",
    "broadcast only",
    "unicast only",
    "serialized sends",
    "coordinator",
    "groups",
    "topology",
    "overlay",
    "failure detector",
    "own sends at the receiver",
]
FOR_USE: dict[str, str] = {
    "ks": "any traffic; the default",
    "ks-hardware": "the network multicasts one copy to all destinations",
    "bss": "every message goes to all others",
    "rst": "few processes, and stamps must have a fixed size",
    "ks-ft": "processes crash for good, and the others must not wait for them",
    "fifo": "order per sender is enough; it does not keep causal order",
}
"""The protocols for use, each with when to use it. The others in `REGISTRY` exist for comparison."""
ACCEPTED_OPTIONS: dict[Shape, tuple[type, str]] = {
    INT: (int, "a whole number, at least 1,"),
    BOOL: (bool, "True or False"),
    ADDED: (bool, "True or False"),
    TEXT: (str, "text"),
}
"""what a caller gives for an option of each shape"""
NEEDS: tuple[Need, ...] = get_args(Need)


@dataclass(frozen=True, slots=True)
class ProtocolEntry:
    """The registry's entry of a protocol, as data."""

    protocol: type[Member]
    """the class of its members"""
    summary: str
    """what it is, in a few words"""
    source: str
    """the paper it is from, as the docs cite it"""
    needs: tuple[Need, ...] = ()
    """what a driver must provide; a driver that cannot refuses the protocol"""
    guarantee: Guarantee = "causal"
    """the order it keeps, by which it is judged"""
    waits: Literal["causes only", "more"] = "causes only"
    """`causes only`: a copy is held for missing causes and for nothing else"""
    receive_only: bool = True
    """whether a destination that never sends can deliver by its stamps"""
    cost: str = ""
    """entries of a stamp among n processes"""

    @property
    def name(self) -> str:
        """The name it is registered under."""
        return self.protocol.name

    @property
    def use(self) -> str | None:
        """When to use it; None if it exists for comparison."""
        return FOR_USE.get(self.name)

    @property
    def grows(self) -> bool:
        """Whether processes can join and leave."""
        return "fixed membership" not in self.needs

    def row(self) -> Row:
        """Return the entry as plain data for tables and JSON."""
        row = {key: value for key, value in asdict(self).items() if key != "protocol"}
        return {
            "protocol": self.name,
            "use": self.use,
            **row,
            "needs": list(self.needs),
            "options": list(self.protocol.options),
        }


REGISTRY: dict[str, ProtocolEntry] = {
    entry.name: entry
    for entry in (
        ProtocolEntry(KS, "least information, a stamp per destination", "KS98", cost="<= n^2 facts"),
        ProtocolEntry(KSHardware, "least information in logs, one stamp for all", "KS98 4.5", cost="<= n^2 facts"),
        ProtocolEntry(CiDc, "least information, CI for all and DC for one", "ci-dc 1997", cost="<= n^2 facts"),
        ProtocolEntry(RST, "matrix of messages sent", "Raynal, Schiper, Toueg 1991", cost="n^2"),
        ProtocolEntry(SES, "vector times per destination", "Schiper, Eggli, Sandoz 1989", cost="<= n^2 + n"),
        ProtocolEntry(
            BSS,
            "vector clock of broadcasts",
            "Birman, Schiper, Stephenson 1991",
            needs=("broadcast only", "fixed membership"),
            cost="n",
        ),
        ProtocolEntry(
            PCBroadcast,
            "flooding over safe FIFO links",
            "Nédelec, Molli, Mostéfaoui 2018",
            needs=("broadcast only", "fifo", "overlay", "fixed membership"),
            receive_only=False,
            cost="0; a copy over each link",
        ),
        ProtocolEntry(PRS, "direct predecessors per destination", "Prakash, Raynal, Singhal 1997", cost="<= n^2 facts"),
        ProtocolEntry(
            History,
            "whole causal history of ids",
            "Psync 1989",
            needs=("fixed membership",),
            cost="grows with the run",
        ),
        ProtocolEntry(
            ECH, "causal histories with carbon copies", "Rodrigues, Verissimo 1995", cost="reported elements"
        ),
        ProtocolEntry(
            ECHR9,
            "carbon copies, filtered at causal separators",
            "Rodrigues, Verissimo 1995, R9",
            needs=("topology",),
            cost="reported elements of this side",
        ),
        ProtocolEntry(
            Gossip,
            "latest gossip and latest sends",
            "Krishnamurthy, Mukund, Protocol 2",
            needs=("fixed membership",),
            cost="2n^2",
        ),
        ProtocolEntry(
            Epochs,
            "gossip with three epoch values",
            "Krishnamurthy, Mukund, Protocol 3",
            needs=("fixed membership", "own sends at the receiver"),
            receive_only=False,
            cost="2n^2",
        ),
        ProtocolEntry(
            Bounded,
            "epochs of at most B sends; can deadlock",
            "Krishnamurthy, Mukund, Protocol 4",
            needs=("fixed membership", "own sends at the receiver"),
            receive_only=False,
            cost="2n^2 + n of log B bits",
        ),
        ProtocolEntry(
            SerialBroadcast,
            "a token names the broadcast before",
            "KS98 7.1",
            needs=("broadcast only", "serialized sends", "fixed membership"),
            waits="more",
            cost="1",
        ),
        ProtocolEntry(
            SerialMulticast,
            "a token names the latest send to each",
            "KS98 7.1",
            needs=("serialized sends", "fixed membership"),
            waits="more",
            cost="n",
        ),
        ProtocolEntry(
            Synchronous,
            "a send waits for the delivery of the one before",
            "KS98 7.1",
            needs=("unicast only", "fixed membership"),
            receive_only=False,
            cost="0, and an ack",
        ),
        ProtocolEntry(
            Acked,
            "an output buffer waits for acknowledgements",
            "Mattern, Fünfrocken 1995",
            needs=("unicast only", "fixed membership"),
            receive_only=False,
            cost="0, and an ack",
        ),
        ProtocolEntry(
            TwoHop,
            "chains of at most two messages",
            "KS98 Lemma 8",
            needs=("fixed membership",),
            guarantee="two-hop",
            cost="2n",
        ),
        ProtocolEntry(
            Central,
            "a coordinator multicasts serially",
            "KS98 7.1",
            needs=("coordinator", "fixed membership"),
            waits="more",
            cost="1, two hops",
        ),
        ProtocolEntry(
            Hierarchy,
            "representatives of zones run ks",
            "KS98 7.1",
            needs=("coordinator", "fixed membership"),
            waits="more",
            cost="1, and <= z^2 facts between z zones",
        ),
        ProtocolEntry(
            AFifo,
            "FIFO multicast to groups that survives crashes",
            "Schiper, Pedone 2009",
            needs=("groups", "failure detector", "fixed membership"),
            guarantee="fifo",
            waits="more",
            receive_only=False,
            cost="groups addressed",
        ),
        ProtocolEntry(
            ACausal,
            "causal multicast to groups that survives crashes",
            "Schiper, Pedone 2009",
            needs=("groups", "failure detector", "fixed membership"),
            waits="more",
            receive_only=False,
            cost="groups x n",
        ),
        ProtocolEntry(
            KsFt,
            "least information per group, survives crashes",
            "KS98 on Schiper, Pedone 2009",
            needs=("groups", "failure detector", "fixed membership"),
            waits="more",
            receive_only=False,
            cost="<= groups x n facts",
        ),
        ProtocolEntry(Fifo, "first in, first out per pair", "-", guarantee="fifo", cost="1"),
        ProtocolEntry(Unordered, "no order: delivers on arrival", "-", guarantee="none", cost="0"),
    )
}


def lookup(name: str) -> ProtocolEntry:
    """Return the entry of a protocol; raise `MisuseError` with the known names if there is no such protocol.

    Args:
        name: the protocol's name, as `thence protocols` lists it.
    """
    try:
        return REGISTRY[name]
    except KeyError:
        raise MisuseError(f"no protocol {name!r}; there are {', '.join(sorted(REGISTRY))}") from None


def create(
    name: str,
    roster: Roster | Iterable[str],
    process: str | int,
    *,
    labels: Iterable[str] | None = None,
    **options: Option,
) -> Member:
    """Make a member of a registered protocol.

        a, b = (thence.protocols.create("ks", ["a", "b"], name) for name in "ab")
        sent = a.send(["b"])
        b.receive(b.decode(a.encode(sent.copies[0]), source="a"))    # [Deliver(...)]

    Args:
        name: the protocol's name, as `thence protocols` lists it.
        roster: the processes, in the order that all members use.
        process: the name or position of this member's process.
        labels: the labels that are accepted beside the member's own; all if not given.
        options: what this protocol takes beside these, as in `bound=3`; `label` is the order that the member keeps.
    """
    entry = lookup(name)
    check_options(entry, {option: value for option, value in options.items() if option != "label"})
    member = entry.protocol(roster if isinstance(roster, Roster) else Roster(roster), process, **options)
    member.accept(labels)
    return member


def check_options(entry: ProtocolEntry, options: Mapping[str, Option]) -> None:
    """Refuse options that a protocol does not have, and values of another kind than it takes."""
    shapes = entry.protocol.options
    for option, value in options.items():
        if option not in shapes:
            known = ", ".join(shapes) or "none"
            raise MisuseError(f"protocol {entry.name} has no option {option!r}; its options: {known}")
        kind, wanted = ACCEPTED_OPTIONS[shapes[option]]
        if type(value) is not kind:
            raise MisuseError(f"option {option} of protocol {entry.name} is {value!r}; {wanted} is accepted")


def require(name: str, given: Iterable[Need], *, driver: str) -> ProtocolEntry:
    """Return the entry of a protocol; raise `MisuseError` if it needs something that a driver does not provide.

    Args:
        name: the protocol's name.
        given: the needs that the driver meets, such as "fifo".
        driver: what the error calls the driver.
    """
    entry, met = lookup(name), frozenset(given)
    missing = [need for need in entry.needs if need not in met]
    if missing:
        able = ", ".join(each for each, other in REGISTRY.items() if met.issuperset(other.needs))
        raise MisuseError(
            f"protocol {name} needs {', '.join(missing)}, which {driver} does not give; it can run {able}"
        )
    return entry


def by_code(data: bytes) -> ProtocolEntry:
    """Return the entry whose protocol wrote a stamp."""
    if len(data) > 1:
        for entry in REGISTRY.values():
            if entry.protocol.code == data[1]:
                return entry
        raise PeerError(f"stamp of protocol number {data[1]}, which is unknown here")
    raise PeerError(f"a stamp of {len(data)} bytes is too short to name its protocol")
