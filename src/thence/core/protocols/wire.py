"""The wire: the stamp of a copy as bytes, and a copy inside a snapshot or a state.

Invariant. A stamp is version, protocol, roster hash, kind and label, sender, count, destinations, control information.
Bytes that decode encode back to themselves; all other bytes raise a `PeerError` that says what was found. A
stamp does not say which process delivered it: for a message that does not matter, for a protocol message (an OK, a
relay) it is half of the meaning, so `decode` wants the `source` of every copy that is not a message.

Version 2 says the same with dependency logs in bits (`core/wire/dependency_log_bits_cy.py`); protocols without such a
log have version 1 alone. `decode` reads both. Version 1 is written unless the caller, who knows that all destinations
read version 2, asks for it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from thence.core.model.message import MESSAGE, Copy
from thence.core.model.roster import HASH_BYTES, Roster
from thence.core.wire.codec import INT, MASK, PROCESS, TEXT, RecordShape, Shape, Value
from thence.core.wire.reader_cy import Reader
from thence.core.wire.sets import Rename
from thence.core.wire.words_cy import put_message, put_varint
from thence.errors import MisuseError, PeerError

if TYPE_CHECKING:
    from thence.core.protocols.base import Member

WIRE_VERSION, IN_BITS = 1, 2
VERSIONS = (WIRE_VERSION, IN_BITS)
MOST_LABEL_BYTES = 255
HEADER_BYTES = 2 + HASH_BYTES
MESSAGE_AT = HEADER_BYTES + 1
"""where the message stands in the stamp of a copy without a label"""
PAIR = RecordShape(PROCESS, INT)
"""(sender, count)"""
MOST_OPENINGS = 256
_openings: dict[tuple[int, int, bytes], bytes] = {}
"""how the stamp of a message without a label begins, by version, protocol and roster: half the time of a call"""
_in_bits: dict[Shape, Shape] = {}
"""the shape of version 2 for each that was asked for"""
_new = object.__new__


def encode(protocol: type[Member], copy: Copy, roster: Roster, version: int = WIRE_VERSION) -> bytes:
    """Write the stamp of a copy."""
    size = len(roster.names)
    shape = protocol.kinds[copy.kind]
    if version != WIRE_VERSION:
        shape = _other_form(shape)
        if version != IN_BITS or shape is protocol.kinds[copy.kind]:
            raise MisuseError(f"protocol {protocol.name} writes no {copy.kind} of wire version {version}")
    if copy.kind == MESSAGE and copy.label is None:
        key = (version, protocol.code, roster.hash)
        out = bytearray(_openings.get(key) or _opening(key))
    else:
        out = bytearray((version, protocol.code)) + roster.hash
        put_kind(out, tuple(protocol.kinds), copy)
    put_message(out, copy.sender, copy.count, copy.destinations, size)
    shape.write(copy.stamp, out, size)
    return bytes(out)


def decode(protocol: type[Member], data: bytes, roster: Roster, *, destination: int, source: int | None = None) -> Copy:
    """Read what `encode` wrote, for the process at `destination`.

    `source` is the position of the process that delivered the copy. Without it only messages are accepted.
    """
    version = IN_BITS if data[:1] == b"\x02" else WIRE_VERSION
    key = (version, protocol.code, roster.hash)
    if data[:MESSAGE_AT] == (_openings.get(key) or _opening(key)):
        reader, kind, label = Reader(data, len(roster.names), MESSAGE_AT), MESSAGE, None
    else:
        reader = Reader(data, _known_size(protocol, data, roster), HEADER_BYTES)
        kind, label = read_kind(reader, tuple(protocol.kinds))
        if source is None and kind != MESSAGE:
            raise PeerError(
                f"a stamp of kind {kind!r}; without the source that delivered it only messages are accepted"
            )
    sender, count, destinations = reader.message()
    shape = protocol.kinds[kind]
    if version == IN_BITS:
        shape = _other_form(shape)
        if shape is protocol.kinds[kind]:
            raise PeerError(f"a {kind} of wire version 2; protocol {protocol.name} has version 1 alone")
    stamp = shape.read(reader)
    reader.done()
    copy: Copy = _new(Copy)  # field by field: to call the class would cost as much as reading a small stamp
    copy.sender = sender
    copy.count = count
    copy.destinations = destinations
    copy.source = sender if source is None else source
    copy.destination = destination
    copy.stamp = stamp
    copy.label = label
    copy.kind = kind
    return copy


def has_bits(protocol: type[Member], kind: str) -> bool:
    """Return whether copies of this kind have a form of their own in version 2."""
    return _other_form(protocol.kinds[kind]) is not protocol.kinds[kind]


def in_version(protocol: type[Member], data: bytes, roster: Roster, version: int) -> bytes:
    """Return a stamp in another version, under the roster it was written under, which may be an earlier one."""
    known = Roster(roster.names[: _known_size(protocol, data, roster)])
    return encode(protocol, decode(protocol, data, known, destination=0, source=0), known, version)


def _opening(key: tuple[int, int, bytes]) -> bytes:
    """Return how the stamp of a message without a label begins, and remember it."""
    if len(_openings) >= MOST_OPENINGS:
        _openings.clear()
    version, code, digest = key
    return _openings.setdefault(key, bytes((version, code)) + digest + bytes(1))


def _other_form(shape: Shape) -> Shape:
    """Return the shape of version 2: itself where there is no other form."""
    return _in_bits.get(shape) or _in_bits.setdefault(shape, shape.in_bits())


def _known_size(protocol: type[Member], data: bytes, roster: Roster) -> int:
    """Return the size of the roster that a stamp is written under; raise an error if its header is invalid."""
    if len(data) < HEADER_BYTES:
        raise PeerError(f"a stamp of {len(data)} bytes is too short; the header alone has {HEADER_BYTES}")
    if data[0] not in VERSIONS:
        raise PeerError(f"stamp version {data[0]}; this release reads versions {WIRE_VERSION} and {IN_BITS}")
    if data[1] != protocol.code:
        raise PeerError(f"stamp of protocol number {data[1]}, expected {protocol.code} ({protocol.name})")
    return known_size(roster, data[2:HEADER_BYTES], grows=protocol.grows)


def known_size(roster: Roster, digest: bytes, *, grows: bool = True) -> int:
    """Return the size of the roster of this lineage with that hash; one that cannot grow is its whole lineage."""
    if roster.hash == digest:
        return len(roster)
    size = roster.earlier(digest) if grows else 0
    if size:
        return size
    raise PeerError(
        f"stamp under roster {digest.hex()}, which is unknown here; known is {roster.hash.hex()} "
        f"({', '.join(roster.names[:8])}{', ...' if len(roster) > 8 else ''}){' and what it grew from' * grows}"
    )


def put_kind(out: bytearray, names: Sequence[str], copy: Copy) -> None:
    """Write the kind of a copy and whether a label follows as one byte, and the label."""
    out.append(names.index(copy.kind) << 1 | (copy.label is not None))
    if copy.label is not None:
        TEXT.write(copy.label, out, 0)


def read_kind(reader: Reader, names: Sequence[str]) -> tuple[str, str | None]:
    """Read the kind and the label that `put_kind` wrote."""
    head = reader.varint()
    if head >> 1 >= len(names):
        raise PeerError(f"kind {head >> 1} at byte {reader.at} is unknown; {len(names)} kinds are: {', '.join(names)}")
    return names[head >> 1], read_label(reader) if head & 1 else None


def read_label(reader: Reader) -> str:
    """Read a label of acceptable length."""
    start = reader.at
    label = TEXT.read(reader)
    if reader.at - start > MOST_LABEL_BYTES + 2:
        raise PeerError(
            f"a label of {reader.at - start} bytes at byte {start}; at most {MOST_LABEL_BYTES} are accepted"
        )
    return label


class CopyShape(Shape):
    """A whole copy inside a snapshot or a state: a held one, or one that waits to be sent."""

    def __init__(self, kinds: Mapping[str, Shape]) -> None:
        """Take the shape of the stamp for each kind of copy."""
        self.kinds = kinds
        self.names = tuple(kinds)

    def write(self, value: Value, out: bytearray, size: int) -> None:
        copy: Copy = value
        put_kind(out, self.names, copy)
        for number in (copy.sender, copy.count, copy.source, copy.destination):
            put_varint(out, number)
        MASK.write(copy.destinations, out, size)
        self.kinds[copy.kind].write(copy.stamp, out, size)

    def read(self, reader: Reader) -> Copy:
        kind, label = read_kind(reader, self.names)
        sender, count = PROCESS.read(reader), reader.varint()
        source, destination = PROCESS.read(reader), PROCESS.read(reader)
        destinations = MASK.read(reader)
        return Copy(sender, count, destinations, source, destination, self.kinds[kind].read(reader), label, kind)

    def freeze(self, value: Value, rename: Rename) -> Hashable:
        """Freeze every field, with positions renamed."""
        copy: Copy = value
        return (
            copy.kind,
            copy.label,
            PROCESS.freeze(copy.sender, rename),
            copy.count,
            MASK.freeze(copy.destinations, rename),
            PROCESS.freeze(copy.source, rename),
            PROCESS.freeze(copy.destination, rename),
            self.kinds[copy.kind].freeze(copy.stamp, rename),
        )
