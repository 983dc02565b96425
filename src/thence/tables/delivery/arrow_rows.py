"""Rows as Arrow columns: the ids and causes read from a batch, and the output columns of the rows that leave.

*Invariant.* Columns of the payload are never converted. The output columns are those of `outcome.OUTPUT_COLUMNS`, in
that order and with those types. Event times are seconds: numbers, timestamps (UTC where they have no zone) and ISO
texts are understood, anything else counts as no time.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from thence.core.model.moments import seconds
from thence.core.model.plain import Field
from thence.errors import TraceError
from thence.tables.contract.numpy_types import Ints, Longs
from thence.tables.contract.spark_to_arrow_types import arrow_type
from thence.tables.delivery.coded_rows_cy import (
    CodedRows,
    Lexicon,
    coded_clocks,
    coded_explicit,
    coded_reads,
)
from thence.tables.delivery.columns import Columns, Family
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.numbering_cy import Numbering, id_flags
from thence.tables.delivery.outcome import KINDS, OUTPUT_COLUMNS
from thence.tables.delivery.outcome_cy import OutcomeColumns, Outcomes, starts_of
from thence.tables.delivery.reading import Read
from thence.tables.delivery.reading_cy import EXACT, id_text, read_clock, read_explicit
from thence.tables.delivery.stamp_column import StampedRows, codes_of

Floats = NDArray[np.float64]
OUTPUT: dict[str, pa.DataType] = {name: arrow_type(kind) for name, kind in OUTPUT_COLUMNS.items()}
"""The output columns with Arrow's types."""
OUTCOME_NAMES = pa.array(KINDS)
TEXT, TEXTS = pa.string(), pa.list_(pa.string())
NO_TEXTS = pa.array([], TEXT)
SPREAD = 4
"""Whole numbers that spread over this many times their count are numbered as they are."""
MOST_TOGETHER = (1 << 31) // SPREAD - SPREAD
"""Ids and causes that are numbered together, in 32 bits; of stamps, bytes that are read together."""


class ArrowLexicon(Lexicon):
    """Names in an Arrow column of texts or whole numbers; only those that are used become Python objects."""

    _all: list[str] | None = None

    def __init__(self, values: pa.Array, first: Ints) -> None:
        """Take a column, and the place where each name stands first."""
        self._values, self._first = values, first

    def __len__(self) -> int:
        """Return how many names there are."""
        return len(self._first)

    def name(self, number: int) -> str:
        """Return the name that has this number."""
        return str(self._values[int(self._first[number])].as_py())

    def names(self) -> list[str]:
        """Return all names, by number."""
        if self._all is None:
            self._all = self._listed(self._first)
        return self._all

    def listed(self, numbers: Iterable[int]) -> list[str]:
        """Return the names that have these numbers."""
        return self._listed(self._first[np.asarray(numbers)])

    def _listed(self, places: Ints) -> list[str]:
        return list(map(str, self._values.take(pa.array(places)).to_pylist()))

    def taken(self, numbers: Ints | Longs) -> pa.Array:
        """Return some names as a column."""
        return self._values.take(pa.array(self._first[numbers])).cast(TEXT)


class WholeNumbers(ArrowLexicon):
    """Names that are whole numbers one after the other."""

    def __init__(self, first: int, count: int) -> None:
        """Begin at a number."""
        self._least, self._count = first, count

    def __len__(self) -> int:
        """Return how many names there are."""
        return self._count

    def name(self, number: int) -> str:
        """Return the name that has this number."""
        return str(self._least + number)

    def names(self) -> list[str]:
        """Return all names, by number."""
        return self.listed(range(self._count))

    def listed(self, numbers: Iterable[int]) -> list[str]:
        """Return the names that have these numbers."""
        return [str(self._least + number) for number in numbers]

    def taken(self, numbers: Ints | Longs) -> pa.Array:
        """Return some names as a column."""
        return pa.array(np.asarray(numbers, np.int64) + self._least).cast(TEXT)


def cut(batch: pa.RecordBatch, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Split a batch so that the ids and causes of each part can be numbered together."""
    cause = _column(batch, columns.cause)
    if len(batch) + _entries(cause) <= MOST_TOGETHER or len(batch) < 2:
        yield batch
    else:
        yield from cut(batch.slice(0, len(batch) // 2), columns)
        yield from cut(batch.slice(len(batch) // 2), columns)


def _entries(cause: pa.Array) -> int:
    """Return an upper bound on the causes in a column: each cause in a stamp takes at least a byte."""
    if _is_list(cause.type) and len(cause):
        offsets = cause.offsets.to_numpy()
        return int(offsets[-1] - offsets[0])  # those of null lists included
    if pa.types.is_binary(cause.type) or pa.types.is_large_binary(cause.type):
        return int(cause.total_values_length)
    return len(cause)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(name) if name in batch.schema.names else pa.nulls(len(batch))


def read_batch(terms: DeliveryTerms, batch: pa.RecordBatch) -> CodedRows:
    """Return the ids and causes in each row of a batch with explicit causes or clocks."""
    columns = terms.columns
    cause = _column(batch, columns.cause)
    if terms.by == "depends_on":
        message = _whole_numbers(_column(batch, columns.message))
        return _explicit(message, _whole_numbers(cause), terms.separator)
    return _clocks(_column(batch, columns.sender), cause)


def read_stamped(terms: DeliveryTerms, batch: pa.RecordBatch) -> StampedRows:
    """Return the ids and causes in the stamps of a batch."""
    names = (terms.columns.sender, terms.columns.destination, terms.columns.cause)
    sender, destination, stamps = (_column(batch, name) for name in names)
    if _entries(stamps) > MOST_TOGETHER:
        raise TraceError(f"{len(batch)} rows have stamps of {_entries(stamps)} bytes; a batch holds {MOST_TOGETHER}")
    return StampedRows(terms.rosters, sender, destination, stamps)


def _explicit(message: pa.Array, cause: pa.Array, separator: str | None) -> CodedRows:
    flat = None if separator is not None or pa.types.is_floating(message.type) else _flat_causes(cause)
    if flat is None:
        ids = message.to_pylist()
        reads = [read_explicit(*row, separator) for row in zip(ids, cause.to_pylist(), strict=True)]
        return coded_reads(reads, [id_text(each) for each in ids])
    starts, causes = flat
    if len(message) + len(causes) > MOST_TOGETHER:
        raise TraceError(f"{len(message)} rows name {len(causes)} causes; a batch holds up to {MOST_TOGETHER} ids")

    def alone(place: int) -> str:
        found = read_explicit(message[place].as_py(), cause[place].as_py())
        assert isinstance(found, str)
        return found

    lexicon, codes, flags = _numbered(message, causes)
    return coded_explicit(lexicon, codes[: len(message)], starts, codes[len(message) :], flags, alone)


def _whole_numbers(column: pa.Array) -> pa.Array:
    """Return floats and decimals as whole numbers if all are, NaN as null; else the column, read row by row."""
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
        if pc.any(pc.greater_equal(pc.abs(column), float(EXACT))).as_py():
            return column
    elif not pa.types.is_decimal(column.type):
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column


def _numbered(message: pa.Array, causes: pa.Array) -> tuple[Lexicon, Ints, array[int] | None]:
    """Return the names of ids and causes, the number of each, -1 for null, and of each name whether it is an id."""
    if pa.types.is_integer(message.type) and (pa.types.is_integer(causes.type) or not len(causes)):
        values = _whole(message, causes)
        if values is not None:
            return *values, None
    both = id_texts(message)
    if len(causes):
        both = pa.concat_arrays([both, id_texts(causes)])
    offsets = np.frombuffer(both.buffers()[1] or bytes(8), np.int64)[both.offset :][: len(both) + 1]
    data = np.frombuffer(both.buffers()[2] or b"", np.uint8)
    codes, first = _distinct(both, offsets, data)
    return ArrowLexicon(both, first), codes, id_flags(offsets, data, first)


def _distinct(values: pa.Array, offsets: Longs, data: object) -> tuple[Ints, Ints]:
    """Number values in the order in which they come first, -1 for null; return the place where each stands first, too.

    The bytes of value v are those of `data` from `offsets[v]` up to `offsets[v + 1]`.
    """
    valid = values.is_valid().cast(pa.uint8()).to_numpy() if values.null_count else b""
    codes, first = np.empty(len(values), np.int32), np.empty(len(values), np.int32)
    slots = np.zeros(2 << len(values).bit_length(), np.int32)
    return codes, first[: Numbering(offsets, data, valid, slots, first).codes(codes)]


def _whole(message: pa.Array, causes: pa.Array) -> tuple[Lexicon, Ints] | None:
    """Number ids that are whole numbers: as they are, where they are close together."""
    try:
        parts = [each.cast(pa.int64()) for each in (message, causes)]
    except pa.ArrowInvalid:
        return None  # above 2**63
    ends = [end.as_py() for part in parts for end in pc.min_max(part).values() if end.is_valid] or [0]
    first, last = min(ends), max(ends)
    count = len(message) + len(causes)
    if last - first >= SPREAD * count + SPREAD:
        both = pa.concat_arrays(parts)
        offsets = 8 * (both.offset + np.arange(count + 1))
        codes, places = _distinct(both, offsets, np.frombuffer(both.buffers()[1], np.uint8))
        return ArrowLexicon(both, places), codes
    codes = np.empty(count, np.int32)
    for part, into in zip(parts, (codes[: len(message)], codes[len(message) :]), strict=True):
        values = np.frombuffer(part.buffers()[1] or b"", np.int64)[part.offset :][: len(part)]
        np.subtract(values, first, out=into, casting="unsafe")
        if part.null_count:
            into[~part.is_valid().to_numpy(zero_copy_only=False)] = -1
    return WholeNumbers(first, last - first + 1), codes


def id_texts(ids: pa.Array) -> pa.Array:
    """Return ids as the texts that they are compared by."""
    if _is_text(ids.type) or pa.types.is_integer(ids.type) or pa.types.is_null(ids.type):
        return ids.cast(pa.large_string())
    return pa.array([id_text(each) for each in ids.to_pylist()], pa.large_string())


def _flat_causes(column: pa.Array) -> tuple[Ints, pa.Array] | None:
    """Return where the causes of each row begin, and all causes; None if rows must be read one by one."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column) + 1, np.int32), column.slice(0, 0)
    if _is_list(column.type):
        offsets = column.offsets.to_numpy()
        if not column.null_count:
            flat = column.values.slice(offsets[0], offsets[-1] - offsets[0])
            return (offsets - offsets[0]).astype(np.int32), flat  # above 32 bits the batch is refused
        flat = column.flatten()
        lengths = np.where(column.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), 0)
    elif pa.types.is_integer(column.type) or _is_text(column.type):
        if _is_text(column.type) and pc.any(pc.starts_with(column, "[")).as_py():
            return None  # an array of JSON in a text
        if not column.null_count:
            return np.arange(len(column) + 1, dtype=np.int32), column
        lengths, flat = column.is_valid().to_numpy(zero_copy_only=False), column.drop_null()
    else:
        return None
    starts = np.zeros(len(column) + 1, np.int32)
    np.cumsum(lengths, out=starts[1:])
    return starts, flat


def _clocks(sender: pa.Array, clock: pa.Array) -> CodedRows:
    def alone(place: int) -> Read | str:
        return read_clock(sender[place].as_py(), clock[place].as_py())

    flat = _flat_clocks(clock)
    if flat is None:
        return coded_reads([alone(place) for place in range(len(sender))])
    starts, names, codes, counts = flat
    places = {name: place for place, name in enumerate(names)}
    coded = sender.dictionary_encode()
    known = np.array([places.get(name, -1) for name in coded.dictionary.to_pylist()] + [-1], np.int32)
    own = known[codes_of(coded.indices)]
    if clock.null_count:
        own[~clock.is_valid().to_numpy(zero_copy_only=False)] = -1
    return coded_clocks(Lexicon(names), own, starts, codes, counts, alone)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def check_ids(schema: pa.Schema, columns: Columns) -> None:
    """Refuse a column of causes that holds no ids, or ids that are never equal to those of the messages."""
    message, cause = (schema.field(name).type for name in (columns.message, columns.cause))
    each = cause.value_type if _is_list(cause) else cause
    columns.check_ids(str(message), family(message), str(cause), family(each))


def family(kind: pa.DataType) -> Family | None:
    """Return which ids a type holds; None: none at all."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return "null"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if _is_text(kind) or pa.types.is_string_view(kind) or isinstance(kind, pa.UuidType):
        return "text"
    return None if pa.types.is_nested(kind) else "value of another type"


def _flat_clocks(column: pa.Array) -> tuple[Ints, list[Field], Ints, Longs] | None:
    """Return where each clock of a column begins, the names, their codes and the counts.

    None where the column is not a map of whole numbers, or a count is missing: such rows are read one by one.
    """
    if not pa.types.is_map(column.type) or not pa.types.is_int64(column.type.item_type):
        return None
    starts = column.offsets.to_numpy()
    first, length = int(starts[0]), int(starts[-1] - starts[0])
    counts = column.items.slice(first, length)
    names = column.keys.slice(first, length).dictionary_encode()
    if counts.null_count or pa.types.is_nested(names.type.value_type):
        return None
    return starts - starts[0], names.dictionary.to_pylist(), codes_of(names.indices), np.array(counts, np.int64)


def times_in(batch: pa.RecordBatch, columns: Columns) -> Floats | None:
    """Return the event times of rows, NaN where there is none; None without such a column."""
    return _seconds(batch.column(columns.time)) if columns.time in batch.schema.names else None


class Leaving(NamedTuple):
    """Rows that leave, in order, by their tickets, and their output columns."""

    tickets: Longs
    columns: list[pa.Array]


def leaving(outcomes: Outcomes) -> Leaving:
    """Return outcomes as Arrow columns, for the rows that leave."""
    made, count = outcomes.columns(), len(outcomes)
    seconds = np.asarray(made.held_seconds)
    columns = [
        OUTCOME_NAMES.take(_numbers(made.kind, pa.int8())),
        _numbers(made.position, pa.int64(), np.asarray(made.position) != 0),
        _waited(made, outcomes.lexicon),  # type: ignore[arg-type]
        _numbers(made.held_for, pa.int64()),
        _numbers(made.held_seconds, pa.float64(), seconds == seconds),
        _sparse(made.reason, count),
        _missing(made.missing, count),
        _sparse(made.blocker, count),
    ]
    return Leaving(np.asarray(made.ticket), columns)


def _numbers(values: array[int] | array[float], kind: pa.DataType, there: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return numbers as a column over their own memory, null where one is not there: `pa.array` takes twice as long."""
    valid = None if there is None else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(values)])


def _lists(starts: array[int] | Ints, flat: pa.Array) -> pa.ListArray:
    """Return texts as lists: list n begins at `starts[n]` and ends where the next one begins."""
    return pa.Array.from_buffers(TEXTS, len(starts) - 1, [None, pa.py_buffer(starts)], children=[flat])


def _waited(made: OutcomeColumns, lexicon: Lexicon | None) -> pa.ListArray:
    """Return the causes that rows waited for."""
    numbers, texts = np.asarray(made.waited), pa.array(made.texts, TEXT) if made.texts else NO_TEXTS
    if len(texts) == len(numbers):
        flat = texts  # all by name, in order
    elif not isinstance(lexicon, ArrowLexicon):
        names = [lexicon.name(each) if each >= 0 else made.texts[-1 - each] for each in numbers.tolist()]  # type: ignore[union-attr]
        flat = pa.array(names, pa.string())
    elif not len(texts):
        flat = lexicon.taken(numbers)
    else:
        both = pa.concat_arrays([lexicon.taken(np.unique(numbers[numbers >= 0])), texts])
        known = np.unique(numbers[numbers >= 0])
        flat = both.take(pa.array(np.where(numbers < 0, len(known) - 1 - numbers, np.searchsorted(known, numbers))))
    return _lists(made.waited_starts, flat)


def _missing(missing: Mapping[int, Sequence[str]], count: int) -> pa.ListArray:
    flat = [name for names in missing.values() for name in names]
    starts = starts_of(list(missing), list(map(len, missing.values())), count)
    return _lists(starts, pa.array(flat, TEXT) if flat else NO_TEXTS)


def _sparse(texts: Mapping[int, str], count: int) -> pa.StringArray:
    """Return a column of which few rows have a text."""
    if not texts:
        return pa.nulls(count, TEXT)
    places, found = list(texts), [text.encode() for text in texts.values()]
    there = np.zeros(count, bool)
    there[places] = True
    buffers = [np.packbits(there, bitorder="little"), starts_of(places, list(map(len, found)), count), b"".join(found)]
    return pa.Array.from_buffers(TEXT, count, list(map(pa.py_buffer, buffers)))


def joined(rows: pa.RecordBatch, columns: Sequence[pa.Array]) -> pa.RecordBatch:
    """Return rows with the output columns."""
    return pa.RecordBatch.from_arrays([*rows.columns, *columns], names=[*rows.schema.names, *OUTPUT])


def _seconds(column: pa.Array) -> Floats:
    """Return event times as seconds; NaN where there is none."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        times = [seconds(text) for text in column.to_pylist()]
        return np.array([np.nan if time is None else time for time in times])
    if pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
        values = pc.divide(micros.cast(pa.float64()), 1e6).to_numpy(zero_copy_only=False)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    else:
        return np.full(len(column), np.nan)
    found: Floats = np.where(np.isfinite(values), values, np.nan)
    return found


def in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows whose moments say UTC, wherever the session is: the moments stay, only the name of the zone goes.

    Spark passes timestamps in the zone of its session, and takes them back in UTC alone.
    """
    kinds = batch.schema.types
    types = [_utc(kind) for kind in kinds]
    if types == kinds:
        return batch
    columns = [c if c.type == kind else c.cast(kind) for c, kind in zip(batch.columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_utc(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field.with_type(_utc(kind.key_type)), kind.item_field.with_type(_utc(kind.item_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_utc(field.type)) for field in kind])
    return kind
