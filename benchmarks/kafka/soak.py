"""A soak on a real broker: events with causes, while producer, consumers, Spark's driver and the broker are killed.

python benchmarks/kafka/soak.py [EVENTS [KILLS [RATE [SEED [FOLDER]]]]]       1000000 50 330 1: about an hour

The producer is a process that begins again at its last note, so it sends some events twice. What it writes, to six
partitions, is read twice: by two consumers of one group, of which one is active and forwards what it hands on, and by
a Spark stream that writes Parquet. Each of them is killed (SIGKILL) and started again, in turn. Both outputs are
judged (`soak_judge.py`): every event once, none before a cause, what was sent twice known as such.

Given a FOLDER it is resumable: called again, it goes on where it was cut. Writes results/soak.json every minute.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from soak_judge import Judge, causes_of, judge_parquet, rows_in

if TYPE_CHECKING:
    from support.broker import Broker

HERE = Path(__file__).parent
RESULT = HERE / "results" / "soak.json"
sys.path.insert(0, str(HERE.parents[1] / "tests"))
PARTITIONS, REMEMBER, NOTE_EVERY = 6, 20_000, 500
PATIENCE = 600
"""seconds for a broker to come up, beside whatever else the machine does"""
ROLES = ["producer", "consumer 1", "consumer 2", "driver", "broker"]


# -- what runs in processes of its own -------------------------------------------------------------------------------


def produce(bootstrap: str, folder: Path, events: int, rate: int, seed: int) -> None:
    """Produce the events from the last note on, so many a second."""
    from confluent_kafka import Producer

    from thence.tables.sources.headers import write_headers

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    first, begun = noted(folder), time.monotonic()
    for number in range(first, events):
        time.sleep(max(0.0, begun + (number - first) / rate - time.monotonic()))
        headers = write_headers(f"e{number}", "soak", [f"e{each}" for each in causes_of(seed, number)], {})
        where = Random(f"{seed} {number} where").randrange(PARTITIONS)
        producer.produce("soak", b"x" * 100, headers=headers, partition=where)
        producer.poll(0)
        if (number + 1) % NOTE_EVERY == 0 or number + 1 == events:
            if producer.flush(240):
                raise SystemExit("the broker did not take the events")
            replace(folder / "note", str(number + 1))


def consume(bootstrap: str) -> None:
    """Forward what is handed on; commit every twenty seconds, since a state of explicit causes grows with events."""
    from thence import Orderer
    from thence.sources.kafka import CausalConsumer

    group = {"group.id": "soak-group", "session.timeout.ms": 15_000, "heartbeat.interval.ms": 2000}
    config = {"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 500, **group}
    consumer = CausalConsumer(config, ["soak"], lambda: Orderer("depends_on", remember=REMEMBER), destination="sink")
    last, new = time.monotonic(), False
    while True:
        for row in consumer.poll(0.5, 500):
            consumer.forward("soak-out", row)
            new = True
        if new and time.monotonic() > last + 20:
            consumer.commit()
            last, new = time.monotonic(), False


def drive(bootstrap: str, folder: Path) -> None:
    """Deliver the same topic on Spark, into Parquet, until it is killed."""
    from support.broker import connector

    from thence.spark import deliver
    from thence.spark.session import local_session
    from thence.spark.sources import from_kafka, kafka_options, read_kafka

    small = {"spark.driver.memory": "512m", "spark.sql.shuffle.partitions": 1}
    spark = local_session(1, quick=True, conf={**small, "spark.jars": ",".join(map(str, connector()))})
    source = read_kafka(spark, kafka_options(bootstrap, ["soak"], most_per_batch=60_000), stream=True)
    ordered = deliver(from_kafka(source, destination="sink"), by="depends_on")
    query = ordered.select("message", "outcome", "position").writeStream.format("parquet")
    query = query.option("path", str(folder / "out")).option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(processingTime="15 seconds").start().awaitTermination()


# -- what kills them -------------------------------------------------------------------------------------------------


class Cast:
    """The processes, each in a group of its own, so that a driver goes with its JVM."""

    def __init__(self, kafka: Broker, folder: Path, events: int, rate: int, seed: int) -> None:
        me, here = [sys.executable, __file__], [kafka.address, str(folder)]
        self.kafka, self.folder, self.events = kafka, folder, events
        self.commands = {
            "producer": [*me, "produce", *here, str(events), str(rate), str(seed)],
            "consumer 1": [*me, "consume", kafka.address],
            "consumer 2": [*me, "consume", kafka.address],
            "driver": [*me, "drive", *here],
        }
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.started: dict[str, int] = dict.fromkeys(self.commands, 0)

    def start(self) -> None:
        """Start whoever does not run and has something to do."""
        for name, command in self.commands.items():
            if name in self.running and self.running[name].poll() is None:
                continue
            if name == "producer" and noted(self.folder) >= self.events:
                continue
            with (self.folder / f"{name}.log").open("ab") as log:
                self.running[name] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            self.started[name] += 1

    def kill(self, name: str) -> None:
        if name == "broker":
            self.kafka.kill()
            time.sleep(1)
            self.kafka.start(PATIENCE)
        elif name in self.running and self.running[name].poll() is None:
            os.killpg(self.running[name].pid, signal.SIGKILL)
            self.running[name].wait()

    def end(self) -> None:
        for name in self.commands:
            self.kill(name)


def follow(bootstrap: str) -> Any:
    """Return a reader of all that was forwarded and committed."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings = {"group.id": "judge", "isolation.level": "read_committed", "enable.auto.commit": False, "log_level": 0}
    reader = Consumer({"bootstrap.servers": bootstrap, **settings})
    reader.assign([TopicPartition("soak-out", 0, OFFSET_BEGINNING)])
    return reader


class Soak:
    """One soak: what was killed when, and what has come out so far. Its progress lies in the folder."""

    def __init__(self, folder: Path, events: int, kills: int, rate: int, seed: int) -> None:
        from support.broker import Broker

        self.folder, self.events, self.wanted, self.rate, self.seed = folder, events, kills, rate, seed
        self.path, self.kafka = folder / "progress.json", Broker(folder)
        self.cast, self.judge = Cast(self.kafka, folder, events, rate, seed), Judge(seed)
        self.kills, self.before, self.begun = dict.fromkeys(ROLES, 0), 0.0, time.monotonic()
        self.next_kill = self.begun + self.pause()

    def start(self) -> None:
        """Start the broker, and go on where it was cut."""
        self.kafka.start(PATIENCE)
        if self.path.exists():
            told = json.loads(self.path.read_text())
            self.kills, self.before = told["kills"], told["seconds"]
        else:
            self.kafka.make(**{"soak": PARTITIONS, "soak-out": 1})
        self.reader = follow(self.kafka.address)
        self.begun = time.monotonic()
        self.next_kill = self.begun + self.pause()

    def pause(self) -> float:
        """Return how long to wait for the next kill, so that they spread over what is left to produce."""
        left = self.wanted - sum(self.kills.values())
        return (self.events - noted(self.folder)) / self.rate / max(1, left) * Random().uniform(0.5, 1.3)

    def step(self) -> bool:
        """Keep everybody running, see what came out, perhaps kill someone; return whether all has come."""
        self.cast.start()
        self.judge.take(self.reader.consume(10_000, 2))
        done, made = sum(self.kills.values()), noted(self.folder)
        if time.monotonic() > self.next_kill and done < self.wanted and made < self.events:
            who = ROLES[done % len(ROLES)]
            self.cast.kill(who)
            self.kills[who] += 1
            self.next_kill = time.monotonic() + self.pause()
        replace(self.path, json.dumps({"kills": self.kills, "seconds": self.seconds()}))
        return made >= self.events <= len(self.judge.seen) and rows_in(self.folder / "out") >= self.judge.rows

    def seconds(self) -> float:
        return self.before + time.monotonic() - self.begun

    def told(self) -> dict[str, Any]:
        made = noted(self.folder)
        return {
            "events": self.events, "produced": made, "seconds": round(self.seconds()), "rate": self.rate,
            "seed": self.seed, "kills": self.kills, "killed": sum(self.kills.values()), "started": self.cast.started,
            "consumer": self.judge.told(made), "spark": {"rows": rows_in(self.folder / "out")},
        }  # fmt: skip

    def run(self) -> dict[str, Any]:
        """Run until all has come out, writing every minute what is known."""
        self.start()
        last = time.monotonic()
        while not self.step():
            if time.monotonic() > last + 60:
                last = time.monotonic()
                replace(RESULT, json.dumps(self.told() | {"verdict": "unknown: it runs"}, indent=2) + "\n")
                print(json.dumps(self.told()), flush=True)
        return self.told() | {"spark": judge_parquet(self.folder / "out", self.seed, self.events)}

    def end(self) -> None:
        self.cast.end()
        self.kafka.kill()


def noted(folder: Path) -> int:
    """Return how many events the broker has for certain."""
    note = folder / "note"
    return int(note.read_text()) if note.exists() else 0


def replace(path: Path, text: str) -> None:
    """Write a file at once or not at all."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def main(events: int = 1_000_000, kills: int = 50, rate: int = 330, seed: int = 1, folder: str = "") -> None:
    place = Path(folder or tempfile.mkdtemp(prefix="thence-soak")).resolve()
    place.mkdir(parents=True, exist_ok=True)
    print(f"seed {seed}, in {place}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended; call it again with this folder to go on"))
    soak = Soak(place, events, kills, rate, seed)
    try:
        told = soak.run()
    finally:
        soak.end()
    wrong = [told[who][what] for who in ("consumer", "spark") for what in ("twice", "before a cause", "lost", "other")]
    told["verdict"] = "violated" if any(wrong) else "causal"
    replace(RESULT, json.dumps(told, indent=2) + "\n")
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["produce", bootstrap, folder, events, rate, seed]:
            produce(bootstrap, Path(folder), int(events), int(rate), int(seed))
        case ["consume", bootstrap]:
            consume(bootstrap)
        case ["drive", bootstrap, folder]:
            drive(bootstrap, Path(folder))
        case [*numbers]:
            main(*map(int, numbers[:4]), *numbers[4:])
