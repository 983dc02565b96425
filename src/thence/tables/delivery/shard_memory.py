"""Shards in a worker's memory, and shards as a checkpoint has them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import pyarrow as pa

from thence.core.model.roster import Roster
from thence.errors import MisuseError
from thence.tables.delivery.checkpoint_terms import same_terms
from thence.tables.delivery.columns import Columns
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.packing import unpack
from thence.tables.delivery.policy import Policy
from thence.tables.delivery.shard import SegmentStore, Shard, read_segment
from thence.tables.delivery.shard_state import Segment

MOST_SHARDS = 256
"""Shards that a worker keeps in memory."""

KEPT: OrderedDict[str, Shard] = OrderedDict()


def opened(head: bytes | None, store: SegmentStore, fresh: Shard) -> Shard:
    """Return the shard that a head describes: the one in memory if it is the same, else `fresh`, filled.

    The shard is taken out of memory until `keep` puts it back, so that one whose micro-batch failed is not used.
    """
    if head is None:
        return fresh
    about = unpack(head)[0]
    same_terms(about["made"], fresh.made)
    if about["shards"] != fresh.shards:
        raise MisuseError(
            f"this checkpoint has {about['shards']} shards, and the stream was started with {fresh.shards}: pass "
            f"shards={about['shards']} to deliver, or make a checkpoint for {fresh.shards} with `thence reshard`"
        )
    known = KEPT.pop(about["name"], None)
    alike = known is not None and (known.terms, known.schema) == (fresh.terms, fresh.schema)
    if known is not None and alike and known.follow(about, store):
        return known
    fresh.follow(about, store)
    return fresh


def key_schema(head: bytes) -> pa.Schema:
    """Return the columns of the key as a checkpoint names them."""
    about, columns = unpack(head)
    kinds = pa.ipc.read_schema(pa.py_buffer(columns["keys"])).types
    return pa.schema(list(zip(about["made"]["key"], kinds, strict=True)))


def as_written(head: bytes, store: SegmentStore) -> Shard:
    """Return a shard by what its head and its segments say alone, to look at it."""
    about, columns = unpack(head)
    made = about["made"]
    given = dict(zip(("run", "destination", "message", "sender", "time", made["by"]), made["columns"], strict=True))
    segments = [Segment.decode(read_segment(store, (token, level))) for token, level in about["segments"]]
    names = {tuple(roster): None for segment in segments for _, roster in segment.made if roster is not None}
    terms = DeliveryTerms(made["by"], tuple(map(Roster, names)), Columns(made["by"], given, made["key"]), Policy())
    schema, keys = (pa.ipc.read_schema(pa.py_buffer(columns[name])) for name in ("rows", "keys"))
    shard = Shard(terms, schema, keys, about["shards"])
    shard.follow(about, store)
    return shard


def keep(shard: Shard) -> None:
    """Keep a shard in memory, as it was written."""
    KEPT[shard.name] = shard
    while len(KEPT) > MOST_SHARDS:
        KEPT.popitem(last=False)


class ReadOnly:
    """Segments that were read already."""

    def __init__(self, found: Mapping[str, bytes]) -> None:
        """Take segments by name."""
        self.get = found.get

    def put(self, name: str, data: bytes) -> None:
        """Raise, because this store is for reading."""
        raise NotImplementedError

    def delete(self, name: str) -> None:
        """Raise, because this store is for reading."""
        raise NotImplementedError
