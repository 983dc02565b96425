"""The execution behind the arrivals of `rivals.py`, as a trace that can be audited with any order at the sink.

Sixteen senders take turns. Each message follows its sender's previous one, and every second one follows a recent one
of another sender too, which was delivered there first. Clocks of senders are off by up to a second.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SENDERS = 16
SINK = "sink"
SKEW = 1.0


def causes(rows: int, seed: int = 1) -> list[list[int]]:
    """Return the causes of each message: the sender's previous one, and perhaps a recent one of another."""
    rng = Random(seed)
    found = []
    for place in range(rows):
        own = [place - SENDERS] if place >= SENDERS else []
        other = place - rng.randint(1, 8)
        found.append([*own, other] if place % 2 and other >= 0 else own)
    return found


def arrivals(spark: Any, folder: Path, rows: int, keys: int, window: float, batches: int) -> Any:
    """Write the arrivals of all keys, each in an order of its own, and return them as Spark reads them.

    `came` is the micro-batch in which a row comes.
    """
    from pyspark.sql import functions as F

    each, rng = rows // keys, Random(2)
    skew = [rng.uniform(-SKEW, SKEW) for _ in range(SENDERS)]
    table = pa.table(
        {
            "place": range(each),
            "message": [f"event-{place}" for place in range(each)],
            "sender": [f"sender-{place % SENDERS}" for place in range(each)],
            "depends_on": [[f"event-{cause}" for cause in named] for named in causes(each)],
            "time": [place / 10 + skew[place % SENDERS] for place in range(each)],
        }
    )
    pq.write_table(table, folder / "base.parquet")
    runs = spark.range(keys).select(F.concat(F.lit("run"), "id").alias("run"), F.lit(SINK).alias("destination"))
    made = spark.read.parquet(str(folder / "base.parquet")).crossJoin(F.broadcast(runs))
    made = made.withColumn("arrival", ((F.col("place") - F.log(1 - F.rand(7)) * window) * 1000).cast("long"))
    came = F.least(F.lit(batches - 1), F.floor(F.col("arrival") * batches / (1000 * each)))
    made.withColumn("came", came.cast("int")).write.parquet(str(folder / "arrivals"))
    return spark.read.parquet(str(folder / "arrivals"))


def trace(orders: dict[str, list[str]], each: int) -> pa.Table:
    """Return the execution of `each` messages a run with what the sinks delivered, in their order."""
    base = _senders(each)
    tables = []
    for run, order in orders.items():
        sink = [(SINK, place, "deliver", message, None) for place, message in enumerate(order, 1)]
        process, index, kind, message, destinations = zip(*base, *sink, strict=True)
        columns = {"process": process, "index": index, "kind": kind, "message": message}
        made = pa.table({name: pa.array(values) for name, values in columns.items()})
        made = made.append_column("destinations", pa.array(destinations, pa.list_(pa.string())))
        tables.append(made.append_column("run", pa.array([run] * len(made))))
    return pa.concat_tables(tables)


def _senders(rows: int) -> list[tuple[str, int, str, str, list[str] | None]]:
    named = causes(rows)
    readers: list[list[str]] = [[] for _ in range(rows)]
    reads: list[list[int]] = [[] for _ in range(rows)]
    seen: set[tuple[int, int]] = set()
    for place, found in enumerate(named):
        for cause in found:
            who = place % SENDERS
            if cause % SENDERS != who and (cause, who) not in seen:
                seen.add((cause, who))
                readers[cause].append(f"sender-{who}")
                reads[place].append(cause)
    events: list[tuple[str, int, str, str, list[str] | None]] = []
    index = dict.fromkeys((f"sender-{who}" for who in range(SENDERS)), 0)
    for place in range(rows):
        who = f"sender-{place % SENDERS}"
        for cause in reads[place]:
            index[who] += 1
            events.append((who, index[who], "deliver", f"event-{cause}", None))
        index[who] += 1
        events.append((who, index[who], "send", f"event-{place}", [SINK, *readers[place]]))
    return events
