"""Stamps of a batch, read together.

*Invariant.* What is read equals what `Reading.read` says, row by row; what the column reader leaves, it reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from thence.core.model.roster import Roster
from thence.tables.contract.numpy_types import Ints
from thence.tables.delivery.coded_rows_cy import CodedRows, Lexicon
from thence.tables.delivery.packed_stamps import read_packed
from thence.tables.delivery.reading import Read, Reading


class StampedRows:
    """The stamps of a batch as rows by number (`coded`), of all keys; `settle` comes before a key's are used."""

    def __init__(self, rosters: Sequence[Roster], sender: pa.Array, destination: pa.Array, stamps: pa.Array) -> None:
        """Read what the column reader knows."""
        self._columns = sender, destination, stamps
        here = _positions(rosters[0], destination)
        if not (pa.types.is_binary(stamps.type) or pa.types.is_large_binary(stamps.type)):
            here[:] = -1
        data, offsets = _buffers(stamps) if (here >= 0).any() else (b"", np.zeros(len(stamps) + 1, np.int64))
        read = read_packed(rosters, data, offsets, here)
        self._own, self._protocols = np.asarray(read.senders), np.asarray(read.protocols)
        named = _positions(rosters[0], sender)
        if sender.null_count:
            named = np.where(sender.is_valid().to_numpy(zero_copy_only=False), named, self._own)
        self._protocols[named != self._own] = -1  # the row names another sender
        self._odd: dict[int, Read | str] = {}
        names = Lexicon(list(range(len(rosters[0]))))
        self.coded = CodedRows(names, self._own, read.starts, read.sources, self._odd, read.numbers, read.counts)

    def settle(self, reading: Reading, start: int, stop: int) -> None:
        """Read the rows of one key that are left; the first stamp that can be read settles the protocol."""
        while reading.entry is None and start < stop:
            self._read(reading, start)
            start += 1
        if start < stop:
            assert reading.entry is not None
            for place in np.flatnonzero(self._protocols[start:stop] != reading.entry.protocol.code).tolist():
                self._read(reading, start + place)

    def _read(self, reading: Reading, place: int) -> None:
        sender, destination, stamp = (column[place].as_py() for column in self._columns)
        self._odd[place], self._own[place] = reading.read(None, sender, destination, stamp), -1


def _positions(roster: Roster, names: pa.Array) -> Ints:
    """Return the positions of processes in a roster, -1 where one is not in it or null."""
    if pa.types.is_null(names.type) or pa.types.is_nested(names.type):
        return np.full(len(names), -1, np.int32)
    coded = names.dictionary_encode()
    known = [roster.position(name) if name in roster else -1 for name in coded.dictionary.to_pylist()]
    found: Ints = np.array([*known, -1], np.int32)[codes_of(coded.indices)]
    return found


def codes_of(indices: pa.Array) -> Ints:
    """Return the numbers of a dictionary, -1 for null; compiled loops take writable buffers alone."""
    filled = indices.fill_null(-1) if indices.null_count else indices
    return np.array(filled.to_numpy(zero_copy_only=False), np.int32)


def _buffers(column: pa.Array) -> tuple[object, object]:
    """Return the bytes of a binary column, and the offsets in them."""
    column = column.cast(pa.large_binary())
    offsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]
    return column.buffers()[2] or b"", offsets
