"""A row on its way through a gate, and the error for a row that gets no turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from thence.core.model.plain import Fields
from thence.errors import TraceError

if TYPE_CHECKING:
    from thence.tables.delivery.columns import Key
    from thence.tables.delivery.delivery_rule_cy import Rule
    from thence.tables.delivery.outcome_cy import Outcome


class TurnRefused(TraceError):
    """A row does not get its turn: `outcome` says duplicate, quarantined or blocked, `reason` says why."""

    def __init__(self, outcome: str, reason: str) -> None:
        """Take the row's outcome and the reason."""
        super().__init__(f"{outcome}: {reason}")
        self.outcome, self.reason = outcome, reason


class GateEntry:
    """A row on its way through a gate."""

    __slots__ = (
        "arrival",
        "attempt",
        "error",
        "id",
        "identity",
        "key",
        "made",
        "outcome",
        "row",
        "rule",
        "state",
        "ticket",
        "wake",
    )

    def __init__(self, row: Fields, wake: Callable[[GateEntry], None]) -> None:
        """`wake` is called, outside the lock, when the row may run or will not."""
        self.row, self.wake = row, wake
        self.key: Key = ()
        self.rule: Rule
        self.identity: tuple[str | None, Any, int] = (None, None, 0)
        self.id = ""
        self.ticket, self.attempt, self.state = 0, 1, "new"
        self.arrival = 0
        """its number among the rows of all keys"""
        self.made: Outcome | None = None
        self.outcome = ""
        self.error: BaseException | None = None

    @property
    def reason(self) -> str:
        """Why it was refused or released; else empty."""
        return "" if self.made is None or self.made.reason is None else self.made.reason
