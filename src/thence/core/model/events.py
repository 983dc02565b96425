"""Events: the rows of a trace as objects, and a tiny notation for them in tests.

The notation: `a!1>bc` process a sends its message a1 to b and c; `b?a1` b delivers a1; `b.` an internal event; `a#` a
crashes; `c<a1` a1 arrives at c (receive, carries no causality). Tokens stand in an order in which causes come first.
A label follows a slash: `a!1>bc/red`, `b?a1/red`. Names of more than one letter are separated by commas: `aa!1>b,cc`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from thence.errors import TraceError

EventKind = Literal["send", "receive", "deliver", "internal", "crash"]
EVENT_KINDS: frozenset[str] = frozenset(get_args(EventKind))


@dataclass(slots=True, unsafe_hash=True)
class Event:
    """One row of a trace; the meaning of each column is in docs/reference/trace.md.

    Never changed after creation. It is not frozen, since freezing would triple the cost of creation.
    """

    run: str
    process: str
    index: int
    kind: EventKind
    message: str | None = None
    destinations: tuple[str, ...] | None = None
    label: str | None = None
    order: int | None = None
    time: float | None = None
    entries: int | None = None
    facts: int | None = None
    bytes: int | None = None
    dependencies: tuple[tuple[str, tuple[str, ...]], ...] | None = None


_TOKEN = re.compile(
    r"(?P<process>[A-Za-z]+)"
    r"(?:!(?P<count>\d+)>(?P<destinations>[A-Za-z,]*)|\?(?P<delivered>[A-Za-z]+\d+)|<(?P<received>[A-Za-z]+\d+)"
    r"|(?P<internal>\.)|(?P<crash>\#))"
    r"(?:/(?P<label>\w+))?"
)


def parse(text: str, *, run: str = "run") -> list[Event]:
    """Read the notation into events; indexes and the order follow the tokens."""
    events: list[Event] = []
    indexes: dict[str, int] = {}
    for place, token in enumerate(text.split(), 1):
        found = _TOKEN.fullmatch(token)
        if found is None:
            raise TraceError(
                f"token {place} {token!r} is not one of a!1>bc (send), b?a1 (deliver), b<a1 (receive), "
                "b. (internal), a# (crash)"
            )
        process = found["process"]
        indexes[process] = index = indexes.get(process, 0) + 1
        destinations = None
        if found["count"]:
            kind: EventKind = "send"
            message: str | None = f"{process}{found['count']}"
            written = found["destinations"]
            destinations = tuple(d for d in (written.split(",") if "," in written else written) if d)
        elif found["delivered"]:
            kind, message = "deliver", found["delivered"]
        elif found["received"]:
            kind, message = "receive", found["received"]
        else:
            kind, message = ("internal" if found["internal"] else "crash"), None
        events.append(Event(run, process, index, kind, message, destinations, found["label"], order=len(events)))
    return events


def render(events: Iterable[Event]) -> str:
    """Write events in the notation; the inverse of `parse` for simulated names."""
    return " ".join(_token(event) for event in events)


def _token(event: Event) -> str:
    label = f"/{event.label}" if event.label is not None else ""
    message = (event.message or "").removesuffix(label)  # simulated ids end in their label
    if event.kind == "send":
        names = event.destinations or ()
        joined = (
            "".join(names) if all(len(n) == 1 for n in names) else ",".join([*names, ""] if len(names) == 1 else names)
        )
        assert event.message is not None
        return f"{event.process}!{message[len(event.process) :]}>{joined}{label}"
    marks = {"deliver": "?", "receive": "<", "internal": ".", "crash": "#"}
    return f"{event.process}{marks[event.kind]}{message}{label}"


def order_of(events: Sequence[Event]) -> list[Event]:
    """Return events in their `order` where every row has one, else as they come."""
    if all(event.order is not None for event in events):
        return sorted(events, key=lambda event: event.order or 0)
    return list(events)
