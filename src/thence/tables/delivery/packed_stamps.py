"""Stamps of rows that came together, read by one compiled loop.

*Invariant.* What is read equals what `Reading.read` says, row by row; what the loop leaves, `Reading.read` reads.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence, Sized
from itertools import accumulate

from thence.core.model.plain import Field
from thence.core.model.roster import Roster
from thence.core.protocols.stamps_cy import StampColumns, read_stamps
from thence.tables.delivery.reading import Read, Reading


def read_packed(rosters: Sequence[Roster], data: object, offsets: object, destinations: Sized) -> StampColumns:
    """Read stamps at the positions of their destinations; all are left where there are several rosters."""
    if len(rosters) != 1:
        destinations = array("i", [-1]) * len(destinations)
    return read_stamps(data, offsets, rosters[0].hash, len(rosters[0]), destinations)


def read_together(
    reading: Reading, senders: Sequence[Field], destinations: Sequence[Field], stamps: Sequence[Field]
) -> list[Read | str]:
    """Read the stamps of rows of one key."""
    roster = reading.rosters[0]
    texts = [bytes(stamp) if isinstance(stamp, bytes | bytearray | memoryview) else b"" for stamp in stamps]
    here = array("i", [roster.position(each) if each in roster else -1 for each in destinations])
    read = read_packed(reading.rosters, b"".join(texts), array("q", [0, *accumulate(map(len, texts))]), here)
    found: list[Read | str] = []
    for place, (sender, destination, stamp) in enumerate(zip(senders, destinations, stamps, strict=True)):
        code, source = read.protocols[place], read.senders[place]
        known = reading.entry is not None and code == reading.entry.protocol.code  # the first stamp settles it
        if known and (sender is None or sender == roster.name(source)):
            needs = slice(read.starts[place], read.starts[place + 1])
            sources: list[Hashable] = [*read.sources[needs]]
            found.append((None, source, read.numbers[place], sources, read.counts[needs].tolist(), None))
        else:
            found.append(reading.read(None, sender, destination, stamp))
    return found
