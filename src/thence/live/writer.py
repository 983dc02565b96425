"""The one task that writes: groups of inputs, applied, committed, and then let out.

Invariant: a group of inputs is applied and committed (in a thread of its own where the disk is waited for), and only
then are its effects released. Everything else only puts inputs into the queue. So nothing leaves before its
commit, and commits are shared by whatever has gathered meanwhile.

Invariant: memory that may be ahead of the disk is never written or shown. Whatever goes wrong, here or in any other
task of the endpoint, ends the endpoint: `failure` says why, every waiting caller gets it, the log has it once.

While an application's transaction is open the writer waits for it; receipts gather in memory, unacknowledged, up to the
credit that was granted.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from thence.errors import MisuseError, ThenceError
from thence.live.database import JournalError
from thence.live.group import QueuedInput
from thence.live.inbox import Inbox
from thence.live.inputs import Done, Send, Stop
from thence.live.logs import note
from thence.live.message import Reply
from thence.live.process import LiveProcess

T = TypeVar("T")
SENDS_A_TURN = 256
"""sends of a transaction that are applied before other tasks get their turn"""


MAY_SHARE = sqlite3.threadsafety == 3
"""whether this SQLite lets two threads use one connection"""


async def to_the_end(work: Awaitable[T], cancelled: Callable[[], None] = lambda: None) -> T:
    """Wait for work to its end, also when the waiting task is cancelled; the cancellation is raised after that.

    Work that fails raises its own error, cancelled or not. `cancelled` is called at every cancellation, and may make
    the work end sooner.
    """
    task = asyncio.ensure_future(work)
    stopped: asyncio.CancelledError | None = None
    while not task.done():
        done = task.get_loop().create_future()  # a future of our own: what a cancelled waiter cancels is not the work
        task.add_done_callback(lambda _, done=done: done.done() or done.set_result(None))  # type: ignore[misc]
        try:
            await done
        except asyncio.CancelledError as error:
            stopped = error
            cancelled()
    found = task.result()
    if stopped is not None:
        raise stopped
    return found


class FailedError(ThenceError):
    """An endpoint has ended because of an exception that nothing in it expected."""


class InputWriter:
    """Applies and commits the inputs of one process."""

    def __init__(self, name: str, process: LiveProcess, inbox: Inbox, *, threaded: bool) -> None:
        """Take the process, and where its deliveries go; `threaded`: commits wait for the disk."""
        self.name, self.process, self.inbox = name, process, inbox
        self.turn = asyncio.Lock()
        """held by the task that writes"""
        self.holder: asyncio.Task[object] | None = None
        """the task of the application whose transaction is open"""
        self.failure: ThenceError | None = None
        self.stopped = False
        """whether the stop is written: no more inputs are taken"""
        self.room = asyncio.Event()
        """set when something may have become free"""
        self.timed: Callable[[float], None] = lambda seconds: None
        """called with the seconds that each commit took"""
        self.ended: Callable[[], None] = lambda: None
        """called once, when the endpoint has failed"""
        self._work = asyncio.Event()
        self._answers: set[Reply] = set()
        self._threaded = threaded and MAY_SHARE
        self._thread = ThreadPoolExecutor(1, "thence-commit")
        """commits, in order; it starts its thread when it is first used"""
        process.wake, process.broken = self._work.set, self.fail

    async def run(self) -> None:
        """Apply and commit inputs until the endpoint ends."""
        process = self.process
        while self.failure is None:
            await self._work.wait()
            self._work.clear()
            if process.forgetful is not None:
                self.fail(JournalError(process.forgetful))
                return
            await asyncio.sleep(0)  # let what has arrived at the same time join the group
            async with self.turn:
                while not process.idle and self.failure is None:
                    process.prepare(time.time())
                    await self._commit()

    async def commit_with(self, delivery: int, sends: Sequence[Send]) -> None:
        """Commit an open transaction together with its sends and the end of a delivery, all in one; pass the turn on.

        The caller has the turn and has tried the sends. From here on nothing takes the transaction back: a caller that
        is cancelled hears of it when the commit is done, and whatever goes wrong ends the endpoint.
        """
        await to_the_end(self._commit_with(delivery, sends))

    async def _commit_with(self, delivery: int, sends: Sequence[Send]) -> None:
        process, now = self.process, time.time()
        try:
            process.open_group()
            for number, given in enumerate(sends, 1):
                process.apply_own(given, now)
                if number % SENDS_A_TURN == 0:
                    await asyncio.sleep(0)
            process.apply_own(Done((delivery,)), now)
            process.close_group()
            await self._commit()
        except BaseException as error:  # a cancelled one too: memory is ahead of the disk
            raise self.fail(error) from error
        finally:
            self.turn.release()

    async def last_words(self) -> None:
        """Write that the process stops, and a snapshot. The caller has the turn."""
        self.check()
        process = self.process
        process.queue.clear()
        process.queue.append(QueuedInput(Stop()))
        try:
            process.prepare(time.time())
            process.snapshot()
            await self._commit()
        except Exception as error:
            raise self.fail(error) from error

    async def _commit(self) -> None:
        """Put the prepared group on disk, and let out what it has set free."""
        began = time.perf_counter()
        try:
            if self._threaded or (MAY_SHARE and self.process.group is not None and self.process.group.heavy):
                await to_the_end(asyncio.get_running_loop().run_in_executor(self._thread, self.process.commit))
            else:
                self.process.commit()
        except asyncio.CancelledError:
            self._let_out()  # it is committed
            raise
        finally:
            self.timed(time.perf_counter() - began)
        self._let_out()

    def _let_out(self) -> None:
        if self.failure is not None:
            return  # another task has failed meanwhile: what is on disk comes out after the restart
        released = self.process.release()
        for delivery in released.delivered:
            self.inbox.put(delivery, released.bodies.get(delivery.ref))
        for message, causes in released.without:
            sentence = f"{self.name} delivers {message} without {', '.join(causes)}"
            note(logging.WARNING, "without", sentence, process=self.name, message=message, causes=causes)
        if released.delivered:
            self.inbox.news.set()
        self.room.set()

    def fail(self, error: BaseException) -> ThenceError:
        """End the endpoint, and return the error that every caller gets; only the first reason counts."""
        if self.failure is not None:
            return self.failure
        expected = isinstance(error, ThenceError)
        self.failure = failure = error if isinstance(error, ThenceError) else _unexpected(error)
        sentence = f"{self.name} stops: {failure}"
        trace = None if expected else error
        note(logging.ERROR, "failed", sentence, error=trace, process=self.name, reason=str(failure))
        self.process.intake = False
        self.process.journal.failed = self.process.journal.failed or str(failure)
        self.fail_answers(failure)
        self.inbox.wake()
        self.room.set()
        self.ended()
        return failure

    def fail_answers(self, error: ThenceError) -> None:
        """Notify all callers that their inputs will not be committed."""
        for answer in self._answers:
            answer.fail(error)

    def check(self) -> None:
        """Raise if the endpoint has failed or stopped."""
        if self.failure is not None:
            raise self.failure
        if self.stopped:
            raise MisuseError(f"{self.name} has stopped")

    def check_outside(self, what: str) -> None:
        """Raise where a task would wait for a commit that its own open transaction holds up."""
        self.check()
        if self.holder is not None and self.holder is asyncio.current_task():
            raise MisuseError(
                f"{what} inside a transaction of the same task would wait for its end; use tx.send inside it, or "
                f"{what} after the block"
            )

    async def outcome(self, answer: Reply) -> str | None:
        """Wait until an input is committed; raise if the endpoint fails or stops first."""
        self._answers.add(answer)
        try:
            return await answer.future
        finally:
            self._answers.discard(answer)

    def close(self) -> None:
        """End the thread that writes, if there is one."""
        self._thread.shutdown(wait=False)


def _unexpected(error: BaseException) -> FailedError:
    failed = FailedError(f"{type(error).__name__}: {error}; the endpoint has ended, and can be started again")
    failed.__cause__ = error
    return failed
