"""A real Kafka broker of one node (KRaft, no ZooKeeper) in a JVM of its own, to be killed and started again."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from support.jars import broker_jars
from support.ports import free_ports

SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
num.partitions=1
log.cleaner.dedupe.buffer.size=4194304
"""
JVM = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


class Broker:
    """A broker whose data outlive its process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, controller = free_ports(2)
        self.address = f"127.0.0.1:{self.port}"
        self._properties = folder / "server.properties"
        self._properties.write_text(SETTINGS.format(port=self.port, controller=controller, folder=folder))
        self._process: subprocess.Popen[bytes] | None = None
        self._java("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c").wait()

    @property
    def config(self) -> dict[str, Any]:
        """What a client needs; rdkafka's own words about a broker that is away are left out."""
        return {"bootstrap.servers": self.address, "log_level": 0, "reconnect.backoff.max.ms": 500}

    def start(self, patience: float = 600) -> None:
        """Start it and wait, for so many seconds, until it answers."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self._process = self._java("kafka.Kafka")
        admin, end = AdminClient(self.config), time.monotonic() + patience
        while True:
            assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
            with suppress(KafkaException):
                if admin.list_topics(timeout=1).brokers:  # it may answer before its controller knows of it
                    return
            assert time.monotonic() < end, "the broker did not come up"
            time.sleep(0.1)

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def make(self, **topics: int) -> None:
        """Make topics of so many partitions."""
        from confluent_kafka.admin import AdminClient, NewTopic

        wanted = [NewTopic(name, partitions, 1) for name, partitions in topics.items()]
        admin = AdminClient(self.config)
        for made in admin.create_topics(wanted).values():
            made.result()

    def read(self, topic: str) -> list[Any]:
        """Return all committed records of a topic, in the order of its one partition."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

        config = {
            **self.config,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
        consumer = Consumer(config)
        try:
            parts = consumer.list_topics(topic, 300).topics[topic].partitions
            consumer.assign([TopicPartition(topic, part, OFFSET_BEGINNING) for part in parts])
            found, ended = [], set[int]()
            while ended < set(parts):
                for each in consumer.consume(1000, 1):
                    if each.error() is None:
                        found.append(each)
                    elif each.error().code() == KafkaError._PARTITION_EOF:  # others pass: a broker that comes back
                        ended.add(each.partition())
            return found
        finally:
            consumer.close()

    def _java(self, *command: str) -> subprocess.Popen[bytes]:
        from thence.tables.engines.spark.java import find_java

        path = os.pathsep.join(map(str, broker_jars()))
        with (self.folder / "log").open("ab") as log:
            line = [str(find_java().home / "bin" / "java"), *JVM, "-cp", path, *command, str(self._properties)]
            return subprocess.Popen(line, stdout=log, stderr=log, cwd=self.folder)


@contextmanager
def broker() -> Iterator[Broker]:
    """Start a broker in a folder of its own, and end it."""
    folder = Path(tempfile.mkdtemp(prefix="thence-kafka"))
    running = Broker(folder)
    try:
        running.start()
        yield running
    finally:
        running.kill()
        shutil.rmtree(folder, ignore_errors=True)
