"""Microseconds of CPU a row in the visits of shards alone, without Spark: what keys, policies, cycles and reasons cost.

    python benchmarks/deliver/visits.py [--rounds 3]

The cases and their rows are those of `stream.py`; rows are packed by shard before the clock runs, as Spark brings them,
and what leaves is packed again. "cold restart" is one more micro-batch in a worker that has to read its shards first.
A key visit is a key in a micro-batch, whatever it has of rows: with few rows to a key, that is what costs. Cases take
turns. Writes results/visits.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import OrderedDict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent))
import _data
import stream

from thence.tables.delivery import Columns, Policy, shard_memory
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.reading import rosters_of
from thence.tables.delivery.shard_state import ipc
from thence.tables.engines.spark.shard_visit import Visits
from thence.tables.engines.spark.stream_options import StreamOptions

HERE = Path(__file__).parent
SHARDS = 2


class Store:
    """The segments of a shard, in memory."""

    def __init__(self) -> None:
        self.head: bytes | None = None
        self.parts: dict[str, bytes] = {}
        self.get, self.put, self.delete = self.parts.get, self.parts.__setitem__, self.parts.__delitem__


def packed(case: stream.Case, shards: int) -> tuple[pa.Schema, list[list[list[bytes]]], list[int]]:
    """Return the rows of each micro-batch and shard as bytes, and how many keys each micro-batch has."""
    table, came = stream.rows_of(case)
    key = np.array([int(name.removeprefix("run")) for name in table.column("run").to_pylist()])
    shard = key % shards
    whole = table.combine_chunks()
    batches = []
    for batch in range(case.batches):
        here = []
        for place in range(shards):
            rows = whole.take(pa.array(np.flatnonzero((came == batch) & (shard == place)))).combine_chunks()
            here.append([ipc(each) for each in rows.to_batches()])
        batches.append(here)
    return table.schema, batches, [len(np.unique(key[came == batch])) for batch in range(case.batches)]


def run(case: stream.Case, cold: bool = False) -> dict[str, float]:
    """Run a stream's visits; return microseconds of CPU a row, and the bytes of state that were written."""
    options = dict(case.options)
    shards = options.pop("shards", SHARDS)
    schema, batches, keys_of = packed(case, shards)
    by: Any = case.by
    limits = {"name" if name == "policy" else name: value for name, value in options.items()}
    roster = rosters_of(by, _data.ROSTER if by == "stamp" else None)
    keys = pa.schema([schema.field("run"), schema.field("destination")])
    visits = Visits(
        DeliveryTerms(by, roster, Columns(by), Policy(**limits)), StreamOptions(), schema, keys, "arrival", shards
    )  # fmt: skip
    shard_memory.KEPT = OrderedDict()
    stores = [Store() for _ in range(shards)]
    cpu = written = 0.0
    rows, keys_visited = case.rows, sum(keys_of)
    for number, here in enumerate(batches):
        if cold and number == len(batches) - 1:
            shard_memory.KEPT, cpu, rows, keys_visited = OrderedDict(), 0.0, case.rows // case.batches, keys_of[-1]
        for store, blobs in zip(stores, here, strict=True):
            began = time.process_time()
            shard, out, held = visits.take(store.head, store, blobs, 0)
            visits.leave(shard, store, out, held)
            store.head = shard.head()
            visits.keep(shard)
            cpu += time.process_time() - began
            written += shard.written
    return {
        "us a row": 1e6 * cpu / rows,
        "us a key visit": 1e6 * cpu / keys_visited,
        "rows a key visit": rows / keys_visited,
        "state bytes written a row": written / case.rows,
    }


def main(rounds: int) -> None:
    found: dict[str, list[dict[str, float]]] = {}
    run(stream.SMALL)
    for _ in range(rounds):
        for name, case in stream.CASES.items():
            found.setdefault(name, []).append(run(case, cold=name == "cold restart"))
            print(name, found[name][-1], flush=True)
            result: dict[str, Any] = {
                name: {key: round(median(row[key] for row in rows), 2) for key in rows[0]}
                | {"us a row, by round": [round(row["us a row"], 2) for row in rows]}
                for name, rows in found.items()
            }
            result["load of the machine"] = round(os.getloadavg()[0], 1)
            (HERE / "results" / "visits.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    main(parser.parse_args().rounds)
