"""CPU time of a member's operations, in a table of its own because it depends on the machine.

Times are of the thread, so neighbours on the machine do not count, less what reading the clock itself takes.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from time import thread_time_ns
from typing import cast

from thence.core.model.message import Copy
from thence.core.model.plain import Row
from thence.core.protocols.base import Member
from thence.core.protocols.effects import Deferred, Effect, Sent

OPERATIONS = ("send", "receive")


class Timed:
    """A member that is timed; everything but `send` and `receive` passes through."""

    def __init__(self, member: Member, times: dict[str, array[int]]) -> None:
        """Time this member into shared tables."""
        self._member = member
        self._receive, self._received = member.receive, times["receive"].append
        self._send, self._sent = member.send, times["send"].append

    def __getattr__(self, name: str) -> object:
        return getattr(self._member, name)

    def send(
        self, destinations: int, *, label: str | None = None, context: object = None, token: object = None
    ) -> Sent | Deferred:
        """Send, and note the nanoseconds."""
        start = thread_time_ns()
        done = self._send(destinations, label=label, context=context, token=token)
        self._sent(thread_time_ns() - start)
        return done

    def receive(self, copy: Copy) -> list[Effect]:
        """Receive, and note the nanoseconds."""
        start = thread_time_ns()
        effects = self._receive(copy)
        self._received(thread_time_ns() - start)
        return effects


class CpuClock:
    """Times the members of one run; hand `members` to the simulation."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.times: dict[str, array[int]] = {operation: array("q") for operation in OPERATIONS}
        self.idle = _idle()
        self.members: list[Member] = [cast(Member, Timed(member, self.times)) for member in members]

    def rows(self) -> list[Row]:
        """Return calls and microseconds for each operation: mean, median and the 99th of a hundred."""
        return [
            {"operation": operation, "calls": len(times), **_spread(sorted(max(0, t - self.idle) for t in times))}
            for operation, times in self.times.items()
        ]

    def seconds(self, operation: str) -> float:
        """Return what all calls of an operation took together."""
        times = self.times[operation]
        return (sum(times) - len(times) * self.idle) / 1e9


def _idle() -> int:
    """Return the nanoseconds that two readings of the clock take."""
    spans = []
    for _ in range(501):
        start = thread_time_ns()
        spans.append(thread_time_ns() - start)
    return sorted(spans)[250]


def _spread(times: list[int]) -> dict[str, float | None]:
    if not times:
        return {"mean_us": None, "median_us": None, "p99_us": None}
    return {
        "mean_us": round(sum(times) / len(times) / 1000, 3),
        "median_us": times[len(times) // 2] / 1000,
        "p99_us": times[min(len(times) - 1, len(times) * 99 // 100)] / 1000,
    }
