"""Options of a stream beyond the policy: times by the machine's own clock, and the folder of give-up commands.

Invariant: These are outside the equality of batch, stream and Orderer: they read a clock, or an operator's word. The
clock is that of the micro-batch, which Spark records, so that a micro-batch that is replayed gives the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from thence.errors import Argument, MisuseError
from thence.tables.delivery.policy import Policy

MOST_SHARDS = 10_000
READ_ORDER = "__thence_read_order"
"""Where a row was read, for tables without a column that says the order of arrival."""


@dataclass(frozen=True)
class StreamOptions:
    """Seconds of processing time, the folder of `thence give-up`, and the number of shards."""

    idle_seconds: float | None = None
    wait_seconds: float | None = None
    ttl_seconds: float | None = None
    commands: str | None = None
    shards: int | None = None

    @property
    def timed(self) -> bool:
        """Whether keys need a timer."""
        return self._seconds() != (None, None, None)

    def refuse_in_a_batch(self) -> None:
        """Refuse these options where the input has an end."""
        for name in ("idle_seconds", "wait_seconds", "ttl_seconds", "commands", "shards"):
            if getattr(self, name) is not None:
                raise MisuseError(Argument(name), " is for streams; a batch has an end")

    def check(self, policy: Policy, by: str) -> None:
        """Raise `MisuseError` for options that contradict each other or the policy."""
        for name in ("idle_seconds", "wait_seconds", "ttl_seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise MisuseError(Argument(name), f" is {value!r}; seconds above 0 are accepted")
        if self.shards is not None and (isinstance(self.shards, bool) or not 1 <= self.shards <= MOST_SHARDS):
            raise MisuseError(Argument("shards"), f" is {self.shards!r}; 1 to {MOST_SHARDS} are accepted")
        if self.idle_seconds is not None and policy.name != "release":
            raise MisuseError(Argument("idle_seconds"), " goes with ", Argument("policy", "release"))

    def _seconds(self) -> tuple[float | None, float | None, float | None]:
        return self.idle_seconds, self.wait_seconds, self.ttl_seconds
