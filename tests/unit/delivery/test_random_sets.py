"""What a batch and a stream run for each key, on the sets of test_against_the_docs.py: all four orderers agree."""

from __future__ import annotations

import os
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from support.naive_orderer import BYS, Naive, Row, arrivals, policies, told
from unit.delivery.one_key import OneKey

from thence import Orderer
from thence.tables.delivery import Columns
from thence.tables.delivery.delivery_terms import DeliveryTerms

FIRST = int(os.environ.get("THENCE_SEED", "0"))
SCHEMA = pa.schema(
    [("run", pa.string()), ("destination", pa.string()), ("n", pa.int64()), ("message", pa.string()),
     ("sender", pa.string()), ("time", pa.float64()), ("depends_on", pa.list_(pa.string())),
     ("clock", pa.map_(pa.string(), pa.int64()))]
)  # fmt: skip
KEY = ("r", "d")


def pieces(rows: list[Row], random: Random) -> list[pa.RecordBatch]:
    """Part the rows at random."""
    cuts = sorted({0, len(rows), *(random.randrange(len(rows)) for _ in range(3) if rows)})
    return [pa.RecordBatch.from_pylist(rows[a:b], schema=SCHEMA) for a, b in pairwise(cuts)]


def as_a_batch(terms: DeliveryTerms, rows: list[Row], random: Random) -> list[Row]:
    state = OneKey(terms, KEY)
    out = [row for batch in pieces(rows, random) for row in state.take(batch)]
    rest = state.end()
    return out if rest is None else out + rest.to_pylist()


def as_a_stream(terms: DeliveryTerms, rows: list[Row], random: Random) -> list[Row]:
    state, out = OneKey(terms, KEY, SCHEMA), list[Row]()
    for batch in pieces(rows, random):
        out += state.take(batch)
        state.again()
    return out


def compared(seed: int) -> None:
    random = Random(seed)
    by: Any = random.choice(BYS)
    rows, chosen = arrivals(by, random), random.choice(policies(random))
    naive, orderer = Naive(by, **chosen), Orderer(by, **chosen)
    for row in rows:
        naive.push(row)
    wanted = [told(said["row"], {"reason": ""} | said) for said in naive.finish()]
    terms = DeliveryTerms(by, (), Columns(by), orderer.policy)
    about = f"seed {seed}: by {by}, {chosen}, {rows}"
    assert [told(row, row) for row in orderer.deliver(rows)] == wanted, about
    assert [told(row, row) for row in as_a_batch(terms, rows, random)] == wanted, about
    left = [row for row in wanted if row["outcome"] != "blocked"]
    assert [told(row, row) for row in as_a_stream(terms, rows, random)] == left, about


def test_what_batches_and_streams_run_agrees_with_the_page() -> None:
    print(f"seeds {FIRST} to {FIRST + 199}")
    for seed in range(FIRST, FIRST + 200):
        compared(seed)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_the_same_on_ten_thousand_sets() -> None:
    for seed in range(3_000_000, 3_010_000):
        compared(seed)
