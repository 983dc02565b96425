"""The errors of thence. The class says who caused the error; the text says what was found and what is accepted.

- `MisuseError`: the caller asked for something that cannot be done.
- `PeerError`: something that arrived from another process cannot be used.
- `TraceError`: recorded data cannot be used.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple


class _NotGiven(Enum):
    """The value of an argument of which only the name is said; an Enum, because its one value survives pickling."""

    NOT_GIVEN = "not given"


class Argument(NamedTuple):
    """An argument that an error names, so that each interface can write it in its own words.

    In Python it reads `by='clock'`, `columns=` or `after_rows`; the command line writes `--by clock`, `--columns` or
    `--after-rows` instead.
    """

    name: str
    """its name in Python"""
    value: object = _NotGiven.NOT_GIVEN
    """its value, if the text says it"""

    @property
    def given(self) -> bool:
        """Whether the error also prints the value."""
        return self.value is not _NotGiven.NOT_GIVEN

    def __str__(self) -> str:
        if self.given:
            return f"{self.name}={self.value!r}"
        return self.name if "_" in self.name else f"{self.name}="


class ThenceError(Exception):
    """Base of every error that thence raises on purpose."""


class MisuseError(ThenceError):
    """The caller's request cannot be met: a wrong argument, or a protocol whose needs are not given.

    Its text is given in parts, of which each `Argument` is data: `MisuseError(Argument("key"), " is empty")`.
    """

    def __init__(self, *parts: str | Argument) -> None:
        """Compose the text of its parts.

        Args:
            parts: texts, and an `Argument` wherever the text names an argument of the caller.
        """
        super().__init__(*parts)

    def __str__(self) -> str:
        return self.worded(str)

    def worded(self, spell: Callable[[Argument], str]) -> str:
        """Return the text, with each argument written as one interface writes it.

        Args:
            spell: returns how the interface writes an argument, `--by clock` for the command line.
        """
        return "".join(spell(part) if isinstance(part, Argument) else str(part) for part in self.args)


class PeerError(ThenceError):
    """Data from a peer is malformed, unknown or out of limits."""


class TraceError(ThenceError):
    """Recorded data is malformed; the text names file, line, row or process."""
