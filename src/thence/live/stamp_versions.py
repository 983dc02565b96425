"""Wire versions of the stamps for each peer, as agreed on and kept in the journal.

Invariant: a stamp is made in the version that was agreed on when its message was sent. The agreement is an input, so a
replay makes the same bytes. Stored stamps say their version in their first byte: one that its peer no longer reads,
because it went back to an earlier release, is rewritten in version 1 when it leaves.
"""

from __future__ import annotations

from thence.core.model.message import Copy
from thence.core.protocols import Member
from thence.core.protocols.wire import IN_BITS, WIRE_VERSION, has_bits, in_version
from thence.live.inputs import COPY, copy_head, stamp_in


class StampVersions:
    """The versions of the stamps that one process writes."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._kinds = frozenset(kind for kind in type(member).kinds if has_bits(type(member), kind))
        """kinds of copies that version 2 writes otherwise; none for protocols without a dependency log"""
        self.in_bits = 0
        """positions of the peers that get version 2, as a mask"""

    def differs(self, peer: int, in_bits: bool) -> bool:
        """Return whether this is not what was agreed on before."""
        return bool(self._kinds) and bool(self.in_bits >> peer & 1) != in_bits

    def agree(self, peer: int, in_bits: bool) -> None:
        """Note that a peer reads version 2 from now on, or does not."""
        self.in_bits = self.in_bits & ~(1 << peer) | in_bits << peer

    def encode(self, copy: Copy) -> bytes:
        """Return the stamp of a copy in the version of its destination."""
        if self.in_bits >> copy.destination & 1 and copy.kind in self._kinds:
            return self._member.encode(copy, IN_BITS)
        return self._member.encode(copy)

    def readable(self, head: bytes, in_bits: bool) -> bytes:
        """Return the item of a copy up to its payload in a version that the other end of a connection reads."""
        if in_bits or head[0] != COPY or not self._kinds:
            return head
        with_payload, order, stamp = stamp_in(head)
        if stamp[0] != IN_BITS:
            return head
        made = in_version(type(self._member), stamp, self._member.roster, WIRE_VERSION)
        return copy_head(order, made, with_payload=with_payload)
