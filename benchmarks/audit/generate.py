"""A fast generator of traces: tens of millions of events, nearly causal, straight to Parquet.

    python benchmarks/audit/generate.py OUT --events 10000000 --processes 64 --files 8 --seed 1
    python benchmarks/audit/generate.py OUT --repeat 10      the same traffic ten times in one run: 100 million events

Every process delivers what was sent to it in the order of sending, which is causal, except that now and then it takes
the copy behind the next one. Where that one causally follows the one passed over, a violation is made; `--swap` is set
so that about one delivery in a thousand is late. Each file holds one contiguous range of `order`. `--repeat` bounds the
memory of the generator: each repetition has messages of its own, and those in flight at its end are never delivered.
"""

from __future__ import annotations

import argparse
from collections import deque
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROW_GROUP = 250_000


def simulate(events: int, processes: int, fanout: int, backlog: int, swap: float, seed: int) -> Any:
    """Return (process, index, is a send, sender, number of the message at its sender, destinations)."""
    random = Random(seed)
    chance = random.random
    capacity = 8 * backlog + 64
    queues: list[deque[int]] = [deque() for _ in range(processes)]
    process, sender = np.empty(events, np.int32), np.empty(events, np.int32)
    index, number = np.zeros(events, np.int64), np.empty(events, np.int64)
    send = np.zeros(events, np.bool_)
    destinations = np.full((events, fanout), -1, np.int32)
    origins: list[tuple[int, int]] = []  # sender and number of each send, by its place among the sends
    indexes, sent = [0] * processes, [0] * processes
    flying = row = 0
    while row < events:
        p = int(chance() * processes)
        queue = queues[p]
        if queue and chance() < flying / (flying + backlog * processes * 0.5):
            if len(queue) > 1 and chance() < swap:
                queue[0], queue[1] = queue[1], queue[0]
            origin = origins[queue.popleft()]
            flying -= 1
        elif flying < backlog * processes:
            send[row] = True
            sent[p] += 1
            origin = (p, sent[p])
            start = int(chance() * processes)
            step = 1 + int(chance() * (processes - 1)) if processes > 1 else 1
            chosen: list[int] = []
            for k in range(min(fanout, processes)):
                d = (start + k * step) % processes
                if d not in chosen and len(queues[d]) < capacity - 1:
                    chosen.append(d)
                    queues[d].append(len(origins))
            destinations[row, : len(chosen)] = chosen
            flying += len(chosen)
            origins.append(origin)
        else:
            continue
        indexes[p] += 1
        process[row], index[row], (sender[row], number[row]) = p, indexes[p], origin
        row += 1
    return process, index, send, sender, number, destinations


def names(processes: int) -> pa.Array:
    """Return names of letters only."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return pa.array([letters[i // 676 % 26] + letters[i // 26 % 26] + letters[i % 26] for i in range(processes)])


def table(arrays: Any, roster: pa.Array, start: int, end: int, run: str, places: Any = None) -> pa.Table:
    """Return some rows in the trace table's columns; `places` is the `order` of each unless they stand in order."""
    process, index, send, sender, number, destinations = (array[start:end] for array in arrays)
    count = end - start
    order = np.arange(start, end) if places is None else places[start:end]
    addressed = destinations >= 0
    lengths = np.where(send, addressed.sum(axis=1), 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = roster.take(pa.array(destinations[addressed & send[:, None]]))
    lists = pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(~send))
    message = pc.binary_join_element_wise(roster.take(pa.array(sender)), pa.array(number).cast(pa.string()), "")
    return pa.table(
        {
            "run": pa.repeat(run, count),
            "process": roster.take(pa.array(process)),
            "index": index,
            "kind": pa.array(["deliver", "send"]).take(pa.array(send.astype(np.int8))),
            "message": message,
            "destinations": lists,
            "label": pa.nulls(count, pa.string()),
            "order": order,
            "time": order * 1e-6,
        }
    )


def write(out: Path, events: int, processes: int, *, files: int = 8, seed: int = 1, fanout: int = 2,
          backlog: int = 20, swap: float = 0.08, run: str = "generated", ordered: bool = True,
          layout: str = "order") -> None:  # fmt: skip
    """Write a trace as a folder of Parquet files; not `ordered`: without the column, in files by process."""
    out.mkdir(parents=True, exist_ok=True)
    arrays = simulate(events, processes, fanout, backlog, swap, seed)
    places = None
    if not ordered or layout != "order":
        mixed = np.random.default_rng(seed).permutation(events) if layout == "random" else None
        places = np.argsort(arrays[0], kind="stable") if mixed is None else mixed
        arrays = tuple(array[places] for array in arrays)
    for part in range(files):
        start, end = events * part // files, events * (part + 1) // files
        rows = table(arrays, names(processes), start, end, run, places)
        if not ordered:
            rows = rows.drop_columns(["order", "time"])
        pq.write_table(rows, out / f"part-{part:05d}.parquet", row_group_size=ROW_GROUP, compression="zstd")


def repeat(out: Path, times: int) -> None:
    """Append the trace in a folder to itself, so that the run is `times` as long."""
    parts = [pq.ParquetFile(path) for path in sorted(out.glob("part-*.parquet"))]
    events = sum(part.metadata.num_rows for part in parts)
    columns = [part.read(["process", "index"]) for part in parts]
    whole = pa.concat_tables(columns).group_by("process").aggregate([("index", "max")])
    roster, lasts = whole.column("process").combine_chunks(), whole.column("index_max").to_numpy()
    for turn in range(1, times):
        for number, part in enumerate(parts):
            rows = part.read()
            changed = {
                "index": pc.add(rows["index"], pa.array(turn * lasts).take(pc.index_in(rows["process"], roster))),
                "message": pc.binary_join_element_wise(rows["message"], str(turn), "."),
                "order": pc.add(rows["order"], turn * events),
                "time": pc.add(rows["time"], turn * events * 1e-6),
            }
            for name, column in changed.items():
                rows = rows.set_column(rows.column_names.index(name), name, column)
            path = out / f"part-{turn * len(parts) + number:05d}.parquet"
            pq.write_table(rows, path, row_group_size=ROW_GROUP, compression="zstd")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--swap", type=float, default=0.08)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--without-order", action="store_true")
    parser.add_argument("--layout", choices=["order", "hosts", "random"], default="order", help="what files hold")
    given = parser.parse_args()
    write(given.out, given.events, given.processes, files=given.files, seed=given.seed, swap=given.swap,
          ordered=not given.without_order, layout=given.layout)  # fmt: skip
    if given.repeat > 1:
        if given.without_order or given.layout != "order":
            parser.error("--repeat needs files that follow one another in `order`")
        repeat(given.out, given.repeat)


if __name__ == "__main__":
    main()
