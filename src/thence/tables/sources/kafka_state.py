"""The state of a consumer in a compacted topic: divided into records that a broker accepts, and joined again.

*Invariant.* The last state of which every record is there, in order, is the one that holds. Records of earlier states
that compaction left behind, or that a crash cut off, never become part of it: each record names its state.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from json.encoder import encode_basestring_ascii
from operator import itemgetter
from typing import NamedTuple

from thence.core.model.plain import Fields, Row
from thence.tables.delivery.orderer import from_json
from thence.tables.sources.headers import Headers

PLAIN = ("run", "destination", "message", "sender", "depends_on", "note", "topic", "partition", "offset", "time")
RAW = ("stamp", "key", "value")
"""columns of a held record: those that JSON holds, and those of bytes"""
_PLAIN, _RAW = itemgetter(*PLAIN), itemgetter(*RAW)
_ENCODE = json.JSONEncoder(check_circular=False).encode
CHUNK = 900_000
"""bytes of state in one record; brokers accept a little more than a million"""


class StateRecord(NamedTuple):
    """One record of a state. Its key is its number, so that compaction keeps the latest of each."""

    key: bytes
    value: bytes
    headers: Headers


def state_records(data: bytes, size: int = CHUNK) -> list[StateRecord]:
    """Cut a state into records."""
    state = secrets.token_hex(8).encode()
    values = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
    headers = [("state", state), ("pieces", str(len(values)).encode())]
    return [StateRecord(str(number).encode(), value, headers) for number, value in enumerate(values)]


def whole_state(records: Iterable[StateRecord]) -> bytes | None:
    """Return the last state that is whole, or None."""
    last, state, values = None, b"", list[bytes]()
    for record in records:
        headers = dict(record.headers)
        if record.key == b"0":
            state, values = headers["state"], []
        if headers["state"] == state and int(record.key) == len(values):
            values.append(record.value)
            if len(values) == int(headers["pieces"]):
                last = b"".join(values)
    return last


def pack_row(row: Fields) -> bytes:
    """Return a held record as bytes: a line of JSON, then the columns of bytes as they are."""
    # by hand: a commit packs thousands of records, and a call of the encoder for each head takes twice as long
    run, destination, message, sender, causes, note, topic, partition, offset, time = _PLAIN(row)
    stamp, key, value = _RAW(row)
    who = f"{_text(run)}, {_text(destination)}, {_text(message)}, {_text(sender)}"
    why = f"{_ENCODE(causes) if causes else '[]'}, {_text(note)}"
    where = f"{_text(topic)}, {partition}, {offset}, {time!r}"
    head = f"[{who}, {why}, {where}, {_length(stamp)}, {_length(key)}, {_length(value)}]\n"
    return b"".join((head.encode(), stamp or b"", key or b"", value or b""))


def _text(value: str | None) -> str:
    return "null" if value is None else encode_basestring_ascii(value)


def _length(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def unpack_row(data: bytes) -> Fields:
    """Read a held record; before there was this form, a record was an object of JSON."""
    if data[:1] == b"{":
        return from_json(data)
    line, _, rest = bytes(data).partition(b"\n")
    head = json.loads(line)
    row: Row = dict(zip(PLAIN, head, strict=False))
    at = 0
    for name, length in zip(RAW, head[len(PLAIN) :], strict=True):
        row[name] = None if length < 0 else rest[at : at + length]
        at += max(length, 0)
    return row
