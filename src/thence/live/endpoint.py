"""A live process: the driver of a process on asyncio, and what an application uses.

Invariant: only the writer (`writer.py`) changes anything; the application and the connections put inputs into its
queue. What it lets out waits in the inbox (`inbox.py`) until the application takes it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from thence.core.model.roster import positions
from thence.core.protocols.wire import MOST_LABEL_BYTES
from thence.errors import MisuseError, ThenceError
from thence.live.admin import Admin
from thence.live.config import Config, load
from thence.live.database import StandardDatabase
from thence.live.health import Health
from thence.live.heartbeat import keep_heartbeat
from thence.live.inbox import Inbox
from thence.live.inputs import Abandon, Send
from thence.live.journal import Journal, JournalPosition
from thence.live.logs import Warnings, note
from thence.live.message import Message, Reply, bury
from thence.live.metrics import LiveMetrics
from thence.live.process import LiveProcess
from thence.live.recovery import Recovered, recover
from thence.live.trace_files import TraceFiles
from thence.live.transport import Factory, Transport, configured
from thence.live.work import Handler, RunningHandlers
from thence.live.writer import InputWriter, to_the_end
from thence.tables.files.formats import MARK

DELIVERIES_A_TURN = 64
"""deliveries that are returned before other tasks get their turn"""
RENEW_SECONDS = 5.0


class Endpoint:
    """One live process. Use it as `async with Endpoint("a.toml") as me`."""

    def __init__(self, config: Config | Path | str, *, transport: Factory = configured) -> None:
        """Read the configuration; `start`, or `async with`, opens the journal and the connections.

        Args:
            config: the configuration, or the path of its TOML file.
            transport: makes the transport between the processes; by default the one that the configuration names.
        """
        self._make_transport = transport
        self.config = config if isinstance(config, Config) else load(config)
        self.stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self._stop: asyncio.Task[None] | None = None
        self._patient = True
        """whether a stop waits for the peers"""
        self._counted = False
        """whether the attempt of the next delivery is in the journal already"""
        self._reader: object = None
        self._reading = False
        """whether a reader of deliveries waits"""
        self.pause = 0.0
        """seconds that the reader waits, because a transaction was rolled back"""
        self._parts: list[Transport | Admin | LiveMetrics | Health] = []
        """what listens, in the order in which it began to"""

    @property
    def failure(self) -> ThenceError | None:
        """The reason why the endpoint has failed, if it has."""
        return self.writer.failure

    # -- start and stop ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Recover from the journal, listen and dial."""
        try:
            await self._start()
        except BaseException:
            await to_the_end(self._end())
            raise
        return self

    async def _start(self) -> None:
        config = self.config
        config.journal.parent.mkdir(parents=True, exist_ok=True)
        mark = JournalPosition(config.journal.with_name(config.journal.name + MARK))
        self.database = StandardDatabase(config.journal, synchronous=config.synchronous)
        self.journal = Journal(self.database, mark)
        limits, path = config.limits, config.record
        self.recorder = None if path is None else TraceFiles(path, config.name, limit=limits.record_bytes)
        found = self._recover()
        self.process = LiveProcess(
            found.core,
            self.journal,
            frame_limit=2 * limits.payload_bytes + (1 << 16),
            payload_limit=limits.payload_bytes,
            window=limits.credit_bytes,
            journal_limit=limits.journal_bytes,
        )
        self.process.notice = self._notice
        if self.recorder is not None:
            self.process.sync, self.process.record = self.recorder.sync, self.recorder.write
        self.inbox = Inbox(self.journal)
        for delivery in found.core.inbox.values():
            self.inbox.put(delivery, again=True)
        threaded = config.synchronous == "full"
        self.writer = InputWriter(config.name, self.process, self.inbox, threaded=threaded)
        self.warnings = Warnings(config.name)
        self.transport = self._make_transport(config, self.process, self.warnings)
        self.writer.ended = self.transport.shut
        self.admin = None if config.admin is None else Admin(self, config.admin)
        self.metrics = None if config.metrics is None else LiveMetrics(self, config.metrics)
        self.health = None if config.health is None else Health(self, config.health)
        if self.metrics is not None:
            self.writer.timed = self.metrics.committed
        self._begin(self.writer.run(), "thence-writer")
        self._begin(self._renew(), "thence-renewal")
        self._begin(keep_heartbeat(self), "thence-heartbeat")
        for part in (self.transport, self.admin, self.metrics, self.health):
            if part is not None:
                self._parts.append(part)
                await part.start()
        sentence = f"{config.name} runs; {found.replayed} inputs replayed"
        note(logging.INFO, "started", sentence, process=config.name, replayed=found.replayed)

    def _begin(self, work: Coroutine[None, None, None], name: str) -> None:
        """Start a task; whatever it raises ends the endpoint."""

        async def watched() -> None:
            try:
                await work
            except Exception as error:
                self.writer.fail(error)

        self._tasks.append(asyncio.get_running_loop().create_task(watched(), name=name))

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
            recorded=None if recorder is None else recorder.last,
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
        """Stop cleanly; what the peers have not taken by the deadline waits in the journal.

        A task that is cancelled meanwhile does not wait for the peers; the endpoint has stopped when this raises.
        """
        if self._stop is None:
            self._stop = asyncio.get_running_loop().create_task(self._stop_once(), name="thence-stop")
        await to_the_end(self._stop, self._hurry)

    def _hurry(self) -> None:
        self._patient = False

    async def _stop_once(self) -> None:
        self.stopping = True
        self.process.intake = False
        try:
            if self.failure is None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.config.limits.stop_seconds):
                        await self._flush()
                await self._say_goodbye()
        finally:
            self.writer.stopped = True
            await self._end()
            self.writer.fail_answers(MisuseError(f"{self.config.name} has stopped before this was taken"))
            self.inbox.wake()
        note(logging.INFO, "stopped", f"{self.config.name} has stopped", process=self.config.name)

    async def _say_goodbye(self) -> None:
        async with self.writer.turn:
            with suppress(ThenceError):
                await self.writer.last_words()
                self.writer.stopped = True
                for session in list(self.process.sessions.values()):
                    session.goodbye()

    async def _end(self) -> None:
        """End all tasks and connections, and close the files."""
        try:
            async with self.writer.turn if self._tasks else asyncio.Lock():  # no commit is under way
                for task in self._tasks:
                    task.cancel()
            for task in self._tasks:
                with suppress(asyncio.CancelledError):
                    await task
            for part in self._parts:
                await part.stop()
        finally:
            self._let_go()

    async def _flush(self) -> None:
        process = self.process
        while self.failure is None and self._patient:
            waiting = any(link.open and link.outbox.acked < link.outbox.sent for link in process.links)
            if process.idle and not waiting:
                return
            await asyncio.sleep(0.01)

    def _notice(self, event: str, peer: str, reason: str | None) -> None:
        """Log what became of a connection."""
        me = self.config.name
        sentence = {
            "connected": f"{me} and {peer} are connected",
            "refuses": f"{peer} refuses {me}: {reason}",
        }.get(event, f"{peer} is {event}: {reason}")
        if event in ("refused", "refuses"):
            self.warnings.say(event, peer, sentence, peer=peer, reason=reason)
        else:
            note(logging.INFO, event, sentence, process=me, peer=peer, reason=reason)

    def _let_go(self) -> None:
        for name in ("journal", "recorder", "writer"):
            part = getattr(self, name, None)
            if part is not None:
                part.close()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if self.transport.renew():
                sentence = f"{self.config.name} has read its certificates again"
                note(logging.INFO, "renewed", sentence, process=self.config.name)

    # -- what an application uses --------------------------------------------------------------------------------------

    async def send(self, destinations: Iterable[str], payload: bytes, *, label: str | None = None) -> str | None:
        """Send a message and return its id once it cannot be lost any more.

        Waits while the journal has no space left for a destination that stays away (`limits.away`).

        Args:
            destinations: the names of the processes that get the message.
            payload: its content, at most `limits.payload_bytes` bytes.
            label: which of several independent causal orders it belongs to; the one order if not given.
        """
        given = self.checked_send(destinations, payload, label)
        self.writer.check_outside("send")
        await self._space(given.destinations)
        answer = Reply()
        self.process.ask(given, answer)
        return await self.writer.outcome(answer)

    def checked_send(self, destinations: Iterable[str], payload: bytes, label: str | None) -> Send:
        """Return a send as an input of the process; raise `MisuseError` for one that cannot be made.

        Args:
            destinations: the names of the processes that get the message.
            payload: its content.
            label: which of several independent causal orders it belongs to; None for the one order.
        """
        self.writer.check()
        if self.stopping:
            raise MisuseError(f"{self.config.name} is stopping; it sends nothing more")
        if isinstance(destinations, str):
            raise MisuseError(f"destinations is the text {destinations!r}; a set of names is expected")
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise MisuseError(f"payload is a {type(payload).__name__}; bytes are expected")
        _check_label(label)
        limit = self.config.limits.payload_bytes
        if len(payload) > limit:
            raise MisuseError(f"a payload of {len(payload)} bytes; limits.payload_bytes is {limit}")
        mask = self.process.core.roster.mask(destinations)
        for link in (self.process.links[position] for position in positions(mask)):
            if 0 < link.payload_limit < len(payload):
                raise MisuseError(
                    f"a payload of {len(payload)} bytes; limits.payload_bytes of {link.name} is {link.payload_limit}"
                )
        return Send(mask, bytes(payload), label)

    async def _space(self, destinations: int) -> None:
        limits, links = self.config.limits, self.process.links
        while self.failure is None:
            over = [
                p
                for p in positions(destinations)
                if links[p].outbox.sent - links[p].outbox.acked >= limits.outbox_items
            ]
            away = [p for p in over if not links[p].open and p != self.process.core.me]
            if limits.away == "abandon" and away:
                for position in away:
                    await self.abandon(links[position].name)
                continue
            if not self.process.full and (not over or limits.away == "spill"):
                return
            self.writer.room.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await self.writer.room.wait()
        self.writer.check()

    async def deliveries(self) -> AsyncIterator[Message]:
        """Yield messages in causal order, until the endpoint stops; one reader at a time.

        A reader that has left its loop, or was cancelled, gives way to the next one.
        """
        if self._reading:
            raise MisuseError(
                "deliveries() is being read already; only one reader is allowed, so that the order is kept"
            )
        self._reader = reader = object()
        handed = 0
        while (self.inbox and self.failure is None and not self.writer.stopped) or await self._more():
            if self._reader is not reader:
                raise MisuseError(
                    "deliveries() is read by another reader now; only one is allowed, so that the order is kept"
                )
            if self.pause:
                pause, self.pause = self.pause, 0.0
                await asyncio.sleep(pause)
                continue
            if not self._next_is_fit() and not await self._worth_handing_over():
                continue
            if self._reader is not reader:
                continue  # which raises the error
            yield self._message()
            handed += 1
            if handed % DELIVERIES_A_TURN == 0:
                await asyncio.sleep(0)

    def _message(self) -> Message:
        delivery, payload, again = self.inbox.take()
        attempt = self.process.attempts.get(delivery.number, 0) + (not self._counted)
        self._counted = False
        return Message(self, delivery, payload, redelivered=again, attempt=attempt)

    def _next_is_fit(self) -> bool:
        """Return whether the next delivery is not done, and its attempts need no check."""
        delivery, again = self.inbox.next()
        return delivery.number in self.process.core.inbox and not (again and self.config.limits.attempts)

    async def _worth_handing_over(self) -> bool:
        """Skip deliveries that are done, bury those tried too often; first record the attempt at a replayed message."""
        delivery = self.inbox.next()[0]
        if delivery.number not in self.process.core.inbox:
            self.inbox.drop()
            return False
        limit = self.config.limits.attempts
        begun = self.process.attempts.get(delivery.number, 0) + 1
        if begun > limit:
            payload = self.journal.payload(delivery.ref)
            dead = Message(self, delivery, payload, redelivered=True, attempt=begun - 1)
            await bury(dead, "its transaction was rolled back, or the process ended, while it was in work")
            return False
        answer = Reply()
        self.process.tried(delivery.number, begun, answer)
        await self.writer.outcome(answer)
        self._counted = True
        return self.inbox.next()[0] is delivery

    async def run(self, handler: Handler, *, concurrency: int = 1, retry_after: float = 1.0) -> None:
        """Call a handler for every message until the endpoint stops.

        A handler starts when all messages that may be causes of its own are done. A message is done when its handler
        returns, unless the handler said so itself (`transaction`, `done`, `nack`). If a handler raises, the message is
        given back and delivered again; what depends on it waits.

        Args:
            handler: a coroutine function that takes a `Message`.
            concurrency: how many handlers run at once.
            retry_after: seconds until a message whose handler raised is delivered again, doubled with each attempt.
        """
        await RunningHandlers(self, handler, concurrency, retry_after).run()

    async def _more(self) -> bool:
        """Wait for a delivery; return whether there is one, or none will come any more."""
        while not self.inbox:
            self._check_failure()
            if self.stopping:
                return False
            self.inbox.news.clear()
            self._reading = True
            try:
                await self.inbox.news.wait()
            finally:
                self._reading = False
        self._check_failure()
        return not self.writer.stopped

    def _check_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def abandon(self, process: str) -> None:
        """Give up a process that is gone for good: nothing waits for it, and it is refused if it comes back.

        Args:
            process: its name.
        """
        self.writer.check_outside("abandon")
        answer = Reply()
        self.process.ask(Abandon(process), answer)
        await self.writer.outcome(answer)

    async def backup(self, target: Path | str) -> None:
        """Write a consistent copy of the journal while the endpoint runs.

        Never start an endpoint from a copy that is behind: its peers would find that it has lost state.

        Args:
            target: the file to write.
        """
        self.writer.check()
        await to_the_end(asyncio.to_thread(self.database.backup, target))


def _check_label(label: str | None) -> None:
    """Reject an invalid label before it is written to the journal."""
    if label is None:
        return
    if not isinstance(label, str):
        raise MisuseError(f"label is a {type(label).__name__}; a text is expected, or none")
    try:
        size = len(label.encode())
    except UnicodeEncodeError:
        raise MisuseError(f"label is {label[:20]!r}, which UTF-8 cannot hold") from None
    if size > MOST_LABEL_BYTES:
        raise MisuseError(f"label {label[:20]!r}... is longer than the {MOST_LABEL_BYTES} bytes accepted")
