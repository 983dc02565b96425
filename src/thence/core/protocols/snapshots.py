"""Snapshots: the whole state of a member as bytes.

Invariant: a snapshot is magic, version, protocol, roster, position, options, accepted labels, and then for each causal
order its label, its count, who is gone, the receiver and the log, all by their shapes; orders stand by ascending label,
behind the member's own. If a copy ever went without a cause, what each receiver remembers since follows. `read` returns
a member that `write` writes to the same bytes, or raises `PeerError`; a member that it returns meets every condition
that the steps of its protocol rely on. Sizes are checked before memory is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from thence.core.model.roster import Roster
from thence.core.protocols.wire import read_label
from thence.core.wire.codec import INT, MASK, PROCESS, TEXT, ByProcess, Optional, Seq
from thence.core.wire.reader_cy import Reader
from thence.core.wire.words_cy import put_varint
from thence.errors import MisuseError, PeerError

if TYPE_CHECKING:
    from thence.core.protocols.base import Member

SNAPSHOT_MAGIC = b"thence-m"
SNAPSHOT_VERSION = 1
MOST_PROCESSES = 4096
"""the largest roster that a snapshot may bring; a member takes memory for each pair of processes"""
LABEL = Optional(TEXT)
LABELS = Optional(Seq(TEXT, make=tuple))
Passed = dict[int, tuple[int, ...]]
"""{sender: numbers delivered}, where their order alone does not tell any more which were"""
REMEMBERED = ByProcess(Seq(INT, make=tuple))

M = TypeVar("M", bound="Member")


def write(member: Member) -> bytes:
    """Return the whole state as bytes."""
    out = bytearray(SNAPSHOT_MAGIC)
    out.append(SNAPSHOT_VERSION)
    TEXT.write(member.name, out, 0)
    put_varint(out, member.size)
    for process in member.roster:
        TEXT.write(process, out, 0)
    put_varint(out, member.me)
    for option, shape in member.options.items():
        shape.write(getattr(member, option), out, member.size)
    LABELS.write(None if member.labels is None else sorted(member.labels), out, member.size)
    orders = member.orders()
    put_varint(out, len(orders))
    for order in orders:
        order.settle()
        LABEL.write(order.label, out, member.size)
        put_varint(out, order.count)
        MASK.write(order.gone, out, member.size)
        order.receiver.dump(out, member.size)
        order.dump(out, member.size)
    passed = [order.receiver.passed for order in orders]
    if any(passed):
        for each in passed:
            REMEMBERED.write(each, out, member.size)
    return bytes(out)


def read(protocol: type[M], data: bytes) -> M:
    """Return the member that `write` described; raise an error if the bytes are invalid."""
    if data[: len(SNAPSHOT_MAGIC)] != SNAPSHOT_MAGIC:
        raise PeerError(f"not a snapshot: starts with {data[:8]!r}, expected {SNAPSHOT_MAGIC!r}")
    reader = Reader(data, 0)
    reader.at = len(SNAPSHOT_MAGIC)
    version = reader.varint()
    if version != SNAPSHOT_VERSION:
        raise PeerError(f"snapshot version {version}; this release reads version {SNAPSHOT_VERSION}")
    name = TEXT.read(reader)
    if name != protocol.name:
        raise PeerError(f"snapshot of protocol {name!r}, expected {protocol.name!r}")
    member = _made(protocol, reader)
    last = None
    orders = reader.length()
    if not orders:
        raise PeerError(f"snapshot without a causal order, before byte {reader.at}; a member keeps at least one")
    for place in range(orders):
        label = read_label(reader) if reader.flag() else None
        if place == 0:
            member.label = label
            order = member
        else:
            if label is None or label == member.label or (last is not None and label <= last):
                raise PeerError(f"orders before byte {reader.at} do not ascend by label")
            order = member.fresh(label)
            last = label
        _load(order, reader)
        member.keep(order)
    if reader.at < reader.end:
        _remember(member, reader)
    reader.done()
    return member


def _remember(member: Member, reader: Reader) -> None:
    for order in member.orders():
        order.receiver.remember(REMEMBERED.read(reader))
    if not any(order.receiver.passed for order in member.orders()):
        raise PeerError(f"snapshot that remembers nothing and says so, before byte {reader.at}; it says nothing then")


def _made(protocol: type[M], reader: Reader) -> M:
    size = reader.length()
    if not 0 < size <= MOST_PROCESSES:
        raise PeerError(f"snapshot over {size} processes; 1 to {MOST_PROCESSES} are accepted")
    names = [TEXT.read(reader) for _ in range(size)]
    reader.size = size
    me = PROCESS.read(reader)
    options = {option: shape.read(reader) for option, shape in protocol.options.items()}
    labels = LABELS.read(reader)
    try:
        member = protocol(Roster(names), me, **options)
        member.labels = None if labels is None else frozenset(labels)
    except MisuseError as error:
        raise PeerError(f"snapshot with a roster or options that cannot be: {error}") from None
    for option, value in options.items():
        if getattr(member, option) != value:
            raise PeerError(f"snapshot option {option} is {value!r}, a member keeps it as {getattr(member, option)!r}")
    if labels is not None and list(labels) != sorted(set(labels)):
        raise PeerError(f"snapshot with labels {', '.join(labels[:8])} that do not ascend")
    return member


def _load(order: Member, reader: Reader) -> None:
    order.count = INT.read(reader)
    order.gone = MASK.read(reader)
    order.receiver.load(reader)
    order.load(reader)
    order.check_state()
