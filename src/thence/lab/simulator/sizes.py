"""What the stamps of a run take: measured once for all who watch it."""

from __future__ import annotations

from typing import NamedTuple

from thence.core.model.message import Copy, Stamp
from thence.core.protocols.base import Member

CACHED_MESSAGES = 1024
"""messages whose stamps' sizes are remembered"""


class Size(NamedTuple):
    """What the stamp of a copy takes."""

    entries: int
    facts: int | None
    bytes: int
    paper_bytes: int


class StampMeasure:
    """Measures stamps; several observers of one run share one. Copies of a message with one stamp are measured once."""

    def __init__(self) -> None:
        """Start with nothing measured."""
        self._found: dict[tuple[str | None, int, int], tuple[Stamp, Size]] = {}

    def of(self, member: Member, copy: Copy) -> Size:
        """Return the size of the stamp of a copy; `bytes` is its length on the wire."""
        key = (copy.label, copy.sender, copy.count)
        found = self._found.get(key)
        if found is None or found[0] is not copy.stamp:
            entries, length = member.entries(copy), len(member.encode(copy))
            size = Size(entries, member.facts(copy), length, member.paper_bytes(copy))
            found = self._found[key] = (copy.stamp, size)
            if len(self._found) > CACHED_MESSAGES:
                del self._found[next(iter(self._found))]
        return found[1]
