"""A segment of a shard's state: what one micro-batch changed in many keys, as Arrow tables, and how segments merge.

*Invariant.* Applied one after the other, oldest first, the segments of a shard give its state; `merged` segments give
the same state as those they are made of. Tables, each with the number of the key:

- `born`: keys that are new, with their values; `dead`: keys that were forgotten (a number is never used again);
- `state`: how many rows came, how many have a position, event time, when rows came last; the latest counts;
- `sources`: what is known of a source (level, holes, ...); the latest of each source counts;
- `ids`: explicit causes that were delivered, in order; `gone`: fingerprints of those that were forgotten;
- `receivers`: receivers of protocols with a rule of their own; the latest counts;
- `held` and `rows`: rows that are held, as the rule knows them and as they came; `left`: ids of held rows that left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thence.tables.contract.numpy_types import Longs
from thence.tables.delivery.delivery_rule_cy import Rule
from thence.tables.delivery.held_cy import HeldRow
from thence.tables.delivery.many_keys import TICKET_BITS
from thence.tables.delivery.packing import pack, unpack
from thence.tables.delivery.partition_by_key import codes

NUMBER = ("number", pa.int64())
_TEXTS = pa.list_(pa.string())


def schemas(by: str) -> dict[str, pa.Schema]:
    """Return the schemas of all tables but `born` and `rows`; a source is a position for stamps, else a text."""
    source = pa.int64() if by == "stamp" else pa.string()
    times = [(name, pa.float64()) for name in ("now", "began", "doubted")]
    whole = [(name, pa.int64()) for name in ("rows", "position", "last", "kept", "made")]
    found = {
        "dead": [],
        "state": [*whole, *times],
        "sources": [("label", pa.string()), ("source", source), ("level", pa.int64()), ("seen", pa.int64()),
                    ("quarantined", pa.bool_()), ("holes", pa.list_(pa.int64()))],
        "ids": [("id", pa.string())],
        "gone": [("print", pa.int64())],
        "receivers": [("label", pa.string()), ("me", pa.int64()), ("dump", pa.binary())],
        "held": [("ticket", pa.int64()), ("label", pa.string()), ("since", pa.float64()), ("ahead", pa.float64()),
                 ("came", pa.int64()), ("source", source), ("count", pa.int64()), ("waits", _TEXTS),
                 ("need_source", pa.list_(source)), ("need_count", pa.list_(pa.int64())),
                 ("need_waited", pa.list_(pa.bool_()))],
        "left": [("ticket", pa.int64())],
    }  # fmt: skip
    return {name: pa.schema([NUMBER, *fields]) for name, fields in found.items()}


@dataclass
class Segment:
    """Tables by name, empty ones left out; `made`: protocol and roster of the keys, which `state` names by place."""

    made: list[list[Any]] = field(default_factory=list)
    tables: dict[str, pa.RecordBatch] = field(default_factory=dict)

    def add(self, name: str, table: pa.RecordBatch) -> None:
        """Take a table, unless it is empty."""
        if len(table):
            self.tables[name] = table

    def encode(self) -> bytes:
        """Return the segment as bytes, for `decode`."""
        return pack({"made": self.made}, {name: ("b", ipc(table)) for name, table in self.tables.items()})

    @staticmethod
    def decode(data: bytes | memoryview) -> Segment:
        """Return the segment that `encode` wrote."""
        header, columns = unpack(data)
        return Segment(header["made"], {name: batches(blob)[0] for name, blob in columns.items()})

    def columns(self, name: str) -> list[list[Any]]:
        """Return a table as lists, one for each column; none of a table that is not there."""
        return [column.to_pylist() for column in self.tables[name].columns] if name in self.tables else []

    def ids(self, name: str) -> Longs:
        """Return the ids of the rows that `held` or `left` names."""
        if name not in self.tables:
            return np.zeros(0, np.int64)
        table = self.tables[name]
        found: Longs = (table.column("number").to_numpy() << TICKET_BITS) | table.column("ticket").to_numpy()
        return found


def merged(segments: Sequence[Segment], *, first: bool) -> Segment:
    """Return one segment for several that follow each other; `first`: no segment comes before them."""
    made = [each for segment in segments for each in segment.made]
    whole = Segment(made)
    for name in dict.fromkeys(name for segment in segments for name in segment.tables):
        whole.tables[name] = _together([segment.tables[name] for segment in segments if name in segment.tables])
    if "state" in whole.tables:
        _renumber(whole, segments)
    dead = whole.tables.get("dead")
    if dead is not None:
        keep_keys(whole, lambda numbers: ~np.isin(numbers, dead.column("number").to_numpy()))
    for name, of in (
        ("state", ("number",)),
        ("sources", ("number", "label", "source")),
        ("receivers", ("number", "label")),
    ):
        if name in whole.tables:
            table = whole.tables[name]
            whole.tables[name] = table.take(pa.array(_latest(codes([table.column(each) for each in of]))))
    if "ids" in whole.tables and "state" in whole.tables:
        _drop_forgotten(whole)
    held, left = whole.ids("held"), whole.ids("left")
    if len(left):
        here = np.flatnonzero(~np.isin(held, left))
        for name in ("held", "rows"):
            if name in whole.tables:
                whole.tables[name] = whole.tables[name].take(pa.array(here))
        still = np.zeros(0, np.int64) if first else np.flatnonzero(~np.isin(left, held))
        whole.tables["left"] = whole.tables["left"].take(pa.array(still))
    if first:
        whole.tables.pop("dead", None)
    whole.tables = {name: table for name, table in whole.tables.items() if len(table)}
    return whole


def _together(tables: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Join tables; columns of rows may have been added since the first ones."""
    schema = tables[-1].schema
    return pa.concat_batches([fitted(table, schema) for table in tables])


def _renumber(whole: Segment, segments: Sequence[Segment]) -> None:
    """Let `state` say places in the joined `made`, which has each entry once."""
    known: dict[str, int] = {}
    places, before = [], 0
    for entry in whole.made:
        places.append(known.setdefault(repr(entry), len(known)))
    made: list[Longs] = []
    for segment in segments:
        if "state" in segment.tables:
            made.append(np.array(places, np.int64)[segment.tables["state"].column("made").to_numpy() + before])
        before += len(segment.made)
    state = whole.tables["state"]
    whole.tables["state"] = state.set_column(
        state.schema.get_field_index("made"), "made", pa.array(np.concatenate(made))
    )
    whole.made = [whole.made[places.index(place)] for place in range(len(known))]


def keep_keys(whole: Segment, chosen: Callable[[Longs], npt.NDArray[np.bool_]]) -> None:
    """Keep what is known of some keys; `chosen` says of numbers which ones."""
    numbers = {name: table.column("number").to_numpy() for name, table in whole.tables.items() if name != "rows"}
    if "rows" in whole.tables:
        numbers["rows"] = numbers["held"]
    for name, each in numbers.items():
        if name not in ("dead", "left"):  # a row that left may be held by an earlier segment
            here = np.flatnonzero(chosen(each))
            whole.tables[name] = whole.tables[name].take(pa.array(here))


def _latest(code: Longs) -> Longs:
    """Return the places of the last row of each code, ascending."""
    _, first = np.unique(code[::-1], return_index=True)
    return np.sort(len(code) - 1 - first)


def _drop_forgotten(whole: Segment) -> None:
    """Drop delivered ids beyond those that a key remembers: their fingerprints are in `gone`."""
    state, ids = whole.tables["state"], whole.tables["ids"]
    kept = dict(zip(state.column("number").to_pylist(), state.column("kept").to_pylist(), strict=True))
    if max(kept.values(), default=-1) < 0 and min(kept.values(), default=-1) < 0:
        return
    numbers = ids.column("number").to_numpy()
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], numbers[order][1:] != numbers[order][:-1]]))
    stops = np.append(starts[1:], len(order))
    here = np.ones(len(order), bool)
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        most = kept.get(int(numbers[order[start]]), -1)
        if 0 <= most < stop - start:
            here[order[start : stop - most]] = False
    whole.tables["ids"] = ids.take(pa.array(np.flatnonzero(here)))


# -- rows as they come -----------------------------------------------------------------------------------------------


def ipc(*tables: pa.RecordBatch) -> bytes:
    """Return batches as bytes, in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tables[0].schema) as writer:
        for table in tables:
            writer.write_batch(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def batches(data: bytes | memoryview) -> list[pa.RecordBatch]:
    """Return the rows that `ipc` wrote."""
    return list(pa.ipc.open_stream(data))


def fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of before with the columns of now."""
    if rows.schema.names == schema.names:
        return rows
    nulls = {field.name: pa.nulls(len(rows), field.type) for field in schema}
    columns = [rows.column(name) if name in rows.schema.names else nulls[name] for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def table_of(schema: pa.Schema, columns: Sequence[Sequence[object]]) -> pa.RecordBatch:
    """Return columns given as lists as a table."""
    arrays = [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# -- what is written of a key ------------------------------------------------------------------------------------------


def changed_columns(
    columns: dict[str, list[list[Any]]], number: int, rule: Rule, last: int, made: int
) -> tuple[int | float, ...]:
    """Add what changed in a key to the columns of a segment, and count it as written; return its row of `state`."""
    kept = -1 if rule.recent is None else len(rule.recent)
    state = (number, rule.rows, rule.position, last, kept, made, rule.now, rule.began, rule.doubted)
    rule.tidy()
    for code in rule.changed:
        source, name = rule.source(code), rule.text(code)
        source.noted = False
        label = next((each for each, named in rule.orders.items() if named.get(name) == code), None)
        holes = [] if source.holes is None else [end for hole in source.holes for end in hole]
        about = (number, label, name, rule.level_of(code), source.seen, source.quarantined, holes)
        for column, value in zip(columns["sources"], about, strict=True):
            column.append(value)
        rule.let_go(code)
    for name, values in (("ids", rule.fresh), ("gone", rule.gone)):
        if values:
            columns[name][0] += [number] * len(values)
            columns[name][1] += values
    for label, receiver in rule.foreign.items():
        for column, value in zip(
            columns["receivers"], (number, label, receiver.receiver.me, receiver.dump()), strict=True
        ):
            column.append(value)
    rule.fresh, rule.gone, rule.changed = [], [], []
    return state


def held_columns(columns: list[list[Any]], number: int, rule: Rule, row: HeldRow) -> None:
    """Add a held row to the columns of a segment."""
    known = (number, row.ticket, row.label, row.since, row.ahead, row.came)
    if row.code < 0:  # of a protocol with a rule of its own, which says what it waits for
        values: tuple[Any, ...] = (*known, None, 0, list(row.names), [], [], [])
    else:
        names, counts = [rule.text(need[0]) for need in row.needs], [need[1] for need in row.needs]
        values = (*known, rule.text(row.code), row.number, None, names, counts, row.waited)
    for column, value in zip(columns, values, strict=True):
        column.append(value)


def by_number(columns: list[list[Any]]) -> Iterator[tuple[int, list[Any]]]:
    """Yield the values of each key, in the order in which they are."""
    found: dict[int, list[Any]] = {}
    for number, value in zip(*columns, strict=True):
        found.setdefault(number, []).append(value)
    yield from found.items()
