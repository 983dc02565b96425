"""The names of the columns: the contract's, unless the caller has other ones.

Law. A key is the unit of parallelism and of order: rows of two keys never wait for each other. A delivered clock
belongs to one destination, so stamps and clocks need the destination in the key; explicit causes may be split by any
columns. A null anywhere in the key but in `run` quarantines the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from thence.delivery.outcome import OUTPUT_COLUMNS
from thence.delivery.reading import By
from thence.errors import MisuseError

NAMES = ("run", "destination", "arrival", "message", "sender", "time", "stamp", "clock", "depends_on")


@dataclass(frozen=True, init=False)
class Columns:
    """Which column of the caller's table is which of the contract's."""

    run: str
    destination: str
    arrival: str
    message: str
    sender: str
    time: str
    cause: str
    key: tuple[str, ...]

    def __init__(self, by: By, columns: Mapping[str, str] | None = None, key: Iterable[str] | None = None) -> None:
        """Take the caller's names, and the key as the caller's columns."""
        given = dict(columns or {})
        for name in given:
            if name not in NAMES:
                raise MisuseError(f"columns names {name!r}; the contract has {', '.join(NAMES)}")
        chosen = {
            name: given.get(name, name) for name in ("run", "destination", "arrival", "message", "sender", "time")
        }
        keys = (chosen["run"], chosen["destination"]) if key is None else (key,) if isinstance(key, str) else tuple(key)
        if not keys:
            raise MisuseError("key is empty; name at least one column")
        if by != "depends_on" and chosen["destination"] not in keys:
            raise MisuseError(
                f"by={by!r} needs the destination in the key: a delivered clock belongs to one destination"
            )
        for name in keys:
            if name in OUTPUT_COLUMNS:
                raise MisuseError(f"key column {name!r} has the name of an output column")
        self._set(**chosen, cause=given.get(by, by), key=keys)

    def _set(self, **names: Any) -> Columns:
        for name, value in names.items():
            object.__setattr__(self, name, value)
        return self

    def with_key(self, key: Iterable[str]) -> Columns:
        """Return the same names with another key."""
        return Columns.__new__(Columns)._set(**vars(self) | {"key": tuple(key)})

    def spelled(self, spell: Callable[[str], str]) -> Columns:
        """Return these names as a table spells them."""
        names = {name: spell(value) for name, value in vars(self).items() if name != "key"}
        return Columns.__new__(Columns)._set(**names, key=tuple(spell(name) for name in self.key))

    def refuse(self, key: tuple[Any, ...]) -> str | None:
        """Say why a row with this key can not be delivered, or None."""
        for name, value in zip(self.key, key, strict=True):
            if value is None and name != self.run:
                return f"no {name}"
        return None

    def where(self, key: tuple[Any, ...]) -> str:
        """Name a key in an error."""
        return ", ".join(f"{name} {value}" for name, value in zip(self.key, key, strict=True)) + ": "
