"""A key's state between micro-batches: one small blob, and sealed parts that are written once.

Law. What is written in a micro-batch follows what changed in it, not what the key holds: whatever a key keeps grows in
a tail that is written with the blob; a tail of more than `TAIL` bytes is sealed as parts and is not written again. A
sealed part of held rows has a mask of those that have left beside it; when half have, the rest moves to the tail.
Sealed ids of explicit causes stay as they are; a part of which all are forgotten goes, and their fingerprints are
sealed in their turn. A small key has no parts: one read, one write.

The blob says what it was made with. Columns that were added since are null in the rows held from before; whatever else
differs is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from thence.core.model.plain import Row
from thence.errors import MisuseError
from thence.tables.delivery.columns import Key
from thence.tables.delivery.key_state import KeyState, Setup
from thence.tables.delivery.packing import Texts, pack, unpack
from thence.tables.delivery.rule_state import held_rows, state_of
from thence.tables.delivery.sources_cy import Row as HeldRow
from thence.tables.delivery.state import HeldRows, State, decode, encode, ints, told

TAIL = 1 << 15
MOST_ROWS = 4096
"""Rows of one sealed part."""


class Parts(Protocol):
    """Where the sealed parts of one key are."""

    def get(self, name: str) -> bytes | None:
        """Return a part, if it is there."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write a part."""
        ...

    def delete(self, name: str) -> None:
        """Remove a part."""
        ...


@dataclass
class Sealed:
    """What is sealed: ids that were delivered, fingerprints of forgotten ones, held rows and their tickets."""

    next: int = 0
    """the number of the next part of whatever kind"""
    ids: list[list[int]] = field(default_factory=list)
    """number and length of each part of ids, in the order of delivery"""
    before: int = 0
    """how many ids were delivered before those"""
    skip: int = 0
    """how many of those are forgotten by now"""
    gone: list[int] = field(default_factory=list)
    held: dict[int, list[int]] = field(default_factory=dict)
    """the tickets in each part of held rows"""
    left: dict[int, int] = field(default_factory=dict)
    """how many of those have left"""

    def number(self) -> int:
        """Return the number of a new part."""
        self.next += 1
        return self.next - 1

    def about(self) -> Row:
        """Return what a blob says of it."""
        numbers: Row = {name: getattr(self, name) for name in ("next", "ids", "before", "skip", "gone")}
        return numbers | {"held": list(self.held)}

    def names(self) -> list[str]:
        """Return the names of all parts."""
        found = [*(f"ids/{number}" for number, _ in self.ids), *(f"gone/{number}" for number in self.gone)]
        found += [f"held/{number}" for number in self.held]
        return found + [f"left/{number}" for number, left in self.left.items() if left]


class Whole(NamedTuple):
    """A key put together from its blob and its parts: as `KeyState` takes it, and what the blob alone had."""

    state: State
    held: list[pa.RecordBatch]
    elsewhere: list[tuple[HeldRows, set[int]]]
    ids: list[str]
    forgotten: list[int]


class StoredKey:
    """One key, read from its blob and parts, and written back."""

    def __init__(
        self, setup: Setup, key: Key, schema: pa.Schema, blob: bytes | None, parts: Parts, made: Row | None = None
    ) -> None:
        """Read a key; `schema` is that of the rows, `made` what `made_with` says of them, where it is known already."""
        self.setup, self.schema, self.parts = setup, schema, parts
        self.made = made_with(setup, schema) if made is None else made
        self.sealed = Sealed()
        self.written = 0
        self.last = 0
        """when rows came last, in milliseconds of processing time"""
        self.ids: list[str] = []
        """delivered ids that are in no part"""
        self.forgotten: list[int] = []
        """fingerprints that are in no part"""
        if blob is None:
            self.state = KeyState(setup, key)
        else:
            self.state = self._read(blob, key)
        self.state.rule.fresh = []

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read(self, blob: bytes, key: Key) -> KeyState:
        state, extra, about = decode(blob)
        agree(about["made"], self.made)
        self.last = about["last"]
        found = whole(state, extra, about, self.parts.get, self.sealed)
        self.ids, self.forgotten = found.ids, found.forgotten
        tables = [fitted(batch, self.schema) for batch in found.held]
        held = pa.concat_batches(tables) if tables else None
        return KeyState(self.setup, key, found.state, held, found.elsewhere)

    # -- writing -----------------------------------------------------------------------------------------------------

    def blob(self) -> bytes:
        """Write what changed; return the blob."""
        rule, held = self.state.rule, self.state.held
        self.ids += rule.fresh
        self.forgotten += rule.gone
        rule.fresh, rule.gone = [], []
        self.written = 0
        if not self.sealed.names():
            self._forget_ids()
            blob = encode(state_of(rule, self.ids, self.forgotten), _ipc(held), self._about())
            if len(blob) <= TAIL:
                self.written = len(blob)
                return blob
        self._seal_ids()
        self._seal_forgotten()
        rows, held = self._seal_held(held)
        blob = encode(state_of(rule, self.ids, self.forgotten, rows), _ipc(held), self._about())
        self.written += len(blob)
        return blob

    def _about(self) -> Row:
        return {"made": self.made, "last": self.last} | self.sealed.about()

    def clear(self) -> None:
        """Remove all parts: the key is forgotten."""
        for name in self.sealed.names():
            self.parts.delete(name)

    def _put(self, name: str, data: bytes) -> None:
        self.parts.put(name, data)
        self.written += len(data)

    def _forget_ids(self) -> None:
        """Let go of ids that are forgotten: parts of which no id is left, and the first ones that are in no part."""
        rule, sealed = self.state.rule, self.sealed
        if not rule.cyclic:
            return
        first = rule.position - (rule.position if rule.recent is None else len(rule.recent))
        while sealed.ids and sealed.before + sealed.ids[0][1] <= first:
            number, length = sealed.ids.pop(0)
            self.parts.delete(f"ids/{number}")
            sealed.before += length
        sealed.before = sealed.before if sealed.ids else first
        sealed.skip = first - sealed.before
        count = rule.position - first - (sum(length for _, length in sealed.ids) - sealed.skip)
        self.ids = self.ids[len(self.ids) - count :]

    def _seal_ids(self) -> None:
        """Write ids that were delivered as a part, if they are many."""
        self._forget_ids()
        kept = Texts.of(self.ids)
        if len(kept.data) + 8 * len(kept) > TAIL:
            self.sealed.ids.append([self.sealed.number(), len(kept)])
            self._put(f"ids/{self.sealed.ids[-1][0]}", pack({}, {"ids": ("s", kept)}))
            self.ids = []

    def _seal_forgotten(self) -> None:
        """Write fingerprints of forgotten ids as a part, if they are many."""
        if 8 * len(self.forgotten) > TAIL:
            self.sealed.gone.append(self.sealed.number())
            self._put(f"gone/{self.sealed.gone[-1]}", pack({}, {"gone": ("q", ints(self.forgotten))}))
            self.forgotten = []

    def _seal_held(self, held: pa.RecordBatch | None) -> tuple[list[HeldRow], pa.RecordBatch | None]:
        """Note what has left of sealed rows; seal the others if they are many. Return those for the blob."""
        kept = self.state.rule.kept
        if held is None:
            return [], None
        sealed: set[int] = set()
        for number in list(self.sealed.held):
            sealed.update(self._sealed_still(number, kept))
        rows = [row for row in kept.values() if row.ticket not in sealed]
        places = np.array([place for place, ticket in enumerate(kept) if ticket not in sealed], np.int64)
        rest = held.take(pa.array(places)) if sealed else held
        if rows and rest.nbytes > TAIL:
            for start in range(0, len(rows), MOST_ROWS):
                self._seal(rows[start : start + MOST_ROWS], rest.slice(start, MOST_ROWS))
            return [], rest.slice(0, 0)
        return rows, rest

    def _sealed_still(self, number: int, kept: Container[int]) -> list[int]:
        """Return the tickets of a part that are held, and thin it or take it away as its rows leave."""
        sealed = self.sealed
        own = sealed.held[number]
        here = [ticket for ticket in own if ticket in kept]
        left = len(own) - len(here)
        if 2 * left >= len(own):
            self.parts.delete(f"held/{number}")
            if sealed.left[number]:
                self.parts.delete(f"left/{number}")
            del sealed.held[number], sealed.left[number]
            return []
        if left != sealed.left[number]:
            self._put(f"left/{number}", np.packbits([ticket not in kept for ticket in own]).tobytes())
            sealed.left[number] = left
        return here

    def _seal(self, rows: list[HeldRow], held: pa.RecordBatch) -> None:
        number = self.sealed.number()
        rule = self.state.rule
        part = State(rule.reading.by, *told(rule.reading), held=held_rows(rule, rows))
        self._put(f"held/{number}", encode(part, _ipc(held)))
        self.sealed.held[number], self.sealed.left[number] = [row.ticket for row in rows], 0


def whole(state: State, extra: bytes, about: Row, get: Callable[[str], bytes | None], sealed: Sealed) -> Whole:
    """Put a key together from its blob and its parts; held rows come in arrival order."""
    for name in ("next", "ids", "before", "skip", "gone"):
        setattr(sealed, name, about[name])
    ids, forgotten = list[str](), list[int]()
    if state.by == "depends_on" and state.orders:
        order = state.orders[0]
        assert isinstance(order.delivered_source, Texts)
        ids, forgotten = order.delivered_source.tolist(), order.forgotten.tolist()
        parts = [unpack(_part(get, f"ids/{number}"))[1]["ids"].tolist() for number, _ in sealed.ids]
        every = [*chain.from_iterable(parts), *ids][sealed.skip :]
        gone = [unpack(_part(get, f"gone/{number}"))[1]["gone"] for number in sealed.gone]
        numbers = ints([1]) * len(every)
        together = ints(chain(*gone, forgotten))
        made = replace(order, delivered_source=every, delivered_number=numbers, forgotten=together)
        state = replace(state, orders=[made])
    elsewhere, tables, tickets = [], [], list[int]()
    for number in about["held"]:
        part, rows, _ = decode(_part(get, f"held/{number}"))
        own, mask = part.held.ticket.tolist(), get(f"left/{number}")
        left = set[int]()
        if mask is not None:
            bits = np.unpackbits(np.frombuffer(mask, np.uint8), count=len(own)).tolist()
            left = {ticket for ticket, gone_now in zip(own, bits, strict=True) if gone_now}
        sealed.held[number], sealed.left[number] = own, len(left)
        elsewhere.append((part.held, left))
        here = [place for place, ticket in enumerate(own) if ticket not in left]
        tickets += [own[place] for place in here]
        tables.append(_rows(rows)[0].take(pa.array(here, pa.int64())))
    held = _rows(extra)
    if elsewhere:
        order_of = np.argsort(np.array([*tickets, *state.held.ticket], np.int64), kind="stable")
        held = [pa.concat_batches([*tables, *held]).take(pa.array(order_of))]
    return Whole(state, held, elsewhere, ids, forgotten)


def _part(get: Callable[[str], bytes | None], name: str) -> bytes:
    data = get(name)
    if data is None:
        raise MisuseError(f"the checkpoint lacks part {name} of a key: it is not whole")
    return data


# -- rows as they come -----------------------------------------------------------------------------------------------


def _ipc(batch: pa.RecordBatch | None) -> bytes:
    if batch is None or not len(batch):
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _rows(data: bytes) -> list[pa.RecordBatch]:
    return list(pa.ipc.open_stream(data)) if data else []


def made_with(setup: Setup, schema: pa.Schema) -> Row:
    """Say what a checkpoint is made with."""
    names = setup.columns
    columns = [names.run, names.destination, names.message, names.sender, names.time, names.cause]
    return {
        "by": setup.by,
        "columns": columns,
        "key": list(names.key),
        "schema": {field.name: str(field.type) for field in schema},
    }


def message_ids(held: list[pa.RecordBatch], made: Row) -> Iterator[str | None]:
    """Yield the ids of held rows, given what their checkpoint was made with."""
    name = made["columns"][2]
    for batch in held:
        values = batch.column(name).to_pylist() if name in batch.schema.names else [None] * len(batch)
        yield from (None if value is None else str(value) for value in values)


def agree(before: Row, now: Row) -> None:
    """Refuse to go on with what differs from what a checkpoint was made with."""
    if before == now:
        return
    for name in ("by", "columns", "key"):
        if before[name] != now[name]:
            raise MisuseError(
                f"this checkpoint was made with {name} {_said(before[name])}, and now it is {_said(now[name])}: go on "
                "as before, or begin with a new checkpoint"
            )
    for name, kind in before["schema"].items():
        found = now["schema"].get(name)
        if found != kind:
            what = "is gone" if found is None else f"is {found}"
            raise MisuseError(
                f"this checkpoint was made with column {name} {kind}, which {what} now: columns may be added, none "
                "may go or change its type; or begin with a new checkpoint"
            )


def _said(value: str | Iterable[str]) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of before with the columns of now."""
    if rows.schema.names == schema.names:
        return rows
    nulls = {field.name: pa.nulls(len(rows), field.type) for field in schema}
    columns = [rows.column(name) if name in rows.schema.names else nulls[name] for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
