"""Event-sourced messages that name their cause: an id, the id of the cause, and a correlation that they belong to.

Invariant: a message waits for the one that caused it. Ids are compared as texts, so the id 1 and the cause "1" are one.
A cause that is empty, or equal to the message's own id (as many frameworks mark the first of a conversation), does not
count. A message without a correlation is the first of its own: its destination is its id, which is what later ones will
name. If it still names a cause, `note` says that nothing else comes to its destination. The other fields of the
message are columns beside these; one that is called as one of ours has `_` behind its name.

A preset says where a framework keeps these fields; a dot leads into an object.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from thence.core.model.moments import seconds
from thence.core.model.plain import Field, Fields
from thence.errors import MisuseError
from thence.tables.sources.agents import AGENT_PRESETS
from thence.tables.sources.arrival import Arrival, text_of_id


class Preset(NamedTuple):
    """The names of the fields, and the documentation that says them."""

    id: str
    causation: str
    destination: str
    sender: str
    time: str
    aliases: tuple[str, ...] = ()
    """fields, other than the id, by which a cause may be named"""
    documented: str = ""


PRESETS = {
    "kurrentdb": Preset(
        "eventId", "metadata.$causationId", "metadata.$correlationId", "streamId", "created",
        documented="KurrentDB (EventStoreDB) documentation, 'Event streams', section 'Event metadata'",
    ),
    "marten": Preset(
        "id", "causation_id", "correlation_id", "stream_id", "timestamp",
        documented="Marten documentation, 'Event metadata': columns of mt_events",
    ),
    "masstransit": Preset(
        "messageId", "initiatorId", "conversationId", "sourceAddress", "sentTime", ("correlationId", "requestId"),
        documented="MassTransit documentation, 'Message headers': InitiatorId is the CorrelationId, else "
        "the RequestId, of the message in whose context this one was sent",
    ),
    "axon": Preset(
        "identifier", "metaData.causationId", "metaData.correlationId", "aggregateIdentifier", "timestamp",
        documented="Axon Framework 5 reference, 'Message correlation': causationId is the parent",
    ),
    "axon-4": Preset(
        "identifier", "metaData.correlationId", "metaData.traceId", "aggregateIdentifier", "timestamp",
        documented="Axon Framework 4 reference, 'Message correlation': correlationId is the parent",
    ),
}  # fmt: skip


def from_event(
    event: Fields | str | bytes,
    *,
    preset: str | None = None,
    id: str = "id",
    causation: str = "causation_id",
    destination: str = "correlation_id",
    sender: str = "source",
    time: str = "time",
) -> Arrival:
    """Return the arrival of one message that names its cause.

    Args:
        event: a mapping, or its JSON text.
        preset: a framework whose field names are known, one of `thence.sources.PRESETS`; it replaces the other names.
        id: the field of the message's id; a dot leads into an object.
        causation: the field of the id of its cause.
        destination: the field of what it belongs to, as a correlation id; messages are ordered within it.
        sender: the field of its sender.
        time: the field of its time.
    """
    names = Preset(id, causation, destination, sender, time) if preset is None else preset_of(preset)
    event = parsed_event(event)
    own, place = text_of_id(_field(event, names.id)), text_of_id(_field(event, names.destination))
    cause = _field(event, names.causation)
    named = [text_of_id(each) for each in (cause if isinstance(cause, list | tuple) else [cause])]
    causes = [*dict.fromkeys(each for each in named if each is not None and each != own)]
    known = own is not None
    arrival: Arrival = {
        "run": None,
        "destination": place or own,
        "message": own,
        "sender": text_of_id(_field(event, names.sender)),
        "time": seconds(_field(event, names.time)),
        "depends_on": causes,
        "kind": "event" if known else "unreadable",
        "note": no_id(names) if not known else alone(names) if causes and place is None else None,
    }
    return cast(
        Arrival, beside(arrival, event, {names.id, names.causation, names.destination, names.sender, names.time})
    )


def beside(arrival: Arrival, event: Fields, read: set[str]) -> dict[str, Field]:
    """Return the arrival with the fields of its message that were not read."""
    row: dict[str, Field] = dict(arrival)
    for name, value in event.items():
        if name not in read:
            called = name
            while called in row or (called != name and called in event):
                called += "_"
            row[called] = value
    return row


def no_id(names: Preset) -> str:
    """Return the note for a message without an id."""
    return f"no id: field {names.id!r} is missing or empty"


def alone(names: Preset) -> str:
    """Return the note for a message that names a cause and belongs to no conversation."""
    return f"it names a cause and no conversation: field {names.destination!r} is missing or empty"


def from_events(events: Iterable[Fields | str | bytes], *, preset: str) -> list[Arrival]:
    """Return the arrivals of messages seen together, where a framework names causes by another field than the id.

    A cause that one message of the same destination is known by becomes that message's id. Where several are, none is
    waited for, and `note` says so: nothing tells which of them it was. The presets of agents (`openai-agents`,
    `langgraph`, `ag-ui`) read the records of one run; each is in the column `record`.

    Args:
        events: the messages, as mappings or JSON texts.
        preset: one of `thence.sources.PRESETS` or `thence.sources.AGENT_PRESETS`.
    """
    if preset in AGENT_PRESETS:
        return [from_event(each) for each in AGENT_PRESETS[preset].read([parsed_event(event) for event in events])]
    messages, names = [parsed_event(event) for event in events], preset_of(preset)
    rows = [from_event(event, preset=preset) for event in messages]
    known: dict[tuple[str | None, str], set[str]] = defaultdict(set)
    for event, row in zip(messages, rows, strict=True):
        for alias in (text_of_id(_field(event, field)) for field in (names.id, *names.aliases)):
            if alias is not None and row["message"] is not None:
                known[row["destination"], alias].add(row["message"])
    for row in rows:
        _resolve(row, known)
    return rows


def _resolve(row: Arrival, known: dict[tuple[str | None, str], set[str]]) -> None:
    causes: list[str] = []
    for cause in row["depends_on"]:
        others = known.get((row["destination"], cause), set()) - {row["message"]}
        if len(others) > 1:
            row["note"] = f"cause {cause} is the name of {len(others)} other messages; it waits for none of them"
        elif others:
            causes += others
        elif (row["destination"], cause) not in known:
            causes.append(cause)
    row["depends_on"] = causes


def parsed_event(value: Fields | str | bytes | None) -> Fields:
    """Return an event, parsed if it is JSON text; anything but an object has no fields, and so no id."""
    try:
        found = json.loads(value) if isinstance(value, str | bytes) else value
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}


def preset_of(name: str) -> Preset:
    """Return a preset by its name."""
    if name in AGENT_PRESETS:
        raise MisuseError(f"preset {name!r} reads the records of a whole run; use thence.sources.from_events")
    if name not in PRESETS:
        raise MisuseError(f"no preset {name!r}; there are {', '.join((*PRESETS, *AGENT_PRESETS))}")
    return PRESETS[name]


def _field(event: Fields, name: str) -> Field:
    """Return a field; a dot leads into an object, unless a field is called so."""
    if name in event:
        return event[name]
    first, _, rest = name.partition(".")
    inner = event.get(first)
    return _field(inner, rest) if rest and isinstance(inner, dict) else None
