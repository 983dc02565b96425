"""The array twin against the engine: the same outcomes, whatever the batches, and the same reading of any bytes."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.arrivals import PROTOCOLS, Row, arrivals

from thence import Orderer
from thence.delivery import Columns, Reading
from thence.delivery.reading import Read
from thence.kernels import stamps
from thence.protocols import lookup
from thence.spark.desk import Desk, Setup

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


def through_a_desk(setup: Setup, rows: list[Row], rng: Random, *, restore: bool) -> list[Row]:
    """Push rows through in batches of random size, dumping and restoring in between if asked."""
    key = (rows[0]["run"], rows[0]["destination"])
    desk, out, at = Desk(setup, key), [], 0
    while at < len(rows):
        size = rng.randint(1, 60)
        out += desk.take(pa.RecordBatch.from_pylist(rows[at : at + size], schema=SCHEMA)).to_pylist()
        at += size
        if restore:
            desk = Desk(setup, key, desk.dump())
    rest = desk.end()
    return out if rest is None else out + rest.to_pylist()


@pytest.mark.parametrize(("by", "protocol"), KINDS)
@pytest.mark.parametrize(
    "policy", [{}, {"policy": "release", "after_rows": 15}, {"policy": "release", "after_seconds": 2.0}]
)
def test_desk_and_orderer_agree(by: str, protocol: str, policy: dict[str, Any]) -> None:
    if protocol == "ses" and policy:
        return  # refused
    for seed in range(3):
        made = arrivals(protocol, seed, messages=120, lost=0.04 * (seed % 2), by=by)
        rng = Random(seed)
        rows = [dict(row) for row in made.rows]
        for row in rng.sample(rows, 6):  # and some that say nothing usable
            row[by] = {"stamp": b"\x01\x01junk", "clock": {"z": -1}, "depends_on": [row["message"]]}[by]
        orderer = Orderer(by, roster=made.roster if by == "stamp" else None, **policy)  # type: ignore[arg-type]
        ours = defaultdict(list)
        for row in orderer.deliver(rows):
            ours[row["destination"]].append(row)
        for here in ours:
            mine = [row for row in rows if row["destination"] == here]
            for fast_from in (1, 30, 1 << 30):
                setup = Setup(by, orderer.rosters, Columns(by), orderer.policy, fast_from)  # type: ignore[arg-type]
                theirs = through_a_desk(setup, mine, rng, restore=seed % 2 == 0)
                assert told(theirs) == told(ours[here]), f"fast_from={fast_from} {made.about}"


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
    buffer = np.frombuffer(column.buffers()[2], np.uint8)
    digest = np.frombuffer(made.roster.hash, np.uint8)
    me = made.roster.position(here)
    read = stamps.read_stamps(buffer, offsets, entry.code, digest, len(made.roster), me)
    sender, own, start, length, good, need_source, need_number = read
    reading = Reading("stamp", (made.roster,), protocol)
    understood = 0
    for row, stamp in enumerate(data):
        python = reading.read(None, None, here, stamp)
        if good[row]:
            understood += 1
            span = slice(start[row], start[row] + length[row])
            needs = list(zip(need_source[span].tolist(), need_number[span].tolist(), strict=True))
            assert isinstance(python, Read), f"{stamp.hex()}: {python}"
            assert (sender[row], own[row], needs) == (python.source, python.number, list(python.needs)), stamp.hex()
        elif isinstance(python, Read):
            assert python.order is not None or max([python.number, *(t for _, t in python.needs)]) >= stamps.LARGE
    assert understood >= sum(row["destination"] == here for row in made.rows)
