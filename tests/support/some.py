"""Loops that must not be empty: a check that runs for no row shows nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def some(found: Iterable[T]) -> Iterator[T]:
    """Yield everything that was found, and fail at the end if that was nothing."""
    number = 0
    for number, each in enumerate(found, 1):  # noqa: B007
        yield each
    assert number, "nothing was found, so nothing was checked"
