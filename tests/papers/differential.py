"""A safe differential encoding for `ks` on FIFO channels, in the place of KS98 section 3.5.

Invariant: a channel remembers the last stamp that went over it, at both ends. What travels is the difference: the
groups of senders that changed, and which senders are gone. The receiver gets the whole stamp back, exactly, before any
protocol looks at it; so RCV(4), to which the absence of an entry says something, sees what it would have seen.

Section 3.5 leaves out what was sent before and lets the receiver's log stand for it, which is unsafe (errata 4): an
entry that is absent because it was sent before looks like one that is absent because it is settled.

A group that changed travels whole, so a fact may travel twice, where 3.5 wants none to: to name what has left a group
mostly takes more bytes than the group. What is saved is the groups that stand still; where all change, as between two
processes, differences are a little longer than stamps.

Needs FIFO channels that lose nothing: each difference is relative to the one before. `position` says which it is, so a
gap is an error and never a wrong stamp.
"""

from __future__ import annotations

from thence.core.model.roster import positions
from thence.core.wire.codec import MASK, RecordShape
from thence.core.wire.dependency_log_cy import Log
from thence.core.wire.entries import Entries
from thence.core.wire.reader_cy import Reader
from thence.core.wire.words_cy import put_varint
from thence.errors import PeerError

DIFFERENCE = RecordShape(MASK, Entries())
"""senders that are gone, groups that changed"""


class SendingEnd:
    """The sender's end of one channel."""

    def __init__(self, size: int) -> None:
        """Start with nothing sent, for a roster of that size."""
        self.size, self.position, self.last = size, 0, Log()

    def encode(self, stamp: Log) -> bytes:
        """Return the difference to the stamp before."""
        groups, last = stamp.groups(), self.last.groups()
        gone = sum(1 << sender for sender in last if sender not in groups)
        changed = Log({sender: group for sender, group in groups.items() if last.get(sender) != group})
        self.position, self.last = self.position + 1, stamp
        out = bytearray()
        put_varint(out, self.position)
        DIFFERENCE.write((gone, changed), out, self.size)
        return bytes(out)


class ReceivingEnd:
    """The receiver's end of one channel."""

    def __init__(self, size: int) -> None:
        """Start with nothing received."""
        self.size, self.position, self.last = size, 0, Log()

    def decode(self, data: bytes) -> Log:
        """Return the whole stamp, or refuse a difference that is not the next, or takes away what is not there."""
        reader = Reader(data, self.size)
        position = reader.varint()
        if position != self.position + 1:
            raise PeerError(f"difference {position} on a channel where {self.position + 1} comes next: it is not FIFO")
        gone, changed = DIFFERENCE.read(reader)
        reader.done()
        last = self.last.groups()
        unknown = [sender for sender in positions(gone) if sender not in last or sender in changed]
        if unknown:
            raise PeerError(
                f"difference {position} takes away entries of sender {unknown[0]} that are not there, or brings them"
            )
        kept = {sender: group for sender, group in last.items() if not gone >> sender & 1}
        self.position, self.last = position, Log({**kept, **changed})
        return self.last
