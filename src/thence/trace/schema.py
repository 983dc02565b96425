"""What a row of the event table may say: rows as events, events as rows, and a reason where a row says none.

Law. A row is usable or it is refused with a reason; nothing is repaired by guessing. `event_of(row_of(e)) ==
e` for every event that a table can hold. The columns and their types are stated in `thence.model.columns`; the
same names and types serve JSONL, Parquet and the DataFrame schema.

Keys that are not columns are somebody else's and are passed over. What only a whole run can tell (a delivery
of a message never sent, a repeated index) is for the judge, not for the schema.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import cast

from thence.model.events import KINDS, Event, Kind
from thence.model.moments import seconds

VERSION = 1
"""Of the trace table; every later version reads what this one wrote."""

LONG = range(-(2**63), 2**63)
INT = range(-(2**31), 2**31)

Row = Mapping[str, object]
"""A row as JSON or Arrow gives it: values by column; a column that is left out is null."""


def row_of(event: Event) -> dict[str, object]:
    """Return an event as a row: columns in order, nulls left out, lists where the tables have arrays."""
    row: dict[str, object] = {
        "run": event.run,
        "process": event.process,
        "index": event.index,
        "kind": event.kind,
    }
    if event.message is not None:
        row["message"] = event.message
    if event.destinations is not None:
        row["destinations"] = list(event.destinations)
    for name in ("label", "order", "time", "entries", "facts", "bytes"):
        value = getattr(event, name)
        if value is not None:
            row[name] = value
    if event.dependencies is not None:
        row["dependencies"] = [{"message": m, "destinations": list(ds)} for m, ds in event.dependencies]
    return row


class _Refused(Exception):
    """Carries the reason why a row cannot be used."""


def event_of(row: Row, *, order: int | None = None) -> Event | str:
    """Return the event a row says, or the reason why it says none; `order` is used where the row has none."""
    get = row.get
    try:
        kind = _kind(get("kind"))
        message = _optional_text(get("message"), "message")
        destinations = _names(get("destinations"), "destinations")
        if not message and (kind == "send" or kind == "deliver" or kind == "receive"):
            raise _Refused(f"a {kind} row needs a message")
        if destinations is None and kind == "send":
            raise _Refused("a send row needs destinations")
        given = _whole(get("order"), "order", LONG)
        return Event(
            run=_text(get("run"), "run"),
            process=_name(get("process"), "process"),
            index=_index(get("index")),
            kind=kind,
            message=message,
            destinations=destinations,
            label=_optional_text(get("label"), "label"),
            order=order if given is None else given,
            time=_seconds(get("time")),
            entries=_size(get("entries"), "entries"),
            facts=_size(get("facts"), "facts"),
            bytes=_size(get("bytes"), "bytes"),
            dependencies=_dependencies(get("dependencies")),
        )
    except _Refused as refused:
        return str(refused)


def readable(row: Row) -> dict[str, object]:
    """Return what a row that is no event says all the same: its columns that could stand in one."""
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
    """Return a value as it stands in a reason: short whatever it is."""
    text = f"'{value[:60]}'" if isinstance(value, str) else repr(value) if _small(value) else type(value).__name__
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 70 else text[:67] + "..."


def _small(value: object) -> bool:
    return isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 10**30)


def _text(value: object, name: str) -> str:
    if value is None:
        raise _Refused(f"{name} is missing")
    if not isinstance(value, str):
        raise _Refused(f"{name} is {shown(value)}; a string is accepted")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Refused(f"{name} is {shown(value)}, which is not valid Unicode") from None
    return value


def _optional_text(value: object, name: str) -> str | None:
    return None if value is None else _text(value, name)


def _name(value: object, name: str) -> str:
    text = _text(value, name)
    if not text:
        raise _Refused(f"{name} is empty; a name is accepted")
    return text


def _kind(value: object) -> Kind:
    text = _text(value, "kind")
    if text not in KINDS:
        raise _Refused(f"kind is {shown(text)}; one of {', '.join(sorted(KINDS))} is accepted")
    return cast(Kind, text)


def _whole(value: object, name: str, within: range) -> int | None:
    if value is None:
        return None
    if type(value) is not int:  # a bool is an int, and is not accepted
        raise _Refused(f"{name} is {shown(value)}; a whole number is accepted")
    if value not in within:
        raise _Refused(f"{name} is {shown(value)}, which does not fit in {len(bin(within.stop)) - 2} bits")
    return value


def _index(value: object) -> int:
    index = _whole(value, "index", LONG)
    if index is None:
        raise _Refused("index is missing")
    if index < 1:
        raise _Refused(f"index is {index}; indexes count from 1")
    return index


def _size(value: object, name: str) -> int | None:
    size = _whole(value, name, INT)
    if size is not None and size < 0:
        raise _Refused(f"{name} is {size}; a size is not negative")
    return size


def _seconds(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, str):
        value = moment if (moment := seconds(value)) is not None else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Refused(f"time is {shown(value)}; a number of seconds is accepted, or a moment as ISO 8601 writes it")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise _Refused(f"time is {shown(value)}; a finite number of seconds is accepted")
    return found


def _names(value: object, name: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise _Refused(f"{name} is {shown(value)}; a list of process names is accepted")
    names = tuple(_name(each, f"an entry of {name}") for each in value)
    if len(set(names)) != len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise _Refused(f"{name} holds {shown(twice)} twice")
    return names


def _dependencies(value: object) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise _Refused(f"dependencies is {shown(value)}; a list of messages with destinations is accepted")
    found = []
    for each in value:
        if not isinstance(each, Mapping):
            raise _Refused(f"an entry of dependencies is {shown(each)}; message and destinations are accepted")
        names = _names(each.get("destinations"), "destinations of a dependency")
        if names is None:
            raise _Refused("an entry of dependencies has no destinations")
        found.append((_name(each.get("message"), "message of a dependency"), names))
    return tuple(found)


_CHECKS: dict[str, Callable[[object], object]] = {
    "run": lambda value: _text(value, "run"),
    "process": lambda value: _name(value, "process"),
    "index": _index,
    "kind": _kind,
    "message": lambda value: _optional_text(value, "message"),
    "destinations": lambda value: _names(value, "destinations"),
    "label": lambda value: _optional_text(value, "label"),
    "order": lambda value: _whole(value, "order", LONG),
    "time": _seconds,
    "entries": lambda value: _size(value, "entries"),
    "facts": lambda value: _size(value, "facts"),
    "bytes": lambda value: _size(value, "bytes"),
    "dependencies": _dependencies,
}
"""How each column is read, by itself."""
