"""Waiting that a cancellation does not interrupt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


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
