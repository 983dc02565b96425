"""Event time at a key: the greatest time that its rows have told, unless one of them is far off.

Law. Time never goes back. Without `max_jump` it is the greatest time so far. With it, a time that is more than
`max_jump` ahead is not believed, until the next row that has a time is too far ahead as well: then the lesser of the
two is taken, so that one outlier moves nothing and a quiet weekend is passed. The first time of a key is believed in
the same way. A row that has no time changes nothing; one that came before any
time was known counts from the first time that is.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class EventTime:
    """The event time of one key."""

    max_jump: float | None = None
    now: float | None = None
    began: float | None = None
    """the first time that was believed"""
    doubted: float | None = None
    """the time of the last row that had one, if it was not believed"""

    def see(self, time: float | None) -> float | None:
        """Take the time of the next row; return by how much it is too far ahead to be believed, or None."""
        if time is None:
            return None
        if self.max_jump is None or (self.now is not None and time - self.now <= self.max_jump):
            self._move(time)
            self.doubted = None
            return None
        if self.doubted is not None:
            now = self._move(min(time, self.doubted))
            ahead = time - now
            self.doubted = time if ahead > self.max_jump else None
            return ahead if ahead > self.max_jump else None
        self.doubted = time
        return None if self.now is None else time - self.now

    def _move(self, time: float) -> float:
        if self.now is None or self.began is None:
            self.now = self.began = time
        elif time > self.now:
            self.now = time
        return self.now

    def since(self, then: float | None) -> float | None:
        """Return how long ago a moment was; what came before any time was known counts from the first one."""
        if self.now is None or self.began is None:
            return None
        return self.now - (self.began if then is None else then)


def doubt(ahead: float, max_jump: float) -> str:
    """Say of a row that its time was not believed."""
    return f"its time is {ahead:g} s ahead of the key's, more than {max_jump:g}: not counted"
