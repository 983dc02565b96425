"""Rows of an outbox or event store, numbered before commit: a hole in the numbers is a missing cause.

A row waits for the number before its own. A number that is not there was drawn by a transaction that is still open, or
was rolled back; the two look alike. It is counted as lost only where that is proved (`horizon`, `lost`), as
`thence.sources.postgres.OutboxReader` does it; a time-out proves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple, cast

from thence.core.model.plain import Field, Fields
from thence.errors import MisuseError
from thence.tables.sources.arrival import Arrival, text_of_id


class OutboxTable(NamedTuple):
    """The table and columns of a framework, and whether its numbers are drawn in the insert."""

    table: str
    sequence: str
    numbers: str | None
    """`insert` where the schema that the framework documents has a default; None: it must be declared"""
    documented: str


OUTBOX_PRESETS = {
    "marten": OutboxTable(
        "mt_events", "seq_id", None,
        "Marten's schema: seq_id has no default. Its functions draw the number in the transaction of the insert "
        "(numbers='transaction'); code that asks for numbers beforehand does not (numbers='client')",
    ),
    "axon": OutboxTable(
        "domainevententry", "globalindex", None,
        "Axon's JDBC schema for PostgreSQL: globalindex is a bigserial, which the catalogue shows; "
        "under JPA Hibernate allocates the numbers (numbers='client')",
    ),
}  # fmt: skip


def from_outbox(
    rows: Iterable[Fields],
    *,
    sequence: str = "position",
    transaction: str | None = None,
    name: str = "outbox",
    after: int | None = None,
    step: int = 1,
    horizon: int | None = None,
    lost: Collection[int] = (),
) -> list[Arrival]:
    """Return the arrivals of rows, each behind the number before its own; deliver them with `by="depends_on"`.

    The number is in the column `number` too: delivery has a column `position` of its own, which replaces yours.

    Args:
        rows: mappings, in any order.
        sequence: the column of the number.
        transaction: the column that says which transaction wrote the row; it becomes the column `transaction`.
        name: what a number is called after: the hole 17 is the cause `outbox/17`.
        after: the number up to which everything was delivered before. Without it the rows are the beginning: the
            smallest number waits for nothing.
        step: the distance of two numbers (`INCREMENT BY` of the sequence).
        horizon: up to this number, every transaction that drew one has ended: what is not there will not come.
        lost: other numbers that will not come.
    """
    if step < 1:
        raise MisuseError(f"step is {step}; a whole number from 1 is accepted")
    numbered = sorted(((_number(row, sequence), row) for row in rows), key=lambda each: each[0])
    gone = set(lost)
    first = after if after is not None else numbered[0][0] - step if numbered else 0
    arrivals, before, cause = list[Arrival](), first, first
    for number, row in numbered:
        if (number - first) % step:
            raise MisuseError(f"{sequence} {number} is not {first} and a multiple of step={step}")
        if number > before or not arrivals:  # else the row comes twice: it waits for what it waited for
            cause, proved = number - step, before if horizon is None else max(before, horizon)
            while cause > proved and cause in gone:
                cause -= step
            if cause <= proved:
                cause = before
        arrivals.append(_arrival(row, number, name, cause if cause > first else None, transaction))
        before = max(before, number)
    return arrivals


def _number(row: Fields, sequence: str) -> int:
    number = row.get(sequence)
    if not isinstance(number, int) or isinstance(number, bool):
        raise MisuseError(f"column {sequence!r} is {number!r}; a whole number is needed. Columns: {', '.join(row)}")
    return number


def _arrival(row: Fields, number: int, name: str, cause: int | None, transaction: str | None) -> Arrival:
    out: dict[str, Field] = {
        **row,
        "run": None,
        "destination": name,
        "message": f"{name}/{number}",
        "sender": name,
        "time": row.get("time"),
        "depends_on": [] if cause is None else [f"{name}/{cause}"],
        "kind": "event",
        "note": None,
        "number": number,
    }
    if transaction is not None:
        out["transaction"] = text_of_id(row.get(transaction))
    return cast(Arrival, out)
