"""How a printed variant is described: a protocol as its paper has it, shown to fail, never registered.

A variant differs from ours in nothing but the cited line. Tests play its smallest execution and the explorer finds one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from thence.core.protocols.base import Member
from thence.core.protocols.registry import REGISTRY, ProtocolEntry

VariantFault = Literal["unsafe", "stuck", "not minimal", "over its bound"]


@dataclass(frozen=True, slots=True)
class Variant:
    """A printed form, the erratum that speaks of it, and the smallest execution known to show its fault."""

    protocol: type[Member]
    of: str
    """the registered protocol it varies"""
    erratum: int
    fault: VariantFault
    line: str
    """what the paper says"""
    smallest: str
    """sends and arrivals in the test notation"""
    processes: int = 3
    fifo: bool = False
    """whether the paper's channels, and so the counterexample's, are FIFO"""

    @property
    def name(self) -> str:
        """The name the explorer knows it by."""
        return self.protocol.name

    @property
    def entry(self) -> ProtocolEntry:
        """What the registry says of the protocol it varies, but for what a printed form forgets to say."""
        ours = REGISTRY[self.of]
        needs = tuple(need for need in ours.needs if need != "broadcast only")
        return replace(ours, protocol=self.protocol, needs=needs)
