"""A soak on a real broker: events with causes, while producer, consumers and broker are killed in turn.

python benchmarks/kafka/soak.py [EVENTS [KILLS [SEED]]]       100000 24 1; an hour's soak is 1000000 50

The producer is a process that is killed and begins again at its last note, so it sends some events twice. Two consumers
of one group, of which one is active, forward what they hand on; they are killed (SIGKILL) and started again. At the end
the forwarded topic is judged: every event once, none before a cause. Writes results/soak.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).parent
TESTS = HERE.parents[1] / "tests"
sys.path.insert(0, str(TESTS))
PARTITIONS = 6
REMEMBER = 20_000


def causes(seed: int, number: int) -> list[int]:
    """Return what event `number` depends on: up to three of the fifty before it."""
    random = Random(f"{seed} {number}")
    return sorted({number - random.randint(1, min(50, number)) for _ in range(random.randint(0, 3))}) if number else []


def produce(bootstrap: str, note: str, events: int, seed: int) -> None:
    """Produce the events from the last note on; runs in a process of its own."""
    from confluent_kafka import Producer

    from thence.sources.headers import write_headers

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    place = Path(note)
    start = int(place.read_text()) if place.exists() else 0
    for number in range(start, events):
        headers = write_headers(f"e{number}", "soak", [f"e{each}" for each in causes(seed, number)], {})
        where = Random(f"{seed} {number} where").randrange(PARTITIONS)
        producer.produce("soak", b"x" * 100, headers=headers, partition=where)
        producer.poll(0)
        if number % 500 == 499:
            if producer.flush(120):
                raise SystemExit(1)
            place.with_suffix(".new").write_text(str(number + 1))
            place.with_suffix(".new").rename(place)
    raise SystemExit(producer.flush(120))


def judge(records: list[Any], events: int, seed: int) -> dict[str, int]:
    """Count what came, what came twice, what came before a cause, what is missing."""
    told = [dict(record.headers()) for record in records]
    delivered = [row["thence-message"].decode() for row in told if row["thence-outcome"] == b"delivered"]
    place: dict[str, int] = {}
    twice = early = 0
    for at, name in enumerate(delivered):
        twice += name in place
        place.setdefault(name, at)
    for name, at in place.items():
        early += any(place.get(f"e{each}", len(delivered)) > at for each in causes(seed, int(name[1:])))
    duplicates = sum(row["thence-outcome"] == b"duplicate" for row in told)
    others = len(told) - len(delivered) - duplicates
    return {"forwarded": len(told), "delivered": len(delivered), "duplicates known": duplicates,
            "other outcomes": others, "twice": twice, "before a cause": early, "lost": events - len(place)}  # fmt: skip


def main(events: int = 100_000, kills: int = 24, seed: int = 1) -> None:
    from support.broker import broker

    random, start = Random(seed), time.monotonic()
    with broker() as kafka, tempfile.TemporaryDirectory() as folder:
        kafka.make(**{"soak": PARTITIONS, "soak-out": 1})
        note = Path(folder) / "note"
        job = [sys.executable, str(TESTS / "kafka" / "job.py"), kafka.address, "soak-group", "soak", "soak-out"]
        makers = {
            "producer": [sys.executable, __file__, "produce", kafka.address, str(note), str(events), str(seed)],
            "consumer 1": [*job, "depends_on", str(REMEMBER)],
            "consumer 2": [*job, "depends_on", str(REMEMBER)],
        }
        running = {name: subprocess.Popen(command) for name, command in makers.items()}
        done: dict[str, int] = dict.fromkeys([*makers, "broker"], 0)

        def alive() -> None:
            for name, process in running.items():
                if process.poll() is not None and not (name == "producer" and process.returncode == 0):
                    running[name] = subprocess.Popen(makers[name])

        try:
            for number in range(kills):
                time.sleep(random.uniform(1.0, 4.0))
                who = [*makers, "broker"][number % 4]
                done[who] += 1
                if who == "broker":
                    kafka.kill()
                    kafka.start()
                else:
                    running[who].kill()
                    running[who].wait()
                    if who == "producer" and note.exists() and int(note.read_text()) >= events:
                        done[who] -= 1
                        continue
                alive()
            end = time.monotonic() + 1200
            found: dict[str, int] = {}
            while found.get("lost", 1) and time.monotonic() < end:
                alive()
                time.sleep(3)
                found = judge(kafka.read("soak-out"), events, seed)
                print(f"{time.monotonic() - start:.0f} s {found}", flush=True)
        finally:
            for process in running.values():
                process.kill()
                process.wait()
    told = {"events": events, "seed": seed, "kills": done, "seconds": round(time.monotonic() - start), **found}
    told["verdict"] = "causal" if not (found["twice"] or found["before a cause"] or found["lost"]) else "violated"
    (HERE / "results" / "soak.json").write_text(json.dumps(told, indent=2) + "\n")
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    if sys.argv[1:2] == ["produce"]:
        produce(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        main(*map(int, sys.argv[1:]))
