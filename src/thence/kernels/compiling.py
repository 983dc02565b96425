"""Whether loops are being compiled: the first use on a machine takes seconds, and whoever waits should know why.

Law. Watching changes nothing. Loops that were compiled before are read from numba's cache, and nobody is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core import event


class _Listener(event.Listener):
    def __init__(self, tell: Callable[[int], None]) -> None:
        self.tell, self.count = tell, 0

    def on_start(self, event: event.Event) -> None:
        self.count += 1
        self.tell(self.count)

    def on_end(self, event: event.Event) -> None:
        """Nothing is told when a loop is ready."""


@contextmanager
def telling(tell: Callable[[int], None]) -> Iterator[None]:
    """Call `tell` with the number of loops compiled so far, each time that another is."""
    listener = _Listener(tell)
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]
