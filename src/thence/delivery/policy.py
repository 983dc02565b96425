"""What to do about a cause that does not come: a choice of the caller, driven by rows in the order of arrival.

Law. `wait` holds for ever. `release` lets a row go once `after_rows` later rows of its key have arrived, or once the
event time seen at its key (the greatest `time` of any row so far) has moved on by `after_seconds`; the causes it goes
without are named. `fail` raises at the same points instead, and, where the input ends, for whatever is still held.
Nothing here reads a clock: the same rows give the same outcomes in a batch, in a stream and in plain Python.

`remember` bounds how many delivered ids are kept where ids must be kept one by one: for explicit causes, and after a
release. A cause that is not among the last `remember` ids when that many more have been delivered counts as delivered,
and the reason says so. `held_limit` bounds the held rows of a key; when one more must be held, `when_full` either
fails or releases the oldest.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from thence.errors import MisuseError

Name = Literal["wait", "release", "fail"]


@dataclass(frozen=True, slots=True)
class Policy:
    """The choice; see the module text."""

    name: Name = "wait"
    after_rows: int | None = None
    after_seconds: float | None = None
    remember: int | None = None
    held_limit: int | None = None
    when_full: Literal["fail", "release"] = "fail"

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.name not in ("wait", "release", "fail"):
            raise MisuseError(f"no policy {self.name!r}; there are wait, release and fail")
        if self.when_full not in ("fail", "release"):
            raise MisuseError(f"when_full is {self.when_full!r}; fail or release is accepted")
        limits = (self.after_rows, self.after_seconds)
        if self.name == "wait" and limits != (None, None):
            raise MisuseError("after_rows and after_seconds go with policy='release' or policy='fail', not with 'wait'")
        if self.name == "release" and limits == (None, None):
            raise MisuseError("policy='release' needs after_rows or after_seconds")
        for name in ("after_rows", "remember", "held_limit"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise MisuseError(f"{name} is {value!r}; a whole number from 1 is accepted")
        if self.after_seconds is not None and not self.after_seconds >= 0:
            raise MisuseError(f"after_seconds is {self.after_seconds!r}; seconds from 0 are accepted")

    @property
    def releases(self) -> bool:
        """Whether a row can ever go without a cause."""
        return self.name == "release" or self.remember is not None or self.releases_when_full

    @property
    def releases_when_full(self) -> bool:
        """Whether the limit on held rows releases."""
        return self.held_limit is not None and self.when_full == "release"

    def needs_an_end(self) -> bool:
        """Whether it says nothing until the input ends: a stream would never fail."""
        return self.name == "fail" and self.after_rows is None and self.after_seconds is None

    def options(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)
