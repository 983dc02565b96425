"""A consumer in a process of its own, to be killed: orders topics and forwards what it hands on.

python job.py BOOTSTRAP GROUP TOPIC[,TOPIC] OUT BY [REMEMBER]
"""

from __future__ import annotations

import sys

from thence import Orderer
from thence.sources.kafka import CausalConsumer

ROSTER = ["a", "b", "c", "sink"]


def main(bootstrap: str, group: str, topics: str, out: str, by: str, remember: str = "") -> None:
    config = {
        "bootstrap.servers": bootstrap, "group.id": group, "session.timeout.ms": 6000, "heartbeat.interval.ms": 1000,
        "log_level": 0, "reconnect.backoff.max.ms": 500,
    }  # fmt: skip

    def orderer() -> Orderer:
        if by == "stamp":
            return Orderer("stamp", roster=ROSTER)
        return Orderer("depends_on", remember=int(remember) if remember else None)

    consumer = CausalConsumer(config, topics.split(","), orderer, destination="sink")
    while True:
        rows = consumer.poll(0.2, 200)
        for row in rows:
            consumer.forward(out, row)
        if rows:
            consumer.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
