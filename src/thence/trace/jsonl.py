"""JSONL: one event a line, UTF-8, columns in the order of the schema, nulls left out.

Law. Writing the same events gives the same bytes. Reading is streaming, and every line that is not blank
comes out exactly once: as an event, or as a quarantine record with file, line number, reason and the
beginning of its text. The order of lines says `order` where a row does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import IO, NoReturn

from thence.errors import MisuseError
from thence.model.events import Event
from thence.trace.schema import event_of, row_of, shown
from thence.trace.source import BROKEN, LINE_LIMIT, Quarantined, create, excerpt, lines, open_bytes


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(parse_constant=_no_constant).decode
_quote = json.encoder.encode_basestring
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def parse_line(raw: bytes, *, order: int | None = None) -> Event | str:
    """Return the event of one line, or the reason why not; `order` is used where the line has none."""
    try:
        row = _decode(raw.rstrip(b"\r\n").decode())
    except UnicodeDecodeError as error:
        return f"not UTF-8: byte 0x{raw[error.start]:02x} at position {error.start + 1}"
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg.removesuffix(' at')} at position {error.pos + 1}"
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    if not isinstance(row, dict):
        return f"the line holds {shown(row)}; a JSON object is accepted"
    return event_of(row, order=order)


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
        with create(Path(target)) as stream:
            return write_jsonl(events, stream)
    count = 0
    for event in events:
        target.write(format_line(event))
        count += 1
    return count


def located(stream: IO[bytes], file: str, *, start: int = 0) -> Iterator[tuple[int, Event] | Quarantined]:
    """Yield (line number, event) or a quarantine record for each line of a stream that is not blank.

    `start` is the `order` that the first line would have.
    """
    number = 0
    try:
        for number, raw, whole in lines(stream):
            if raw.isspace() or not raw:
                continue
            if not whole:
                yield Quarantined(file, number, f"the line is longer than {LINE_LIMIT} bytes", excerpt(raw))
                continue
            found = parse_line(raw, order=start + number - 1)
            if isinstance(found, Event):
                yield number, found
                continue
            if not raw.endswith(b"\n"):
                found = f"the last line is cut off or not an event: {found}"
            yield Quarantined(file, number, found, excerpt(raw))
    except BROKEN as error:
        yield Quarantined(file, number + 1, f"the file breaks off: {error}")


def read_jsonl(path: Path | str, quarantine: list[Quarantined], *, start: int = 0) -> Iterator[Event]:
    """Yield the events of one file; what cannot be used is appended to `quarantine` on the way."""
    path = Path(path)
    with open_bytes(path) as stream:
        for found in located(stream, str(path), start=start):
            if isinstance(found, Quarantined):
                quarantine.append(found)
            else:
                yield found[1]
