"""Inputs (written to the journal) and items (sent over a link), and their forms as bytes.

Invariant: `read_input(kind, data)` returns what `data_of(input)` was given; `read_item(item_bytes(...))` likewise;
whatever else arrives raises `PeerError` before anything is done with it. The payload stands last in both, so that it
can be cut out of a row or an item without reading the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from thence.errors import PeerError

ITEM_KINDS = COPY, WANT, PAYLOAD, CHANGE, ACCEPT = 1, 2, 3, 4, 5
"""kinds of items: a copy; please send me the payload of a message; here it is; a process joins or leaves; accepted"""

NO_LABEL = 0xFFFF
_SEND = Struct(">HH")
_RECEIVE = Struct(">HQ")
_COPY = Struct(">BBQI")
_KEY = Struct(">BQHQH")
_CHANGE = Struct(">BIBHHH")
_ACCEPT = Struct(">BI")
_PROPOSE = Struct(">BH")
_AGREED = Struct(">HB")


@dataclass(slots=True)
class Send:
    """The application sends a payload to a set of positions."""

    destinations: int
    payload: bytes
    label: str | None = None


@dataclass(slots=True)
class Receive:
    """The item with this number came over the link from the process at position `peer`."""

    peer: int
    number: int
    item: bytes


@dataclass(frozen=True, slots=True)
class Done:
    """The application is done with these deliveries."""

    deliveries: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trusted:
    """The failure detector trusts these processes."""

    processes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Abandon:
    """A process that is gone for good is given up."""

    process: str


@dataclass(frozen=True, slots=True)
class Join:
    """A process was added to the list of processes."""

    process: str


@dataclass(frozen=True, slots=True)
class Crash:
    """This process starts again after it was ended without a stop."""


@dataclass(frozen=True, slots=True)
class Stop:
    """This process stops on purpose."""


@dataclass(frozen=True, slots=True)
class Propose:
    """This process proposes that another joins, which listens at `address`, or leaves."""

    joins: bool
    process: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Agreed:
    """The process at position `peer` reads stamps of wire version 2 from now on, or does not."""

    peer: int
    in_bits: bool


Input = Send | Receive | Done | Trusted | Abandon | Join | Crash | Stop | Propose | Agreed

INPUT_KINDS: tuple[type[Input], ...] = (Send, Receive, Done, Trusted, Abandon, Join, Crash, Stop, Propose, Agreed)
KIND_OF = {kind: number for number, kind in enumerate(INPUT_KINDS, 1)}
"""the number that stands for an input in the journal; never reused"""
INPUT_NAMES = {number: kind.__name__.lower() for kind, number in KIND_OF.items()}
SEND, RECEIVE, DONE, TRUSTED, ABANDON, JOIN, CRASH, STOP, PROPOSE, AGREED = KIND_OF.values()

MessageKey = tuple[str | None, int, int]
"""label, sender, count: names a message"""


def data_of(given: Input) -> bytes:
    """Return what the journal keeps of an input beside its kind."""
    if type(given) is Receive:
        return _RECEIVE.pack(given.peer, given.number) + given.item
    if type(given) is Send:
        label = None if given.label is None else given.label.encode()
        mask = given.destinations.to_bytes((given.destinations.bit_length() + 7) // 8, "big")
        head = _SEND.pack(NO_LABEL if label is None else len(label), len(mask))
        return head + (label or b"") + mask + given.payload
    if type(given) is Done:
        return ",".join(map(str, given.deliveries)).encode()
    if type(given) is Trusted:
        return "\n".join(given.processes).encode()
    if isinstance(given, Abandon | Join):
        return given.process.encode()
    if type(given) is Propose:
        name = given.process.encode()
        return _PROPOSE.pack(given.joins, len(name)) + name + given.address.encode()
    if type(given) is Agreed:
        return _AGREED.pack(given.peer, given.in_bits)
    return b""


def size_of(given: Input) -> int:
    """Return how many bytes of others an input brings."""
    if type(given) is Receive:
        return len(given.item)
    return len(given.payload) if type(given) is Send else 0


def read_input(kind: int, data: bytes) -> Input:
    """Return the input that a row of the journal holds."""
    if kind == RECEIVE:
        peer, number = _RECEIVE.unpack_from(data)
        return Receive(peer, number, data[_RECEIVE.size :])
    if kind == SEND:
        label, mask, at = _send_head(data)
        return Send(mask, data[at:], label)
    if kind == DONE:
        return Done(tuple(map(int, data.split(b","))))
    if kind == TRUSTED:
        return Trusted(tuple(data.decode().split("\n")) if data else ())
    if kind in (ABANDON, JOIN):
        return (Abandon if kind == ABANDON else Join)(data.decode())
    if kind == PROPOSE:
        joins, length = _PROPOSE.unpack_from(data)
        end = _PROPOSE.size + length
        return Propose(bool(joins), data[_PROPOSE.size : end].decode(), data[end:].decode())
    if kind == AGREED:
        peer, in_bits = _AGREED.unpack(data)
        return Agreed(peer, bool(in_bits))
    if kind in (CRASH, STOP):
        return Crash() if kind == CRASH else Stop()
    raise PeerError(f"input of kind {kind}; known are {', '.join(f'{k} ({n})' for k, n in INPUT_NAMES.items())}")


def _send_head(data: bytes) -> tuple[str | None, int, int]:
    label_length, mask_length = _SEND.unpack_from(data)
    at, label = _SEND.size, None
    if label_length != NO_LABEL:
        label = data[at : at + label_length].decode()
        at += label_length
    return label, int.from_bytes(data[at : at + mask_length], "big"), at + mask_length


def payload_in(kind: int, data: bytes) -> bytes:
    """Cut the payload out of the row of a send, or of the receipt of a copy or of a payload."""
    if kind == SEND:
        return data[_send_head(data)[2] :]
    item = data[_RECEIVE.size :]
    if item[0] == COPY:
        return item[_COPY.size + _COPY.unpack_from(item)[3] :]
    return read_key(item)[2]


@dataclass(slots=True)
class CopyItem:
    """A copy on a link: the sender's clock at its send, its stamp, and its payload unless that travels apart."""

    order: int
    stamp: bytes
    payload: bytes | None


@dataclass(frozen=True, slots=True)
class WantItem:
    """A peer asks for the payload of a message."""

    key: MessageKey


@dataclass(slots=True)
class PayloadItem:
    """The payload of a message, sent apart."""

    key: MessageKey
    order: int
    payload: bytes


class MembershipChange(NamedTuple):
    """A process joins (with the address at which it listens) or leaves; `by` has proposed it."""

    number: int
    joins: bool
    name: str
    address: str
    by: int

    def __str__(self) -> str:
        return f"{'join' if self.joins else 'leave'} {self.name}"


@dataclass(frozen=True, slots=True)
class AcceptItem:
    """A change of the membership that is applied now."""

    number: int


Item = CopyItem | WantItem | PayloadItem | MembershipChange | AcceptItem


def change_head(number: int, joins: bool, name: str, address: str, by: int) -> bytes:
    """Return a change as an item."""
    texts = name.encode(), address.encode()
    return _CHANGE.pack(CHANGE, number, joins, by, len(texts[0]), len(texts[1])) + b"".join(texts)


def accept_head(number: int) -> bytes:
    """Return the item that says that a change is applied."""
    return _ACCEPT.pack(ACCEPT, number)


def _read_change(item: bytes) -> MembershipChange:
    _, number, joins, by, name, address = _CHANGE.unpack_from(item)
    end = _CHANGE.size + name
    if len(item) != end + address or joins > 1 or not 0 < name <= 400 or not number:
        raise PeerError(f"a change of {len(item)} bytes states a name of {name} bytes and an address of {address}")
    return MembershipChange(number, bool(joins), item[_CHANGE.size : end].decode(), item[end:].decode(), by)


def copy_head(order: int, stamp: bytes, *, with_payload: bool) -> bytes:
    """Return an item of a copy up to its payload."""
    return _COPY.pack(COPY, with_payload, order, len(stamp)) + stamp


def stamp_in(head: bytes) -> tuple[bool, int, bytes]:
    """Return of the item of a copy up to its payload: whether a payload follows, the clock, the stamp."""
    _, with_payload, order, length = _COPY.unpack_from(head)
    return bool(with_payload), order, head[_COPY.size : _COPY.size + length]


def key_head(kind: int, key: MessageKey, order: int = 0) -> bytes:
    """Return a request for a payload, or an item that carries one up to the payload itself."""
    label, sender, count = key
    text = b"" if label is None else label.encode()
    return _KEY.pack(kind, order, sender, count, NO_LABEL if label is None else len(text)) + text


def read_key(item: bytes) -> tuple[MessageKey, int, bytes]:
    """Return message, clock and the rest of an item that begins with a key."""
    _, order, sender, count, length = _KEY.unpack_from(item)
    if length == NO_LABEL:
        return (None, sender, count), order, item[_KEY.size :]
    end = _KEY.size + length
    if len(item) < end:
        raise PeerError(f"an item ends within a label of {length} bytes")
    return (item[_KEY.size : end].decode(), sender, count), order, item[end:]


def read_item(item: bytes) -> Item:
    """Read what came over a link."""
    try:
        kind = item[0] if item else 0
        if kind == COPY:
            _, with_payload, order, length = _COPY.unpack_from(item)
            end = _COPY.size + length
            if with_payload > 1 or len(item) < end or (not with_payload and len(item) > end):
                raise PeerError(f"a copy of {len(item)} bytes states {length} bytes of stamp and flag {with_payload}")
            return CopyItem(order, item[_COPY.size : end], item[end:] if with_payload else None)
        if kind in (WANT, PAYLOAD):
            key, order, rest = read_key(item)
            return WantItem(key) if kind == WANT else PayloadItem(key, order, rest)
        if kind == CHANGE:
            return _read_change(item)
        if kind == ACCEPT and len(item) == _ACCEPT.size:
            return AcceptItem(_ACCEPT.unpack(item)[1])
    except (struct_error, UnicodeDecodeError) as error:
        raise PeerError(f"an item of {len(item)} bytes cannot be read: {error}") from None
    raise PeerError(f"an item of kind {kind}; 1 (copy), 2 (want), 3 (payload), 4 (change) and 5 (accept) are known")
