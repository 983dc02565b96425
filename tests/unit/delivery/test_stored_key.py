"""A key between micro-batches: what is written follows what changed, and nothing is lost by it."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from unit.delivery.stored_states import Shelf

from thence import Orderer
from thence.errors import MisuseError
from thence.tables.delivery import Columns, Policy, stored_key
from thence.tables.delivery.key_state import Setup
from thence.tables.delivery.outcome import OUTPUT_COLUMNS
from thence.tables.delivery.stored_key import TAIL, StoredKey

SCHEMA = pa.schema([("run", pa.string()), ("destination", pa.string()), ("message", pa.string()),
                    ("depends_on", pa.list_(pa.string())), ("payload", pa.string())])  # fmt: skip
Row = dict[str, Any]


def setup(**policy: Any) -> Setup:
    return Setup("depends_on", (), Columns("depends_on"), Policy(**policy))


def batch(rows: list[Row], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    told = [{"run": "r", "destination": "d", "payload": "x" * 100} | row for row in rows]
    return pa.RecordBatch.from_pylist(told, schema=schema)


def stepped(shelf: Shelf, rows: list[Row], how: Setup, schema: pa.Schema = SCHEMA) -> tuple[list[Row], int]:
    """Take rows as one micro-batch; return what left, and how many bytes were written."""
    stored = StoredKey(how, ("r", "d"), schema, shelf.blob, shelf)
    out = stored.state.take(batch(rows, schema)).to_pylist()
    shelf.blob = stored.blob()
    assert stored.written == shelf.taken() + len(shelf.blob)
    return out, stored.written


@pytest.mark.parametrize("policy", [{}, {"name": "release", "after_rows": 900}, {"remember": 50}, {"remember": 500}])
def test_outcomes_are_those_of_the_orderer(policy: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_key, "TAIL", 2000)
    monkeypatch.setattr(stored_key, "MOST_ROWS", 40)
    for seed in range(3):
        rng = Random(seed)
        rows = [{"message": f"m{n}", "depends_on": [f"m{rng.randrange(n)}"] if n else []} for n in range(3000)]
        rows = [row for row in rows if rng.random() > 0.003]
        rows.sort(key=lambda row: int(row["message"][1:]) + rng.expovariate(1 / 300))
        orderer = Orderer("depends_on", policy=Policy(**policy))
        shelf, at = Shelf(), 0
        while at < len(rows):
            size = rng.choice([7, 150, 700])
            theirs, _ = stepped(shelf, rows[at : at + size], setup(**policy))
            ours = [out for row in batch(rows[at : at + size]).to_pylist() for out in orderer.push(row)]
            at += size
            assert [_told(row) for row in theirs] == [_told(row) for row in ours], f"seed {seed}"
        assert shelf.most > 3, "nothing was sealed"


def _told(row: Row) -> list[Any]:
    return [row[name] for name in ("message", *OUTPUT_COLUMNS)]


def test_what_is_written_follows_what_changed() -> None:
    shelf, how = Shelf(), setup()
    stepped(shelf, [{"message": f"h{n}", "depends_on": ["never"]} for n in range(20_000)], how)
    stepped(shelf, [{"message": f"m{n}", "depends_on": []} for n in range(20_000)], how)
    assert shelf.size() > 40 * TAIL
    for n in range(3):
        _, written = stepped(shelf, [{"message": f"x{n}", "depends_on": []}], how)
        assert written < 2 * TAIL
    _, written = stepped(shelf, [{"message": "never", "depends_on": []}], how)
    assert shelf.size() < 60 * TAIL


@pytest.mark.parametrize("remember", [3, 5_000, None])
def test_ids_that_were_delivered_are_not_written_again(remember: int | None) -> None:
    shelf, how = Shelf(), setup(remember=remember)
    for start in range(0, 40_000, 10_000):
        stepped(shelf, [{"message": f"m{n}", "depends_on": []} for n in range(start, start + 10_000)], how)
    sizes = []
    for n in range(3):
        out, written = stepped(shelf, [{"message": f"x{n}", "depends_on": ["m5", "m39999"]}], how)
        assert out[0]["outcome"] == "delivered"
        sizes.append(written)
    assert max(sizes) < 3 * TAIL, sizes
    out, _ = stepped(shelf, [{"message": f"m{n}", "depends_on": []} for n in (0, 20_000, 39_999)], how)
    assert [row["outcome"] for row in out] == ["duplicate"] * 3
    stored = StoredKey(how, ("r", "d"), SCHEMA, shelf.blob, shelf)
    stored.clear()
    assert not shelf.parts


def test_a_checkpoint_says_what_it_was_made_with() -> None:
    shelf, how = Shelf(), setup()
    stepped(shelf, [{"message": "b", "depends_on": ["a"]}], how)
    more = SCHEMA.append(pa.field("price", pa.float64()))
    out, _ = stepped(shelf, [{"message": "a", "depends_on": [], "price": 2.0}], how, more)
    assert [(row["message"], row["price"]) for row in out] == [("a", 2.0), ("b", None)]
    fewer = pa.schema([field for field in SCHEMA if field.name != "payload"])
    with pytest.raises(MisuseError, match="column payload string, which is gone now"):
        stepped(shelf, [], how, fewer)
    other = Setup("depends_on", (), Columns("depends_on", {"message": "payload"}), Policy())
    with pytest.raises(MisuseError, match="made with columns"):
        stepped(shelf, [], other, more)
    assert shelf.blob is not None
    shelf.blob = shelf.blob[:8] + b"\x01" + shelf.blob[9:]
    with pytest.raises(MisuseError, match="format 1, and this release reads format 2"):
        stepped(shelf, [], how, more)
