"""The outcome of a run, and the reasons why messages still wait at its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from thence.core.model.plain import Row
from thence.core.protocols.effects import Pending


@dataclass(slots=True)
class RunOutcome:
    """The outcome of a run."""

    run: str
    seconds: float = 0.0
    """simulated time of the last event"""
    asked: int = 0
    messages: int = 0
    """messages stamped and sent"""
    copies: int = 0
    """copies of messages handed to the network by their senders"""
    deliveries: int = 0
    holds: int = 0
    """copies that had to wait at their destination"""
    deferred: int = 0
    """sends that had to wait at their sender"""
    duplicates: int = 0
    lost: int = 0
    hops: Counter[str] = field(default_factory=Counter)
    """protocol messages and relays handed to the network, by kind"""
    crashed: list[str] = field(default_factory=list)
    stuck: list[tuple[str, Pending]] = field(default_factory=list)
    """what the live processes still hold at the end: (process, explanation)"""

    @property
    def deadlock(self) -> bool:
        """Return whether something waits forever although nothing was lost."""
        return bool(self.stuck) and not self.crashed and not self.lost

    def row(self) -> Row:
        """Return it as plain data."""
        row: Row = {name: getattr(self, name) for name in self.__slots__ if name != "stuck"}
        row["hops"] = dict(sorted(self.hops.items()))
        row["deadlock"] = self.deadlock
        row["stuck"] = [
            {"process": process, "what": p.what, "message": p.message, "label": p.label, "waits_for": waits(p)}
            for process, p in self.stuck
        ]
        return row


def waits(pending: Pending) -> list[str]:
    """Return the names of the messages, or else of the processes, that something waits for."""
    return [str(cause) for cause in pending.waits_for] or list(pending.processes)


def explain(process: str, pending: Pending) -> str:
    """List what is stuck, where and why."""
    thing = f"message {pending.message}" if pending.what == "copy" else "a send"
    label = f" (label {pending.label})" if pending.label is not None else ""
    awaited = ", ".join(waits(pending)) or "something its protocol does not name"
    why = f": {pending.reason}" if pending.reason else ""
    return f"{process} holds {thing}{label}, which waits for {awaited}{why}"
