"""Validity of rows: which rows are events, the reasons for rejecting others, and conversion between rows and events.

*Invariant.* A row is usable or it is refused with a reason; nothing is repaired by guessing. Every reason is made here,
whatever the format and the engine: `tables.files.checked_batches` finds the rows of a batch that may be unusable, by
the same columns, and asks this module. `event_of(row_of(e)) == e` for every event that a table can hold.

Keys that are not columns are the writer's own and are passed over. Defects that only a whole run shows (a delivery of a
message never sent, a repeated index) are found by the judge; in an audit so are columns that a kind of row needs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from thence.core.model.events import Event
from thence.core.model.moments import seconds
from thence.tables.contract.columns import DEPENDENCIES, EVENT_COLUMNS, NEEDED, Column

VERSION = 1
"""Of the trace table; every later version reads what this one wrote."""

_BITS = {"long": 64, "int": 32}
ACCEPTED = {
    "string": "a string is accepted",
    "long": "a whole number is accepted",
    "int": "a whole number is accepted",
    "double": "a number of seconds is accepted, or a moment as ISO 8601 writes it",
    "array<string>": "a list of process names is accepted",
    DEPENDENCIES: "a list of messages with destinations is accepted",
}
"""What is said of a value of another type than its column's."""

RowValues = Mapping[str, object]
"""A row as JSON or Arrow gives it: values by column; a missing column is null."""


def row_of(event: Event) -> dict[str, object]:
    """Return an event as a row: columns in order, nulls left out, lists where the tables have arrays."""
    row: dict[str, object] = {}
    for name in _NAMES:
        value = getattr(event, name)
        if value is None:
            continue
        if name == "destinations":
            value = list(value)
        elif name == "dependencies":
            value = [{"message": m, "destinations": list(ds)} for m, ds in value]
        row[name] = value
    return row


class _Refused(Exception):
    """Carries the reason why a row cannot be used."""


def event_of(row: RowValues, *, order: int | None = None, needs: bool = True) -> Event | str:
    """Return the event of a row, or the reason why it is unusable; `order` is used if the row has none.

    Unless `needs`, what its kind must have may be missing.
    """
    get = row.get
    try:
        values = {name: check(get(name)) for name, check in _CHECKS.items()}
    except _Refused as refused:
        return str(refused)
    if needs and (reason := lacking(values)):
        return reason
    if values["order"] is None:
        values["order"] = order
    return Event(**values)  # type: ignore[arg-type]


def lacking(values: RowValues) -> str | None:
    """Name the column that a row of its kind must have and lacks."""
    for name, kinds in NEEDED.items():
        value = values[name]
        if values["kind"] in kinds and (value is None or value == ""):
            return f"a {values['kind']} row needs {'a message' if name == 'message' else name}"
    return None


def readable(row: RowValues) -> dict[str, object]:
    """Return the usable columns of a row that is not an event."""
    left: dict[str, object] = {}
    for name, check in _CHECKS.items():
        try:
            value = check(row.get(name))
        except _Refused:
            continue
        if value is not None:
            left[name] = value
    return left


def shown(value: object) -> str:
    """Return a value as text for a reason, cut if it is long."""
    text = f"'{value[:60]}'" if isinstance(value, str) else repr(value) if _small(value) else type(value).__name__
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 70 else text[:67] + "..."


def _small(value: object) -> bool:
    return isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 10**30)


def mistyped(name: str, value: str, kind: str) -> str:
    """Return the reason: the value of a column, as it is `shown`, is of another type than the column's."""
    return f"{name} is {value}; {ACCEPTED[kind]}"


def _text(column: Column, value: object, called: str = "") -> str | None:
    name = called or column.name
    if value is None:
        if column.required:
            raise _Refused(f"{name} is missing")
        return None
    if not isinstance(value, str):
        raise _Refused(mistyped(name, shown(value), "string"))
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Refused(f"{name} is {shown(value)}, which is not valid Unicode") from None
    if column.named and not value:
        raise _Refused(f"{name} is empty; a name is accepted")
    if column.among and value not in column.among:
        raise _Refused(f"{name} is {shown(value)}; one of {', '.join(sorted(column.among))} is accepted")
    return value


def _whole(column: Column, value: object) -> int | None:
    if value is None:
        if column.required:
            raise _Refused(f"{column.name} is missing")
        return None
    if type(value) is not int:  # a bool is an int, and is not accepted
        raise _Refused(mistyped(column.name, shown(value), column.type))
    bits = _BITS[column.type]
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise _Refused(f"{column.name} is {shown(value)}, which does not fit in {bits} bits")
    if column.least is not None and value < column.least:
        raise _Refused(f"{column.name} is {value}; {column.below}")
    return value


def _seconds(column: Column, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, str):
        value = moment if (moment := seconds(value)) is not None else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Refused(mistyped(column.name, shown(value), column.type))
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise _Refused(f"{column.name} is {shown(value)}; a finite number of seconds is accepted")
    return found


_ENTRY = Column("", "string", True, "one of several names", named=True)


def _names(column: Column, value: object, called: str = "") -> tuple[str, ...] | None:
    if value is None:
        return None
    name = called or column.name
    if not isinstance(value, list | tuple):
        raise _Refused(mistyped(name, shown(value), "array<string>"))
    entry = f"an entry of {name}"
    names: tuple[str, ...] = tuple(_text(_ENTRY, each, entry) for each in value)  # type: ignore[misc]
    if len(set(names)) != len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise _Refused(f"{name} holds {shown(twice)} twice")
    return names


def _dependencies(column: Column, value: object) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise _Refused(mistyped(column.name, shown(value), column.type))
    found = []
    for each in value:
        if not isinstance(each, Mapping):
            raise _Refused(f"an entry of dependencies is {shown(each)}; message and destinations are accepted")
        names = _names(column, each.get("destinations"), "destinations of a dependency")
        if names is None:
            raise _Refused("an entry of dependencies has no destinations")
        found.append((_text(_ENTRY, each.get("message"), "message of a dependency"), names))
    return tuple(found)  # type: ignore[arg-type]


_READ: dict[str, Callable[[Column, object], object]] = {
    "string": _text,
    "long": _whole,
    "int": _whole,
    "double": _seconds,
    "array<string>": _names,
    DEPENDENCIES: _dependencies,
}
_NAMES = tuple(column.name for column in EVENT_COLUMNS)
_FIRST = ("kind", "message", "destinations")
"""Checked first, because they best recognise a table of another kind."""
_CHECKS: dict[str, Callable[[object], object]] = {
    column.name: partial(_READ[column.type], column)
    for column in sorted(EVENT_COLUMNS, key=lambda column: column.name not in _FIRST)
}
"""How each column is read, by itself."""
