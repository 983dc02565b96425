"""Work in threads, its results in order: for work that releases the interpreter lock.

Invariant: results come in the order of the items. No more than `2 * count` items are in hand or wait to be taken, and
there are no more threads than items. The threads end with the process, so an interrupt need not wait for them;
`concurrent.futures` would.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class _Job(Generic[T, R]):
    """One item, or none where the source broke off, and what became of it."""

    def __init__(self, items: list[T]) -> None:
        self.items, self.done = items, threading.Event()
        self.result: R
        self.error: BaseException | None = None

    def taken(self) -> R:
        """Wait for the result; raise what the work raised."""
        self.done.wait()
        if self.error is not None:
            raise self.error
        return self.result


def _jobs(items: Iterable[T]) -> Iterator[_Job[T, R]]:
    """Yield a job for each item; where the items break off, one that is done and raises why in its turn."""
    try:
        for item in items:
            yield _Job([item])
    except Exception as error:
        broken: _Job[T, R] = _Job([])
        broken.error = error
        broken.done.set()
        yield broken


def in_threads(work: Callable[[T], R], items: Iterable[T], count: int) -> Iterator[R]:
    """Yield `work(item)` for each item; what it raises is raised here, in its turn."""
    asked: SimpleQueue[_Job[T, R] | None] = SimpleQueue()
    stopped = threading.Event()

    def run() -> None:
        while (job := asked.get()) is not None and not stopped.is_set():
            for item in job.items:
                try:
                    job.result = work(item)
                except BaseException as error:
                    job.error = error
            job.done.set()

    started = 0
    waiting: deque[_Job[T, R]] = deque()
    try:
        jobs: Iterator[_Job[T, R]] = _jobs(items)
        for job in jobs:
            if started < count:
                threading.Thread(target=run, daemon=True).start()
                started += 1
            waiting.append(job)
            asked.put(job)
            if len(waiting) == 2 * count:
                yield waiting.popleft().taken()
        while waiting:
            yield waiting.popleft().taken()
    finally:
        stopped.set()
        for _ in range(started):
            asked.put(None)
