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
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            stopped = error
            cancelled()
    found = task.result()
    if stopped is not None:
        raise stopped
    return found
