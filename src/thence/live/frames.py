"""Frames: what a connection carries. Four bytes of length, one of kind, then the body.

Invariant: `Framer` gives back the frames that were written, however the bytes were cut on the way. A frame longer than
the limit is refused when its length is read, before any of it is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from struct import Struct

from thence.errors import PeerError

FRAME_KINDS = HELLO, DATA, ACK, REFUSED, BEAT, BYE, ASK, ANSWER = 1, 2, 3, 4, 5, 6, 7, 8
LENGTH = Struct(">IB")
_ACK = Struct(">QQ")
_NUMBER = Struct(">Q")
_DATA = Struct(">IBQ")

WIRE_VERSIONS = (1, 3)
"""the oldest and the newest version of this format that this release supports"""
BEATS_FROM, BITS_FROM = 2, 3
"""versions from which on heartbeats come on every link, and stamps of wire version 2 are read"""
HELLO_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Hello:
    """The first frame of each end of a connection."""

    name: str
    identity: str
    roster: list[str]
    protocol: str
    options: str
    sent: int
    """number of the last item made for the other"""
    received: int
    """number of the last item of the other that is in the journal"""
    credit: int
    """bytes of items that the other may send before it hears more"""
    versions: tuple[int, int] = WIRE_VERSIONS
    payload_bytes: int = 0
    """the longest payload that it accepts; 0 if it does not say so, as releases before this field"""


class Framer:
    """Cuts the bytes of a connection into frames."""

    def __init__(self, limit: int) -> None:
        """Take the longest body that is accepted."""
        self.limit = limit
        self.advice = ""
        """what to do about a longer one"""
        self._kept = bytearray()
        self._needed = 0
        """bytes that the first frame of what is kept has in all, as far as that is known"""

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes | memoryview]]:
        """Yield (kind, body) of each frame that is complete now; a body is good until the next one is asked for."""
        got: bytes | memoryview = data
        if self._kept:
            self._kept += data  # in place: a frame of many megabytes comes in thousands of blocks
            if len(self._kept) < self._needed:
                return
            got = memoryview(self._kept)  # a long body is copied once, when it is kept
        at, end = 0, len(got)
        self._needed = LENGTH.size
        try:
            while end - at >= LENGTH.size:
                length, kind = LENGTH.unpack_from(got, at)
                if length > self.limit:
                    raise PeerError(f"a frame of {length} bytes; up to {self.limit} are accepted{self.advice}")
                stop = at + LENGTH.size + length
                if stop > end:
                    self._needed = stop - at
                    return
                body = got[at + LENGTH.size : stop]
                at = stop
                yield kind, body
        finally:
            self._kept = bytearray(got[at:])


def frame(kind: int, body: bytes = b"") -> bytes:
    """Return a frame as bytes: length, kind, body."""
    return LENGTH.pack(len(body), kind) + body


def data_head(number: int, head: bytes, size: int) -> bytes:
    """Return the frame of an item up to its payload, which has this size: a long payload need not be copied."""
    return _DATA.pack(_NUMBER.size + len(head) + size, DATA, number) + head


def data_frame(number: int, head: bytes, body: bytes) -> bytes:
    """Return the frame of an item."""
    return data_head(number, head, len(body)) + body


def read_data(body: bytes | memoryview) -> tuple[int, bytes]:
    """Return the number and the item of a data frame."""
    if len(body) < _NUMBER.size:
        raise PeerError(f"a data frame of {len(body)} bytes; its number alone has {_NUMBER.size}")
    return _NUMBER.unpack_from(body)[0], bytes(body[_NUMBER.size :])


def ack_frame(number: int, credit: int) -> bytes:
    """Return an acknowledgement: items up to this number are in the journal, and this many bytes may be sent in all."""
    return frame(ACK, _ACK.pack(number, credit))


def read_ack(body: bytes) -> tuple[int, int]:
    """Return the number that an acknowledgement confirms, and the credit it grants."""
    if len(body) != _ACK.size:
        raise PeerError(f"an acknowledgement of {len(body)} bytes; {_ACK.size} are expected")
    number, credit = _ACK.unpack(body)
    return number, credit


def hello_frame(hello: Hello) -> bytes:
    """Return the first frame of a connection."""
    return frame(HELLO, json.dumps(asdict(hello)).encode())


def read_hello(body: bytes) -> Hello:
    """Return the other end's first frame, parsed."""
    try:
        fields = json.loads(body)
        hello = Hello(
            name=_text(fields["name"]),
            identity=_text(fields["identity"]),
            roster=[_text(name) for name in fields["roster"]],
            protocol=_text(fields["protocol"]),
            options=_text(fields["options"]),
            sent=_count(fields["sent"]),
            received=_count(fields["received"]),
            credit=_count(fields["credit"]),
            versions=(_count(fields["versions"][0]), _count(fields["versions"][1])),
            payload_bytes=_count(fields.get("payload_bytes", 0)),
        )
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise PeerError(f"a first frame that cannot be read: {type(error).__name__} {error}") from None
    return hello


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > 1000:
        raise ValueError(f"{value!r:.40} is not a short text")
    return value


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r:.40} is not a count")
    return value
