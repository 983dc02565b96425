"""Batches and single rows: the same outcomes, whatever the batches, and the same reading of any bytes."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.arrivals import PROTOCOLS, Row, arrivals
from support.soak import first
from unit.delivery.one_key import OneKey

from thence import Orderer
from thence.core.protocols import stamps_cy
from thence.errors import TraceError
from thence.protocols import lookup
from thence.tables.delivery import Columns, Reading
from thence.tables.delivery.arrow_rows import read_batch
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.policy import Policy
from thence.tables.delivery.reading_cy import read_clock

SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("destination", pa.string()),
        ("arrival", pa.int64()),
        ("message", pa.string()),
        ("sender", pa.string()),
        ("time", pa.float64()),
        ("payload", pa.struct([("text", pa.string()), ("place", pa.int64())])),
        ("stamp", pa.binary()),
        ("clock", pa.map_(pa.string(), pa.int64())),
        ("depends_on", pa.list_(pa.string())),
    ]
)
KINDS = [*(("stamp", p) for p in (*PROTOCOLS, "prs", "ech", "fifo", "ses")), ("clock", "rst"), ("depends_on", "ks")]
COLUMNS = ("message", "arrival", "outcome", "position", "waited_for", "held_for", "held_seconds", "reason", "missing")


def told(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in (*COLUMNS, "blocker")) for row in rows]


def through_a_key(terms: DeliveryTerms, rows: list[Row], rng: Random, most: int, *, restore: bool) -> list[Row]:
    """Push rows through in batches of random size, dumping and restoring in between if asked."""
    key = (rows[0]["run"], rows[0]["destination"])
    state, out, at = OneKey(terms, key, SCHEMA), [], 0
    while at < len(rows):
        size = rng.randint(1, most)
        out += state.take(pa.RecordBatch.from_pylist(rows[at : at + size], schema=SCHEMA))
        at += size
        if restore:
            state.again()
    rest = state.end()
    return out if rest is None else out + rest.to_pylist()


POLICIES: list[dict[str, Any]] = [
    {},
    {"policy": "release", "after_rows": 15},
    {"policy": "release", "after_seconds": 2.0, "max_jump": 5.0},
    {"held_limit": 4, "when_full": "release"},
]


def agree(by: str, rows: list[Row], orderer: Orderer, rng: Random, about: str, *, restore: bool) -> None:
    """Assert that batches of any size do what the Orderer does row by row."""
    ours = defaultdict(list)
    for row in orderer.deliver(rows):
        ours[row["destination"]].append(row)
    for here in ours:
        mine = [row for row in rows if row["destination"] == here]
        for most in (1, 60, 1 << 30):
            terms = DeliveryTerms(by, orderer.rosters, Columns(by), orderer.policy)  # type: ignore[arg-type]
            theirs = through_a_key(terms, mine, rng, most, restore=restore)
            for one, other in zip(told(theirs), told(ours[here]), strict=True):
                assert one == other, f"batches of up to {most}: {about}"


@pytest.mark.parametrize(
    ("by", "protocol", "policy"),
    [(*kind, policy) for kind in KINDS for policy in POLICIES if not (kind[1] == "ses" and policy)],
)
@pytest.mark.parametrize("seeds", first(1, [range(2), range(2, 8)]))
def test_batches_and_orderer_agree(by: str, protocol: str, policy: dict[str, Any], seeds: range) -> None:
    for seed in seeds:
        made = arrivals(protocol, seed, messages=60 if seed < 2 else 120, lost=0.04 * (seed % 2), by=by)
        rng = Random(seed)
        rows = [dict(row) for row in made.rows]
        for row in rng.sample(rows, 6):  # and some that say nothing usable
            row[by] = {"stamp": b"\x01\x01junk", "clock": {"z": -1}, "depends_on": [row["message"]]}[by]
        for row in rng.sample(rows, 6):
            row["time"] = rng.choice([None, 1e6, row["time"] + 7])
        orderer = Orderer(by, roster=made.roster if by == "stamp" else None, **policy)  # type: ignore[arg-type]
        agree(by, rows, orderer, rng, made.about, restore=seed % 2 == 0)


def random_causes(seed: int) -> list[Row]:
    """Rows that name causes at random: cycles, repeats, ids that never come, nulls."""
    rng = Random(f"causes {seed}")
    ids = [f"m{n}" for n in range(rng.choice([6, 20, 60]))]
    backwards = rng.choice([0.0, 0.05, 0.3])
    rows: list[Row] = []
    for place, message in enumerate(ids * 2 if rng.random() < 0.3 else ids):
        earlier = ids[: place % len(ids)] or ["lost"]
        causes = [rng.choice(earlier) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
        causes += [rng.choice(ids)] if rng.random() < backwards else []
        causes += ["lost"] if rng.random() < 0.05 else []
        named: str | None = message if rng.random() > 0.03 else None
        rows.append({"run": "r", "destination": "d", "message": named, "depends_on": causes})
        if rng.random() < 0.03:
            rows[-1]["depends_on"] = rng.choice([None, [None, *causes]])
    rng.shuffle(rows)
    for place, row in enumerate(rows):
        far = rng.choice([0.0, 0.0, 50.0, -9.0])
        row |= {"arrival": place, "sender": None, "stamp": None, "clock": None, "payload": None}
        row["time"] = None if rng.random() < 0.1 else place + far
    return rows


SEEDS = first(1, [range(10), range(10, 100)])
CAUSES_POLICIES: list[dict[str, Any]] = [
    *POLICIES,
    {"policy": "release", "after_rows": 2},
    {"policy": "release", "after_seconds": 3.0},
    {"remember": 3},
    {"remember": 2, "policy": "release", "after_rows": 5},
]


@pytest.mark.parametrize("policy", CAUSES_POLICIES)
@pytest.mark.parametrize("seeds", SEEDS)
def test_batches_agree_on_causes_at_random(policy: dict[str, Any], seeds: range) -> None:
    for seed in seeds:
        rows = random_causes(seed)
        orderer = Orderer("depends_on", **policy)
        agree("depends_on", rows, orderer, Random(seed), f"random_causes({seed})", restore=seed % 2 == 0)


def random_clocks(seed: int) -> list[Row]:
    """Clocks at random: some that count what never comes, some that wait for each other."""
    rng = Random(f"clocks {seed}")
    names = ["a", "b", "c"]
    rows: list[Row] = []
    for sender in names:
        for number in range(1, rng.randint(2, 12)):
            clock = {name: rng.choice([0, number, number - 1, rng.randint(0, 14)]) for name in names}
            rows.append({"run": "r", "destination": "d", "message": f"{sender}{number}", "sender": sender,
                         "clock": clock | {sender: number}})  # fmt: skip
    rng.shuffle(rows)
    rows += rng.sample(rows, 2)
    told = {"stamp": None, "depends_on": None, "payload": None}
    return [row | told | {"arrival": place, "time": float(place)} for place, row in enumerate(rows)]


@pytest.mark.parametrize("policy", CAUSES_POLICIES[:6])
@pytest.mark.parametrize("seeds", SEEDS)
def test_batches_agree_on_clocks_at_random(policy: dict[str, Any], seeds: range) -> None:
    for seed in seeds:
        orderer = Orderer("clock", **policy)
        agree("clock", random_clocks(seed), orderer, Random(seed), f"random_clocks({seed})", restore=seed % 2 == 0)


def test_more_is_missing_than_rows_need() -> None:
    """Two needs, each for more numbers than are listed: the list has to grow."""
    told = {"run": "r", "destination": "d", "stamp": None, "depends_on": None, "payload": None, "time": None}
    clocks = [{"a": 150, "b": 1}, {"b": 2}, {"a": 150, "b": 3, "c": 30}, {"b": 4}, {"b": 5}]
    rows = [
        told | {"arrival": n, "message": f"b{n}", "sender": "b", "clock": clock} for n, clock in enumerate(clocks, 1)
    ]
    orderer = Orderer("clock", policy="release", after_rows=1)
    one, _, third, *_ = Orderer("clock", policy="release", after_rows=1).deliver(rows)
    assert [len(row["missing"]) for row in (one, third)] == [100, 130]
    assert str(one["reason"]).endswith("a#8 and 142 more, after 1 later rows")
    agree("clock", rows, orderer, Random(1), "five clocks", restore=False)


def test_both_fail_in_the_same_words() -> None:
    rows = random_causes(1)[:1] + [row | {"depends_on": ["never"]} for row in random_causes(2)[:5]]
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    said = []
    for policy in (Policy("fail", after_rows=2), Policy(held_limit=2)):
        with pytest.raises(TraceError) as plain:
            list(Orderer("depends_on", policy=policy).deliver(rows))
        with pytest.raises(TraceError) as keyed:
            OneKey(DeliveryTerms("depends_on", (), Columns("depends_on"), policy), ("r", "d")).take(batch)
        assert str(keyed.value) == str(plain.value)
        said.append(str(plain.value))
    assert "after 2 later rows" in said[0]
    assert "more than 2 rows are held" in said[1]


@pytest.mark.parametrize("protocol", [*PROTOCOLS, "prs", "ech", "fifo"])
@pytest.mark.parametrize("processes", [(4, 2), (14, 6), (60, 8)])
def test_stamps_are_read_as_python_reads_them(protocol: str, processes: tuple[int, int]) -> None:
    """Whole, cut, lengthened and changed stamps: the arrays' answer is Python's, or the row is left to Python."""
    senders, sinks = processes
    made = arrivals(protocol, 3, senders=senders, sinks=sinks, messages=60, doubled=0.0)
    rng = Random(3)
    data: list[bytes] = []
    for row in made.rows:
        whole = row["stamp"]
        place = rng.randrange(len(whole))
        changed = whole[:place] + bytes([rng.randrange(256)]) + whole[place + 1 :]
        data += [whole, whole[:place], whole + b"\x00", changed]
    here = made.rows[0]["destination"]
    entry = lookup(protocol).protocol
    column = pa.array(data, pa.binary())
    offsets = np.frombuffer(column.buffers()[1], np.int32).astype(np.int64)
    me = made.roster.position(here)
    here_each = np.full(len(data), me, np.int32)
    read = stamps_cy.read_stamps(column.buffers()[2], offsets, made.roster.hash, len(made.roster), here_each)
    reading = Reading("stamp", (made.roster,), protocol)
    understood = 0
    for row, stamp in enumerate(data):
        python = reading.read(None, None, here, stamp)
        if read.protocols[row] == entry.code:
            understood += 1
            assert not isinstance(python, str), f"{stamp.hex()}: {python}"
            _, source, number, sources, numbers, _ = python
            needs = slice(read.starts[row], read.starts[row + 1])
            found = read.senders[row], read.numbers[row], list(read.sources[needs]), list(read.counts[needs])
            assert found == (source, number, sources, numbers), stamp.hex()
        elif not isinstance(python, str):
            assert python[0] is not None or max([python[2], *(python[4] or ())]) >= 1 << 63
    assert understood >= sum(row["destination"] == here for row in made.rows)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", [pa.int64(), pa.int32()])
def test_clocks_of_a_batch_are_read_as_each_alone(seed: int, kind: pa.DataType) -> None:
    """Names out of order, twice or absent, counts that are null, zero or negative, slices of a longer column."""
    rng = Random(seed)
    names = ["b", "a", "c", "aa", ""]
    counts: list[int | None] = [0, 1, 2, 7, *([-1] if seed % 3 == 0 else []), *([None] if seed % 5 == 0 else [])]
    clocks: list[list[tuple[str, int | None]] | None] = [
        None if rng.random() < 0.1 else [(rng.choice(names), rng.choice(counts)) for _ in range(rng.randrange(5))]
        for _ in range(40)
    ]
    senders = [rng.choice([*names, None]) for _ in clocks]
    columns = {"sender": pa.array(senders, pa.string()), "clock": pa.array(clocks, pa.map_(pa.string(), kind))}
    batch = pa.RecordBatch.from_pydict(columns)
    first = rng.randrange(5)
    rows = read_batch(DeliveryTerms("clock", (), Columns("clock"), Policy()), batch.slice(first))
    read = [rows.of(place) for place in range(len(rows))]
    assert read == [read_clock(sender, clock) for sender, clock in zip(senders[first:], clocks[first:], strict=True)]
