"""JSONL: one event a line, UTF-8, columns in the order of the schema, nulls left out.

Invariant: Writing the same events gives the same bytes. Reading is streaming, and every line that is not blank
comes out exactly once: as an event, or as a quarantine record with file, line number, reason and the
beginning of its text. The order of lines says `order` where a row does not. A column that stands twice in a
line makes it unusable: it is not known which of the two is meant.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import isfinite
from pathlib import Path
from typing import IO, NoReturn

from thence.core.model.events import Event
from thence.errors import MisuseError
from thence.tables.contract.columns import EVENT_COLUMNS, Called, Column, called_by, their_names
from thence.tables.contract.row_validity import event_of, readable, row_of, shown
from thence.tables.files.line_reader import LINE_LIMIT, Line
from thence.tables.files.source import Quarantined, excerpt, first_line, open_to_write

DEEPEST = 200
"""Levels of nesting that a line may have; ours have three, what others add may have more."""
_NAMES = frozenset(column.name for column in EVENT_COLUMNS)
_STRING = re.compile(rb'"(?:[^"\\]|\\.?)*"?')
_BRACKET = re.compile(rb"[][{}]")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class _Doubled(dict[str, object]):
    """An object of JSON in which some names stand twice."""

    twice: tuple[str, ...] = ()


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of JSON."""
    row = dict(pairs)
    if len(row) == len(pairs):
        return row
    counts = Counter(name for name, _ in pairs)
    doubled = _Doubled(row)
    doubled.twice = tuple(name for name in row if counts[name] > 1)
    return doubled


def in_our_words(row: Mapping[str, object], called: Called) -> dict[str, object]:
    """Return a row's values under the contract's names, from the caller's names."""
    found = {ours: row[theirs] for ours, theirs in called.names.items() if theirs in row}
    if called.kinds and isinstance(kind := found.get("kind"), str):
        found["kind"] = called.kinds.get(kind, kind)
    if not isinstance(row, _Doubled):
        return found
    doubled = _Doubled(found)
    doubled.twice = tuple(ours for ours, theirs in called.names.items() if theirs in row.twice)
    return doubled


_decode = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_object).decode
_quote = json.encoder.encode_basestring
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def parse_row(raw: bytes) -> dict[str, object] | str:
    """Return the object that a line holds, or the reason why it holds none."""
    if too_deep(raw):
        return f"not JSON that we read: nested more than {DEEPEST} levels deep"
    try:
        row = _decode(raw.decode())
    except UnicodeDecodeError as error:
        return f"not UTF-8: byte 0x{raw[error.start]:02x} at position {error.start + 1}"
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg.removesuffix(' at')} at position {error.pos + 1}"
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    if not isinstance(row, dict):
        return f"the line holds {shown(row)}; a JSON object is accepted"
    return row


def too_deep(raw: bytes) -> bool:
    """Return whether a line is nested more deeply than is read."""
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return False
    steps = (1 if each in b"[{" else -1 for each in _BRACKET.findall(_STRING.sub(b"", raw)))
    return max(accumulate(steps)) > DEEPEST


def event_in(row: dict[str, object], order: int | None, *, needs: bool = True) -> Event | str:
    """Return the event that the object of a line says, or the reason why it says none; `needs` as in `event_of`."""
    if twice := _twice(row):
        return f"{twice} stands twice in the line"
    return event_of(row, order=order, needs=needs)


def called_in(columns: Sequence[Column]) -> Called | None:
    """Return the names of the columns that are read from lines; None if all are read under the contract's names."""
    if len(columns) == len(EVENT_COLUMNS):
        return their_names(columns)
    return called_by(columns)


def _twice(row: dict[str, object]) -> str | None:
    """Return the column that stands twice in an object, or in one of its dependencies."""
    if twice := _ours_twice(row):
        return twice
    inner = row.get("dependencies")
    if isinstance(inner, list):
        return next((f"{twice} of a dependency" for each in inner if (twice := _ours_twice(each))), None)
    return None


def _ours_twice(value: object) -> str | None:
    """Return the first column of ours that stands twice in a value."""
    return next((name for name in value.twice if name in _NAMES), None) if isinstance(value, _Doubled) else None


def format_line(event: Event) -> bytes:
    """Return the line of one event, newline included: `row_of(event)` as JSON, in less than half the time."""
    line = (
        f'{{"run":{_quote(event.run)},"process":{_quote(event.process)},"index":{event.index:d},"kind":"{event.kind}"'
    )
    if event.message is not None:
        line += f',"message":{_quote(event.message)}'
    if event.destinations is not None:
        line += f',"destinations":[{",".join(map(_quote, event.destinations))}]'
    if event.label is not None:
        line += f',"label":{_quote(event.label)}'
    if event.order is not None:
        line += f',"order":{event.order:d}'
    try:
        if event.time is not None:
            line += f',"time":{event.time!r}' if isfinite(event.time) else f',"time":{_encode(event.time)}'
        if event.entries is not None:
            line += f',"entries":{event.entries:d}'
        if event.facts is not None:
            line += f',"facts":{event.facts:d}'
        if event.bytes is not None:
            line += f',"bytes":{event.bytes:d}'
        if event.dependencies is not None:
            line += f',"dependencies":{_encode(row_of(event)["dependencies"])}'
        return (line + "}\n").encode()
    except ValueError as error:  # a surrogate in a name, an infinite time
        raise MisuseError(f"{event} cannot be written as JSON: {error}") from error


def write_jsonl(events: Iterable[Event], target: Path | str | IO[bytes]) -> int:
    """Write events to a file (.gz is packed) or a binary stream; return how many."""
    if isinstance(target, Path | str):
        with open_to_write(Path(target)) as stream:
            return write_jsonl(events, stream)
    count = 0
    for event in events:
        target.write(format_line(event))
        count += 1
    return count


Located = tuple[int, Event] | Quarantined
"""An event with the number of its line, or what stood there instead."""


def located_line(
    line: Line, file: str, start: int, called: Called | None = None, *, needs: bool = True
) -> Located | None:
    """Return the event or quarantine record of a line; nothing if it is blank."""
    if not line.data or line.data.isspace():
        return None
    if not line.whole:
        return Quarantined(file, line.number, f"the line is longer than {LINE_LIMIT} bytes", excerpt(line.data))
    row = parse_row(line.data)
    if called is not None and isinstance(row, dict):
        row = in_our_words(row, called)
    found = row if isinstance(row, str) else event_in(row, start + line.number - 1, needs=needs)
    if isinstance(found, Event):
        return line.number, found
    reason = found if line.ended else f"the last line is cut off or not an event: {found}"
    left = {"order": start + line.number - 1} | (_left(row) if isinstance(row, dict) else {})
    return Quarantined(file, line.number, reason, excerpt(line.data), left)


def _left(row: dict[str, object]) -> dict[str, object]:
    """Return the usable columns of an object that is not an event, without repeated columns."""
    twice = row.twice if isinstance(row, _Doubled) else ()
    return readable({name: value for name, value in row.items() if name not in twice})


def broken_off(file: str, line: int, error: BaseException) -> Quarantined:
    """Return the record of a file that cannot be read any further."""
    return Quarantined(file, line, f"the file breaks off: {first_line(error)}")
