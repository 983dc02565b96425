"""Parallel handlers on a real broker: kills, failures, sharing, full metadata; lost, repeated and early are counted."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.broker import Broker, Traffic

from thence import Gate
from thence.errors import MisuseError, PeerError, TraceError
from thence.sources.kafka import CausalConsumer, CausalProducer
from thence.tables.sources.kafka_progress import read_commit

JOB = Path(__file__).with_name("parallel_job.py")


@contextmanager
def job(kafka: Broker, group: str, topics: str, lines: Path, by: str, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, str(JOB), kafka.address, group, topics, by, str(lines), *more])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def written(lines: Path) -> list[list[str]]:
    return [line.split() for line in lines.read_text().splitlines()] if lines.exists() else []


def ended(lines: Path) -> set[str]:
    return {line[1] for line in written(lines) if line[0] == "end"}


def until(true: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def settled(kafka: Broker, group: str, topics: dict[str, int]) -> Callable[[str], bool]:
    """Return whether a record's completion is committed now."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({**kafka.config, "group.id": group})
    try:
        places = [TopicPartition(topic, part) for topic, parts in topics.items() for part in range(parts)]
        found = {
            f"{each.topic}/{each.partition}": read_commit(each.offset, each.metadata)
            for each in consumer.committed(places, 60)
            if each.offset >= 0
        }
    finally:
        consumer.close()

    def is_settled(place: str) -> bool:
        where, _, offset = place.rpartition("/")
        return where in found and found[where].settled(int(offset))

    return is_settled


def judge(lines: list[list[str]], causes: dict[str, list[str]]) -> dict[str, int]:
    """Count what was lost, handled again, handled again without the flag, and begun before a cause had ended."""
    done: set[str] = set()
    begun: set[str] = set()
    found = {"lost": 0, "repeated": 0, "unflagged": 0, "early": 0}
    for what, name, flag, _ in lines:
        if what == "end":
            done.add(name)
            continue
        found["early"] += any(cause not in done for cause in causes[name])
        found["repeated"] += name in done
        found["unflagged"] += name in begun and flag == "0"
        begun.add(name)
    return found | {"lost": len(causes.keys() - done)}


def kills() -> int:
    return int(os.environ.get("THENCE_KILLS", "6"))


@pytest.mark.parametrize("by", ["depends_on", "stamp"])
def test_handlers_killed_again_and_again(kafka: Broker, tmp_path: Path, by: str) -> None:
    topic, group = f"parallel-{by.replace('_', '')}", f"parallel-{by}"
    kafka.make(**{topic: 3})
    traffic, lines, random = Traffic(kafka.config, topic, 3, seed=23, by=by), tmp_path / "lines", Random(23)
    again = 0
    for _ in range(kills()):
        traffic.send(150)
        traffic.flush()
        before, at = len(ended(lines)), len(written(lines))
        is_settled = settled(kafka, group, {topic: 3})
        with job(kafka, group, topic, lines, by):
            until(lambda before=before: len(ended(lines)) > before)  # type: ignore[misc]
            time.sleep(random.random() / 2)
        again += sum(is_settled(line[3]) for line in written(lines)[at:] if line[0] == "begin")
    with job(kafka, group, topic, lines, by):
        until(lambda: len(ended(lines)) == len(traffic.causes))
    found = judge(written(lines), traffic.causes)
    print(f"{kills()} kills, {len(traffic.causes)} records: {found}, again though committed: {again}")
    assert again == 0
    assert (found["lost"], found["early"], found["unflagged"]) == (0, 0, 0)


def test_consumers_share_the_partitions_and_are_killed(kafka: Broker, tmp_path: Path) -> None:
    topics, lines, random = {"shared-orders": 4, "shared-payments": 4}, tmp_path / "lines", Random(29)
    kafka.make(**topics)
    causes: dict[str, list[str]] = {}

    def send(rounds: int) -> None:
        producers = {name: CausalProducer(kafka.config, name) for name in topics}
        for _ in range(rounds):
            number = len(causes) // 2
            key, part = f"k{number % 16}", number % 4
            order, payment = f"o{number}", f"p{number}"
            causes[order], causes[payment] = [], [order]
            payer = CausalProducer(kafka.config, "payer", None)
            payer._producer = producers["shared-payments"]._producer
            payer.observe({"message": order})
            payer.produce("shared-payments", b"", message=payment, key=key.encode(), partition=part)
            producers["shared-orders"]._frontier = []
            producers["shared-orders"].produce("shared-orders", b"", message=order, key=key.encode(), partition=part)
        for each in producers.values():
            each.flush()

    both, again, members = ",".join(topics), 0, list[list[int]]()
    with job(kafka, "shared", both, lines, "depends_on", "shared"):
        for _ in range(max(3, kills() // 2)):
            is_settled, at = settled(kafka, "shared", topics), len(written(lines))
            with job(kafka, "shared", both, lines, "depends_on", "shared"):
                members.append(until_members(kafka, "shared", 2))
                send(300)
                until(lambda at=at: len(written(lines)) > at + 50)  # type: ignore[misc]
                time.sleep(random.random() / 4)
            again += sum(is_settled(line[3]) for line in written(lines)[at:] if line[0] == "begin")
        until(lambda: len(ended(lines)) == len(causes))
    found = judge(written(lines), causes)
    print(f"{found}, again though committed: {again}, partitions of the members: {members}")
    assert all(min(counts) > 0 for counts in members)
    assert again == 0
    assert (found["lost"], found["early"], found["unflagged"]) == (0, 0, 0)


def until_members(kafka: Broker, group: str, count: int) -> list[int]:
    """Wait until a group is balanced among so many members; return how many partitions each has."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(kafka.config)
    counts = list[int]()

    def balanced() -> bool:
        members = admin.describe_consumer_groups([group])[group].result().members
        counts[:] = [len(each.assignment.topic_partitions) for each in members]
        return len(counts) == count and min(counts) > 0

    until(balanced)
    return counts


def parallel(kafka: Broker, group: str, topics: list[str], gate: Callable[[], Gate], **more: Any) -> CausalConsumer:
    config = {**kafka.config, "group.id": group, "session.timeout.ms": 2000, "heartbeat.interval.ms": 300}
    return CausalConsumer(config, topics, gate, **{"concurrency": 4, "commit_seconds": 0.05, **more})


@contextmanager
def running(consumer: CausalConsumer, handler: Callable[[Any], Any], handled: list[Any]) -> Iterator[None]:
    thread = threading.Thread(target=consumer.run, args=(handler, handled.append))
    thread.start()
    try:
        yield
    finally:
        consumer.stop()
        thread.join(300)
        assert not thread.is_alive()


def produce(kafka: Broker, topic: str, **causes: list[str]) -> None:
    producer = CausalProducer(kafka.config, "p")
    for name, behind in causes.items():
        producer._frontier = list(behind)
        producer.produce(topic, b"", message=name)
    producer.flush()


def outcomes(handled: list[Any]) -> list[tuple[str, str]]:
    return [(each.row["message"], each.outcome) for each in handled]


def test_a_failed_cause_holds_its_effects_until_it_is_retried(kafka: Broker) -> None:
    kafka.make(failing=1)
    produce(kafka, "failing", free=[], b=["a"], a=[], c=["b"])
    fail, handled = [True], list[Any]()

    def handle(row: Any) -> None:
        if row["message"] == "a" and fail[0]:
            raise ValueError("no")

    consumer = parallel(kafka, "failing", ["failing"], Gate)
    with running(consumer, handle, handled):
        until(lambda: len(handled) == 2)
        assert sorted(outcomes(handled)) == [("a", "failed"), ("free", "delivered")]
        until(lambda: len(consumer.waiting()) == 2)
        assert [row["blocker"] for row in consumer.waiting()] == ["a", "a"]
        assert [row["message"] for row in consumer.failed()] == ["a"]
        fail[0] = False
        consumer.retry("a")
        until(lambda: len(handled) == 5)
    assert outcomes(handled)[2:] == [("a", "delivered"), ("b", "delivered"), ("c", "delivered")]
    assert settled(kafka, "failing", {"failing": 1})("failing/0/3")


def test_an_unhandled_failure_is_handled_by_the_next_run(kafka: Broker) -> None:
    kafka.make(later=1)
    produce(kafka, "later", a=[], b=["a"], c=[])
    handled, flags = list[Any](), dict[str, bool]()

    def fails(row: Any) -> None:
        if row["message"] == "a":
            raise ValueError("no")

    with running(parallel(kafka, "later", ["later"], Gate), fails, handled):
        until(lambda: len(handled) == 2)
        until(lambda: settled(kafka, "later", {"later": 1})("later/0/2"))
    handled.clear()

    async def works(row: Any) -> None:
        flags[row["message"]] = row["repeated"]

    with running(parallel(kafka, "later", ["later"], Gate), works, handled):
        until(lambda: len(handled) == 2)
    assert outcomes(handled) == [("a", "delivered"), ("b", "delivered")]
    assert flags == {"a": True, "b": True}  # below the ceiling; b was not begun, which a crash leaves unknown


def test_skipped_and_dead_lettered_records_stay_so_after_a_restart(kafka: Broker) -> None:
    kafka.make(fates=1)
    produce(kafka, "fates", skipped=[], dead=[], behind=["dead"], lost_effect=["lost"])
    handled = list[Any]()

    def fails(row: Any) -> None:
        if row["message"] in ("skipped", "dead"):
            raise ValueError("no")

    consumer = parallel(kafka, "fates", ["fates"], lambda: Gate(on_error=lambda row, error, attempt: "hold"))
    with running(consumer, fails, handled):
        until(lambda: len(consumer.failed()) == 2 and len(consumer.waiting()) == 2)
        consumer.skip("skipped")
        consumer.dead_letter("dead")
        consumer.skip("lost")
        until(lambda: len(handled) == 6)
    assert ("behind", "quarantined") in outcomes(handled)
    assert ("lost_effect", "released") in outcomes(handled)
    handled.clear()
    produce(kafka, "fates", x=["skipped"], y=["behind"], z=["lost_effect"], w=["lost"], late=["lost_effect"])
    with running(parallel(kafka, "fates", ["fates"], Gate), lambda row: None, handled):
        until(lambda: len(handled) == 5)
    assert sorted(outcomes(handled)) == [
        ("late", "delivered"), ("w", "released"), ("x", "released"), ("y", "quarantined"), ("z", "delivered"),
    ]  # fmt: skip


def test_reading_pauses_while_the_metadata_is_full(kafka: Broker) -> None:
    """Every second record fails, so that no two done ones are neighbours; then the failed ones are retried."""
    kafka.make(full=1)
    count = 600
    produce(kafka, "full", **{f"m{n}": [] for n in range(count)})
    fail, handled, begun = [True], list[Any](), set[str]()

    def handle(row: Any) -> None:
        begun.add(row["message"])
        if fail[0] and int(row["message"][1:]) % 2 == 0:
            raise ValueError("no")

    consumer = parallel(kafka, "full", ["full"], Gate, metadata_bytes=120)
    with running(consumer, handle, handled):
        until(lambda: len(begun) > 30)
        time.sleep(1)
        assert len(begun) < count
        held_back = len(begun)
        fail[0] = False
        for row in consumer.failed():
            consumer.retry(row["message"])
        until(lambda: len(begun) == count)
    print(f"reading paused after {held_back} of {count} records")
    assert settled(kafka, "full", {"full": 1})(f"full/0/{count - 1}")


def test_metadata_that_stays_full_is_an_error_that_says_for_what(kafka: Broker) -> None:
    kafka.make(stuck=1)
    names = {f"m{n}": [] if n % 2 else ["never"] for n in range(300)}
    produce(kafka, "stuck", **names)
    consumer = parallel(kafka, "stuck", ["stuck"], Gate, metadata_bytes=120)
    with pytest.raises(TraceError, match=r"metadata of a commit is full.*m0 waits for never"):
        consumer.run(lambda row: None)


def test_what_sharing_rests_on_is_checked(kafka: Broker) -> None:
    kafka.make(one=1, two=2, keys=2)
    with pytest.raises(MisuseError, match=r"Gate\(key=\['key'\]\)"):
        parallel(kafka, "checks", ["one"], Gate, by_partition=True)
    with pytest.raises(MisuseError, match="equally many partitions"):
        parallel(kafka, "checks", ["one", "two"], lambda: Gate(key=["key"]), by_partition=True)
    producer = CausalProducer(kafka.config, "p")
    producer.produce("keys", b"", message="k1", key=b"k", partition=0)
    producer.produce("keys", b"", message="k2", key=b"k", partition=1)
    producer.flush()
    with pytest.raises(PeerError, match="key b'k' is in partition"):
        parallel(kafka, "checks2", ["keys"], lambda: Gate(key=["key"]), by_partition=True).run(lambda row: None)
    producer.produce("one", b"", message="n")
    producer.flush()
    with pytest.raises(PeerError, match="has no key"):
        parallel(kafka, "checks3", ["one"], lambda: Gate(key=["key"]), by_partition=True).run(lambda row: None)


def test_offsets_that_the_broker_forgot_are_in_the_state_topic(kafka: Broker) -> None:
    from confluent_kafka.admin import AdminClient

    kafka.make(expired=1)
    produce(kafka, "expired", a=[], b=["a"])
    handled = list[Any]()
    with running(parallel(kafka, "expired", ["expired"], Gate), lambda row: None, handled):
        until(lambda: len(handled) == 2)
    admin = AdminClient(kafka.config)
    until(lambda: not admin.describe_consumer_groups(["expired"])["expired"].result().members)
    admin.delete_consumer_groups(["expired"])["expired"].result()
    produce(kafka, "expired", c=["b"])
    handled.clear()
    with running(parallel(kafka, "expired", ["expired"], Gate), lambda row: None, handled):
        until(lambda: len(handled) == 1)
    assert outcomes(handled) == [("c", "delivered")]


def test_words_that_do_not_go_together_are_refused(kafka: Broker) -> None:
    from thence import Orderer

    config = {**kafka.config, "group.id": "words"}
    with pytest.raises(MisuseError, match="makes a Gate"):
        CausalConsumer(config, ["x"], lambda: Orderer("depends_on"), concurrency=2)
    with pytest.raises(MisuseError, match="goes with concurrency"):
        CausalConsumer(config, ["x"], lambda: Orderer("depends_on"), by_partition=True)
    with pytest.raises(MisuseError, match="run\\(handler\\)"):
        parallel(kafka, "words", ["x"], Gate).poll()
