"""The FastStream middleware: order, offsets, failures and refusals, on FastStream's broker in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import faststream.confluent
import faststream.confluent.testing
import faststream.kafka
import pytest
from confluent_kafka import TopicPartition
from faststream import AckPolicy
from faststream.exceptions import AckMessage, RejectMessage
from support.pages import run, steps

from thence import Gate
from thence.errors import MisuseError
from thence.integrations.faststream import CausalMiddleware, causal_headers

PAGES = Path(__file__).parents[3] / "docs" / "how-to"
PATIENCE = 300
"""seconds after which what was waited for will not come, however slow the machine is"""
CLIENTS = {
    "confluent": (faststream.confluent.KafkaBroker, faststream.confluent.TestKafkaBroker),
    "aiokafka": (faststream.kafka.KafkaBroker, faststream.kafka.TestKafkaBroker),
}


def nothing(ids: list[str]) -> list[str]:
    return []


class Client:
    """What the reader needs of FastStream's wrapper of confluent-kafka, and of the client in it."""

    def __init__(self) -> None:
        self.consumer = self
        self.commits: list[tuple[str, int, int]] = []
        self.paused = False
        self.assigned = [TopicPartition("t", number) for number in range(2)]

    def assignment(self) -> list[TopicPartition]:
        return self.assigned

    def pause(self, what: list[TopicPartition]) -> None:
        self.paused = True

    def resume(self, what: list[TopicPartition]) -> None:
        self.paused = False

    def commit(self, *, offsets: list[Any], asynchronous: bool) -> None:
        assert not asynchronous
        if not {each.partition for each in offsets} <= {each.partition for each in self.assigned}:
            raise RuntimeError("Partition is not assigned")  # as aiokafka says it
        self.commits += [(each.topic, each.partition, each.offset) for each in offsets]

    async def stop(self) -> None:
        pass


class Service:
    """A subscriber whose records the test brings, and whose handler does what the test says for an id."""

    def __init__(self, gate: Gate, **more: Any) -> None:
        self.broker = faststream.confluent.KafkaBroker("nowhere:1", logger=None)
        self.causal = CausalMiddleware(gate, commit_seconds=0.01, ask_seconds=0.02, **more)
        self.subscriber = self.causal.subscriber(self.broker, "t", group_id="g")
        self.handled: list[str] = []
        self.acts: dict[str, Callable[[], Any]] = {}
        self.client = Client()

        @self.subscriber
        async def handle(body: str) -> None:
            act = self.acts.get(body)
            if act is not None:
                found = act()
                if asyncio.iscoroutine(found):
                    await found
            self.handled.append(body)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Service]:
        async with faststream.confluent.TestKafkaBroker(self.broker):
            self.subscriber.consumer = self.client
            yield self
            await self.subscriber.stop()

    async def read(self, offset: int, id: str, *causes: str, partition: int = 0, **headers: str) -> None:
        told = causal_headers(id, causes) | headers
        raw = faststream.confluent.testing.MockConfluentMessage(
            id.encode(), "t", b"", [(name, text.encode()) for name, text in told.items()], offset, partition, 1, 0
        )
        await asyncio.wait_for(self.subscriber.consume_one(raw), PATIENCE)

    async def until(self, true: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not true():
                await asyncio.sleep(0.001)

    async def committed(self, offset: int) -> None:
        await self.until(lambda: self.client.commits[-1:] == [("t", 0, offset)])


def fail() -> None:
    raise ConnectionError("away")


def test_the_page_does_what_it_says() -> None:
    names: dict[str, Any] = {}
    (step,) = [each for each in steps((PAGES / "faststream.md").read_text()) if "faststream" in each.source]
    run(step, names)
    order: list[str] = []

    class Handled(set[str]):
        def add(self, id: str) -> None:
            order.append(id)

    names["handled"] = Handled()

    async def main() -> None:
        async with faststream.confluent.TestKafkaBroker(names["broker"]) as running:
            await asyncio.gather(
                names["pay"](), running.publish("order-1", "orders", headers=causal_headers("order-1"))
            )

    asyncio.run(main())
    assert order == ["order-1", "payment-1"]


@pytest.mark.parametrize("client", CLIENTS)
def test_the_test_broker_of_faststream_sees_the_order(client: str) -> None:
    broker_class, test_broker = CLIENTS[client]
    broker = broker_class("nowhere:1", logger=None)
    causal = CausalMiddleware(Gate(concurrency=4, known=nothing))
    seen: list[str] = []

    @causal.subscriber(broker, "orders", "payments", group_id="g")
    async def handle(body: str) -> None:
        await asyncio.sleep(0.01 if body == "order" else 0)
        seen.append(body)

    async def main() -> None:
        async with test_broker(broker) as running:
            await asyncio.gather(
                running.publish("payment", "payments", headers=causal_headers("p", ["o"])),
                running.publish("order", "orders", headers=causal_headers("o")),
            )

    asyncio.run(main())
    assert seen == ["order", "payment"]


def test_a_turn_ends_when_the_reply_is_published() -> None:
    broker = faststream.confluent.KafkaBroker("nowhere:1", logger=None)
    causal = CausalMiddleware(Gate(concurrency=4, known=nothing))
    seen: list[str] = []

    @broker.publisher("replies")
    @causal.subscriber(broker, "in", group_id="g")
    async def handle(body: str) -> str:
        seen.append(body)
        return f"reply to {body}"

    @broker.subscriber("replies")
    async def reply(body: str) -> None:
        await asyncio.sleep(0.01)
        seen.append(body)

    async def main() -> None:
        async with faststream.confluent.TestKafkaBroker(broker) as running:
            await asyncio.gather(
                running.publish("effect", "in", headers=causal_headers("e", ["c"])),
                running.publish("cause", "in", headers=causal_headers("c")),
            )

    asyncio.run(main())
    assert seen == ["cause", "reply to cause", "effect", "reply to effect"]


def test_reading_goes_on_while_a_record_waits_and_offsets_follow_what_is_done() -> None:
    async def main() -> None:
        async with Service(Gate(known=nothing)).running() as service:
            await service.read(3, "effect", "cause")
            await service.read(4, "other")
            await service.until(lambda: service.handled == ["other"])
            await service.committed(3)
            await service.read(5, "cause")
            await service.committed(6)
            assert service.handled == ["other", "cause", "effect"]

    asyncio.run(main())


def test_a_failed_record_holds_its_effects_and_its_offset_until_it_is_retried() -> None:
    async def main() -> None:
        async with Service(Gate(known=nothing)).running() as service:
            service.acts["cause"] = fail
            await service.read(0, "cause")
            await service.read(1, "effect", "cause")
            await service.read(2, "other")
            await service.until(lambda: service.handled == ["other"])
            await service.committed(0)
            with pytest.raises(MisuseError, match="effect has not failed"):
                service.causal.retry("effect")
            del service.acts["cause"]
            service.causal.retry("cause")
            await service.committed(3)
            assert service.handled == ["other", "cause", "effect"]

    asyncio.run(main())


@pytest.mark.parametrize("by", ["hand", "on_error"])
@pytest.mark.parametrize("fate", ["skip", "dead-letter"])
def test_a_failed_record_is_skipped_or_dead_lettered(fate: str, by: str) -> None:
    async def main() -> None:
        on_error: Any = fate if by == "on_error" else "hold"
        async with Service(Gate(known=nothing, on_error=on_error)).running() as service:
            service.acts["cause"] = fail
            await service.read(0, "cause")
            await service.read(1, "effect", "cause")
            if by == "hand":
                await service.until(service.causal.gate.failed)
                await asyncio.sleep(0.01)
                getattr(service.causal, fate.replace("-", "_"))("cause")
            await service.committed(2)
            assert service.handled == (["effect"] if fate == "skip" else [])

    asyncio.run(main())


def test_a_function_says_how_often_to_retry() -> None:
    attempts: list[int] = []

    async def on_error(row: Any, error: Exception, attempt: int) -> str:
        attempts.append(attempt)
        assert row["message"] == "cause"
        return "retry" if attempt < 3 else "skip"

    async def main() -> None:
        async with Service(Gate(known=nothing, on_error=on_error)).running() as service:  # type: ignore[arg-type]
            service.acts["cause"] = fail
            await service.read(0, "cause")
            await service.committed(1)

    asyncio.run(main())
    assert attempts == [1, 2, 3]


def test_ack_is_done_and_reject_is_a_dead_letter() -> None:
    def ack() -> None:
        raise AckMessage

    def reject() -> None:
        raise RejectMessage

    async def main() -> None:
        async with Service(Gate(known=nothing)).running() as service:
            service.acts |= {"acked": ack, "rejected": reject}
            await service.read(0, "acked")
            await service.read(1, "after-acked", "acked")
            await service.read(2, "rejected")
            await service.read(3, "after-rejected", "rejected")
            await service.committed(4)
            assert service.handled == ["after-acked"]

    asyncio.run(main())


def test_an_ack_by_hand_commits_nothing() -> None:
    broker = faststream.confluent.KafkaBroker("nowhere:1", logger=None)
    causal = CausalMiddleware(Gate(known=nothing))
    acked: list[str] = []

    @causal.subscriber(broker, "t", group_id="g")
    async def handle(body: str, message: faststream.confluent.KafkaMessage) -> None:
        class Consumer:
            async def commit(self) -> None:
                acked.append("everything that was read")

        message.consumer, message.is_manual = Consumer(), True  # type: ignore[assignment]
        await message.ack()

    async def main() -> None:
        async with faststream.confluent.TestKafkaBroker(broker) as running:
            await running.publish("a", "t", headers=causal_headers("a"))

    asyncio.run(main())
    assert acked == []


def test_a_repeat_and_an_unreadable_record_are_settled_without_a_handler() -> None:
    async def main() -> None:
        async with Service(Gate(known=nothing)).running() as service:
            await service.read(0, "a")
            await service.read(1, "a")
            await service.read(2, "b", **{"thence-causes": "no list"})
            await service.committed(3)
            assert service.handled == ["a"]

    asyncio.run(main())


def test_a_group_that_goes_back_repeats_nothing_that_waits_runs_or_is_done_here() -> None:
    async def main() -> None:
        async with Service(Gate(known=nothing, concurrency=4)).running() as service:
            go = asyncio.Event()
            service.acts["slow"] = go.wait
            for _ in range(2):  # the second time after a rebalance
                await service.read(5, "slow")
                await service.read(6, "effect", "slow")
                await service.read(7, "done")
                await service.until(lambda: "done" in service.handled)
            await service.committed(5)
            go.set()
            await service.committed(8)
            assert service.handled == ["done", "slow", "effect"]

    asyncio.run(main())


def test_a_partition_that_went_to_another_process_is_committed_there_and_holds_no_commit_back() -> None:
    async def main() -> None:
        async with Service(Gate(known=nothing, concurrency=4)).running() as service:
            go = asyncio.Event()
            service.acts["slow"] = go.wait
            await service.read(7, "slow", partition=1)
            await service.read(0, "first")
            await service.until(lambda: service.client.commits)
            service.client.assigned = [TopicPartition("t", 0)]
            go.set()
            await service.until(lambda: "slow" in service.handled)
            await service.read(1, "second")
            await service.committed(2)
            assert ("t", 1, 8) not in service.client.commits
            service.client.assigned = [
                TopicPartition("t", 1)
            ]  # back again: what the other process committed is not undone
            await service.read(99, "third", partition=1)
            await service.until(lambda: service.client.commits[-1] == ("t", 1, 100))
            assert ("t", 1, 8) not in service.client.commits

    asyncio.run(main())


def test_a_cause_that_another_process_finishes_later_is_asked_for_again() -> None:
    there: list[str] = []

    async def main() -> None:
        async with Service(Gate(known=lambda ids: there)).running() as service:
            await service.read(0, "effect", "cause")
            await asyncio.sleep(0.05)
            assert service.handled == []
            there.append("cause")
            await service.committed(1)
            assert service.handled == ["effect"]

    asyncio.run(main())


def test_a_target_that_cannot_be_asked_is_asked_again() -> None:
    calls: list[list[str]] = []

    def known(ids: list[str]) -> list[str]:
        calls.append(ids)
        if len(calls) < 3:
            raise ConnectionError("no database")
        return ids

    async def main() -> None:
        async with Service(Gate(known=known)).running() as service:
            await service.read(0, "effect", "cause")
            await service.committed(1)
            assert service.handled == ["effect"]

    asyncio.run(main())


def test_reading_pauses_at_the_held_limit_and_goes_on() -> None:
    async def main() -> None:
        async with Service(Gate(known=nothing, held_limit=2)).running() as service:
            await service.read(0, "a", "cause")
            assert not service.client.paused
            await service.read(1, "b", "cause")
            assert service.client.paused
            await service.read(2, "cause")  # read before it paused
            await service.committed(3)
            assert service.handled == ["cause", "a", "b"]
            assert not service.client.paused

    asyncio.run(main())


def test_stopping_gives_back_what_waits_lets_handlers_end_and_commits() -> None:
    async def main() -> None:
        service = Service(Gate(known=nothing))
        async with service.running():
            service.acts["slow"] = lambda: asyncio.sleep(0.05)
            await service.read(0, "slow")
            await service.read(1, "effect", "unknown")
            await asyncio.wait_for(service.subscriber.stop(), PATIENCE)
        assert service.handled == ["slow"]
        assert service.client.commits[-1] == ("t", 0, 1)
        assert service.causal.gate.waiting() == []

    asyncio.run(main())


def test_other_subscribers_of_the_broker_are_left_alone() -> None:
    broker = faststream.confluent.KafkaBroker("nowhere:1", logger=None)
    causal = CausalMiddleware(Gate(known=nothing))
    seen: list[str] = []

    @causal.subscriber(broker, "ordered", group_id="g")
    async def ordered(body: str) -> None:
        seen.append(body)

    @broker.subscriber("plain")
    async def plain(body: str) -> None:
        seen.append(body)

    async def main() -> None:
        async with faststream.confluent.TestKafkaBroker(broker) as running:
            await running.publish("effect", "plain", headers=causal_headers("e", ["never"]))

    asyncio.run(main())
    assert seen == ["effect"]


def test_a_row_of_your_own_may_read_the_body() -> None:
    async def row(message: Any) -> dict[str, Any]:
        body = message.body.decode()
        return {"message": body, "depends_on": {"b": ["a"]}.get(body, [])}

    async def main() -> None:
        async with Service(Gate(known=nothing), row=row).running() as service:
            await service.read(0, "b")
            await service.read(1, "a")
            await service.committed(2)
            assert service.handled == ["a", "b"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_workers": 4}, "commits what was read"),
        ({"batch": True}, "same batch"),
        ({"ack_policy": AckPolicy.ACK}, "leave out ack_policy"),
        ({"group_id": None}, "group_id= is needed"),
    ],
)
def test_options_that_would_lose_records_or_wait_without_end_are_refused(options: dict[str, Any], said: str) -> None:
    causal = CausalMiddleware(Gate(known=nothing))
    broker = faststream.confluent.KafkaBroker("nowhere:1")
    with pytest.raises(MisuseError, match=said):
        causal.subscriber(broker, "t", **{"group_id": "g", **options})


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        (Gate(), "needs Gate\\(known="),
        (Gate("clock"), "by='depends_on'"),
        (Gate(known=nothing, on_missing=lambda ids: None), "on_missing"),
        ("gate", "found a str"),
    ],
)
def test_gates_that_would_wait_without_end_are_refused(gate: Any, said: str) -> None:
    with pytest.raises(MisuseError, match=said):
        CausalMiddleware(gate)


def test_other_brokers_and_settings_are_refused() -> None:
    with pytest.raises(MisuseError, match="KafkaBroker"):
        CausalMiddleware(Gate(known=nothing)).subscriber(object(), "t", group_id="g")
    with pytest.raises(MisuseError, match="commit_seconds is 0"):
        CausalMiddleware(Gate(known=nothing), commit_seconds=0)
