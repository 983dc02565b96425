"""Arrivals for the benchmarks: 64 keys, with stamps or with explicit causes, reordered in windows of 20 rows.

Stamps: a roster of 64, 20 entries on the mean. One stream of messages to one sink is made with a fixed seed: each
message needs the sender's previous one and one or two recent ones of others, and carries further entries about other
destinations. Every run gets the same stream in another order of arrival, drawn by Spark from the run's own seed.

Explicit causes: every second row names one of the eight rows before it. A tenth of the rows belongs to one hot key.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from thence.core.model.message import Copy
from thence.core.model.roster import Roster
from thence.core.protocols.ks import KS
from thence.core.protocols.wire import encode

PROCESSES = 64
KEYS = 64
ENTRIES = 20
SINK = PROCESSES - 1
ROSTER = Roster.of(PROCESSES)


def stream_of_one_sink(rows: int, seed: int = 1) -> pa.Table:
    rng = Random(seed)
    last: dict[int, int] = {}
    count = [0] * PROCESSES
    recent: list[tuple[int, int]] = []
    columns: dict[str, list[Any]] = {"place": [], "message": [], "sender": [], "stamp": []}
    for place in range(rows):
        sender = rng.randrange(SINK)
        count[sender] += rng.randint(1, 3)
        needs = {s: c for s, c in rng.sample(recent[-64:], min(len(recent), rng.randint(1, 2))) if s != sender}
        if sender in last:
            needs[sender] = last[sender]
        log: dict[int, Any] = {s: ((c, 1 << SINK),) for s, c in needs.items()}
        while len(log) < ENTRIES:
            other = rng.randrange(SINK)
            if other not in log:
                mask = 0
                for _ in range(rng.randint(1, 3)):
                    mask |= 1 << rng.randrange(SINK)
                log[other] = ((rng.randint(1, count[other] + 1), mask),)
        destinations = 1 << SINK
        for _ in range(4):
            destinations |= 1 << rng.randrange(SINK)
        copy = Copy(sender, count[sender], destinations, sender, SINK, log)
        columns["place"].append(place)
        columns["message"].append(f"{ROSTER.name(sender)}{count[sender]}")
        columns["sender"].append(ROSTER.name(sender))
        columns["stamp"].append(encode(KS, copy, ROSTER))
        last[sender] = count[sender]
        recent.append((sender, count[sender]))
        del recent[:-64]
    return pa.table(columns)


def arrivals(spark: Any, folder: Path, rows: int, *, keys: int = KEYS, window: float = 20.0) -> Any:
    """Write the table once and return it as Spark reads it."""
    from pyspark.sql import functions as F

    target = folder / f"arrivals-{rows}-{keys}"
    if not target.exists():
        base = folder / "base.parquet"
        pq.write_table(stream_of_one_sink(rows // keys), base)
        runs = spark.range(keys).select(F.concat(F.lit("run"), F.col("id")).alias("run"))
        noise = -F.log(1 - F.rand(7)) * window
        table = spark.read.parquet(str(base)).crossJoin(F.broadcast(runs))
        table = table.select(
            "run",
            F.lit(ROSTER.name(SINK)).alias("destination"),
            ((F.col("place") + noise) * 1000).cast("long").alias("arrival"),
            "message",
            "sender",
            "stamp",
            (F.col("place") / 10).alias("time"),
            F.col("place").alias("payload"),
        )
        table.write.parquet(str(target))
    return spark.read.parquet(str(target))


def causes(spark: Any, folder: Path, rows: int, *, keys: int = KEYS, hot: bool = True, window: float = 20.0) -> Any:
    """Write rows with explicit causes once and return them as Spark reads them."""
    target = folder / f"causes-{rows}-{keys}-{hot}"
    if not target.exists():
        first = rows // 10 if hot else 0
        others = keys - 1 if hot else keys
        keyed = spark.range(rows).selectExpr(
            f"if(id < {first}, 'hot', concat('run', (id - {first}) % {others})) run",
            f"if(id < {first}, id, (id - {first}) div {others}) place",
        )
        cause = "concat('event-', greatest(0, place - 1 - abs(hash(place)) % 8))"
        table = keyed.selectExpr(
            "run",
            "'sink' destination",
            f"cast((place - ln(1 - rand(7)) * {window}) * 1000 as long) arrival",
            "concat('event-', place) message",
            "concat('sender-', place % 16) sender",
            f"if(place % 2 = 1, array({cause}), cast(array() as array<string>)) depends_on",
            "place / 10 time",
            "place payload",
        )
        table.write.parquet(str(target))
    return spark.read.parquet(str(target))
