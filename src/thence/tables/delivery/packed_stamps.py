"""Stamps of rows that came together, read by one compiled loop.

*Invariant.* What is read equals what `Reading.read` says, row by row; what the loop leaves, `Reading.read` reads.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence, Sized
from itertools import accumulate

from thence.core.model.plain import Field
from thence.core.model.roster import Roster
from thence.core.protocols.stamps_cy import StampColumns, read_stamps
from thence.tables.delivery.coded_rows_cy import CodedRows, Lexicon
from thence.tables.delivery.reading import Read, Reading


def read_packed(rosters: Sequence[Roster], data: object, offsets: object, destinations: Sized) -> StampColumns:
    """Read stamps at the positions of their destinations; all are left where there are several rosters."""
    if len(rosters) != 1:
        destinations = array("i", [-1]) * len(destinations)
    return read_stamps(data, offsets, rosters[0].hash, len(rosters[0]), destinations)


def read_together(
    reading: Reading, senders: Sequence[Field], destinations: Sequence[Field], stamps: Sequence[Field]
) -> CodedRows:
    """Read the stamps of rows of one key."""
    roster = reading.rosters[0]
    texts = [bytes(stamp) if isinstance(stamp, bytes | bytearray | memoryview) else b"" for stamp in stamps]
    here = _positions(roster, destinations)
    read = read_packed(reading.rosters, b"".join(texts), array("q", [0, *accumulate(map(len, texts))]), here)
    own, names, odd = read.senders, roster.names, dict[int, Read | str]()
    settled = None if reading.entry is None else reading.entry.protocol.code
    for place, (sender, code) in enumerate(zip(senders, read.protocols, strict=True)):
        if code != settled or (sender is not None and sender != names[own[place]]):
            odd[place], own[place] = reading.read(None, sender, destinations[place], stamps[place]), -1
            settled = None if reading.entry is None else reading.entry.protocol.code  # the first stamp settles it
    return CodedRows(Lexicon(list(range(len(roster)))), own, read.starts, read.sources, odd, read.numbers, read.counts)


def _positions(roster: Roster, names: Sequence[Field]) -> array[int]:
    """Return the positions of processes in a roster, -1 where one is not in it; neighbours are often the same."""
    found, last, position = array("i"), None, -1
    for name in names:
        if name is not last:
            last, position = name, roster.position(name) if name in roster else -1
        found.append(position)
    return found
