"""The names of the columns: the contract's, unless the caller has other ones.

Law. A key is the unit of parallelism and of order: rows of two keys never wait for each other. A delivered clock
belongs to one destination, so stamps and clocks need the destination in the key; explicit causes may be split by any
columns. A null anywhere in the key but in `run` quarantines the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from thence.delivery.outcome import OUTPUT_COLUMNS
from thence.delivery.reading import By
from thence.errors import MisuseError

NAMES = ("run", "destination", "arrival", "message", "sender", "time", "stamp", "clock", "depends_on")


class Columns:
    """Which column of the caller's table is which of the contract's."""

    def __init__(self, by: By, columns: Mapping[str, str] | None = None, key: Iterable[str] | None = None) -> None:
        """Take the caller's names, and the key as the caller's columns."""
        given = dict(columns or {})
        for name in given:
            if name not in NAMES:
                raise MisuseError(f"columns names {name!r}; the contract has {', '.join(NAMES)}")
        self.run = given.get("run", "run")
        self.destination = given.get("destination", "destination")
        self.arrival = given.get("arrival", "arrival")
        self.message = given.get("message", "message")
        self.sender = given.get("sender", "sender")
        self.time = given.get("time", "time")
        self.cause = given.get(by, by)
        self.key: tuple[str, ...] = (
            (self.run, self.destination) if key is None else (key,) if isinstance(key, str) else tuple(key)
        )
        if not self.key:
            raise MisuseError("key is empty; name at least one column")
        if by != "depends_on" and self.destination not in self.key:
            raise MisuseError(
                f"by={by!r} needs the destination in the key: a delivered clock belongs to one destination"
            )
        for name in self.key:
            if name in OUTPUT_COLUMNS:
                raise MisuseError(f"key column {name!r} has the name of an output column")

    def refuse(self, key: tuple[Any, ...]) -> str | None:
        """Say why a row with this key can not be delivered, or None."""
        for name, value in zip(self.key, key, strict=True):
            if value is None and name != self.run:
                return f"no {name}"
        return None

    def where(self, key: tuple[Any, ...]) -> str:
        """Name a key in an error."""
        return ", ".join(f"{name} {value}" for name, value in zip(self.key, key, strict=True)) + ": "
