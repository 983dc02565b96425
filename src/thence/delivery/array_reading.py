"""From Arrow columns to the rule, by arrays: the fast form of `reading.py` for whole batches of one key.

Law. What the arrays read equals what `Reading.read` says, row by row; a row they can not read is left to `Reading`, and
if its answer does not fit into arrays (a label, a receiver of its own kind, a number of 2**48 and more), `read` returns
None: then the plain stepper takes the batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.delivery.arrow_rows import Rows
from thence.delivery.reading import Read, Reading
from thence.kernels import causes, stamps
from thence.kernels.arrays import Flags, Longs
from thence.kernels.arrival_rows import NONE, RowsRead
from thence.kernels.name_codes import Names
from thence.kernels.stamps import LARGE
from thence.model.plain import Field


class Readings(NamedTuple):
    """What rows say of themselves; the needs of all are flat. Rows that can not be used have their reason."""

    source: Longs
    number: Longs
    start: Longs
    length: Longs
    need_source: Longs
    need_number: Longs
    unusable: dict[int, str]


class ArrayReading:
    """Reads the rows of one key; sources are positions for stamps, codes of `names` otherwise."""

    def __init__(self, reading: Reading) -> None:
        """Take how the rows of this key are read."""
        self.reading = reading
        self.names = Names()
        self._ranked = 0
        self._rank: Longs = np.zeros(0, np.int64)

    @staticmethod
    def can(reading: Reading, rows: Rows, destination: Field) -> bool:
        """Tell whether arrays read rows of this kind."""
        if reading.by == "depends_on":
            named = rows.cause
            if named is None or not pa.types.is_list(named.type):
                return False
            return _is_id(rows.message) and _is_id(named.values)
        if reading.by == "clock":
            clock = rows.cause
            return rows.sender is not None and clock is not None and pa.types.is_map(clock.type)
        if rows.cause is None or len(reading.rosters) != 1 or len(reading.rosters[0]) > stamps.MOST:
            return False
        known = reading.entry is None or reading.entry.protocol.code in stamps.CODES
        return known and destination in reading.rosters[0]

    @property
    def sources(self) -> int:
        """How many sources there are."""
        return len(self.reading.rosters[0]) if self.reading.by == "stamp" else len(self.names)

    def read(self, rows: Rows) -> Readings | None:
        """Read a batch."""
        by = self.reading.by
        found = self._stamps(rows) if by == "stamp" else self._clocks(rows) if by == "clock" else self._causes(rows)
        return None if found is None else self._with_python(rows, found)

    # -- three kinds ---------------------------------------------------------------------------------------------

    def _stamps(self, rows: Rows) -> RowsRead | None:
        assert rows.cause is not None
        assert rows.destination is not None
        roster = self.reading.rosters[0]
        if self.reading.entry is None:
            self._settle(rows)
        entry = self.reading.entry
        if entry is not None and entry.protocol.code not in stamps.CODES:
            return None
        column = rows.cause if pa.types.is_large_binary(rows.cause.type) else rows.cause.cast(pa.binary())
        width = np.int64 if pa.types.is_large_binary(column.type) else np.int32
        offsets = np.frombuffer(column.buffers()[1], width)[column.offset : column.offset + len(column) + 1]
        buffer = column.buffers()[2]
        data = np.frombuffer(buffer, np.uint8) if buffer is not None else np.zeros(0, np.uint8)
        me = roster.position(rows.destination[0].as_py())
        digest = np.frombuffer(roster.hash, np.uint8)
        code = NONE if entry is None else entry.protocol.code
        read: RowsRead = stamps.read_stamps(data, offsets.astype(np.int64), code, digest, len(roster), me)
        return read._replace(good=read.good & self._agree(rows.sender, read))

    def _settle(self, rows: Rows) -> None:
        """Let the first stamp that can be read say the protocol."""
        for row in range(rows.count):
            _, _, destination, cause = rows.values(row)
            if not isinstance(self.reading.read(None, None, destination, cause), str):
                return

    def _agree(self, sender: pa.Array | None, read: RowsRead) -> Flags:
        """Tell for each row whether the sender it names is that of its stamp."""
        if sender is None or sender.null_count == len(sender):
            return np.ones(len(read.good), np.bool_)
        who = pa.array(np.where(read.good, read.sender, 0))
        named = pa.array(self.reading.rosters[0].names).cast(sender.type).take(who)
        same: Flags = pc.fill_null(pc.equal(named, sender), True).to_numpy(zero_copy_only=False)
        return same

    def _clocks(self, rows: Rows) -> RowsRead:
        assert rows.sender is not None
        assert rows.cause is not None
        clock = rows.cause if rows.cause.offset == 0 else pa.concat_arrays([rows.cause])
        offsets = np.frombuffer(clock.buffers()[1], np.int32)[: len(clock) + 1]
        keys = self.names.codes(clock.keys.cast(pa.string()))
        values = pc.fill_null(clock.items.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
        who = self.names.codes(rows.sender.cast(pa.string()))
        if clock.null_count:
            who = np.where(clock.is_null().to_numpy(zero_copy_only=False), NONE, who)
        read: RowsRead = causes.read_clocks(offsets.astype(np.int64), keys, values, who, self.rank())
        return read

    def rank(self) -> Longs:
        """Return the place of each name in the order of names."""
        if self._ranked < len(self.names):
            order = pc.array_sort_indices(self.names.texts()).to_numpy(zero_copy_only=False)
            self._rank = np.empty(len(order), np.int64)
            self._rank[order] = np.arange(len(order))
            self._ranked = len(order)
        return self._rank if len(self._rank) else np.zeros(1, np.int64)

    def _causes(self, rows: Rows) -> RowsRead:
        assert rows.message is not None
        assert rows.cause is not None
        named = rows.cause if rows.cause.offset == 0 else pa.concat_arrays([rows.cause])
        own = self.names.codes(_texts(rows.message))
        offsets = np.frombuffer(named.buffers()[1], np.int32)[: len(named) + 1]
        flat = named.values.slice(0, int(offsets[-1]) if len(offsets) else 0)
        codes = self.names.codes(_texts(flat))
        valid = named.is_valid().to_numpy(zero_copy_only=False) if named.null_count else np.zeros(0, np.bool_)
        read: RowsRead = causes.read_causes(offsets, codes, own, valid)
        return read

    # -- what only Python could read -----------------------------------------------------------------------------

    def _with_python(self, rows: Rows, found: RowsRead) -> Readings | None:
        who, own, start, length, good, source, number = found
        unusable: dict[int, str] = {}
        more: list[tuple[int, Read]] = []
        for row in np.flatnonzero(~good).tolist():
            read = self.reading.read(*rows.values(row))
            if isinstance(read, str):
                unusable[row] = read
            elif read.order is not None or not self.reading.shared or _too_large(read):
                return None
            else:
                more.append((row, read))
        if more:
            who, own, start, length = who.copy(), own.copy(), start.copy(), length.copy()
            flat: list[tuple[int, int]] = []
            for row, read in more:
                who[row], own[row] = self._code(read.source), read.number
                start[row], length[row] = len(source) + len(flat), len(read.needs)
                flat += [(self._code(s), t) for s, t in read.needs]
            source = np.concatenate([source, np.array([s for s, _ in flat], np.int64)])
            number = np.concatenate([number, np.array([t for _, t in flat], np.int64)])
        if unusable and self.reading.by != "depends_on":
            who = np.where(good, who, NONE)
            who[[row for row, _ in more]] = [self._code(read.source) for _, read in more]
        return Readings(who, own, start, length, source, number, unusable)

    def _code(self, source: Field) -> int:
        return int(source) if self.reading.by == "stamp" else int(self.names.codes(pa.array([source], pa.string()))[0])

    def cause_names(self, source: Longs, number: Longs) -> pa.StringArray:
        """Name causes, all at once."""
        if not len(source):
            return pa.array([], pa.string())
        if self.reading.by == "depends_on":
            return self.names.texts().take(pa.array(source)).cast(pa.string())
        numbers = pa.array(number).cast(pa.string())
        if self.reading.by == "clock":
            return pc.binary_join_element_wise(
                self.names.texts().take(pa.array(source)).cast(pa.string()), numbers, "#"
            )
        starts = [self.reading.name(place, 1)[:-1] for place in range(len(self.reading.rosters[0]))]
        return pc.binary_join_element_wise(pa.array(starts).take(pa.array(source)), numbers, "")


def _is_id(column: pa.Array | None) -> bool:
    """Tell whether arrays write these ids as Python does."""
    if column is None:
        return False
    kind = column.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind))


def _texts(column: pa.Array) -> pa.StringArray:
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def _too_large(read: Read) -> bool:
    return read.number >= LARGE or any(t >= LARGE for _, t in read.needs)
