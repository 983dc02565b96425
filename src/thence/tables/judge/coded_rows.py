"""A table of events with its strings coded once: process, message and label are small integers from here on.

*Invariant.* Coding loses nothing: `names[code]` is the text that stood in the row.

A *normal table* is what every source is brought to first: `run, process, index, kind (int8 code), message,
destinations, label, order`, and `file`, `line` (null unless known), `odd`: why the row is unusable by itself, or null.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.core.model.events import EVENT_KINDS
from thence.tables.contract.columns import JUDGED_COLUMNS, PLACE_COLUMNS, Column
from thence.tables.contract.numpy_types import Bytes, Flags, Ints, Letters, Longs, fixed
from thence.tables.contract.spark_to_arrow_types import arrow_schema
from thence.tables.judge.scan import sort_segments

SEND, DELIVER, RECEIVE, INTERNAL, CRASH, UNKNOWN = range(6)
KIND_NAMES = ("send", "deliver", "receive", "internal", "crash")
KIND_CODES = {name: code for code, name in enumerate(KIND_NAMES)}


def buffers(column: pa.StringArray | pa.BinaryArray) -> tuple[Ints, Letters]:
    """Return where each text begins and ends, and the bytes of all."""
    _, offsets, data = column.buffers()
    places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return places, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def intern(column: pa.StringArray) -> tuple[Ints, pa.StringArray]:
    """Return the code of each row, -1 for null, and the text of each code, in the order they are first met."""
    coded = column.dictionary_encode()
    return pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False), coded.dictionary


assert set(KIND_NAMES) == EVENT_KINDS

_CODED = {"kind": Column("kind", "byte", True, "code"), "reason": Column("odd", "string", False, "reason")}
NORMAL = arrow_schema([_CODED.get(c.name, c) for c in (*JUDGED_COLUMNS, *PLACE_COLUMNS)], nullable=True)
"""The columns of a normal table; string columns may be dictionaries of strings as well."""


@dataclass(slots=True)
class CodedRun:
    """Rows of one run as arrays; `-1` is null in the coded columns."""

    process: Ints
    index: Longs
    kind: Bytes
    message: Ints
    label: Ints
    order: Longs | None
    """None unless every row has one."""
    offsets: Longs
    """Row r is addressed to destinations[offsets[r]:offsets[r + 1]], sorted, each once."""
    destinations: Ints
    addressed: Flags
    """Rows whose `destinations` is not null."""
    processes: pa.StringArray
    messages: pa.StringArray
    labels: pa.StringArray
    odd: dict[int, str]
    """Rows that are unusable by themselves, and why."""

    def __len__(self) -> int:
        return len(self.process)


def code(table: pa.Table) -> CodedRun:
    """Code a normal table of one run; rows stay where they are."""
    count = len(table)
    process, processes = codes_of(table.column("process"))
    message, messages = codes_of(table.column("message"))
    label, labels = codes_of(table.column("label"))
    offsets, destinations, addressed, processes = _addresses(table.column("destinations"), processes)
    order, odd = table.column("order"), table.column("odd")
    kind = table.column("kind").to_numpy().astype(np.int8, copy=False) if count else np.zeros(0, np.int8)
    index = pc.fill_null(table.column("index"), 0).to_numpy().astype(np.int64, copy=False)
    rows = CodedRun(
        process=fixed(process),
        index=fixed(index),
        kind=fixed(kind),
        message=fixed(message),
        label=fixed(label),
        order=None if order.null_count else order.to_numpy().astype(np.int64, copy=False),
        offsets=offsets,
        destinations=destinations,
        addressed=addressed,
        processes=processes,
        messages=messages,
        labels=labels,
        odd={},
    )
    if odd.null_count < count:
        rows.odd.update((row, odd[row].as_py()) for row in np.flatnonzero(odd.is_valid().to_numpy()).tolist())
    strange = np.flatnonzero((rows.process < 0) | (rows.kind >= UNKNOWN) | (rows.index < 1)).tolist()
    assert rows.odd.keys() >= set(strange), "rows of a normal table are checked before they are coded"
    return rows


def codes_of(column: pa.ChunkedArray) -> tuple[Ints, pa.StringArray]:
    """Return the codes and the names of a string column; null is -1."""
    if len(column) == 0:
        return np.zeros(0, np.int32), pa.array([], pa.string())
    if column.null_count == len(column):
        return np.full(len(column), -1, np.int32), pa.array([], pa.string())
    if not pa.types.is_dictionary(column.type):
        return intern(_whole(column).cast(pa.string()))
    if column.num_chunks > 1:
        column = column.unify_dictionaries()
    whole = column.combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    indices = whole.indices
    codes = (pc.fill_null(indices, -1) if indices.null_count else indices).to_numpy(zero_copy_only=False)
    return codes.astype(np.int32, copy=False), whole.dictionary.cast(pa.string())


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _addresses(column: pa.ChunkedArray, processes: pa.StringArray) -> tuple[Longs, Ints, Flags, pa.StringArray]:
    """Return the destinations of each row in the codes of the processes, names not met before appended."""
    lists = _whole(column)
    addressed = lists.is_valid().to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    codes, names = codes_of(pa.chunked_array([lists.flatten()]))
    known = pc.index_in(names, processes)
    fresh = names.filter(known.is_null())
    roster = pa.concat_arrays([processes, fresh]) if len(fresh) else processes
    place = pc.index_in(names, roster).to_numpy(zero_copy_only=False).astype(np.int32)
    placed = np.append(place, np.int32(-1))[codes]
    destinations = placed.astype(np.int32, copy=True)
    sort_segments(offsets, destinations)
    return offsets, destinations, addressed, roster


def run_codes(table: pa.Table) -> tuple[Ints, list[str | None]]:
    """Return for each row of a normal table the place of its run in a list of runs; null is a run too."""
    codes, names = codes_of(table.column("run"))
    runs: list[str | None] = names.to_pylist()
    if bool(np.any(codes < 0)):
        codes = np.where(codes < 0, np.int32(len(runs)), codes)
        runs.append(None)
    return codes, runs


def as_they_come(table: pa.Table) -> pa.Table:
    """Return the rows in their `order` where every row that is an event has one, else as they are.

    Rows that a reader refused have none, and come last.
    """
    order = table.column("order")
    if len(table) < 2:
        return table
    if order.null_count:
        if table.column("odd").null_count == len(table):
            return table
        refused = table.column("odd").is_valid()
        if pc.any(pc.and_(order.is_null(), pc.invert(refused))).as_py():
            return table
        order = pc.fill_null(order, np.iinfo(np.int64).max)
    values = order.to_numpy()
    if bool(np.all(values[1:] >= values[:-1])):
        return table
    places = pa.array(_sorting(values))  # texts are coded afterwards: neighbours meet their like soon
    columns = [c if c.null_count == len(c) else _whole(c).take(places) for c in table.columns]
    return pa.table(columns, names=table.column_names)


def _sorting(values: Longs) -> Longs:
    """Return the places of values in their order, equal ones as they come; at once if none is left out or repeated."""
    low = int(values.min())
    if int(values.max()) - low == len(values) - 1:
        places = np.full(len(values), -1, np.int64)
        places[values - low] = np.arange(len(values))
        if bool(np.all(places >= 0)):
            return places
    return np.argsort(values, kind="stable")


def kind_codes(column: pa.Array) -> pa.Array:
    """Return the codes of kinds; what is not a kind is `UNKNOWN`."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    codes = np.array([*(KIND_CODES.get(text, UNKNOWN) for text in coded.dictionary.to_pylist()), UNKNOWN], np.int8)
    places = coded.indices.fill_null(len(codes) - 1)
    return pa.array(codes[places.to_numpy(zero_copy_only=False)])
