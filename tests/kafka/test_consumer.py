"""A real broker: order, counts, crashes of consumer and broker, take-over, duplicates."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.broker import ROSTER, Broker, Traffic

from thence import Orderer
from thence.errors import MisuseError, PeerError
from thence.sources.kafka import CausalConsumer, CausalProducer

JOB = Path(__file__).with_name("job.py")


def consumer(kafka: Broker, group: str, topic: str, by: str = "depends_on") -> CausalConsumer:
    def orderer() -> Orderer:
        return Orderer("stamp", roster=ROSTER) if by == "stamp" else Orderer("depends_on")

    return CausalConsumer({**kafka.config, "group.id": group}, [topic], orderer, destination="sink")


def drain(reader: CausalConsumer, count: int, seconds: float = 300) -> list[dict[str, Any]]:
    """Read until so many rows have left."""
    out: list[dict[str, Any]] = []
    end = time.monotonic() + seconds
    while len(out) < count:
        assert time.monotonic() < end, f"{len(out)} of {count} rows came; waiting: {reader.waiting()[:3]}"
        out += reader.poll(0.2)
    return out


def until(true: Callable[[], bool], seconds: float = 300) -> None:
    """Offsets are committed behind the transaction, a moment later."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


@contextmanager
def job(kafka: Broker, group: str, topic: str, by: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, str(JOB), kafka.address, group, topic, f"{topic}-out", by]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def forwarded(kafka: Broker, topic: str) -> list[str]:
    return [dict(each.headers())["thence-message"].decode() for each in kafka.read(f"{topic}-out")]


def until_forwarded(kafka: Broker, topic: str, count: int, seconds: float = 300) -> list[str]:
    end = time.monotonic() + seconds
    while len(found := forwarded(kafka, topic)) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} came"
        time.sleep(0.3)
    return found


@pytest.mark.parametrize("by", ["depends_on", "stamp"])
def test_all_partitions_in_causal_order_and_in_equals_out_plus_waiting(kafka: Broker, by: str) -> None:
    topic = f"order-{by.replace('_', '')}"
    kafka.make(**{topic: 3})
    traffic = Traffic(kafka.config, topic, 3, seed=7, by=by)
    traffic.send(400)
    lost = CausalProducer(kafka.config, "a")
    lost._frontier = ["never"]
    traffic.flush()
    reader = consumer(kafka, f"{topic}-group", topic, by)
    out = drain(reader, 400)
    traffic.judge(row["message"] for row in out)
    assert {row["outcome"] for row in out} == {"delivered"}
    assert {row["partition"] for row in out} == {0, 1, 2}
    if by == "depends_on":
        lost.produce(topic, b"x", message="stuck")
        lost.flush()
        while not reader.waiting():
            assert reader.poll(0.2) == []
        (held,) = reader.waiting()
        assert (held["message"], held["blocker"]) == ("stuck", "never")
    reader.close()


def test_offsets_go_no_further_than_what_was_handed_on(kafka: Broker) -> None:
    from confluent_kafka import TopicPartition

    kafka.make(held=1)
    effect, cause = CausalProducer(kafka.config, "b"), CausalProducer(kafka.config, "a")
    effect.observe({"message": "a1"})
    effect.produce("held", b"effect", message="b1")
    effect.flush()
    first = consumer(kafka, "held-group", "held")
    while not first.waiting():
        assert first.poll(0.2) == []
    free = CausalProducer(kafka.config, "c")
    free.produce("held", b"free", message="c1")
    free.flush()
    assert [row["message"] for row in drain(first, 1)] == ["c1"]
    first.commit()
    until(lambda: first._consumer.committed([TopicPartition("held", 0)], 300)[0].offset == 0)
    first.close()
    cause.produce("held", b"cause", message="a1")
    cause.produce("held", b"again", message="c1")
    cause.flush()
    second = consumer(kafka, "held-group", "held")
    rows = drain(second, 3)
    assert [(row["message"], row["outcome"]) for row in rows] == [
        ("a1", "delivered"), ("b1", "delivered"), ("c1", "duplicate"),
    ]  # fmt: skip
    second.commit()
    until(lambda: second._consumer.committed([TopicPartition("held", 0)], 300)[0].offset == 4)
    second.close()
    states = kafka.read("held-group-thence-state")
    assert [state.key() for state in states] == [b"0", b"0"]  # the topic is compacted, and keeps the last


def test_the_topic_of_states_keeps_the_last_one(kafka: Broker) -> None:
    from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

    consumer(kafka, "compact-group", "any").close()
    wanted = ConfigResource(ResourceType.TOPIC, "compact-group-thence-state")
    admin = AdminClient(kafka.config)
    (found,) = admin.describe_configs([wanted]).values()
    assert found.result()["cleanup.policy"].value == "compact"


def test_a_consumer_that_was_replaced_is_told(kafka: Broker) -> None:
    from confluent_kafka import Producer

    kafka.make(fence=1)
    producer = CausalProducer(kafka.config, "a")
    producer.produce("fence", b"1")
    producer.flush()
    first = consumer(kafka, "fence-group", "fence")
    assert len(drain(first, 1)) == 1
    other = Producer({**kafka.config, "transactional.id": "thence-fence-group"})
    other.init_transactions(300)  # as the next active consumer of the group begins
    with pytest.raises(PeerError, match="taken over"):
        first.commit()
    assert first.active is False
    first.close()
    second = consumer(kafka, "fence-group", "fence")
    assert len(drain(second, 1)) == 1
    second.close()


@pytest.mark.parametrize("by", ["depends_on", "stamp"])
def test_consumers_killed_again_and_again(kafka: Broker, by: str) -> None:
    topic = f"kill-{by.replace('_', '')}"
    kafka.make(**{topic: 3, f"{topic}-out": 1})
    traffic = Traffic(kafka.config, topic, 3, seed=11, by=by)
    count = 0
    for _ in range(3):
        count += len(traffic.send(300))
        traffic.flush()
        with job(kafka, f"{topic}-group", topic, by):
            until_forwarded(kafka, topic, count - 200)
    with job(kafka, f"{topic}-group", topic, by):
        order = until_forwarded(kafka, topic, count)
    traffic.judge(order)
    assert len(order) == count


def test_a_stand_by_takes_over_and_duplicates_are_known(kafka: Broker) -> None:
    kafka.make(**{"standby": 3, "standby-out": 1})
    traffic = Traffic(kafka.config, "standby", 3, seed=13)
    sent = traffic.send(200)
    again = CausalProducer(kafka.config, "a")
    for name in sent[:20]:
        again._frontier = list(traffic.causes[name])  # as a producer that crashed and sends it once more
        again.produce("standby", name.encode(), message=name)
    traffic.flush()
    again.flush()
    with job(kafka, "standby-group", "standby", "depends_on") as first:
        with job(kafka, "standby-group", "standby", "depends_on"):
            until_forwarded(kafka, "standby", 100)
            first.kill()
            traffic.send(200)
            traffic.flush()
            until_forwarded(kafka, "standby", 420)
    rows = [dict(each.headers()) for each in kafka.read("standby-out")]
    told = [(row["thence-message"].decode(), row["thence-outcome"].decode()) for row in rows]
    assert sum(outcome == "duplicate" for _, outcome in told) == 20
    traffic.judge(name for name, outcome in told if outcome == "delivered")
    assert len(told) == 420


@pytest.mark.timeout(1800)
def test_the_broker_killed_and_started_again(kafka: Broker) -> None:
    """Such kills left the client's commit of offsets in a transaction waiting forever: it is not used."""
    kafka.make(**{"crash": 3, "crash-out": 1})
    traffic = Traffic(kafka.config, "crash", 3, seed=17)
    count = 0
    with job(kafka, "crash-group", "crash", "depends_on") as running:
        for turn in range(3):
            count += len(traffic.send(200))
            time.sleep(0.4 * turn)
            kafka.kill()
            count += len(traffic.send(50))
            kafka.start()
            traffic.flush()
        order = until_forwarded(kafka, "crash", count, 600)
        assert running.poll() is None
    traffic.judge(order)
    assert len(order) == count


def test_a_state_is_found_without_the_offset_that_points_to_it(kafka: Broker) -> None:
    """The offset is told after the transaction, and a broker forgets it in the end: the state is found all the same."""
    from confluent_kafka.admin import AdminClient

    kafka.make(**{"pointer": 1, "pointer-out": 1})
    traffic = Traffic(kafka.config, "pointer", 1, seed=19)
    traffic.send(50)
    traffic.flush()
    with job(kafka, "pointer-group", "pointer", "depends_on"):
        until_forwarded(kafka, "pointer", 50)
    admin, group = AdminClient(kafka.config), "pointer-group"
    until(lambda: not admin.describe_consumer_groups([group])[group].result().members)
    admin.delete_consumer_groups([group])[group].result()
    traffic.send(50)
    traffic.flush()
    with job(kafka, "pointer-group", "pointer", "depends_on"):
        order = until_forwarded(kafka, "pointer", 100)
    traffic.judge(order)
    assert len(order) == 100


def test_what_is_missing_is_said(kafka: Broker) -> None:
    with pytest.raises(MisuseError, match=r"group\.id"):
        CausalConsumer(kafka.config, ["x"], lambda: Orderer("depends_on"))


def test_the_example_runs(kafka: Broker) -> None:
    example = Path(__file__).parents[2] / "examples" / "sources" / "kafka.py"
    done = subprocess.run([sys.executable, str(example), kafka.address], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["order-1 delivered", "payment-1 delivered", ""]
