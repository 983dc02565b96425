"""Work in threads, its results in order: for work that lets go of the interpreter.

Invariant: results come in the order of the items. No more than `count` items are in hand, and no more than that wait to
be taken. The threads end with the process, so an interrupt need not wait for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_threads(work: Callable[[T], R], items: Iterable[T], count: int) -> Iterator[R]:
    """Yield `work(item)` for each item; what it raises is raised here, in its turn."""
    crew = _Crew(work, items, 2 * count)
    for _ in range(count):
        threading.Thread(target=crew.run, daemon=True).start()
    try:
        yield from crew.results()
    finally:
        crew.stop()


class _Crew(Generic[T, R]):
    """Threads that share one source of items and one place for results."""

    def __init__(self, work: Callable[[T], R], items: Iterable[T], ahead: int) -> None:
        self.work, self.items, self.ahead = work, iter(items), ahead
        self.state = threading.Condition()
        self.source = threading.Lock()
        self.done: dict[int, R | BaseException] = {}
        self.taken = self.given = 0
        self.total: int | None = None

    def run(self) -> None:
        """Work until there is nothing left, or nothing waits for it."""
        while (drawn := self._draw()) is not None:
            place, item = drawn
            result: R | BaseException
            try:
                result = self.work(item)
            except BaseException as error:
                result = error
            with self.state:
                self.done[place] = result
                self.state.notify_all()

    def _draw(self) -> tuple[int, T] | None:
        with self.state:
            self.state.wait_for(lambda: self.total is not None or self.taken - self.given < self.ahead)
        with self.source:
            if self.total is not None:
                return None
            try:
                item = next(self.items)
            except BaseException as error:  # the end, or a source that breaks: raised in its turn
                with self.state:
                    self.total = self.taken
                    if not isinstance(error, StopIteration):
                        self.done[self.taken] = error
                        self.total += 1
                    self.state.notify_all()
                return None
            self.taken += 1
            return self.taken - 1, item

    def results(self) -> Iterator[R]:
        """Yield what is done, in order."""
        while True:
            with self.state:
                self.state.wait_for(lambda: self.given in self.done or self.given == self.total)
                if self.given not in self.done:
                    return
                result = self.done.pop(self.given)
                self.given += 1
                self.state.notify_all()
            if isinstance(result, BaseException):
                raise result
            yield result

    def stop(self) -> None:
        """Let the threads end."""
        with self.state:
            self.total = self.taken
            self.state.notify_all()
