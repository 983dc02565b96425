"""What a key keeps follows its held rows, not its rows; one that holds nothing is small."""

from __future__ import annotations

import gc
import tracemalloc

import pyarrow as pa
from unit.delivery.one_key import OneKey
from unit.delivery.stored_states import Shelf

from thence.core.model.message import Copy
from thence.core.model.roster import Roster
from thence.core.protocols.ks import KS
from thence.core.protocols.wire import encode
from thence.tables.delivery import Columns
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.policy import Policy
from thence.tables.delivery.shard import Shard

ROSTER = Roster(["a", "b", "z"])
SCHEMA = pa.schema(
    [
        (name, pa.binary() if name == "stamp" else pa.string())
        for name in ("message", "sender", "stamp", "payload", "run", "destination")
    ]
)
BATCH = 300


def batch(start: int, *, hole: bool) -> pa.RecordBatch:
    """Return messages of a from `start` + 1 on, each after the one before, every pair swapped; with a hole at 1."""
    rows = []
    for place in range(start, start + BATCH):
        count = 2 + (place ^ 1)
        log = {0: ((count - 1, 0b100),)} if count > 2 or hole else {}
        stamp = encode(KS, Copy(0, count, 0b100, 0, 2, log), ROSTER)
        row = {"message": f"a{count}", "sender": "a", "stamp": stamp, "payload": "x" * 100}
        rows.append(row | {"run": "r", "destination": "z"})
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def kept(batches: int, *, hole: bool) -> list[int]:
    """Return, batch after batch, the bytes that a key takes: Python's and Arrow's together."""
    key = OneKey(DeliveryTerms("stamp", (ROSTER,), Columns("stamp"), Policy()), ("r", "z"))
    first, *others = [batch(number * BATCH, hole=hole) for number in range(batches)]
    key.take(first)  # whatever is loaded or compiled once
    found = []
    tracemalloc.start()
    try:
        for each in others:
            key.take(each)
            gc.collect()  # garbage of other tests goes whenever it likes
            found.append(tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes())
    finally:
        tracemalloc.stop()
    return found


def test_a_key_does_not_grow_with_rows() -> None:
    # Other threads of the process allocate too, now and then: growth with rows is there in each of three runs.
    grown = []
    for _ in range(3):
        sizes = kept(20, hole=False)
        grown.append(max(sizes[10:]) - max(sizes[:10]))
        if grown[-1] <= 20_000:
            return
    raise AssertionError(grown)


def test_a_key_grows_with_held_rows() -> None:
    sizes = kept(8, hole=True)
    assert sizes[-1] - sizes[0] > 6 * BATCH * 100, sizes


KEYS = 2_000


def test_a_key_of_a_shard_that_holds_nothing_is_small() -> None:
    schema = pa.schema([(name, pa.string()) for name in ("message", "depends_on", "account")])
    terms = DeliveryTerms("depends_on", (), Columns("depends_on", {}, ["account"]), Policy())
    shard = Shard(terms, schema, pa.schema([schema.field("account")]), 1)
    sizes = []
    tracemalloc.start()
    try:
        for first in (0, KEYS):  # the first keys load what is loaded once
            accounts = [f"account {number}" for number in range(first, first + KEYS)]
            rows = pa.record_batch([["m"] * KEYS, [None] * KEYS, accounts], schema=schema)
            out = shard.arrive(rows, ["message"], [], 0)
            assert out is not None
            assert len(out) == KEYS
            shard.write(Shelf())
            del rows, accounts, out
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert (sizes[1] - sizes[0]) / KEYS < 5_000, sizes
