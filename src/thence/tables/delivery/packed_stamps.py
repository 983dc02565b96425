"""Stamps of rows that came together, read by one compiled loop.

*Invariant.* What is read equals what `Reading.read` says, row by row; what the loop leaves, `Reading.read` reads.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate

from thence.core.model.plain import Field
from thence.core.protocols import stamps_cy
from thence.tables.delivery.reading import Read, Reading


def read_packed(
    reading: Reading, senders: Sequence[Field], destination: Field, pack: Callable[[], tuple[object, object]]
) -> list[Read | str | None]:
    """Read stamps of one protocol and roster; None for those that are left to `Reading.read`.

    `pack` returns the bytes of all stamps and the offsets where each begins and the last ends; it is called where the
    protocol has a form that the loop knows.
    """
    if reading.entry is None or len(reading.rosters) != 1 or destination not in reading.rosters[0]:
        return [None] * len(senders)
    roster, code = reading.rosters[0], reading.entry.protocol.code
    if code not in stamps_cy.FORMS:
        return [None] * len(senders)
    data, offsets = pack()
    names = roster.names
    rows = stamps_cy.read_stamps(data, offsets, code, roster.hash, len(roster), roster.position(str(destination)))
    return [
        None if row is None or (sender is not None and sender != names[row[0]]) else (None, *row, None)
        for row, sender in zip(rows, senders, strict=True)
    ]


def read_together(
    reading: Reading, senders: Sequence[Field], destinations: Sequence[Field], stamps: Sequence[Field]
) -> list[Read | str]:
    """Read the stamps of rows of one key."""
    found: list[Read | str | None] = []
    while reading.entry is None and len(found) < len(stamps):  # the first stamp that can be read settles the protocol
        place = len(found)
        found.append(reading.read(None, senders[place], destinations[place], stamps[place]))
    start = len(found)
    if start < len(stamps):
        found += read_packed(reading, senders[start:], destinations[start], lambda: _packed(stamps[start:]))
    for place in range(start, len(found)):
        if found[place] is None or destinations[place] != destinations[start]:
            found[place] = reading.read(None, senders[place], destinations[place], stamps[place])
    return found  # type: ignore[return-value]


def _packed(stamps: Sequence[Field]) -> tuple[bytes, array[int]]:
    texts = [bytes(stamp) if isinstance(stamp, bytes | bytearray | memoryview) else b"" for stamp in stamps]
    return b"".join(texts), array("q", [0, *accumulate(map(len, texts))])
