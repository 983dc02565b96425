"""How evenly `CausalConsumer` should read a backlog: the bytes of one partition at a time, in one run.

python benchmarks/kafka/fetch.py [EVENTS]

For each size: the time until all events were handed on, in all and of the processor, and the most records that waited.
Writes results/fetch.json.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from run import fill

HERE = Path(__file__).parent
SIZES = [1 << 20, 1 << 18, 1 << 16, 1 << 14]


def measured(kafka: Any, events: int, size: int) -> dict[str, float]:
    """Read all events in pieces of one size."""
    from support.broker import ROSTER

    from thence import Orderer
    from thence.sources.kafka import CausalConsumer

    config = {**kafka.config, "group.id": f"fetch-{size}", "fetch.message.max.bytes": size}
    consumer = CausalConsumer(config, ["bench"], lambda: Orderer("stamp", roster=ROSTER), destination="sink")
    start, work = time.perf_counter(), time.process_time()
    count = since = most = 0
    while count < events:
        rows = consumer.poll(1.0, 1000)
        count, since = count + len(rows), since + len(rows)
        most = max(most, sum(map(len, consumer.orderer.held().values())))
        if since >= 5000:
            consumer.commit()
            since = 0
    consumer.commit()
    consumer.close()
    seconds = {"seconds": time.perf_counter() - start, "processor": time.process_time() - work}
    return {"bytes": size, "held": most} | {name: round(value, 1) for name, value in seconds.items()}


def main(events: int = 50_000) -> None:
    from support.broker import broker

    with broker() as kafka:
        fill(kafka, events)
        told = {"events": events, "sizes": [measured(kafka, events, size) for size in SIZES]}
    (HERE / "results" / "fetch.json").write_text(json.dumps(told, indent=2) + "\n")
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
