"""Random sets of arrivals through the state of shards, without Spark, against `thence.deliver` of the same rows.

A stream has some keys, one set each, in some shards, and random micro-batches. Tasks run on any of three workers, fail
before or after they wrote, and are run again; workers lose their memory; the state is divided anew into another number
of shards in between. THENCE_SETS (10,000) sets from seed THENCE_SEED (0) on, of every kind of causes. Rows in
benchmarks/soak/results/shard_sets.json.
"""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from support import arrivals as runs
from support.naive_orderer import Row, arrivals, policies
from support.soak import keep
from unit.delivery.stored_states import Shelf
from unit.delivery.test_shard_rewrite import divided, where

import thence
from thence.tables.delivery import Columns, Policy, shard_memory
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.many_keys import KNOWN
from thence.tables.delivery.reading import rosters_of
from thence.tables.delivery.shard import Shard
from thence.tables.delivery.shard_state import ipc
from thence.tables.engines.spark.shard_visit import Visits
from thence.tables.engines.spark.stream_options import StreamOptions

SETS = int(os.environ.get("THENCE_SETS", "10000"))
FIRST = int(os.environ.get("THENCE_SEED", "0"))
TEXT, LONG = pa.string(), pa.int64()
KEYS = pa.schema([("run", TEXT), ("destination", TEXT)])
OUT = ("n", "outcome", "position", "waited_for", "held_for", "held_seconds", "reason", "missing", "blocker")


class Kind(NamedTuple):
    """How rows name their causes, and the type of that column."""

    by: Any
    causes: Any
    separator: str | None = None


KINDS = {
    "ids": Kind("depends_on", pa.list_(TEXT)),
    "parent": Kind("depends_on", TEXT),
    "text": Kind("depends_on", TEXT, ";"),
    "clock": Kind("clock", pa.map_(TEXT, LONG)),
    "stamp": Kind("stamp", pa.binary()),
}


def one_set(kind: str, random: Random) -> tuple[list[Row], Any]:
    """Return the arrivals of one key, and the roster of stamps."""
    if kind == "stamp":
        made = runs.arrivals(
            "ks", random.randrange(1 << 30), senders=3, sinks=1, messages=12, window=6.0, lost=random.choice([0, 0.15])
        )
        return [row | {"n": n} for n, row in enumerate(made.rows)], made.roster
    rows = arrivals(KINDS[kind].by, random)
    for row in rows if kind in ("parent", "text") else ():
        causes = [each for each in row["depends_on"] or () if each]
        row["depends_on"] = ";".join(causes) if kind == "text" else next(iter(causes), None)
    return rows, None


def chosen_policy(kind: str, random: Random) -> dict[str, Any]:
    found = policies(random)
    found.append({"policy": "release", "after_seconds": 4.0, "max_jump": 2.0})
    if KINDS[kind].by == "depends_on":
        found += [{"remember": random.randint(1, 3)}, {"remember": 2, "filter_limit": 1000}]
    return random.choice(found)


class Stream:
    """The shards of a stream, the workers that run them, and how often which of them failed."""

    def __init__(self, visits: Visits, schema: pa.Schema, random: Random, counted: Counter[str]) -> None:
        self.visits, self.schema, self.random, self.counted = visits, schema, random, counted
        self.workers = [OrderedDict[str, Shard]() for _ in range(3)]
        self.shelves = [Shelf() for _ in range(visits.shards)]

    def visit(self, shelf: Shelf, blobs: list[bytes], fails: str = "") -> list[Row]:
        """Run a task on one of the workers; it may end before it writes, or after that, uncommitted."""
        shard_memory.KEPT = self.random.choice(self.workers)
        shard, out, held = self.visits.take(shelf.head, shelf, blobs, 0)
        if fails == "before":
            return []
        self.visits.leave(shard, shelf, out, held)
        shelf.head = shard.head()
        if fails != "after":
            self.visits.keep(shard)
        return [row for batch in out for row in batch.to_pylist()]

    def micro_batch(self, tables: list[pa.RecordBatch]) -> list[Row]:
        """Take rows, divided by shard; what leaves is returned."""
        out: list[Row] = []
        for place, shelf in enumerate(self.shelves):
            blobs = [ipc(some) for some in (self.of_shard(table, place) for table in tables) if len(some)]
            while self.random.random() < 0.25:
                fails = self.random.choice(["before", "after", "lost"])
                self.visit(shelf.copy(), blobs, fails)
                self.counted[f"tasks that failed, {fails}"] += 1
            out += self.visit(shelf, blobs)
        self.counted["micro-batches"] += 1

        if self.random.random() < 0.2:
            self.random.choice(self.workers).clear()
            self.counted["workers that lost their memory"] += 1
        if self.random.random() < 0.15:
            shards = self.random.choice([1, 2, 5])
            self.shelves = divided(self.shelves, shards)
            self.visits = Visits(
                self.visits.terms, self.visits.options, self.schema, KEYS, self.visits.arrival, len(self.shelves)
            )
            self.counted["states divided anew"] += 1
        return out

    def of_shard(self, table: pa.RecordBatch, place: int) -> pa.RecordBatch:
        shards = len(self.shelves)
        return table.filter(pa.array([where(key, shards) == place for key in table.column("run").to_pylist()]))

    def held(self) -> int:
        """Return how many rows the state holds, as written."""
        shard_memory.KEPT = OrderedDict()
        fresh = [Shard(self.visits.terms, self.schema, KEYS, len(self.shelves)) for _ in self.shelves]
        opened = [shard_memory.opened(s.head, s, empty) for s, empty in zip(self.shelves, fresh, strict=True)]
        return sum(each.held.count for each in opened)


def by_key(rows: list[Row]) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(row["run"], []).append(tuple(row[name] for name in OUT))
    return found


def a_stream(kind: str, seed: int, counted: Counter[str]) -> int:
    """Run one stream; return how many sets it had."""
    random, how = Random(f"{kind} {seed}"), KINDS[kind]
    sets, roster = dict[str, list[Row]](), None
    for n in range(random.choice([1, 3, 8, 20])):
        sets[f"key{n}"], roster = one_set(kind, random)
    rows = [row | {"run": key, "destination": row.get("destination", "d")} for key, own in sets.items() for row in own]
    places = {key: iter([row for row in rows if row["run"] == key]) for key in sets}
    order = [row["run"] for row in rows]
    random.shuffle(order)  # keys mix, each in its own order
    rows = [next(places[key]) | {"n": n, "arrival": n} for n, key in enumerate(order)]
    policy = chosen_policy(kind, random)
    known = []
    if how.by == "depends_on" and random.random() < 0.3:
        ids = sorted({(row["run"], row["message"]) for row in rows if row["message"]})
        known = [{"run": key, "destination": "d", "message": each} for key, each in random.sample(ids, len(ids) // 3)]
    schema = pa.schema([*KEYS, ("arrival", LONG), ("n", LONG), ("message", TEXT), ("sender", TEXT),
                        ("time", pa.float64()), (how.by, how.causes)])  # fmt: skip
    table = pa.RecordBatch.from_pylist(rows, schema=schema)
    wanted = thence.deliver(
        table, how.by, roster=roster, key=KEYS.names, separator=how.separator, known=known or None, **policy
    ).to_pylist()
    limits = {"name" if name == "policy" else name: value for name, value in policy.items()}
    terms = DeliveryTerms(how.by, rosters_of(how.by, roster), Columns(how.by), Policy(**limits), how.separator)
    visits = Visits(terms, StreamOptions(), schema, KEYS, "arrival", random.choice([1, 2, 4]))
    stream, out, at = Stream(visits, schema, random, counted), list[Row](), 0
    if known:
        fields = pa.schema([*KEYS, ("message", TEXT), (KNOWN, pa.int32())])
        stream.micro_batch([pa.RecordBatch.from_pylist([row | {KNOWN: 0} for row in known], schema=fields)])
    sizes = random.choice([(1, 2), (1, 2, 5), (5, 20, 60)])  # many segments, or few
    while at < len(rows):
        size = random.choice(sizes)
        some, at = table.slice(at, size), at + size
        cut = random.randint(0, len(some))  # as two tasks that read, in any order
        tables = [some.slice(cut), some.slice(0, cut)]
        out += stream.micro_batch([each for each in tables if len(each)])
    left = [row for row in wanted if row["outcome"] != "blocked"]
    assert by_key(out) == by_key(left), f"{kind}, seed {seed}: {policy}"
    assert stream.held() == len(rows) - len(out), f"{kind}, seed {seed}: {policy}"
    counted.update({"streams": 1, "rows": len(rows), "with known ids": bool(known)})
    counted.update(f"outcome: {row['outcome']}" for row in wanted)
    return len(sets)


@pytest.mark.parametrize("kind", KINDS)
def test_shards_equal_a_batch(kind: str) -> None:
    sets, seed = 0, FIRST
    counted: Counter[str] = Counter()
    while sets < SETS // len(KINDS):
        sets += a_stream(kind, seed, counted)
        seed += 1
    keep("shard_sets", kind, {"sets": sets, "seeds": [FIRST, seed - 1], **dict(sorted(counted.items()))})
