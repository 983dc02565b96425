"""How loops are compiled, and whether they are being compiled: whoever waits for that should know why.

Law. A `loop` is what Python calls. A `part` is called by loops alone, and nothing is compiled by which Python could;
one that is `inlined` has one caller and is compiled as lines of it: each function on the way is optimised by itself,
with all that it calls, and then again in its caller.

Watching changes nothing. Loops that were compiled before are read from numba's cache, and nobody is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from numba import njit
from numba.core import event

F = TypeVar("F", bound=Callable[..., object])
_FOR_PYTHON: dict[str, Any] = {"cache": True, "no_cfunc_wrapper": True}
_IN_PLACE: dict[str, Any] = {"inline": "always"}
_FOR_LOOPS = _FOR_PYTHON | {"no_cpython_wrapper": True}


def loop(function: F) -> F:
    """Compile a function that Python calls, when it does."""
    made: F = njit(**_FOR_PYTHON)(function)
    return made


def part(function: F) -> F:
    """Compile a function that loops call."""
    made: F = njit(**_FOR_LOOPS)(function)
    return made


def inlined(function: F) -> F:
    """Compile a function as lines of the one that calls it."""
    made: F = njit(**_IN_PLACE)(function)
    return made


COMPILING = "compiling loops, once on this machine"
"""What is said meanwhile."""


class _Listener(event.Listener):
    def __init__(self, tell: Callable[[int], None], ended: Callable[[], None]) -> None:
        self.tell, self.ended, self.count, self.begun = tell, ended, 0, 0

    def on_start(self, event: event.Event) -> None:
        self.count += 1
        self.begun += 1
        self.tell(self.count)

    def on_end(self, event: event.Event) -> None:
        self.begun -= 1
        if not self.begun:
            self.ended()


@contextmanager
def telling(tell: Callable[[int], None], ended: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Call `tell` with the number of loops compiled so far, each time that another is; `ended` when none is left."""
    listener = _Listener(tell, ended)
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]
