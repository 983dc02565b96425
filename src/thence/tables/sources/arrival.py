"""The row that every adapter makes: an arrival with explicit causes, or a record set aside with the reason.

Invariant: one record gives one row. A row without a message id is one that delivery quarantines; its `note` says why,
and its `kind` what the record is, so nothing is left out and every record that is set aside has a reason.
"""

from __future__ import annotations

from typing import NamedTuple, TypedDict

from thence.core.model.plain import Fields


class Arrival(TypedDict):
    """A row of the arrivals table (by="depends_on"), with the kind of the record and a note."""

    run: str | None
    destination: str | None
    message: str | None
    sender: str | None
    time: float | None
    depends_on: list[str]
    kind: str
    note: str | None


class Record(NamedTuple):
    """A record of a log: its value and, where they are known, its key and where it lies."""

    value: Fields | str | bytes | None
    """the payload, decoded or as it came; None for a tombstone"""
    key: Fields | str | bytes | None = None
    """the record's key"""
    topic: str | None = None
    """its topic"""
    partition: int | None = None
    """its partition in the topic"""
    offset: int | None = None
    """its position in the partition"""

    @property
    def place(self) -> str | None:
        """Topic, partition and offset as one text, or None where they are not all known."""
        if self.topic is None or self.partition is None or self.offset is None:
            return None
        return f"{self.topic}/{self.partition}/{self.offset}"


def text_of_id(value: object) -> str | None:
    """Return a value as the text of an id; None and the empty text are not ids."""
    return None if value is None or value == "" else str(value)


def seconds_of(milliseconds: object) -> float | None:
    """Return a time in milliseconds as seconds; None for anything else."""
    try:
        return int(str(milliseconds)) / 1000
    except ValueError:
        return None
