"""Handlers in parallel: messages are dealt with at the same time where none can be a cause of another.

Invariant: a handler begins when every message that may be a cause of its own is done. Causes come first in the order of
deliveries, within one label, and their sends have a lower clock; so an earlier message of another label, or with a
clock that is not lower, is not a cause. Where the clock is not known (after a restart) every earlier message counts as
a cause.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from thence.errors import MisuseError
from thence.live.message import Message

if TYPE_CHECKING:
    from thence.live.endpoint import Endpoint

Handler = Callable[[Message], Awaitable[None]]
AHEAD = 8
"""messages in hand for each handler that may run"""
LONGEST_PAUSE = 60.0


def may_cause(earlier: Message, later: Message) -> bool:
    """Return whether a message that was delivered earlier may be a cause of a later one."""
    if earlier.label != later.label:
        return False
    return earlier.clock is None or later.clock is None or earlier.clock < later.clock


class RunningHandlers:
    """The messages in hand, and the handlers that run."""

    def __init__(self, endpoint: Endpoint, handler: Handler, concurrency: int, retry_after: float) -> None:
        """Take what deals with a message, how many at once, and the seconds before the first retry."""
        if concurrency < 1:
            raise MisuseError(f"concurrency is {concurrency}; at least 1 is expected")
        self._endpoint, self._handler = endpoint, handler
        self._concurrency, self._retry_after = concurrency, retry_after
        self._hand: list[Message] = []
        """messages that wait for a handler, the oldest first"""
        self._returning: dict[int, Message] = {}
        """messages that were given back and come again"""
        self._space = asyncio.Event()
        """set when a message has left the hand"""
        self._running: dict[asyncio.Task[None], Message] = {}

    async def run(self) -> None:
        """Run handlers for deliveries until the endpoint stops."""
        source = self._endpoint.deliveries()
        reading: asyncio.Task[Message | None] | None = None
        try:
            while True:
                if reading is None:
                    reading = asyncio.ensure_future(self._read(source))
                self._start()
                await asyncio.wait([*self._running, reading], return_when=asyncio.FIRST_COMPLETED)
                self._settle()
                if reading.done():
                    message, reading = reading.result(), None
                    if message is None:
                        return
                    self._returning.pop(message.number, None)
                    insort(self._hand, message, key=lambda each: each.number)
        finally:
            await self._leave(reading)

    async def _read(self, source: AsyncIterator[Message]) -> Message | None:
        """Return the next message; while enough are in hand, only one that was given back."""
        inbox = self._endpoint.inbox
        if len(self._hand) >= AHEAD * self._concurrency and not inbox.returned.is_set():
            back, space = (asyncio.ensure_future(event.wait()) for event in (inbox.returned, self._space))
            self._space.clear()
            try:
                await asyncio.wait({back, space}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                back.cancel()
                space.cancel()
        return await anext(source, None)

    def _start(self) -> None:
        """Start the handlers that may begin."""
        unfinished = [*self._running.values(), *self._returning.values()]
        for message in list(self._hand):
            if len(self._running) >= self._concurrency:
                return
            if not any(each.number < message.number and may_cause(each, message) for each in unfinished):
                self._hand.remove(message)
                self._space.set()
                self._running[asyncio.ensure_future(self._deal(message))] = message
            unfinished.append(message)

    async def _deal(self, message: Message) -> None:
        inbox = self._endpoint.process.core.inbox
        message.handled = True
        try:
            await self._handler(message)
            if message.number in inbox and not message.given_back:
                await message.done()
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # `run` ends; else something that the handler waited for was cancelled
            self._endpoint.writer.check()
            if message.number in inbox and not message.given_back:
                pause = min(LONGEST_PAUSE, self._retry_after * 2 ** min(message.attempt - 1, 20))
                await message.nack(pause, reason=f"{type(error).__name__}: {error}")

    def _settle(self) -> None:
        """Process the handlers that have ended."""
        for task in [task for task in self._running if task.done()]:
            message = self._running.pop(task)
            if message.given_back:
                self._returning[message.number] = message
            task.result()

    async def _leave(self, reading: asyncio.Task[Message | None] | None) -> None:
        """Cancel the handlers, and leave messages that are not done to the next reader."""
        tasks: list[asyncio.Task[None] | asyncio.Task[Message | None]] = [*self._running]
        if reading is not None:
            tasks.append(reading)
        for task in tasks:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        late = [message for message in found if isinstance(message, Message)]
        for message in [*self._hand, *self._running.values(), *late]:
            if not message.given_back:
                message.return_unread()
