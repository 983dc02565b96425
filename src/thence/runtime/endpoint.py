"""A live process: the driver of a station on asyncio, and what an application uses.

Law. One task writes: it applies a group of inputs, commits it (in a thread of its own where the disk is waited for),
and lets out what the group set free. Everything else only puts inputs into the queue. So nothing leaves before its
commit, and commits are shared by whatever has gathered meanwhile.

While an application's transaction is open the writer waits for it; receipts gather in memory, unacknowledged, up to the
credit that was granted.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from thence.errors import MisuseError, ThenceError
from thence.model.roster import positions
from thence.protocols.ack_member import AckMember
from thence.runtime.admin import Admin
from thence.runtime.config import Config, load
from thence.runtime.core import Delivery
from thence.runtime.database import JournalError, Row, StandardDatabase, Value
from thence.runtime.detector import Detector
from thence.runtime.frames import BEAT, BYE, frame
from thence.runtime.inputs import Abandon, Send, Stop, Trusted
from thence.runtime.journal import Journal, Mark
from thence.runtime.metrics import Metrics
from thence.runtime.record import Recorder
from thence.runtime.recovery import Recovered, recover
from thence.runtime.station import Asked, Released, Station
from thence.runtime.tcp import TcpTransport

log = logging.getLogger("thence.runtime")

SLICE = 64
"""deliveries that are handed over before other tasks get their turn"""
RENEW_SECONDS = 5.0
MEMORY_BYTES = 1 << 24
"""payloads of deliveries that are kept in memory; the others are read from the journal when their turn comes"""


class Answer:
    """A future that a station settles."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        """Belong to the running loop."""
        self.future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def settle(self, message: str | None) -> None:
        """Tell that the input is committed."""
        if not self.future.done():
            self.future.set_result(message)

    def fail(self, error: ThenceError) -> None:
        """Tell that the input was refused."""
        if not self.future.done():
            self.future.set_exception(error)


class Message:
    """A message that was delivered here, in causal order."""

    __slots__ = ("_endpoint", "id", "label", "number", "payload", "redelivered", "sender")

    def __init__(self, endpoint: Endpoint, delivery: Delivery, payload: bytes, *, redelivered: bool) -> None:
        """Take the delivery and its payload."""
        core = endpoint.station.core
        self._endpoint = endpoint
        self.id = core.name(delivery.key)
        """unique in its run: the key to be idempotent by"""
        self.label, self.sender = delivery.key[0], core.roster.name(delivery.key[1])
        self.number = delivery.number
        """its place among all deliveries here, from 1"""
        self.payload = payload
        self.redelivered = redelivered
        """whether it may have been handed over before: the process ended before it was done"""

    async def done(self) -> None:
        """Say that the message is dealt with; it will not come again after a crash."""
        answer = Answer()
        self._endpoint.station.finish(self.number, answer)
        await self._endpoint.outcome(answer)

    def finish(self) -> None:
        """Say the same without waiting until it is on disk."""
        self._endpoint.station.finish(self.number)

    def transaction(self) -> Transaction:
        """Deal with the message in one step: rows of the application, sends, and being done are one commit."""
        return Transaction(self._endpoint, self)

    def __repr__(self) -> str:
        return f"Message({self.id!r}, {len(self.payload)} bytes{', redelivered' * self.redelivered})"


class Transaction:
    """Rows of the application in the journal's own database, sends, and `done`: committed together or not at all."""

    def __init__(self, endpoint: Endpoint, message: Message) -> None:
        """Belong to a message."""
        self._endpoint, self._message = endpoint, message
        self._sends: list[tuple[Send, Answer]] = []
        self._open = False
        self._expired = False
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        """Take the writer's place."""
        endpoint = self._endpoint
        await endpoint.turn.acquire()
        try:
            endpoint.check()
            endpoint.journal.begin()
        except BaseException:
            endpoint.turn.release()
            raise
        self._open, self._began = True, time.monotonic()
        seconds = endpoint.config.limits.transaction_seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)
        return self

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """Run a statement on the application's tables; those of the journal are out of reach."""
        self._check()
        database = self._endpoint.database
        database.guard(False)
        try:
            return database.execute(sql, parameters)
        finally:
            database.guard(True)

    def send(self, destinations: Iterable[str], payload: bytes, *, label: str | None = None) -> None:
        """Send a message with the commit."""
        self._check()
        given = self._endpoint.checked_send(destinations, payload, label)
        self._sends.append((given, Answer()))

    def _check(self) -> None:
        if self._expired:
            raise self._late()
        if not self._open:
            raise MisuseError("the transaction is not open; use it inside `async with`")

    def _late(self) -> MisuseError:
        seconds = self._endpoint.config.limits.transaction_seconds
        return MisuseError(
            f"the transaction of {self._message.id} was open for more than {seconds:g} s (limits.transaction_seconds) "
            "and was rolled back"
        )

    def _expire(self) -> None:
        if self._open:
            self._expired = True
            self._give_back()

    def _give_back(self) -> None:
        self._open = False
        if self._timer is not None:
            self._timer.cancel()
        try:
            self._endpoint.journal.rollback()
        finally:
            self._endpoint.turn.release()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, or roll back if the block raised or took too long."""
        if self._expired:
            if error is None:
                raise self._late()
            return
        if error is not None:
            self._give_back()
            return
        if time.monotonic() - self._began > self._endpoint.config.limits.transaction_seconds:
            self._give_back()
            raise self._late()
        self._open = False
        if self._timer is not None:
            self._timer.cancel()
        try:
            await self._endpoint.commit_with(self._message.number, self._sends)
        finally:
            self._endpoint.turn.release()


class Endpoint:
    """One live process. Use it as `async with Endpoint("a.toml") as me`."""

    def __init__(self, config: Config | Path | str) -> None:
        """Take the configuration, or the file that holds it."""
        self.config = config if isinstance(config, Config) else load(config)
        self.turn = asyncio.Lock()
        """held by whoever writes"""
        self.failure: ThenceError | None = None
        self.stopping = False
        self._work = asyncio.Event()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._inbox: deque[tuple[Delivery, bool]] = deque()
        self._bodies: dict[int, bytes] = {}
        self._answers: set[Answer] = set()
        self._memory = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._thread: ThreadPoolExecutor | None = None
        self._reading = False
        self.after_release: list[Callable[[Released], None]] = []
        """called with everything a group sets free: metrics and the like"""

    # -- start and stop ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Recover from the journal, listen and dial."""
        try:
            await self._start()
        except BaseException:
            self._let_go()
            raise
        return self

    async def _start(self) -> None:
        config = self.config
        config.journal.parent.mkdir(parents=True, exist_ok=True)
        mark = Mark(config.journal.with_name(config.journal.name + ".mark"))
        self.database = StandardDatabase(config.journal, synchronous=config.synchronous)
        self.journal = Journal(self.database, mark)
        self.recorder = None if config.record is None else Recorder(config.record, config.name)
        found = self._recover()
        limits = config.limits
        self.station = Station(
            found.core,
            self.journal,
            frame_limit=2 * limits.payload_bytes + (1 << 16),
            window=limits.credit_bytes,
            journal_limit=limits.journal_bytes,
        )
        self.station.wake = self._work.set
        if self.recorder is not None:
            self.station.sync, self.station.record = self.recorder.sync, self.recorder.write
        for delivery in found.core.inbox.values():
            self._inbox.append((delivery, True))
        if config.synchronous == "full" and sqlite3.threadsafety == 3:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="thence-commit")
        self.transport = TcpTransport(config, self.station)
        self.admin = None if config.admin is None else Admin(self, config.admin)
        self.metrics = None if config.metrics is None else Metrics(self, config.metrics)
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self._write(), name="thence-writer"))
        self._tasks.append(loop.create_task(self._renew(), name="thence-renewal"))
        if self.station.core.relays:
            self._tasks.append(loop.create_task(self._detect(), name="thence-detector"))
        await self.transport.start()
        if self.admin is not None:
            await self.admin.start()
        if self.metrics is not None:
            await self.metrics.start()
        log.info("%s runs; %d inputs replayed", config.name, found.replayed)

    def _recover(self) -> Recovered:
        config, recorder = self.config, self.recorder
        found = recover(
            self.journal,
            config.protocol,
            config.processes,
            config.name,
            run=config.run,
            record=recorder is not None,
            options=config.options,
            recorded=None if recorder is None else recorder.index,
            now=time.time(),
        )
        if recorder is not None:
            recorder.write(found.events)
        return found

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop cleanly: intake off, commit, flush until a deadline, snapshot."""
        await self.stop()

    async def stop(self) -> None:
        """Stop cleanly; what the peers have not taken by the deadline waits in the journal."""
        if self.stopping:
            return
        self.stopping = True
        self.station.intake = False
        if self.failure is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.config.limits.stop_seconds):
                    await self._flush()
            async with self.turn:
                with suppress(ThenceError):
                    await self._last_words()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        await self.transport.stop()
        if self.admin is not None:
            await self.admin.stop()
        if self.metrics is not None:
            await self.metrics.stop()
        for answer in self._answers:
            answer.fail(MisuseError(f"{self.config.name} has stopped before this was taken"))
        self._news.set()
        self._let_go()

    async def _flush(self) -> None:
        station = self.station
        while self.failure is None:
            waiting = any(link.open and link.outbox.acked < link.outbox.sent for link in station.links)
            if station.idle and not waiting:
                return
            await asyncio.sleep(0.01)

    async def _last_words(self) -> None:
        self.check()
        station = self.station
        station.queue.clear()
        station.queue.append(Asked(Stop()))
        station.prepare(time.time())
        station.snapshot()
        await self._commit()
        self._release()
        for session in list(station.sessions.values()):
            session.channel.write(frame(BYE))

    def _let_go(self) -> None:
        for name in ("journal", "recorder"):
            part = getattr(self, name, None)
            if part is not None:
                part.close()
        if self._thread is not None:
            self._thread.shutdown(wait=False)

    # -- the writer ----------------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        station = self.station
        while self.failure is None:
            await self._work.wait()
            self._work.clear()
            if station.forgetful is not None:
                self._fail(JournalError(station.forgetful))
                return
            await asyncio.sleep(0)  # let what has arrived at the same time join the group
            async with self.turn:
                try:
                    while not station.idle and self.failure is None:
                        station.prepare(time.time())
                        await self._commit()
                        self._release()
                except ThenceError as error:
                    self._fail(error)

    async def _commit(self) -> None:
        if self._thread is None:
            self.station.commit()
        else:
            await asyncio.get_running_loop().run_in_executor(self._thread, self.station.commit)

    def _release(self) -> None:
        released = self.station.release()
        for delivery in released.delivered:
            body = released.bodies.get(delivery.ref)
            if body is not None and self._memory < MEMORY_BYTES:
                self._bodies[delivery.number] = body
                self._memory += len(body)
            self._inbox.append((delivery, False))
        for name, causes in released.without:
            log.warning("%s delivers %s without %s", self.config.name, name, ", ".join(causes))
        if released.delivered:
            self._news.set()
        self._room.set()
        for hook in self.after_release:
            hook(released)

    async def commit_with(self, delivery: int, sends: Collection[tuple[Send, Answer]]) -> None:
        """Commit an open transaction together with its sends and the end of a delivery. The caller has the turn."""
        station = self.station
        try:
            self._check_all([given for given, _ in sends])
        except MisuseError:
            self.journal.rollback()
            raise
        waiting, station.queue = station.queue, deque(Asked(given, answer) for given, answer in sends)
        done, station.done = station.done, [(delivery, None)]
        try:
            station.prepare(time.time(), begin=False)
            await self._commit()
            self._release()
        except ThenceError as error:
            self._fail(error)
            raise
        finally:
            waiting.extend(station.queue)  # what came meanwhile comes after what waited
            station.queue, station.done = waiting, done + station.done
            if not station.idle:
                self._work.set()

    def _check_all(self, sends: Iterable[Send]) -> None:
        """Refuse a send that the member would refuse, before anything is changed."""
        twin = self.station.core.member.fork()
        for given in sends:
            self.station.core.check_send(given)
            twin.send(given.destinations, label=given.label)

    def _fail(self, error: ThenceError) -> None:
        """Stop taking part: memory may be ahead of the disk."""
        log.error("%s stops: %s", self.config.name, error)
        self.failure = error
        for answer in self._answers:
            answer.fail(error)
        for session in list(self.station.sessions.values()):
            session.channel.close()
        self._news.set()
        self._room.set()

    def check(self) -> None:
        """Raise if the endpoint has failed or stops."""
        if self.failure is not None:
            raise self.failure
        if self.stopping and not self.station.intake and self.journal.failed:
            raise JournalError(self.journal.failed)

    async def outcome(self, answer: Answer) -> str | None:
        """Wait until an input is committed; raise if the endpoint fails or stops first."""
        self.check()
        self._answers.add(answer)
        try:
            return await answer.future
        finally:
            self._answers.discard(answer)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if self.transport.renew():
                log.info("%s has read its certificates again", self.config.name)

    async def _detect(self) -> None:
        """Send heartbeats, and tell the member whom to trust whenever that changes."""
        limits, core, loop = self.config.limits, self.station.core, asyncio.get_running_loop()
        assert isinstance(core.member, AckMember)
        detector = Detector(
            core.me,
            len(core.roster),
            core.member.masks,
            interval=limits.heartbeat_seconds,
            threshold=limits.suspect_after,
            now=loop.time(),
        )
        told = core.member.receiver.trust
        while True:
            for session in list(self.station.sessions.values()):
                if session.open:
                    session.channel.write(frame(BEAT))
            await asyncio.sleep(limits.heartbeat_seconds)
            now = loop.time()
            for peer, heard in self.transport.last_heard.items():
                detector.heard(peer, heard)
            detector.tick(now)
            trusted = detector.trusted(now)
            if trusted != told:
                told = trusted
                names = core.roster.members(trusted)
                log.info("%s trusts %s", self.config.name, ", ".join(names))
                self.station.ask(Trusted(names))

    # -- what an application uses --------------------------------------------------------------------------------------

    async def send(self, destinations: Iterable[str], payload: bytes, *, label: str | None = None) -> str | None:
        """Send a message and return its id once it cannot be lost any more.

        Waits while the journal has no room for a destination that stays away (`limits.away`).
        """
        given = self.checked_send(destinations, payload, label)
        await self._space(given.destinations)
        answer = Answer()
        self.station.ask(given, answer)
        return await self.outcome(answer)

    def checked_send(self, destinations: Iterable[str], payload: bytes, label: str | None) -> Send:
        """Return a send as an input, or say what is wrong with it."""
        self.check()
        if self.stopping:
            raise MisuseError(f"{self.config.name} is stopping; it sends nothing more")
        if isinstance(destinations, str):
            raise MisuseError(f"destinations is the text {destinations!r}; a set of names is expected")
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise MisuseError(f"payload is a {type(payload).__name__}; bytes are expected")
        limit = self.config.limits.payload_bytes
        if len(payload) > limit:
            raise MisuseError(f"a payload of {len(payload)} bytes; limits.payload_bytes is {limit}")
        return Send(self.station.core.roster.mask(destinations), bytes(payload), label)

    async def _space(self, destinations: int) -> None:
        limits, links = self.config.limits, self.station.links
        while self.failure is None:
            over = [
                p
                for p in positions(destinations)
                if links[p].outbox.sent - links[p].outbox.acked >= limits.outbox_items
            ]
            away = [p for p in over if not links[p].open and p != self.station.core.me]
            if limits.away == "abandon" and away:
                for position in away:
                    await self.abandon(links[position].name)
                continue
            if not self.station.full and (not over or limits.away == "spill"):
                return
            self._room.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await self._room.wait()
        self.check()

    async def deliveries(self) -> AsyncIterator[Message]:
        """Yield messages in causal order, until the endpoint stops; one reader at a time."""
        if self._reading:
            raise MisuseError("deliveries() is being read already; one reader keeps the order")
        self._reading = True
        handed = 0
        try:
            while True:
                while not self._inbox:
                    self.check()
                    if self.stopping:
                        return
                    self._news.clear()
                    await self._news.wait()
                self.check()
                delivery, again = self._inbox.popleft()
                yield Message(self, delivery, self._payload(delivery), redelivered=again)
                handed += 1
                if handed % SLICE == 0:
                    await asyncio.sleep(0)
        finally:
            self._reading = False

    def _payload(self, delivery: Delivery) -> bytes:
        body = self._bodies.pop(delivery.number, None)
        if body is None:
            return self.journal.payload(delivery.ref)
        self._memory -= len(body)
        return body

    async def abandon(self, process: str) -> None:
        """Give somebody up who is gone for good: nothing waits for it any more, and it is refused if it comes back."""
        answer = Answer()
        self.station.ask(Abandon(process), answer)
        await self.outcome(answer)
        session = self.station.sessions.get(self.station.core.roster.position(process))
        if session is not None:
            session.channel.close()

    async def backup(self, target: Path | str) -> None:
        """Write a consistent copy of the journal while the endpoint runs.

        A copy that is behind must never be started: its peers would find that it has lost its memory.
        """
        async with self.turn:
            self.check()
            self.database.backup(target)
