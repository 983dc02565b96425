"""The columns of both tables, in one place: events (a trace) and arrivals (copies waiting to be delivered).

Law. A row is usable or it is refused with a reason; nothing is repaired by guessing. `event_of(row_of(e)) ==
e` for every event that a table can hold. The same names and types serve JSONL, Parquet and the DataFrame
schema.

Keys that are not columns are somebody else's and are passed over. What only a whole run can tell (a delivery
of a message never sent, a repeated index) is for the judge, not for the schema.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from thence.model.events import KINDS, Event, Kind

VERSION = 1
"""Of the trace table; every later version reads what this one wrote."""

LONG = range(-(2**63), 2**63)
INT = range(-(2**31), 2**31)


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, its type as Spark SQL writes it, whether every row must have it, what it means."""

    name: str
    type: str
    required: bool
    meaning: str


DEPENDENCIES = "array<struct<message:string,destinations:array<string>>>"

EVENT_COLUMNS: tuple[Column, ...] = (
    Column("run", "string", True, "which execution"),
    Column("process", "string", True, "where it happened"),
    Column("index", "long", True, "position among all rows of that process, from 1"),
    Column("kind", "string", True, "send, receive, deliver, internal or crash"),
    Column("message", "string", False, "id, unique in its run, never parsed; on send, receive and deliver"),
    Column("destinations", "array<string>", False, "the set it is addressed to; on send"),
    Column("label", "string", False, "which causal order; null is the one order"),
    Column("order", "long", False, "position in an order in which causes come first"),
    Column("time", "double", False, "seconds; never trusted for order"),
    Column("entries", "int", False, "elements of the stamp as its paper counts them; on receive and deliver"),
    Column("facts", "int", False, "pairs (message, destination) in the stamp"),
    Column("bytes", "int", False, "size of the stamp on the wire"),
    Column("dependencies", DEPENDENCIES, False, "the stamp in the clear, on request"),
)

By = Literal["stamp", "clock", "depends_on"]
"""What an arrival says about its causes."""

ARRIVAL_COLUMNS: tuple[Column, ...] = (
    Column("run", "string", True, "which execution"),
    Column("destination", "string", True, "where the copy arrived"),
    Column("arrival", "long", False, "position among the arrivals of that destination; default: as read"),
    Column("message", "string", True, "id, unique in its run"),
    Column("sender", "string", True, "who sent it"),
)

CAUSE_COLUMNS: dict[By, Column] = {
    "stamp": Column("stamp", "binary", True, "a stamp in the wire format"),
    "clock": Column("clock", "map<string,long>", True, "for each sender, its messages this destination gets"),
    "depends_on": Column("depends_on", "array<string>", True, "the ids of its causes"),
}


def arrival_columns(by: By) -> tuple[Column, ...]:
    """Return the columns of an arrivals table whose causes are given in one of the three ways."""
    return (*ARRIVAL_COLUMNS, CAUSE_COLUMNS[by])


def ddl(columns: Sequence[Column] = EVENT_COLUMNS) -> str:
    """Return the columns as a Spark schema string."""
    return ", ".join(f"`{c.name}` {c.type}{' NOT NULL' if c.required else ''}" for c in columns)


def arrow_schema(columns: Sequence[Column] = EVENT_COLUMNS) -> Any:
    """Return the columns as a pyarrow schema; pyarrow is loaded here and not before."""
    import pyarrow as pa

    names = pa.list_(pa.string())
    types = {
        "string": pa.string(),
        "long": pa.int64(),
        "int": pa.int32(),
        "double": pa.float64(),
        "binary": pa.binary(),
        "array<string>": names,
        "map<string,long>": pa.map_(pa.string(), pa.int64()),
        DEPENDENCIES: pa.list_(pa.struct([("message", pa.string()), ("destinations", names)])),
    }
    return pa.schema([pa.field(c.name, types[c.type], nullable=not c.required) for c in columns])


def row_of(event: Event) -> dict[str, Any]:
    """Return an event as a row: columns in order, nulls left out, lists where the tables have arrays."""
    row: dict[str, Any] = {
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


def event_of(row: Mapping[str, Any], *, order: int | None = None) -> Event | str:
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
        said = _whole(get("order"), "order", LONG)
        return Event(
            run=_text(get("run"), "run"),
            process=_name(get("process"), "process"),
            index=_index(get("index")),
            kind=kind,
            message=message,
            destinations=destinations,
            label=_optional_text(get("label"), "label"),
            order=order if said is None else said,
            time=_seconds(get("time")),
            entries=_size(get("entries"), "entries"),
            facts=_size(get("facts"), "facts"),
            bytes=_size(get("bytes"), "bytes"),
            dependencies=_dependencies(get("dependencies")),
        )
    except _Refused as refused:
        return str(refused)


def shown(value: object) -> str:
    """Return a value as it stands in a reason: short whatever it is."""
    text = f"'{value[:60]}'" if isinstance(value, str) else repr(value) if _small(value) else type(value).__name__
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 70 else text[:67] + "..."


def _small(value: object) -> bool:
    return isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 10**30)


def _text(value: Any, name: str) -> str:
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


def _optional_text(value: Any, name: str) -> str | None:
    return None if value is None else _text(value, name)


def _name(value: Any, name: str) -> str:
    text = _text(value, name)
    if not text:
        raise _Refused(f"{name} is empty; a name is accepted")
    return text


def _kind(value: Any) -> Kind:
    text = _text(value, "kind")
    if text not in KINDS:
        raise _Refused(f"kind is {shown(text)}; one of {', '.join(sorted(KINDS))} is accepted")
    return cast(Kind, text)


def _whole(value: Any, name: str, within: range) -> int | None:
    if value is None:
        return None
    if type(value) is not int:  # a bool is an int, and is not accepted
        raise _Refused(f"{name} is {shown(value)}; a whole number is accepted")
    if value not in within:
        raise _Refused(f"{name} is {shown(value)}, which does not fit in {len(bin(within.stop)) - 2} bits")
    return value


def _index(value: Any) -> int:
    index = _whole(value, "index", LONG)
    if index is None:
        raise _Refused("index is missing")
    if index < 1:
        raise _Refused(f"index is {index}; indexes count from 1")
    return index


def _size(value: Any, name: str) -> int | None:
    size = _whole(value, name, INT)
    if size is not None and size < 0:
        raise _Refused(f"{name} is {size}; a size is not negative")
    return size


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Refused(f"time is {shown(value)}; a number of seconds is accepted")
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds):
        raise _Refused(f"time is {shown(value)}; a finite number of seconds is accepted")
    return seconds


def _names(value: Any, name: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise _Refused(f"{name} is {shown(value)}; a list of process names is accepted")
    names = tuple(_name(each, f"an entry of {name}") for each in value)
    if len(set(names)) != len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise _Refused(f"{name} holds {shown(twice)} twice")
    return names


def _dependencies(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
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
