"""A thread that commits, one commit at a time, for an event loop.

An executor of the standard library does the same; its futures, locks and weak references cost as much as the commit of
a small group.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue

Commit = Callable[[], None]


class Committer:
    """Runs what it is given, in order, in a thread of its own."""

    def __init__(self) -> None:
        """Start the thread."""
        self._work: SimpleQueue[tuple[Commit, asyncio.Future[None]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="thence-commit", daemon=True)
        self._thread.start()

    def run(self, work: Commit) -> asyncio.Future[None]:
        """Return a future that says when the work is done, or what it raised."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._work.put((work, future))
        return future

    def close(self) -> None:
        """End the thread after what it was given."""
        self._work.put(None)

    def _run(self) -> None:
        while (given := self._work.get()) is not None:
            work, future = given
            error: BaseException | None = None
            try:
                work()
            except BaseException as raised:
                error = raised
            try:
                future.get_loop().call_soon_threadsafe(_settle, future, error)
            except RuntimeError:
                return  # the loop is closed: no task waits any more


def _settle(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
