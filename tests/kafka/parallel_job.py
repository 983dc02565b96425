"""A consumer with parallel handlers in a process of its own, to be killed: a line for each begin and end.

python parallel_job.py BOOTSTRAP GROUP TOPIC[,TOPIC] BY LINES [shared]
"""

from __future__ import annotations

import os
import random
import sys
import time
from typing import Any

from thence import Gate
from thence.sources.kafka import CausalConsumer

ROSTER = ["a", "b", "c", "sink"]


def main(bootstrap: str, group: str, topics: str, by: str, lines: str, shared: str = "") -> None:
    config = {
        "bootstrap.servers": bootstrap, "group.id": group, "session.timeout.ms": 2000, "heartbeat.interval.ms": 300,
        "log_level": 0, "reconnect.backoff.max.ms": 500,
    }  # fmt: skip
    out = os.open(lines, os.O_WRONLY | os.O_APPEND | os.O_CREAT)  # a line is written whole, whatever else writes

    def gate() -> Gate:
        if by == "stamp":
            return Gate("stamp", roster=ROSTER)
        return Gate("depends_on", key=["key"]) if shared else Gate("depends_on")

    def handle(row: Any) -> None:
        place = f"{row['topic']}/{row['partition']}/{row['offset']}"
        os.write(out, f"begin {row['message']} {int(row['repeated'])} {place}\n".encode())
        time.sleep(random.expovariate(200))
        os.write(out, f"end {row['message']} 0 {place}\n".encode())

    consumer = CausalConsumer(
        config, topics.split(","), gate, destination="sink", concurrency=16, commit_seconds=0.1,
        by_partition=bool(shared),
    )  # fmt: skip
    consumer.run(handle)


if __name__ == "__main__":
    main(*sys.argv[1:])
