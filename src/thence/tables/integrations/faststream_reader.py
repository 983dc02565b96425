"""Continues to read while records wait for their causes, and commits the offsets of records that are done.

*Invariant.* The committed offset of a partition is that of its first record that is not settled. A record is settled
when its handler has finished and its reply is published, when it was skipped or dead-lettered, and when the gate gives
it no turn (a repeat, or unusable). So a killed process repeats what was not committed, and loses nothing.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from faststream.exceptions import RejectMessage

from thence.core.model.plain import Field, Fields
from thence.tables.delivery.gate_entry import TurnRefused
from thence.tables.delivery.gate_map import CHOICES
from thence.tables.delivery.gate_turn import Turn, ask_in_loop
from thence.tables.sources.kafka_progress import Progress

if TYPE_CHECKING:
    from thence.tables.integrations.faststream import CausalMiddleware

Place = tuple[str, int, int]
"""topic, partition and offset"""
current: ContextVar[Handling | None] = ContextVar("thence_handling", default=None)
"""the record whose processing runs in this task; None where FastStream's test broker calls a handler"""
log = logging.getLogger("thence")


def place_of(raw: Any) -> Place:
    """Return where a record lies; confluent-kafka has methods, aiokafka attributes."""
    topic, partition, offset = (each() if callable(each) else each for each in (raw.topic, raw.partition, raw.offset))
    return topic, partition, offset


class Handling:
    """A record that was read and is not settled."""

    def __init__(self, raw: Any) -> None:
        """Take a record as the client read it."""
        self.raw, self.place = raw, place_of(raw)
        self.at_gate = asyncio.Event()
        self.turn: Turn | None = None
        self.row: Fields = {}
        self.error: BaseException | None = None
        self.processed = False
        """whether FastStream has processed it, with or without an error"""
        self.began = False
        self.task: asyncio.Task[None] | None = None

    def reset(self) -> None:
        """Forget the last attempt before the next begins."""
        self.turn, self.error, self.processed = None, None, False

    def offered(self, turn: Turn, row: Fields) -> None:
        """Note that the row goes to the gate now."""
        self.turn, self.row = turn, row
        self.at_gate.set()

    def ended(self, error: BaseException | None, began: bool) -> None:
        """Note how FastStream's processing ended, and whether the handler began."""
        self.error, self.began, self.processed = error, began, True

    @property
    def waits(self) -> bool:
        """Whether its handler has not begun."""
        return self.turn is None or self.turn.entry.state in ("held", "ready")


class Reader:
    """Takes the place of a subscriber's `consume_one` and `stop`."""

    def __init__(self, causal: CausalMiddleware, broker: Any, subscriber: Any) -> None:
        """Have the subscriber give each record to a task of its own."""
        self.causal, self.gate, self.broker, self.subscriber = causal, causal.gate, broker, subscriber
        self._stop = subscriber.stop
        subscriber.consume_one, subscriber.stop = self.consume_one, self.stop
        self._reset()

    def _reset(self) -> None:
        self._handlings: dict[Place, Handling] = {}
        self._progress: dict[tuple[str, int], Progress] = {}
        self._committed: dict[tuple[str, int], int] = {}
        self._ticker: asyncio.Task[None] | None = None
        self._paused = False

    # -- reading -----------------------------------------------------------------------------------------------------

    async def consume_one(self, raw: Any) -> None:
        """Bring a record to the gate, and return to reading."""
        topic, partition, offset = place = place_of(raw)
        progress = self._progress.get((topic, partition))
        if progress is None or offset < progress.next:  # the first, or the group has gone back to its last commit
            progress = self._progress[topic, partition] = Progress(None, 0)
        progress.take(offset)
        if self._ticker is None:
            self._ticker = asyncio.create_task(self._tick())
        if place in self._handlings:  # it waits or runs: its end settles it
            return
        handling = self._handlings[place] = Handling(raw)
        self.start(handling)
        await handling.at_gate.wait()
        self._pause(not self.gate.room)

    def start(self, handling: Handling) -> None:
        """Process a record, for the first time or again."""
        handling.task = asyncio.create_task(self._process(handling))

    def failed(self, id: str, key: Iterable[Field] | None) -> list[Handling]:
        """Return the records of an id whose handlers failed, and that are not being tried again."""
        wanted = None if key is None else tuple(key)
        return [
            each
            for each in self._handlings.values()
            if each.turn is not None
            and each.turn.entry.id == id
            and wanted in (None, each.turn.entry.key)
            and each.task is not None
            and each.task.done()
        ]

    def _pause(self, full: bool) -> None:
        """Stop reading, or go on. The client is still polled, so that the group keeps it as a member.

        A record that comes while reading is paused is of a partition that was assigned since: pause again.
        """
        client = self.subscriber.consumer
        if client is None or not (full or self._paused):
            return
        self._paused = full
        inner = getattr(client, "consumer", None)
        if inner is not None:  # confluent-kafka
            (inner.pause if full else inner.resume)(inner.assignment())
        else:
            (client.pause if full else client.resume)(*client.assignment())

    # -- handling ----------------------------------------------------------------------------------------------------

    async def _process(self, handling: Handling) -> None:
        current.set(handling)
        try:
            while await self._again(handling):
                pass
        finally:
            handling.at_gate.set()
            self._pause(not self.gate.room)

    async def _again(self, handling: Handling) -> bool:
        """Let FastStream process a record; return whether it is to be tried again."""
        handling.reset()
        await self.subscriber.consume(handling.raw)  # FastStream logs what a handler raises
        error = handling.error
        if not handling.processed or isinstance(error, asyncio.CancelledError):  # the subscriber ends
            return False
        if error is None or isinstance(error, TurnRefused) or handling.turn is None:  # without a turn it was unreadable
            self.settle(handling)
            return False
        if not handling.began:  # `known` raised
            await asyncio.sleep(self.causal.ask_seconds)
            return True
        choice = await self._choice(handling, error)
        if choice in ("skip", "dead-letter"):
            entry = handling.turn.entry
            (self.gate.skip if choice == "skip" else self.gate.dead_letter)(entry.id, entry.key)
            self.settle(handling)
        return choice == "retry"

    async def _choice(self, handling: Handling, error: BaseException) -> str:
        """Return what becomes of a record whose handler raised."""
        on_error = self.gate.on_error
        if isinstance(error, RejectMessage):
            return "dead-letter"
        if not isinstance(error, Exception):
            return "hold"
        if not callable(on_error):
            return on_error
        assert handling.turn is not None
        try:
            found: Any = on_error(handling.row, error, handling.turn.attempt)
            choice = str(await found if inspect.isawaitable(found) else found)
        except Exception:
            log.exception("on_error raised; the record is held: %s", handling.place)
            return "hold"
        if choice not in CHOICES:
            log.error("on_error returned %r; one of %s is accepted. The record is held", choice, ", ".join(CHOICES))
            return "hold"
        return choice

    # -- offsets -----------------------------------------------------------------------------------------------------

    def settle(self, handling: Handling) -> None:
        """Note that a record is done with."""
        topic, partition, offset = handling.place
        progress = self._progress.get((topic, partition))
        if self._handlings.pop(handling.place, None) is not None and progress is not None:
            progress.settle(offset)

    async def _tick(self) -> None:
        """Commit, and ask for causes, from time to time."""
        loop = asyncio.get_running_loop()
        commit, ask = loop.time() + self.causal.commit_seconds, loop.time() + self.causal.ask_seconds
        while True:
            await asyncio.sleep(max(min(commit, ask) - loop.time(), 0))
            if loop.time() >= commit:
                await self._commit()
                commit = loop.time() + self.causal.commit_seconds
            if loop.time() >= ask:
                self.gate.ask_again()
                if (mark := self.gate.may_ask()) is not None:
                    try:
                        await ask_in_loop(self.gate)
                    finally:
                        self.gate.stop_asking(mark)
                    self._pause(not self.gate.room)
                ask = loop.time() + self.causal.ask_seconds

    async def _commit(self) -> None:
        """Commit what has changed; what a group refuses while it is rebalanced is committed later."""
        client = self.subscriber.consumer
        if client is None:
            return
        changed: dict[tuple[str, int], int] = {}
        try:
            inner = getattr(client, "consumer", None)
            self._forget_others((inner or client).assignment())
            firsts = {where: each.first for where, each in self._progress.items()}
            changed = {where: first for where, first in firsts.items() if self._committed.get(where) != first}
            if not changed:
                return
            if inner is not None:
                from confluent_kafka import TopicPartition

                offsets = [TopicPartition(*where, first) for where, first in changed.items()]
                await asyncio.to_thread(lambda: inner.commit(offsets=offsets, asynchronous=False))
            else:
                from aiokafka import TopicPartition as Partition

                await client.commit({Partition(*where): first for where, first in changed.items()})
        except Exception as error:
            log.warning("offsets of %s were not committed: %s", sorted(changed), error)
        else:
            self._committed |= changed

    def _forget_others(self, assigned: Iterable[Any]) -> None:
        """Forget how far partitions are that went to another process, which commits now and may be further."""
        for where in self._progress.keys() - {(each.topic, each.partition) for each in assigned}:
            del self._progress[where]
            self._committed.pop(where, None)

    async def stop(self) -> None:
        """Give back what waits, let handlers end, commit, and let FastStream stop the subscriber."""
        self.subscriber.running = False
        tasks = {each.task for each in self._handlings.values() if each.task is not None} - {asyncio.current_task()}
        for each in self._handlings.values():
            if each.task in tasks and each.waits:
                each.task.cancel()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=self.broker.config.graceful_timeout)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
            await self._commit()
        self._reset()
        await self._stop()
