"""Debezium change events of many tables, scattered and shuffled, delivered transaction by transaction on Spark.

    python examples/sources/debezium.py [changes.jsonl]

Each line of the file is {"topic": ..., "value": ...} as a consumer of Debezium's topics sees it, the transaction topic
among them, in any order; without a file it is data/changes.jsonl, recorded from MariaDB 10.11 by Debezium 3.5.0. Prints
what is delivered, in order. Needs pip install 'thence[spark]'.
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
    "depends_on array<string>, kind string, note string, value string"
)
DATA = Path(__file__).parent / "data" / "changes.jsonl"


def main(path: str = str(DATA)) -> list[str]:
    records = [json.loads(line)["value"] for line in Path(path).read_text().splitlines()]
    rows = [{**row, "value": json.dumps(each)} for row, each in zip(from_changes(records), records, strict=True)]
    random.Random(7).shuffle(rows)  # as if from many partitions
    spark = local_session(quick=True)
    arrivals = spark.createDataFrame(rows, SCHEMA).repartition(4)
    ordered = deliver(arrivals, by="depends_on", key=["destination"])
    told = [
        f"{row['message'] or row['kind']} {row['sender'] or ''} {row['outcome']}".strip()
        for row in ordered.orderBy("destination", "position").select("message", "kind", "sender", "outcome").collect()
    ]
    print("\n".join(told))
    return told


if __name__ == "__main__":
    main(*sys.argv[1:])
