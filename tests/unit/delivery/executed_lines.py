"""How much work a call does, without a clock: the lines that Python executes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def work_of(call: Callable[[], object]) -> int:
    """Return how many lines of Python a call executes."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        call()
    finally:
        sys.settrace(before)
    return count
