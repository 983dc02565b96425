"""A real Kafka broker of one node (KRaft, no ZooKeeper) in a JVM of its own, its Java archives, and causal traffic.

Archives are resolved from Maven Central into a cache outside the repo: by the machine's Maven where there is one, by
Spark's own resolver otherwise. `connector` takes the connector of our Spark version, or the newest one that the
registry has: a registry may be behind, and Spark's Kafka connector of an earlier minor version works with ours.

Traffic is that of three processes that send to a sink and to each other, into partitions drawn at random. The test is
the network between them, so it knows what each had sent and seen when it sent a message: the direct causes, by which
the order at the sink is judged.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

from support.processes import free_ports
from thence.protocols import create
from thence.sources.kafka import CausalProducer
from thence.tables.sources.headers import STAMP

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "thence" / "jars"
KAFKA = "3.9.2"
"""the version that Spark's connector was built with"""
EARLIER = [("4.2.0", "4.1.0-preview1"), ("4.0.0", "4.0.0")]
"""connector and token provider, newest first, where those of our Spark are not to be had"""

POM = """<project><modelVersion>4.0.0</modelVersion><groupId>thence</groupId><artifactId>tests</artifactId>
<version>1</version><dependencies>{}</dependencies></project>"""
DEPENDENCY = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"""
ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


class NotThereError(Exception):
    """The registry does not have it."""


def broker_jars() -> list[Path]:
    """Return the class path of a broker."""
    return fetch(f"org.apache.kafka:kafka_2.13:{KAFKA}", "org.slf4j:slf4j-nop:1.7.36")


def connector() -> list[Path]:
    """Return what Spark needs to read Kafka; what Spark has already is left out."""
    import pyspark

    known = CACHE / f"connector-for-{pyspark.__version__}"
    versions = [(pyspark.__version__, pyspark.__version__), *EARLIER]
    if known.exists():
        versions = [tuple(known.read_text().split())]  # type: ignore[list-item]
    for one, other in versions:
        names = (
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{one}",
            f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{other}",
            f"org.apache.kafka:kafka-clients:{KAFKA}",
            "org.apache.commons:commons-pool2:2.12.1",
        )
        try:
            found = fetch(*names, alone=True)
        except NotThereError as error:
            print(f"connector {one}: {error}", file=sys.stderr)
            continue
        known.write_text(f"{one} {other}")
        return found
    raise NotThereError("no Kafka connector for Spark is to be had")


def fetch(*coordinates: str, alone: bool = False) -> list[Path]:
    """Return the archives of `group:name:version`, with what they depend on unless they are to come alone."""
    folder = CACHE / hashlib.sha256(repr((sorted(coordinates), alone)).encode()).hexdigest()[:16]
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        maven = shutil.which("mvn")
        if maven and os.environ.get("THENCE_TEST_RESOLVER") != "spark":
            _by_maven(maven, coordinates, folder, alone)
        else:
            _by_spark(coordinates, folder, alone)
        (folder / "complete").touch()
    return sorted(folder.glob("*.jar"))


def _by_maven(maven: str, coordinates: tuple[str, ...], folder: Path, alone: bool) -> None:
    told = "".join(DEPENDENCY.format(*each.split(":"), ALONE if alone else "") for each in coordinates)
    with tempfile.TemporaryDirectory() as here:
        (Path(here) / "pom.xml").write_text(POM.format(told))
        command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        done = subprocess.run([*command, f"-DoutputDirectory={folder}"], cwd=here, capture_output=True, text=True)
    if done.returncode:
        raise NotThereError(next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr)[:300])


def _by_spark(coordinates: tuple[str, ...], folder: Path, alone: bool) -> None:
    """Let Spark's resolver fetch them: it does so before it starts a program, here one that does nothing."""
    import pyspark

    program = folder / "nothing.py"
    program.write_text("")
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        "--conf",
        f"spark.jars.ivy={folder / 'ivy'}",
    ]
    command += ["--master", "local[1]", "--packages", ",".join(coordinates)]
    if alone:
        command += ["--exclude-packages", "org.apache.hadoop:hadoop-client-runtime,org.apache.hadoop:hadoop-client-api"]
    done = subprocess.run([*command, str(program)], capture_output=True, text=True)
    if done.returncode:
        raise NotThereError(done.stderr[-300:])
    for jar in (folder / "ivy" / "jars").glob("*.jar"):
        shutil.copy(jar, folder / jar.name.partition("_")[2])


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


SENDERS = ["a", "b", "c"]
ROSTER = [*SENDERS, "sink"]


class Traffic:
    """What was sent, with its direct causes."""

    def __init__(self, config: dict[str, Any], topic: str, partitions: int, seed: int, by: str = "depends_on") -> None:
        self.random, self.topic, self.partitions = Random(seed), topic, partitions
        print(f"traffic of seed {seed}")
        members = {name: create("ks", ROSTER, name) if by == "stamp" else None for name in SENDERS}
        self.producers = {name: CausalProducer(config, name, members[name]) for name in SENDERS}
        self.causes: dict[str, list[str]] = {}
        self._seen: dict[str, list[str]] = {name: [] for name in SENDERS}
        self._inbox: dict[str, list[dict[str, Any]]] = {name: [] for name in SENDERS}
        self._tap()

    def _tap(self) -> None:
        """See the headers on their way, as the other processes do."""
        for name, producer in self.producers.items():
            inner = producer._producer

            class Tap:
                def __init__(self, inner: Any, name: str, traffic: Traffic) -> None:
                    self.inner, self.name, self.traffic = inner, name, traffic

                def produce(self, topic: str, value: bytes, **told: Any) -> None:
                    self.inner.produce(topic, value, **told)
                    stamps = dict(told["headers"])
                    for other in SENDERS:
                        if other != self.name:
                            row = {"message": value.decode(), "sender": self.name, "stamp": stamps.get(STAMP + other)}
                            self.traffic._inbox[other].append(row)

                def __getattr__(self, what: str) -> Any:
                    return getattr(self.inner, what)

            producer._producer = Tap(inner, name, self)

    def send(self, count: int) -> list[str]:
        """Send so many messages; between them processes see what the others sent, in order."""
        sent = []
        for _ in range(count):
            who = self.random.choice(SENDERS)
            inbox = self._inbox[who]
            for row in [inbox.pop(0) for _ in range(self.random.randint(0, min(3, len(inbox))))]:
                self.producers[who].observe(row)
                self._seen[who].append(row["message"])
            name = f"{who}{self.producers[who].count + 1}"
            self.causes[name] = list(self._seen[who])
            self._seen[who] = [name]
            others = [each for each in ROSTER if each != who]
            where = self.random.randrange(self.partitions)
            self.producers[who].produce(self.topic, name.encode(), message=name, partition=where, destinations=others)
            sent.append(name)
        return sent

    def flush(self) -> None:
        for producer in self.producers.values():
            producer.flush(600)

    def judge(self, order: Iterable[str]) -> None:
        """Assert that every message came once, and after its causes."""
        told = list(order)
        twice = [name for name, times in Counter(told).items() if times > 1]
        assert not twice, f"{len(twice)} came twice: {twice[:5]}"
        place = {name: at for at, name in enumerate(told)}
        early = [
            (name, cause) for name in told for cause in self.causes[name] if place.get(cause, len(told)) > place[name]
        ]
        assert not early, f"{len(early)} came before a cause: {early[:5]}"
