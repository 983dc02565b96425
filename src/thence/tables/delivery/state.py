"""The state of one key as columns, and its one codec.

*Invariant.* `decode_state(encode_state(state)) == state`. A state says by what it was made (kind of causes, protocol,
roster) and is refused where that differs from what is asked for. Its columns are flat:

- of the key: how many rows came, how many have a position, its event time;
- of each causal order (a label; None is the usual one): the numbers delivered by source, the holes, and for explicit
  causes the ids that were quarantined and the fingerprints of those forgotten;
- of each held row, in the order of arrival: ticket, order, when it came, source, number; and flat, one after
  the other, its needs, each with whether the row is held for it.

A source is a position in the roster for stamps, a text otherwise. For explicit causes `delivered` is in the order of
delivery. A stream keeps many keys in other columns (`shard_state.py`), made by the same rule.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from thence.core.model.plain import Row
from thence.errors import MisuseError
from thence.tables.delivery.packing import PackedColumn, Texts, pack, unpack
from thence.tables.delivery.reading import Reading

Ints: TypeAlias = "array[int]"
"""Whole numbers."""
Floats: TypeAlias = "array[float]"
"""Numbers; NaN stands for none."""
SourceColumn: TypeAlias = "Ints | Texts | list[str]"
"""Sources of one kind: whole numbers for stamps, else texts."""


def ints(values: Iterable[int] = ()) -> array[int]:
    """Return whole numbers as a column."""
    return array("q", values)


def floats(values: Iterable[float] = ()) -> array[float]:
    """Return numbers as a column."""
    return array("d", values)


@dataclass
class OrderColumns:
    """One causal order of a key, as columns."""

    label: str | None = None
    delivered_source: SourceColumn = field(default_factory=ints)
    delivered_number: Ints = field(default_factory=ints)
    hole_source: SourceColumn = field(default_factory=ints)
    hole_first: Ints = field(default_factory=ints)
    hole_last: Ints = field(default_factory=ints)
    seen_source: SourceColumn = field(default_factory=ints)
    seen_number: Ints = field(default_factory=ints)
    quarantined: SourceColumn = field(default_factory=ints)
    forgotten: Ints = field(default_factory=ints)
    receiver: bytes = b""
    """of a protocol that has a rule of its own: its receiver"""
    me: int = 0
    """... and the position it is at"""


@dataclass
class HeldColumns:
    """The held rows of a snapshot, as columns."""

    ticket: Ints = field(default_factory=ints)
    order: Ints = field(default_factory=ints)
    since: Floats = field(default_factory=floats)
    ahead: Floats = field(default_factory=floats)
    came: Ints = field(default_factory=ints)
    message: Texts = field(default_factory=lambda: Texts.of(()))
    """of a protocol that has a rule of its own: the causes it waits for, a NUL before each"""
    source: SourceColumn = field(default_factory=ints)
    number: Ints = field(default_factory=ints)
    needs: Ints = field(default_factory=ints)
    need_source: SourceColumn = field(default_factory=ints)
    need_number: Ints = field(default_factory=ints)
    need_waited: Ints = field(default_factory=ints)


@dataclass
class State:
    """The state of one key; see the module text."""

    by: str
    protocol: str | None = None
    roster: list[str] | None = None
    rows: int = 0
    position: int = 0
    now: float | None = None
    began: float | None = None
    doubted: float | None = None
    orders: list[OrderColumns] = field(default_factory=list)
    held: HeldColumns = field(default_factory=HeldColumns)


_SOURCES = {"delivered_source", "hole_source", "seen_source", "quarantined", "source", "need_source"}
_HEADER = ("by", "protocol", "roster", "rows", "position", "now", "began", "doubted")


def encode_state(state: State, extra: bytes) -> bytes:
    """Write a state; `extra` is the caller's own: the held rows themselves."""
    kind = "q" if state.by == "stamp" else "s"
    header: Row = {name: getattr(state, name) for name in _HEADER}
    header["orders"] = [[order.label, order.me] for order in state.orders]
    columns: dict[str, PackedColumn] = {"extra": ("b", extra)}
    for place, order in enumerate(state.orders):
        columns |= {f"{place}.{name}": _column(name, kind, value) for name, value in vars(order).items() if _is(value)}
    columns |= {f"held.{name}": _column(name, kind, value) for name, value in vars(state.held).items() if _is(value)}
    return pack(header, columns)


def _is(value: SourceColumn | Floats | str | bytes | int | None) -> bool:
    """Return whether something is a column, and not an empty one: those are left out."""
    return value is not None and not isinstance(value, str | int) and len(value) > 0


def _column(name: str, kind: str, value: SourceColumn | Floats | bytes) -> PackedColumn:
    if isinstance(value, bytes):
        return "b", value
    if name == "message" or (name in _SOURCES and kind == "s"):
        return "s", value if isinstance(value, Texts) else Texts.of(list(map(str, value)))
    assert isinstance(value, array)
    return "d" if name in ("since", "ahead") else "q", value


def decode_state(data: bytes | memoryview) -> tuple[State, bytes]:
    """Return the state that `encode_state` wrote, with the bytes that came with it."""
    header, columns = unpack(data)
    state = State(**{name: header[name] for name in _HEADER})
    empty: SourceColumn = ints() if state.by == "stamp" else Texts.of(())
    for place, (label, me) in enumerate(header["orders"]):
        order = OrderColumns(label, me=me)
        _take(order, columns, f"{place}.", empty)
        state.orders.append(order)
    _take(state.held, columns, "held.", empty)
    return state, columns.get("extra", b"")


def _take(into: OrderColumns | HeldColumns, columns: Row, prefix: str, empty: SourceColumn) -> None:
    for name in vars(into):
        value = columns.get(prefix + name)
        if value is not None:
            setattr(into, name, value)
        elif name in _SOURCES:
            setattr(into, name, empty)


def agree(state: State, reading: Reading) -> Reading:
    """Return a reading as a state left it, or refuse a state that was made in another way."""
    if state.by != reading.by:
        raise MisuseError(f"state of by={state.by!r}, asked for by={reading.by!r}")
    fresh = Reading(reading.by, reading.rosters, state.protocol, reading.separator)
    if state.roster is not None:
        known = [roster for roster in reading.rosters if list(roster.names[: len(state.roster)]) == state.roster]
        if not known:
            raise MisuseError(f"state under the roster {state.roster}, which is not among those given")
        fresh.roster = known[0]
    return fresh


def reading_terms(reading: Reading) -> tuple[str | None, list[str] | None]:
    """Return what a state says of a reading: protocol and roster."""
    return reading.protocol, None if reading.roster is None else list(reading.roster.names)


def spans(lengths: Sequence[int]) -> Iterable[slice]:
    """Return the places of consecutive spans of these lengths."""
    at = 0
    for length in lengths:
        yield slice(at, at + length)
        at += length
