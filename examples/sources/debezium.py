"""Debezium change events of many tables, scattered and shuffled, delivered transaction by transaction on Spark.

    python examples/sources/debezium.py changes.jsonl

Each line of the file is {"topic": ..., "value": ...} as a consumer of Debezium's topics sees it, the transaction topic
among them, in any order. Prints what is delivered, in order.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from thence.sources import from_changes
from thence.spark import deliver
from thence.spark.session import local_session

SCHEMA = (
    "run string, destination string, message string, sender string, transaction string, time double, "
    "depends_on array<string>, value string"
)


def main(path: str) -> list[str]:
    records = [json.loads(line)["value"] for line in Path(path).read_text().splitlines()]
    rows = from_changes(records)
    for row, record in zip(rows, records, strict=True):
        row["value"] = json.dumps(record)
    random.Random(7).shuffle(rows)  # as if from many partitions
    spark = local_session(quick=True)
    arrivals = spark.createDataFrame(rows, SCHEMA).repartition(4)
    ordered = deliver(arrivals, by="depends_on", key=["destination"])
    told = [
        f"{row['message']} {row['sender'] or ''} {row['outcome']}".strip()
        for row in ordered.orderBy("destination", "position").select("message", "sender", "outcome").collect()
    ]
    print("\n".join(told))
    return told


if __name__ == "__main__":
    main(sys.argv[1])
