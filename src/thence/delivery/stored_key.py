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

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thence.delivery.arrow_texts import from_texts, to_texts
from thence.delivery.columns import Key
from thence.delivery.key_state import KeyState, Setup
from thence.delivery.packing import Texts, pack, unpack
from thence.delivery.state import Floats, HeldRows, Order, Sources, State, decode, encode, texts_of
from thence.errors import MisuseError
from thence.kernels.arrays import Flags, Longs, places_in
from thence.model.plain import Row

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
    fingerprints: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    held: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)

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
        state, held = None, None
        if blob is not None:
            state, held = self._read(blob)
        self.state = KeyState(setup, key, state, held)

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read(self, blob: bytes) -> tuple[State, pa.RecordBatch | None]:
        state, extra, about = decode(blob)
        agree(about["made"], self.made)
        self.last = about["last"]
        state, held = whole(state, extra, about, self.parts.get, self.sealed)
        tables = [fitted(batch, self.schema) for batch in held]
        return state, pa.concat_batches(tables) if tables else None

    # -- writing -----------------------------------------------------------------------------------------------------

    def blob(self) -> bytes:
        """Write what changed; return the blob."""
        state = self.state.state()
        assert state is not None
        held = self.state.held
        self.written = 0
        if not self.sealed.names():
            blob = encode(state, _ipc(held), self._about())
            if len(blob) <= TAIL:
                self.written = len(blob)
                return blob
        state = self._seal_ids(state)
        state, held = self._seal_held(state, held)
        blob = encode(state, _ipc(held), self._about())
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

    def _seal_ids(self, state: State) -> State:
        """Write ids that were delivered as a part, if they are many, and fingerprints of those that are forgotten."""
        if self.setup.by != "depends_on" or not state.orders:
            return state
        order, sealed = state.orders[0], self.sealed
        ids = from_texts(order.delivered_source)
        first = state.position - len(ids)
        while sealed.ids and sealed.before + sealed.ids[0][1] <= first:
            number, length = sealed.ids.pop(0)
            self.parts.delete(f"ids/{number}")
            sealed.before += length
        sealed.before = sealed.before if sealed.ids else first
        sealed.skip = first - sealed.before
        kept = to_texts(ids.slice(sum(length for _, length in sealed.ids) - sealed.skip))
        if len(kept.data) + 8 * len(kept) > TAIL:
            sealed.ids.append([sealed.number(), len(kept)])
            self._put(f"ids/{sealed.ids[-1][0]}", pack({}, {"ids": ("s", kept)}))
            kept = Texts.of(())
        numbers = np.ones(len(kept), np.int64)
        made = replace(order, delivered_source=kept, delivered_number=numbers, forgotten=self._seal_gone(order))
        return replace(state, orders=[made])

    def _seal_gone(self, order: Order) -> NDArray[np.int64]:
        """Return the fingerprints that are in no part yet; many become one."""
        sealed = self.sealed
        new = np.setdiff1d(np.asarray(order.forgotten, np.int64), sealed.fingerprints)
        if 8 * len(new) <= TAIL:
            return new
        sealed.gone.append(sealed.number())
        sealed.fingerprints = np.union1d(sealed.fingerprints, new)
        self._put(f"gone/{sealed.gone[-1]}", pack({}, {"gone": ("q", new)}))
        return new[:0]

    def _seal_held(self, state: State, held: pa.RecordBatch | None) -> tuple[State, pa.RecordBatch | None]:
        """Note what has left of sealed rows; seal the others if they are many."""
        if held is None:
            return state, held
        tickets = np.asarray(state.held.ticket, np.int64)
        tail = np.ones(len(tickets), np.bool_)
        for number in list(self.sealed.held):
            tail &= ~self._sealed_still(number, tickets)
        places = np.flatnonzero(tail)
        rest = held.take(pa.array(places))
        if len(places) and rest.nbytes > TAIL:
            for start in range(0, len(places), MOST_ROWS):
                self._seal(state, held, places[start : start + MOST_ROWS])
            places, rest = places[:0], rest.slice(0, 0)
        return replace(state, held=taken(state.held, places)), rest

    def _sealed_still(self, number: int, tickets: Longs) -> Flags:
        """Return which of the held rows are in a part, which is thinned or taken away as its rows leave."""
        sealed = self.sealed
        own = sealed.held[number]
        here = np.isin(own, tickets)
        left = len(own) - int(here.sum())
        if 2 * left >= len(own):
            self.parts.delete(f"held/{number}")
            if sealed.left[number]:
                self.parts.delete(f"left/{number}")
            del sealed.held[number], sealed.left[number]
            return np.zeros(len(tickets), np.bool_)
        if left != sealed.left[number]:
            self._put(f"left/{number}", np.packbits(~here).tobytes())
            sealed.left[number] = left
        return np.isin(tickets, own)

    def _seal(self, state: State, held: pa.RecordBatch, places: Longs) -> None:
        number = self.sealed.number()
        rows = taken(state.held, places)
        part = State(state.by, state.protocol, state.roster, held=rows)
        self._put(f"held/{number}", encode(part, _ipc(held.take(pa.array(places)))))
        self.sealed.held[number], self.sealed.left[number] = np.asarray(rows.ticket, np.int64), 0


def whole(
    state: State, extra: bytes, about: Row, get: Callable[[str], bytes | None], sealed: Sealed
) -> tuple[State, list[pa.RecordBatch]]:
    """Put a state together from its blob and its parts; return it and the held rows, in the order of their tickets."""
    for name in ("next", "ids", "before", "skip", "gone"):
        setattr(sealed, name, about[name])
    if sealed.ids or sealed.gone:
        order = state.orders[0] if state.orders else Order()
        parts = [from_texts(unpack(_part(get, f"ids/{number}"))[1]["ids"]) for number, _ in sealed.ids]
        ids = pa.concat_arrays([*parts, from_texts(order.delivered_source)]).slice(sealed.skip)
        gone = [np.asarray(unpack(_part(get, f"gone/{number}"))[1]["gone"], np.int64) for number in sealed.gone]
        sealed.fingerprints = np.unique(np.concatenate([np.zeros(0, np.int64), *gone]))
        forgotten = np.concatenate([sealed.fingerprints, np.asarray(order.forgotten, np.int64)])
        numbers = np.ones(len(ids), np.int64)
        made = replace(order, delivered_source=to_texts(ids), delivered_number=numbers, forgotten=np.sort(forgotten))
        state = replace(state, orders=[made])
    pieces, tables = [], []
    for number in about["held"]:
        part, rows, _ = decode(_part(get, f"held/{number}"))
        mask = get(f"left/{number}")
        tickets = np.asarray(part.held.ticket, np.int64)
        left = np.zeros(len(tickets), np.bool_)
        if mask is not None:
            left = np.unpackbits(np.frombuffer(mask, np.uint8), count=len(tickets)).astype(np.bool_)
        sealed.held[number], sealed.left[number] = tickets, int(left.sum())
        places = np.flatnonzero(~left)
        pieces.append(taken(part.held, places))
        tables.append(_rows(rows)[0].take(pa.array(places)))
    if not pieces:
        return state, _rows(extra)
    together = merged([*pieces, state.held])
    table = pa.concat_batches([*tables, *_rows(extra)])
    order_of = np.argsort(together.ticket, kind="stable")
    return replace(state, held=taken(together, order_of)), [table.take(pa.array(order_of))]


def _part(get: Callable[[str], bytes | None], name: str) -> bytes:
    data = get(name)
    if data is None:
        raise MisuseError(f"the checkpoint lacks part {name} of a key: it is not whole")
    return data


# -- rows of a state -----------------------------------------------------------------------------------------------

_NEEDS = ("need_source", "need_number", "need_waited")


def taken(held: HeldRows, places: Longs) -> HeldRows:
    """Return some of the held rows."""
    lengths = np.asarray(held.needs, np.int64)
    starts = np.cumsum(lengths) - lengths
    flat = places_in(starts[places], lengths[places])
    columns = {f.name: getattr(held, f.name) for f in fields(held)}
    picked: Row = {name: _pick(column, flat if name in _NEEDS else places) for name, column in columns.items()}
    return HeldRows(**picked)


def merged(pieces: list[HeldRows]) -> HeldRows:
    """Return held rows of several states, one after the other."""
    joined: Row = {f.name: _joined([getattr(piece, f.name) for piece in pieces]) for f in fields(HeldRows)}
    return HeldRows(**joined)


def _pick(column: Sources | Floats, places: Longs) -> Sources | Floats:
    if isinstance(column, Texts):
        return to_texts(from_texts(column).take(pa.array(places)))
    return np.asarray(column)[places]


def _joined(columns: list[Sources | Floats]) -> Sources | Floats:
    if any(isinstance(column, Texts) for column in columns):
        return to_texts(pa.concat_arrays([from_texts(texts_of(column)) for column in columns]))
    return np.concatenate([np.asarray(column) for column in columns])


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
