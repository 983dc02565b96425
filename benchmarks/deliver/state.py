"""Bytes that a stream's state takes, in a worker's memory and in the state store: per id, per held row, per key.

    python benchmarks/deliver/state.py

Visits of one shard without Spark, one process per case. Ids are UUIDs as texts; a held row has an id, one cause, a key
and a text of 100 characters. Memory is the growth of the process's resident set, after what is unused is given back to
the system; the state store is what the shard's segments take, uncompressed. Writes results/state.json.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent))
from visits import Store

from thence.tables.delivery import Columns, Policy, shard_memory
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.shard_state import ipc
from thence.tables.engines.spark.shard_visit import Visits
from thence.tables.engines.spark.stream_options import StreamOptions

HERE = Path(__file__).parent
BATCH = 10_000
CASES: dict[str, dict[str, Any]] = {
    "an id that a key delivered": {"rows": 1_000_000},
    "... beyond the last `remember=1000` of its key": {"rows": 1_000_000, "remember": 1_000},
    "a held row": {"rows": 200_000, "held": True},
    "a key, with one delivered id": {"rows": 40_000, "many": True},
}
SCHEMA = pa.schema([(name, pa.string()) for name in ("message", "depends_on", "account", "payload")])


def ids(seed: int) -> Iterator[str]:
    """Yield UUIDs, the same ones for the same seed."""
    random = Random(seed)
    while True:
        yield str(uuid.UUID(int=random.getrandbits(128)))


def resident() -> int:
    """Return the bytes that this process occupies, without what it could give back."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def measure(rows: int, remember: int | None = None, held: bool = False, many: bool = False) -> dict[str, float]:
    """Let a shard take rows, and return what each of them added."""
    terms = DeliveryTerms("depends_on", (), Columns("depends_on", {}, ["account"]), Policy(remember=remember))
    visits = Visits(terms, StreamOptions(), SCHEMA, pa.schema([SCHEMA.field("account")]), "message", 1)
    store, names, causes = Store(), ids(1), ids(2)

    def visit(count: int) -> None:
        rows_of_visit = pa.record_batch(
            [
                [next(names) for _ in range(count)],
                [next(causes) if held else None for _ in range(count)],
                [next(names)[:13] if many else "all" for _ in range(count)],
                ["x" * 100] * count,
            ],
            schema=SCHEMA,
        )
        shard, out, before = visits.take(store.head, store, [ipc(rows_of_visit)], 0)
        assert (not out) == held
        visits.leave(shard, store, out, before)
        store.head = shard.head()
        visits.keep(shard)

    def stored() -> int:
        return sum(map(len, store.parts.values()))

    visit(BATCH)
    memory, written = resident() - stored(), stored()
    for _ in range(rows // BATCH):
        visit(BATCH)
    assert len(shard_memory.KEPT) == 1
    return {
        "rows": rows,
        "bytes in memory": round((resident() - stored() - memory) / rows, 1),
        "bytes in the state store": round((stored() - written) / rows, 1),
    }


def main() -> None:
    """Measure each case in a process of its own."""
    found = {}
    for name in CASES:
        ran = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=True)
        found[name] = json.loads(ran.stdout)
        print(name, found[name], flush=True)
    (HERE / "results" / "state.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(**CASES[sys.argv[1]])))
    else:
        main()
