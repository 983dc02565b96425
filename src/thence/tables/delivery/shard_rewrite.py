"""The state of a stream divided into another number of shards.

*Invariant.* A key moves with everything its segments say of it, and nothing is decided again: the rule answers every
further row as it would have answered without the move. Keys are renumbered, since two shards that become one
may use the same ones. A shard may look at its keys earlier than it had to: its timer is the earliest of those it is
made from.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from thence.core.model.plain import Row
from thence.tables.contract.numpy_types import Longs
from thence.tables.delivery.packing import pack, unpack
from thence.tables.delivery.shard import read_segment, segment_name
from thence.tables.delivery.shard_memory import ReadOnly
from thence.tables.delivery.shard_state import Segment, fitted, keep_keys, merged

LEVEL = 4
"""Of the one segment that a shard begins with: as after 256 micro-batches, so that it is not merged again at once."""


class WrittenShard:
    """A shard as a checkpoint has it: its head, and its segments as one."""

    def __init__(self, found: Mapping[str, bytes]) -> None:
        """Take what is stored; the head stands under the empty name."""
        self.about: Row = unpack(found[""])[0]
        store = ReadOnly(found)
        segments = [Segment.decode(read_segment(store, (token, level))) for token, level in self.about["segments"]]
        self.segment = merged(segments, first=True) if segments else Segment()

    def keys(self) -> pa.RecordBatch | None:
        """Return the keys: their numbers, then the columns of their values."""
        return self.segment.tables.get("born")

    def part(self, numbers: Longs) -> bytes:
        """Return what is known of some keys."""
        some = Segment(self.segment.made, dict(self.segment.tables))
        keep_keys(some, lambda each: np.isin(each, numbers))
        some.tables = {name: table for name, table in some.tables.items() if len(table)}
        return some.encode()


def widest(heads: Sequence[bytes]) -> bytes:
    """Return the head that knows the most columns: a shard without rows since a column was added lacks it."""
    return max(heads, key=lambda head: len(unpack(head)[0]["made"]["schema"]))


def rewritten(parts: Iterable[bytes], timers: Iterable[int | None], head: bytes, shards: int) -> dict[str, bytes]:
    """Return a shard made from parts of others, by name as it is stored; `head` is one of the checkpoint."""
    about, columns = unpack(head)
    schema = pa.ipc.read_schema(pa.py_buffer(columns["rows"]))
    segments, count = [], 0
    for part in parts:
        segment = Segment.decode(part)
        count = _number_anew(segment, count)
        if "rows" in segment.tables:
            segment.tables["rows"] = fitted(segment.tables["rows"], schema)
        segments.append(segment)
    found = {}
    names: list[tuple[str, int]] = []
    if segments:
        names.append((uuid.uuid4().hex, LEVEL))
        found[segment_name(names[0])] = merged(segments, first=True).encode()
    known = [timer for timer in timers if timer is not None]
    about |= {"name": uuid.uuid4().hex, "shards": shards, "segments": names, "next": count}
    about |= {"timer": min(known, default=None)}
    found[""] = pack(about, {name: ("b", bytes(columns[name])) for name in ("keys", "rows")})
    return found


def _number_anew(segment: Segment, first: int) -> int:
    """Number the keys of a segment from `first` on; return the number after the last."""
    old = np.sort(segment.tables["born"].column("number").to_numpy())
    for name, table in segment.tables.items():
        if name != "rows":
            new = np.searchsorted(old, table.column("number").to_numpy()) + first
            segment.tables[name] = table.set_column(0, table.schema.field(0), pa.array(new, pa.int64()))
    return first + len(old)
