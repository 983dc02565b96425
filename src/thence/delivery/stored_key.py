"""A key's state between micro-batches: one small blob, and sealed parts that are written once.

Law. What is written in a micro-batch follows what changed in it, not what the key holds: whatever a key keeps grows in
a tail that is written with the blob; a tail of more than `TAIL` bytes is sealed as parts and is not written again. A
sealed part of held rows has a mask of those that have left beside it; when half have, the rest moves to the tail.
Sealed ids of explicit causes stay as they are. A small key has no parts: one read, one write.

The blob says what it was made with. Columns that were added since are null in the rows held from before; whatever else
differs is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from thence.delivery.array_stepper import from_texts, to_texts
from thence.delivery.key_state import KeyState, Setup
from thence.delivery.packing import Texts, pack, unpack
from thence.delivery.state import HeldRows, Order, State, decode, encode
from thence.errors import MisuseError
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
    """What is sealed: parts of ids and how many ids they have, parts of held rows and their tickets."""

    id_parts: int = 0
    ids: int = 0
    next: int = 0
    held: dict[int, np.ndarray[Any, np.dtype[np.int64]]] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)


class StoredKey:
    """One key, read from its blob and parts, and written back."""

    def __init__(self, setup: Setup, key: tuple[Any, ...], schema: pa.Schema, blob: bytes | None, parts: Parts) -> None:
        """Read a key; `schema` is that of the rows."""
        self.setup, self.schema, self.parts = setup, schema, parts
        self.made = made_with(setup, schema)
        self.sealed = Sealed()
        self.written = 0
        self.last = 0
        """when rows came last, in milliseconds of processing time"""
        state, held = None, None
        if blob is not None:
            state, held = self._read(blob)
        self.state = KeyState(setup, key, state, held)

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read(self, blob: bytes) -> tuple[State, pa.RecordBatch]:
        state, extra, about = decode(blob)
        agree(about["made"], self.made)
        self.last = about["last"]
        state, held = whole(state, extra, about, self.parts.get, self.sealed)
        tables = [fitted(batch, self.schema) for batch in held]
        return state, pa.concat_batches(tables) if tables else _empty(self.schema)

    # -- writing -----------------------------------------------------------------------------------------------------

    def blob(self) -> bytes:
        """Write what changed; return the blob."""
        state = self.state.state()
        assert state is not None
        held = self.state.held
        self.written = 0
        if not self.sealed.held and not self.sealed.ids:
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
        sealed = self.sealed
        ids = [sealed.id_parts, sealed.ids]
        return {"made": self.made, "last": self.last, "ids": ids, "next": sealed.next, "held": list(sealed.held)}

    def clear(self) -> None:
        """Remove all parts: the key is forgotten."""
        names = [f"ids/{number}" for number in range(self.sealed.id_parts)]
        for name in [*names, *(f"{kind}/{number}" for kind in ("held", "left") for number in self.sealed.held)]:
            self.parts.delete(name)

    def _put(self, name: str, data: bytes) -> None:
        self.parts.put(name, data)
        self.written += len(data)

    def _seal_ids(self, state: State) -> State:
        """Write ids that were delivered as a part, if they are many."""
        if self.setup.by != "depends_on" or self.setup.policy.remember is not None or not state.orders:
            return state
        order, sealed = state.orders[0], self.sealed
        tail = from_texts(order.delivered_source).slice(sealed.ids)
        kept = to_texts(tail)
        if len(kept.data) + 8 * len(kept) > TAIL:
            self._put(f"ids/{sealed.id_parts}", pack({}, {"ids": ("s", kept)}))
            sealed.id_parts += 1
            sealed.ids += len(kept)
            kept = Texts.of(())
        numbers = np.ones(len(kept), np.int64)
        return replace(state, orders=[replace(order, delivered_source=kept, delivered_number=numbers)])

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

    def _sealed_still(self, number: int, tickets: Any) -> Any:
        """Return which of the held rows are in a part, which is thinned or taken away as its rows leave."""
        sealed = self.sealed
        mine = sealed.held[number]
        here = np.isin(mine, tickets)
        left = len(mine) - int(here.sum())
        if 2 * left >= len(mine):
            self.parts.delete(f"held/{number}")
            if sealed.left[number]:
                self.parts.delete(f"left/{number}")
            del sealed.held[number], sealed.left[number]
            return np.zeros(len(tickets), np.bool_)
        if left != sealed.left[number]:
            self._put(f"left/{number}", np.packbits(~here).tobytes())
            sealed.left[number] = left
        return np.isin(tickets, mine)

    def _seal(self, state: State, held: pa.RecordBatch, places: Any) -> None:
        number = self.sealed.next
        rows = taken(state.held, places)
        part = State(state.by, state.protocol, state.roster, held=rows)
        self._put(f"held/{number}", encode(part, _ipc(held.take(pa.array(places)))))
        self.sealed.held[number], self.sealed.left[number] = np.asarray(rows.ticket, np.int64), 0
        self.sealed.next += 1


def whole(
    state: State, extra: bytes, about: Row, get: Callable[[str], bytes | None], sealed: Sealed
) -> tuple[State, list[pa.RecordBatch]]:
    """Put a state together from its blob and its parts; return it and the held rows, in the order of their tickets."""
    sealed.id_parts, sealed.ids = about["ids"]
    sealed.next = about["next"]
    if sealed.id_parts:
        parts = [from_texts(unpack(_part(get, f"ids/{n}"))[1]["ids"]) for n in range(sealed.id_parts)]
        order = state.orders[0] if state.orders else Order()
        ids = pa.concat_arrays([*parts, from_texts(order.delivered_source)])
        numbers = np.ones(len(ids), np.int64)
        state = replace(state, orders=[replace(order, delivered_source=to_texts(ids), delivered_number=numbers)])
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


def taken(held: HeldRows, places: Any) -> HeldRows:
    """Return some of the held rows."""
    lengths = np.asarray(held.needs, np.int64)
    starts = np.cumsum(lengths) - lengths
    chosen = lengths[places]
    ends = np.cumsum(chosen)
    total = int(ends[-1]) if len(ends) else 0
    flat = np.repeat(starts[places] - (ends - chosen), chosen) + np.arange(total)
    columns = {f.name: getattr(held, f.name) for f in fields(held)}
    return HeldRows(**{name: _pick(column, flat if name in _NEEDS else places) for name, column in columns.items()})


def merged(pieces: list[HeldRows]) -> HeldRows:
    """Return held rows of several states, one after the other."""
    names = [f.name for f in fields(HeldRows)]
    return HeldRows(**{name: _joined([getattr(piece, name) for piece in pieces]) for name in names})


def _pick(column: Any, places: Any) -> Any:
    if isinstance(column, Texts):
        return to_texts(from_texts(column).take(pa.array(places)))
    return np.asarray(column)[places]


def _joined(columns: list[Any]) -> Any:
    if any(isinstance(column, Texts) for column in columns):
        return to_texts(pa.concat_arrays([from_texts(column) for column in columns]))
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


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)


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
