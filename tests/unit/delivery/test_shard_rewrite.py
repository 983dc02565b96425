"""Shards divided anew between micro-batches: every key goes on as if nothing had happened."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from support.naive_orderer import BYS, Row, arrivals, policies
from unit.delivery.stored_states import Shelf
from unit.delivery.test_shard import KEYS, SCHEMA, Worker, by_key, one_by_one, terms

from thence.tables.delivery import Columns, Policy
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.packing import unpack
from thence.tables.delivery.shard import Shard
from thence.tables.delivery.shard_memory import as_written, opened
from thence.tables.delivery.shard_rewrite import WrittenShard, rewritten, widest


def divided(shelves: list[Shelf], shards: int) -> list[Shelf]:
    """Return the same state in another number of shards, by a hash that is not Spark's."""
    written = [WrittenShard({"": shelf.head, **shelf.parts}) for shelf in shelves if shelf.head is not None]
    if not written:  # no row has come yet
        return [Shelf() for _ in range(shards)]
    head = widest([shelf.head for shelf in shelves if shelf.head is not None])
    made = []
    for place in range(shards):
        parts, timers = [], []
        for shard in written:
            keys = shard.keys()
            rows = [] if keys is None else keys.to_pylist()
            numbers = [row["number"] for row in rows if where(row["key 0"], shards) == place]
            if numbers:
                parts.append(shard.part(np.array(numbers)))
                timers.append(shard.about["timer"])
        found = rewritten(parts, timers, head, shards)
        shelf = Shelf()
        shelf.head = found.pop("")
        shelf.parts = found
        made.append(shelf)
    return made


def where(key: str, shards: int) -> int:
    return sum(key.encode()) % shards


def a_stream(seed: int) -> None:
    random = Random(seed)
    by: Any = random.choice(BYS)
    policy = Policy(**{"name" if n == "policy" else n: v for n, v in random.choice(policies(random)).items()})
    keys = {f"key{n}": arrivals(by, random) for n in range(random.choice([1, 3, 12]))}
    rows = [row | {"run": key, "destination": "d"} for key, each in keys.items() for row in each]
    random.shuffle(rows)
    for n, row in enumerate(rows):
        row["n"] = n
    how = DeliveryTerms(by, (), Columns(by), policy)
    wanted = by_key(one_by_one(by, policy, [dict(row) for row in rows]))
    worker, shelves, out, at = Worker(), [Shelf() for _ in range(3)], list[Row](), 0
    while at < len(rows):
        size = random.choice([1, 1, 2, 5, 20])
        for place, shelf in enumerate(shelves):
            some = [row for row in rows[at : at + size] if where(row["run"], len(shelves)) == place]
            out += worker.step(shelf, some, how, shards=len(shelves))
        at += size
        if random.random() < 0.3:
            shelves = divided(shelves, random.choice([1, 2, 5, 7]))
    assert by_key(out) == wanted, f"seed {seed}: by {by}, {policy}"
    last = divided(shelves, 4)
    cold = [opened(shelf.head, shelf, Shard(how, SCHEMA, KEYS, 4)) for shelf in last]
    assert sum(each.held.count for each in cold) == len(rows) - len(out)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000_000))
def test_keys_go_on_in_their_new_shards(seed: int) -> None:
    a_stream(seed)


def test_a_column_added_since_some_shards_were_written_stays() -> None:
    """Shards that had no rows since a column was added do not know it; the rows of the others keep its values."""
    wider = SCHEMA.append(pa.field("note", pa.string()))
    worker, early, late = Worker(), Shelf(), Shelf()
    held: Row = {"message": "b", "depends_on": ["a"], "n": 1}
    worker.step(late, [held | {"run": "bb", "note": "kept"}], terms(), wider, shards=2)
    worker.step(early, [held | {"run": "ab"}], terms(), shards=2)
    for order in ([early, late], [late, early]):
        (shelf,) = divided(order, 1)
        out = Worker().step(
            shelf, [{"run": run, "message": "a", "depends_on": [], "n": 2} for run in ("ab", "bb")], terms(), wider
        )
        assert {row["run"]: row["note"] for row in out if row["message"] == "b"} == {"ab": None, "bb": "kept"}


def test_the_earliest_timer_stays() -> None:
    worker, shelves = Worker(), [Shelf(), Shelf()]
    for place, run in enumerate(("aa", "ab")):
        worker.step(shelves[place], [{"run": run, "message": "b", "depends_on": ["a"], "n": 1}], terms(), shards=2)
        shard = as_written(shelves[place].head or b"", shelves[place])
        shard.timer = 7000 - 1000 * place
        shelves[place].head = shard.head()
    (whole,) = divided(shelves, 1)
    assert unpack(whole.head or b"")[0]["timer"] == 6000
    assert [unpack(each.head or b"")[0]["timer"] for each in divided([whole], 2)] == [6000, 6000]
