"""A sink in a process of its own, which a test kills: Debezium's records from a file into a target.

python shop_sink_job.py FILE URL SEED PAUSE     ends when everything was applied; PAUSE: seconds before each statement

Topics are read at different speeds, each in its own order, from their beginning; half of the runs begin at `since`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from random import Random

import sqlalchemy as sa

from thence.sinks import sql
from thence.sources import Record, WholeTransactions

TABLES = ["customer", "category", "orders", "line"]


def delayed(records: list[Record], random: Random) -> list[Record]:
    """Interleave the topics at random speeds."""
    topics: dict[str, list[Record]] = {}
    for each in records:
        topics.setdefault(str(each.topic), []).append(each)
    speed = {topic: random.random() ** 3 + 0.01 for topic in topics}
    out = []
    while topics:
        topic = random.choices(list(topics), [speed[each] for each in topics])[0]
        out.append(topics[topic].pop(0))
        if not topics[topic]:
            del topics[topic]
    return out


def main(file: str, url: str, seed: int, pause: float) -> None:
    lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    records = [Record(*(line[name] for name in ("value", "key", "topic", "partition", "offset"))) for line in lines]
    random, engine = Random(seed), sa.create_engine(url)
    snapshot = sum('"op": "r"' in record.value for record in records)
    with sql(engine, TABLES) as sink:
        sa.event.listen(engine, "before_cursor_execute", lambda *_: time.sleep(pause))
        transactions = WholeTransactions(snapshot=True, since=sink.since("shop") if random.random() < 0.5 else None)
        for record in delayed(records, random):
            units = transactions.push(record)
            snapshot -= '"op": "r"' in record.value
            if snapshot == 0:
                snapshot, units = -1, units + transactions.end_snapshot()
            for unit in units:
                if sink.apply(unit):
                    print(unit.name, flush=True)
        assert transactions.waiting() == [], transactions.waiting()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
