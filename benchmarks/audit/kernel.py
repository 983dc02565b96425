"""What the kernels cost by themselves, without Spark, in CPU seconds: judging a chunk, merging chunks.

    python benchmarks/audit/kernel.py --events 5000000 --processes 64 [--chunk-rows 1000000]

Generates a trace in memory, cuts it into chunks, summarises each and merges them, one after the other and once more
along the tree of an audit on Spark, in one process. Of the tree it says what the slowest task of each level takes: that
is what a cluster waits for. CPU time, so that a busy machine disturbs it little.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from generate import names, simulate, table

from thence.tables.files.inputs import ArrowTable
from thence.tables.judge.chunk import summarise, summary_of
from thence.tables.judge.merge_chunks import ChunkMerger
from thence.tables.judge.normal_table import of_input
from thence.tables.judge.partition_plan import FAN

RESULTS = Path(__file__).with_name("results")


def payloads(said: pa.Table) -> list[bytes]:
    return [row["payload"] for row in said.to_pylist() if row["tag"] == "summary"]


def along_tree(chunks: list[list[bytes]]) -> tuple[list[float], list[float], pa.Table]:
    """Merge summaries level by level; return the seconds of each level's slowest task and of all its tasks."""
    slowest, total = [], []
    while len(chunks) > FAN:
        level, spent = [], []
        for node in range(0, len(chunks), FAN):
            began = time.process_time()
            merger = ChunkMerger("run", opens=node == 0)
            for parts in chunks[node : node + FAN]:
                merger.add(summary_of(parts))
            level.append(payloads(merger.as_one_chunk(node // FAN)))
            spent.append(time.process_time() - began)
        chunks = level
        slowest.append(max(spent))
        total.append(sum(spent))
    began = time.process_time()
    merger = ChunkMerger("run")
    for parts in chunks:
        merger.add(summary_of(parts))
    rest = merger.finish()
    last = time.process_time() - began
    return [*slowest, last], [*total, last], rest


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--chunk-rows", type=int, default=1_000_000)
    parser.add_argument("--block", type=int)
    given = parser.parse_args()
    arrays = simulate(given.events, given.processes, 2, 20, 0.08, 1)
    warm = of_input(ArrowTable(table(arrays, names(given.processes), 0, 1000, "run")))
    ChunkMerger("run").add(summary_of(payloads(summarise("run", 0, warm))))
    spent = {"summarise": 0.0, "compose": 0.0}
    found = dict.fromkeys(("violation", "undelivered", "summary_bytes", "imports", "exports"), 0)
    composer, kept = ChunkMerger("run"), []
    cuts = list(range(0, given.events, given.chunk_rows))
    for number, start in enumerate(cuts):
        end = min(given.events, start + given.chunk_rows)
        rows = of_input(ArrowTable(table(arrays, names(given.processes), start, end, "run")))
        began = time.process_time()
        said = summarise("run", number, rows, block=given.block)
        spent["summarise"] += time.process_time() - began
        tags = said.column("tag").to_pylist()
        found["violation"] += tags.count("violation")
        parts = payloads(said)
        kept.append(parts)
        found["summary_bytes"] += sum(map(len, parts))
        began = time.process_time()
        summary = summary_of(parts)
        composer.add(summary)
        spent["compose"] += time.process_time() - began
        found["imports"] += sum(len(of_label.imports) for of_label in summary.labels)
        found["exports"] += sum(len(of_label.exports) for of_label in summary.labels)
    began = time.process_time()
    rest = composer.finish()
    spent["compose"] += time.process_time() - began
    for row in rest.to_pylist():
        found["violation"] += row["tag"] == "violation"
        found["undelivered"] += row["tag"] == "undelivered"
    slowest, total, by_tree = along_tree(kept)
    assert rest.column("tag").to_pylist().count("undelivered") == by_tree.column("tag").to_pylist().count("undelivered")
    result = vars(given) | {
        "tree": {"fan": FAN, "slowest_task": slowest, "all_tasks": total},
        "chunks": len(cuts), "cpu_seconds": spent, "found": found,
        "ns_per_event": {step: seconds / given.events * 1e9 for step, seconds in spent.items()},
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "generated_mb": int(sum(np.asarray(array).nbytes for array in arrays)) >> 20,
    }  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    name = f"kernel-{given.processes}-{given.events // 1_000_000}m-{given.chunk_rows // 1000}k"
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
