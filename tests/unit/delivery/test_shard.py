"""A shard of keys between micro-batches: equal to one rule for each key, whatever worker runs it and whatever fails."""

from __future__ import annotations

from collections import OrderedDict
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from support.naive_orderer import BYS, Row, arrivals, policies, told
from unit.delivery.stored_states import Shelf

from thence import Orderer
from thence.tables.delivery import Columns, Policy, shard_memory
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.shard import Shard
from thence.tables.delivery.shard_memory import keep, opened

SCHEMA = pa.schema(
    [("run", pa.string()), ("destination", pa.string()), ("n", pa.int64()), ("message", pa.string()),
     ("sender", pa.string()), ("time", pa.float64()), ("depends_on", pa.list_(pa.string())),
     ("clock", pa.map_(pa.string(), pa.int64()))]
)  # fmt: skip
KEYS = pa.schema([("run", pa.string()), ("destination", pa.string())])


def terms(by: Any = "depends_on", **policy: Any) -> DeliveryTerms:
    return DeliveryTerms(by, (), Columns(by), Policy(**policy))


def batch(rows: list[Row], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"run": "r", "destination": "d"} | row for row in rows], schema=schema)


class Worker:
    """A process that keeps shards in memory of its own."""

    def __init__(self) -> None:
        self.kept: OrderedDict[str, Shard] = OrderedDict()

    def step(
        self,
        shelf: Shelf,
        rows: list[Row],
        how: DeliveryTerms,
        schema: pa.Schema = SCHEMA,
        shards: int = 1,
        fail: bool = False,
    ) -> list[Row]:
        """Take rows as one micro-batch; with `fail` the task ends before the head is kept."""
        shard_memory.KEPT = self.kept
        here = opened(shelf.head, shelf, Shard(how, schema, KEYS, shards))
        found = here.arrive(batch(rows, schema), ["n"], [], 0) if rows else None
        out = [] if found is None else found.to_pylist()
        if fail and len(rows) % 2:
            raise RuntimeError("the task failed")
        here.write(shelf)
        shelf.head = here.head()
        keep(here)
        return out


def one_by_one(by: Any, policy: Policy, rows: list[Row]) -> list[Row]:
    """What left, by one Orderer of all keys."""
    orderer = Orderer(by, policy=policy)
    return [out for row in rows for out in orderer.push(row)]


def by_key(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["run"], []).append(told(row, row | {"reason": row["reason"] or ""}))
    return found


def a_stream(seed: int) -> None:
    """Random sets as keys of one shard; micro-batches run on any of three workers, fail, and are run again."""
    random = Random(seed)
    by: Any = random.choice(BYS)
    policy = Policy(**{"name" if n == "policy" else n: v for n, v in random.choice(policies(random)).items()})
    keys = {f"key{n}": arrivals(by, random) for n in range(random.choice([1, 3, 8]))}
    rows = [row | {"run": key, "destination": "d"} for key, each in keys.items() for row in each]
    random.shuffle(rows)
    for n, row in enumerate(rows):
        row["n"] = n
    how = DeliveryTerms(by, (), Columns(by), policy)
    wanted = by_key(one_by_one(by, policy, [dict(row) for row in rows]))
    workers, shelf, out, at = [Worker() for _ in range(3)], Shelf(), list[Row](), 0
    while at < len(rows):
        size = random.choice([1, 1, 2, 5, 20])
        worker = random.choice(workers)
        while random.random() < 0.3:  # what this attempt wrote is not committed
            try:
                random.choice([worker, *workers]).step(shelf.copy(), rows[at : at + size], how, fail=True)
            except RuntimeError:
                pass
        out += worker.step(shelf, rows[at : at + size], how)
        at += size
    assert by_key(out) == wanted, f"seed {seed}: by {by}, {policy}"
    cold = Shard(how, SCHEMA, KEYS, 1)
    if shelf.head is not None:
        cold = opened(shelf.head, shelf, cold)
        shard_memory.KEPT = OrderedDict()
        cold = opened(shelf.head, shelf, Shard(how, SCHEMA, KEYS, 1))
    assert cold.held.count == len(rows) - len(out)
    assert sum(1 for _ in cold.explained()) == cold.held.count


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000_000))
def test_a_shard_equals_a_rule_for_each_key(seed: int) -> None:
    a_stream(seed)
