"""A delivered message as the application sees it, and the transaction that completes it in one commit.

Invariant: a transaction is committed together with the end of its message and its sends, or not at all. While it is
open, no other input is written; it ends within `transaction_seconds`, or is rolled back with an error. A task that is
cancelled inside the block rolls it back; one that is cancelled after the block does not: the commit runs to its end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from thence.errors import MisuseError, ThenceError
from thence.live.core import Core
from thence.live.database import SqlRow, SqlValue
from thence.live.group import InboxEntry
from thence.live.inputs import Send
from thence.live.logs import note

if TYPE_CHECKING:
    from thence.live.endpoint import Endpoint

FIRST_PAUSE, LAST_PAUSE = 0.01, 1.0
"""seconds before a message whose transaction was rolled back is delivered again, doubled with each attempt"""
DEAD_LETTER = "dead-letter"
"""the label of messages that were given up: an order of its own"""


class Trial:
    """A row of sends that will be applied together."""

    def __init__(self, core: Core) -> None:
        """Copy the member."""
        self._core, self._member, self._labels = core, core.member.fork(), set(core.labels)

    def send(self, given: Send) -> None:
        """Check a send after those before it; raise the core's error if it is invalid."""
        self._core.check_send(given, self._labels)
        self._member.send(given.destinations, label=given.label)
        if given.label is not None:
            self._labels.add(given.label)


class RolledBackError(MisuseError):
    """A transaction was open for too long, perhaps because the process was suspended; nothing of it was committed."""


class DoneError(MisuseError):
    """A transaction was opened for a message that is done, by an earlier one whose task was cancelled perhaps."""


class Reply:
    """A future that a process settles."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        """Create the future in the running loop."""
        self.future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    @property
    def gone(self) -> bool:
        """Whether the waiter was cancelled."""
        return self.future.cancelled()

    def settle(self, message: str | None) -> None:
        """Report that the input is committed."""
        if not self.future.done():
            self.future.set_result(message)

    def fail(self, error: ThenceError) -> None:
        """Report that the input was refused."""
        if not self.future.done():
            self.future.set_exception(error)


class Message:
    """A message that was delivered here, in causal order."""

    __slots__ = (
        "_delivery",
        "_endpoint",
        "attempt",
        "clock",
        "given_back",
        "handled",
        "number",
        "payload",
        "redelivered",
    )

    def __init__(
        self, endpoint: Endpoint, delivery: InboxEntry, payload: bytes, *, redelivered: bool, attempt: int = 1
    ) -> None:
        """Wrap a delivery for the application; endpoints make these.

        Args:
            endpoint: where it was delivered.
            delivery: its entry in the inbox.
            payload: its content.
            redelivered: whether it may have been delivered to the application before.
            attempt: which attempt this is, from 1.
        """
        self._endpoint, self._delivery = endpoint, delivery
        self.clock = delivery.clock
        """clock of its send: lower than that of whatever depends on it; None if that is not known"""
        self.given_back = False
        """whether it was given back, and will be delivered again"""
        self.handled = False
        """whether a handler of `run` deals with it, which gives it back itself"""
        self.attempt = attempt
        """how often it was delivered, this time included, as far as the journal knows"""
        self.number = delivery.number
        """its place among all deliveries here, from 1"""
        self.payload = payload
        self.redelivered = redelivered
        """whether it may have been delivered before: the process ended before it was done"""

    @property
    def id(self) -> str:
        """Unique in its run: the key to be idempotent by."""
        return self._endpoint.process.core.name(self._delivery.key)

    @property
    def sender(self) -> str:
        """The process that sent it."""
        return self._endpoint.process.core.roster.name(self._delivery.key[1])

    @property
    def label(self) -> str | None:
        """The causal order it belongs to; None is the one without a name."""
        return self._delivery.key[0]

    async def done(self) -> None:
        """Acknowledge the message; it will not come again after a crash."""
        self._endpoint.writer.check_outside("done")
        self.keep()
        answer = Reply()
        self._endpoint.process.finish(self.number, answer)
        await self._endpoint.writer.outcome(answer)

    def finish(self) -> None:
        """Acknowledge it without waiting until that is on disk."""
        self.keep()
        self._endpoint.process.finish(self.number)

    async def nack(self, after: float = 0.0, *, reason: str = "") -> None:
        """Give the message back: it is delivered again, before messages that were never delivered.

        At the last of `limits.attempts` it goes to `dead_letter` instead, with the reason, and is done. Messages that
        depend on it are delivered meanwhile. Returns once that is on disk.

        Args:
            after: seconds until it is delivered again.
            reason: why, for the dead letter.
        """
        endpoint = self._endpoint
        endpoint.writer.check_outside("nack")
        if self.number not in endpoint.process.core.inbox:
            raise DoneError(f"{self.id} is done already; it cannot be given back")
        if 0 < endpoint.config.limits.attempts <= self.attempt:
            await bury(self, reason)
            return
        if not self.keep():
            return  # it was given back before, and comes again or has come
        answer = Reply()
        endpoint.process.tried(self.number, self.attempt, answer)
        await endpoint.writer.outcome(answer)
        self.given_back = True
        back = endpoint.inbox.give_back
        asyncio.get_running_loop().call_later(max(0.0, after), back, self._delivery, True)

    def rolled_back(self) -> None:
        """Give the message back at once after its transaction was rolled back; a handler of `run` sees to it itself.

        The attempt is noted in memory; the next one, with which `limits.attempts` is compared, in the journal.
        """
        process = self._endpoint.process
        if not (self.handled or self.given_back) and self.number in process.core.inbox:
            process.attempts[self.number] = max(self.attempt, process.attempts.get(self.number, 0))
            self.given_back = True
            self._endpoint.inbox.give_back(self._delivery, True)
            self._endpoint.pause = min(LAST_PAUSE, FIRST_PAUSE * 2 ** min(self.attempt - 1, 20))

    def keep(self) -> bool:
        """Take the message out of the inbox again, if it was given back; return whether this task has it."""
        if self.given_back and self._endpoint.inbox.withdraw(self.number):
            self.given_back = False
        return not self.given_back

    def return_unread(self) -> None:
        """Leave the message to the next reader; nothing is noted of it."""
        if self.number in self._endpoint.process.core.inbox:
            self._endpoint.inbox.give_back(self._delivery, self.redelivered)

    def transaction(self) -> Transaction:
        """Deal with the message in one step: rows of the application, sends, and being done are one commit.

        A block that raises is rolled back, and the message is delivered again, before messages that never were.
        """
        return Transaction(self._endpoint, self)

    def __repr__(self) -> str:
        return f"Message({self.id!r}, {len(self.payload)} bytes{', redelivered' * self.redelivered})"


class Transaction:
    """Rows of the application in the journal's own database, sends, and `done`: committed together or not at all."""

    def __init__(self, endpoint: Endpoint, message: Message) -> None:
        """Prepare the transaction of a message; use `Message.transaction`.

        Args:
            endpoint: where the message was delivered.
            message: the message that is done when the transaction commits.
        """
        self._endpoint, self._message = endpoint, message
        self._sends: list[Send] = []
        self._trial: Trial | None = None
        self._bytes = 0
        self._open = False
        self._expired = False
        self._over: MisuseError | None = None
        """why it will be rolled back, whatever the block does"""
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        """Wait for the writer, and keep it until the block ends."""
        endpoint = self._endpoint
        endpoint.writer.check_outside("another transaction")
        await endpoint.writer.turn.acquire()
        try:
            endpoint.writer.check()
            if self._message.number not in endpoint.process.core.inbox:
                raise DoneError(
                    f"{self._message.id} is done already; a transaction that was cancelled may be committed"
                )
            self._message.keep()
            endpoint.journal.begin()
        except BaseException:
            endpoint.writer.turn.release()
            raise
        self._open, self._began = True, time.monotonic()
        endpoint.writer.holder = asyncio.current_task()
        seconds = endpoint.config.limits.transaction_seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)
        return self

    def execute(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[SqlRow]:
        """Run a statement on the application's tables and return its rows; the journal's tables are not accessible.

        Args:
            sql: one statement of SQLite.
            parameters: values for the question marks in it.
        """
        self._check()
        database = self._endpoint.database
        database.guard(False)
        try:
            return database.execute(sql, parameters)
        finally:
            database.guard(True)

    def send(self, destinations: Iterable[str], payload: bytes, *, label: str | None = None) -> None:
        """Send a message with the commit.

        Raises `MisuseError` for a send that cannot be made. One beyond `limits.transaction_sends` or
        `limits.transaction_bytes` rolls the transaction back, also if the block goes on.

        Args:
            destinations: the names of the processes that get the message.
            payload: its content, at most `limits.payload_bytes` bytes.
            label: which of several independent causal orders it belongs to; the one order if not given.
        """
        self._check()
        self._add(self._endpoint.checked_send(destinations, payload, label))

    def _add(self, given: Send) -> None:
        self._check_size(given)
        if self._trial is None:
            self._trial = Trial(self._endpoint.process.core)
        self._trial.send(given)
        self._sends.append(given)

    def send_dead(self, destination: str, payload: bytes) -> None:
        """Send a dead letter with the commit; it may exceed the limit of other payloads by its first line.

        Args:
            destination: the process that collects dead letters.
            payload: the letter: a first line that describes the message, then its content.
        """
        self._check()
        self._add(Send(self._endpoint.process.core.roster.mask((destination,)), payload, DEAD_LETTER))

    def _check_size(self, given: Send) -> None:
        limits, name = self._endpoint.config.limits, self._message.id
        sends, size = len(self._sends) + 1, self._bytes + len(given.payload)
        over = None
        if sends > limits.transaction_sends:
            over = f"{sends} sends; limits.transaction_sends is {limits.transaction_sends}"
        elif size > limits.transaction_bytes:
            over = f"payloads of {size} bytes; limits.transaction_bytes is {limits.transaction_bytes}"
        if over is not None:
            self._over = MisuseError(
                f"the transaction of {name} has {over}; it is rolled back, nothing of it was committed"
            )
            raise self._over
        self._bytes = size

    def _check(self) -> None:
        self._endpoint.writer.check()
        if self._expired:
            raise self._late()
        if self._over is not None:
            raise self._over
        if not self._open:
            raise MisuseError("the transaction is not open; use it inside `async with`")

    def _late(self) -> RolledBackError:
        seconds = self._endpoint.config.limits.transaction_seconds
        return RolledBackError(
            f"the transaction of {self._message.id} was open for more than {seconds:g} s (limits.transaction_seconds) "
            "and was rolled back; message.transaction() may be opened again"
        )

    def _expire(self) -> None:
        if self._open:
            self._expired = True
            try:
                self._give_back()
            except ThenceError as error:
                self._endpoint.process.broken(error)

    def _give_back(self) -> None:
        self._open = False
        self._endpoint.writer.holder = None
        if self._timer is not None:
            self._timer.cancel()
        try:
            self._endpoint.journal.rollback()
        finally:
            self._endpoint.writer.turn.release()
        self._message.rolled_back()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, or roll back if the block raised or took too long."""
        if self._expired:
            if error is None:
                raise self._late()
            return
        if error is not None or self._over is not None:
            self._give_back()
            if error is None and self._over is not None:
                raise self._over
            return
        if time.monotonic() - self._began > self._endpoint.config.limits.transaction_seconds:
            self._give_back()
            raise self._late()
        try:
            self._endpoint.writer.check()
        except ThenceError:
            self._give_back()
            raise
        self._open = False
        self._endpoint.writer.holder = None
        if self._timer is not None:
            self._timer.cancel()
        await self._endpoint.writer.commit_with(self._message.number, self._sends)


async def bury(message: Message, reason: str) -> None:
    """Send a message that was tried often enough to `dead_letter`, and be done with it, in one commit.

    The payload follows a line of JSON that says what it was: message, sender, label, attempts, reason.
    """
    endpoint = message._endpoint
    target = endpoint.config.dead_letter
    assert target is not None
    message.handled = True  # a dead letter that cannot be sent is an error, not another attempt
    origin = {"message": message.id, "sender": message.sender, "label": message.label}
    head = json.dumps({**origin, "attempts": message.attempt, "reason": reason}).encode()
    async with message.transaction() as tx:
        tx.send_dead(target, head + b"\n" + message.payload)
    sentence = f"{endpoint.config.name} gives {message.id} up after {message.attempt} attempts and sends it to {target}"
    note(logging.WARNING, "buried", sentence, process=endpoint.config.name, message=message.id, reason=reason)
