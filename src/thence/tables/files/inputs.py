"""Tables as callers have them: pandas, Polars, pyarrow, DuckDB, Ibis, Narwhals, Arrow's capsule interface, dicts.

*Invariant.* Only the columns that are asked for become Arrow; row n there is row n of the caller's table. What comes
out (`taken`, `made`) is of the caller's kind, and columns that were not asked for are moved as they are.

Kinds are recognised by their methods and by the names of their classes, so that no library is imported for a look
(`INPUT_READERS`). Why narwhals is not used for this: docs/reference/dependencies.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard
from uuid import UUID

from thence.core.model.events import Event
from thence.errors import MisuseError

if TYPE_CHECKING:
    import pyarrow as pa

ACCEPTED = (
    "a path; a pandas, Polars or pyarrow table, a DuckDB relation, an Ibis or Narwhals table, or anything else with "
    "Arrow's capsule interface; a list of dicts"
)
STREAM, ARRAY = "__arrow_c_stream__", "__arrow_c_array__"
"""Arrow's capsule interface: a table in batches, and one batch."""
LISTS = (list, tuple, set, frozenset)
WHOLE = 2**53
"""Floats below it are whole numbers without loss."""
LARGE = 2**63
"""Whole numbers below it are Arrow's own."""


def input_refusal(data: object, accepted: str = ACCEPTED) -> MisuseError:
    """Return the error for data of a kind that is not accepted."""
    found = f"{type(data).__module__}.{type(data).__qualname__}".removeprefix("builtins.")
    if isinstance(data, Sequence) and not isinstance(data, str | bytes) and len(data):
        held = sorted({type(each).__qualname__ for each in data})
        found = f"a {found} that holds {', '.join(held[:3])}"
    hint = "; collect() it first" if type(data).__name__ == "LazyFrame" else ""
    hint = hint or ("; thence.spark takes it" if "pyspark" in type(data).__module__ else "")
    return MisuseError(f"found {found}{hint}; accepted: {accepted}")


def is_path(data: object) -> TypeGuard[str | Path]:
    """Return whether data is the name of files."""
    return isinstance(data, str | Path)


class FileNames(NamedTuple):
    """Names of files, folders or globs."""

    names: list[str | Path]


class ArrowStream(Protocol):
    """A table that gives its batches through Arrow's capsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule with a stream."""


class ArrowBatch(Protocol):
    """A batch that gives its columns through Arrow's capsule interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> Any:
        """Return capsules with a schema and an array."""


TraceInput = (
    str | Path | ArrowStream | ArrowBatch | Iterable[str | Path] | Iterable[Event] | Iterable[Mapping[str, Any]]
)
"""A trace as callers have it: names of files, a table of any kind, or events. What else is given is refused."""


def trace_input(
    data: TraceInput, columns: Mapping[str, str] | None = None, kinds: Mapping[str, str] | None = None
) -> FileNames | InputTable | list[Event]:
    """Return the kind of input of a trace; `columns` and `kinds` are refused for events, which have neither."""
    if is_path(data):
        return FileNames([data])
    if (table := input_table(data)) is not None:
        return table
    if isinstance(data, bytes | Mapping) or not isinstance(data, Iterable):
        raise input_refusal(data, ACCEPTED + "; a list of events")
    given: list[Any] = list(data)
    if given and all(map(is_path, given)):
        return FileNames(given)
    if all(isinstance(each, Event) for each in given):
        if columns or kinds:
            raise MisuseError(f"{'columns' if columns else 'kinds'}= is for files and tables; events are in our words")
        return given
    if (table := input_table(given)) is None:
        raise input_refusal(given, ACCEPTED + "; a list of events")
    return table


class InputTable(ABC):
    """A table of the caller's, of any kind."""

    names: list[str]
    """its columns"""

    @abstractmethod
    def arrow(self, names: Iterable[str], types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
        """Return these of its columns as Arrow; `types` are those of columns without types of their own."""

    @abstractmethod
    def taken(self, places: pa.Array, added: pa.Table) -> Any:
        """Return its rows at these places, with added columns, as a table of its kind."""

    @abstractmethod
    def made(self, table: pa.Table) -> Any:
        """Return an Arrow table as a table of its kind."""


def column_values(data: Any) -> list[Any] | None:
    """Return the values of a pandas, Polars or Narwhals Series, or of an array; None for anything else."""
    listed = next((name for name in ("to_list", "tolist") if hasattr(type(data), name)), None)
    if listed is None and _is_of(data, "ChunkedArray", "pyarrow"):
        listed = "to_pylist"
    return None if listed is None else [_or_null(value) for value in getattr(data, listed)()]


def input_table(data: object) -> InputTable | None:
    """Return data as a table, or None if it is not a table of a known kind."""
    return next((each.make(data) for each in INPUT_READERS.values() if each.knows(data)), None)


def _is_of(data: object, name: str, *libraries: str) -> bool:
    """Return whether an object's class, or one above it, has this name in one of these libraries."""
    return any(each.__name__ == name and each.__module__.partition(".")[0] in libraries for each in type(data).__mro__)


def _wrapper(name: str) -> Callable[[Any], InputTable]:
    """Return a class of `relation_inputs`, which is imported when data of its kind comes."""

    def make(data: Any) -> InputTable:
        from thence.tables.files import relation_inputs

        made: InputTable = getattr(relation_inputs, name)(data)
        return made

    return make


def _is_dicts(data: object) -> bool:
    if not isinstance(data, Sequence) or isinstance(data, str | bytes) or not len(data):
        return False
    return all(isinstance(each, Mapping) for each in data)


class InputReader(NamedTuple):
    """A kind of table: how it is recognised, and what makes an `InputTable` of one."""

    knows: Callable[[object], bool]
    make: Callable[[Any], InputTable]


INPUT_READERS: dict[str, InputReader] = {
    "pandas": InputReader(lambda data: _is_of(data, "DataFrame", "pandas"), lambda data: PandasTable(data)),
    "polars": InputReader(lambda data: _is_of(data, "DataFrame", "polars"), lambda data: PolarsTable(data)),
    "narwhals": InputReader(lambda data: _is_of(data, "DataFrame", "narwhals"), _wrapper("NarwhalsTable")),
    "duckdb": InputReader(lambda data: _is_of(data, "DuckDBPyRelation", "duckdb", "_duckdb"), _wrapper("DuckTable")),
    "ibis": InputReader(lambda data: _is_of(data, "Table", "ibis"), _wrapper("IbisTable")),
    "arrow": InputReader(lambda data: hasattr(data, STREAM) or hasattr(data, ARRAY), lambda data: ArrowTable(data)),
    "dicts": InputReader(_is_dicts, lambda data: DictTable(data)),
}
"""Every kind of table that is taken; the first that knows the data is used."""


class ArrowTable(InputTable):
    """A pyarrow Table, RecordBatch or RecordBatchReader, which comes out as one; else what comes out is a Table."""

    def __init__(self, data: Any) -> None:
        """Read it, if it is a stream."""
        import pyarrow as pa

        self._out: type = type(data) if isinstance(data, pa.RecordBatch | pa.RecordBatchReader) else pa.Table
        if isinstance(data, pa.Table):
            self._table = data
        elif hasattr(data, STREAM):
            self._table = pa.RecordBatchReader.from_stream(data).read_all()
        else:
            self._table = pa.Table.from_batches([pa.record_batch(data)])
        self.names = list(self._table.column_names)

    def arrow(self, names: Iterable[str], types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
        wanted = [name for name in dict.fromkeys(names) if name in self.names]
        _refuse_doubled(self.names, wanted)
        return without_views(self._table.select(wanted))

    def taken(self, places: pa.Array, added: pa.Table) -> Any:
        import pyarrow as pa

        schema = pa.schema([*self._table.schema, *added.schema], self._table.schema.metadata)
        columns = [_taken(column, places) for column in self._table.columns]
        return self.made(pa.Table.from_arrays([*columns, *added.columns], schema=schema))

    def made(self, table: pa.Table) -> Any:
        import pyarrow as pa

        if self._out is pa.Table:
            return table
        if issubclass(self._out, pa.RecordBatchReader):
            return table.to_reader()
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


class PandasTable(InputTable):
    """A pandas frame: its index and its columns of arbitrary objects stay what they are."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.names = [str(name) for name in frame.columns]

    def arrow(self, names: Iterable[str], types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
        """Return some of its columns; floats that are all whole are integers, which pandas cannot leave out."""
        import pyarrow as pa

        wanted = [name for name in dict.fromkeys(names) if name in self.names]
        _refuse_doubled(self.names, wanted)
        found = {}
        for name in wanted:
            values = self._frame.iloc[:, self.names.index(name)]
            try:
                found[name] = _without_fractions(_known(pa.Array.from_pandas(values, type=(types or {}).get(name))))
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                found[name] = _column(name, [_or_null(each) for each in values], (types or {}).get(name))
        return pa.table(found)

    def taken(self, places: pa.Array, added: pa.Table) -> Any:
        """Return rows with added columns, under the index labels that they have."""
        rows = self._frame.iloc[places.to_numpy()].copy(deep=False)
        for name, values in self.made(added).items():
            rows[name] = values.set_axis(rows.index)
        return rows

    def made(self, table: pa.Table) -> Any:
        """Return a frame; integers may be null, lists are lists."""
        import pandas as pd
        import pyarrow as pa

        frame = table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
        for field in table.schema:
            if pa.types.is_list(field.type):
                frame[field.name] = pd.Series(table.column(field.name).to_pylist(), dtype=object, index=frame.index)
        return frame


class PolarsTable(InputTable):
    """A Polars DataFrame or LazyFrame as input."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.names = list(frame.columns)

    def arrow(self, names: Iterable[str], types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
        import pyarrow as pa

        wanted = self._frame.select([name for name in dict.fromkeys(names) if name in self.names])
        try:
            return without_views(pa.RecordBatchReader.from_stream(wanted).read_all())
        except pa.ArrowInvalid as error:  # 128 bits, which Arrow has not
            held = ", ".join(f"{name!r} is {kind}" for name, kind in wanted.schema.items())
            raise MisuseError(f"column {held}; pyarrow does not read all of them: {error}") from None

    def taken(self, places: pa.Array, added: pa.Table) -> Any:
        return self._frame[places.to_numpy()].hstack(self.made(added))

    def made(self, table: pa.Table) -> Any:
        import polars as pl

        return pl.from_arrow(table)


class DictTable(InputTable):
    """A list of dicts, one for each row; a column that a dict lacks is null there."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self.rows = rows
        self.names = list(dict.fromkeys(name for row in rows for name in row))

    def arrow(self, names: Iterable[str], types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
        import pyarrow as pa

        wanted = [name for name in dict.fromkeys(names) if name in self.names]
        kinds = types or {}
        return pa.table({name: _column(name, [row.get(name) for row in self.rows], kinds.get(name)) for name in wanted})

    def with_lists(self, name: str) -> DictTable:
        """Return the rows with lists in a column of which some rows have a list and others one value."""
        lists = {type(row.get(name)) in LISTS for row in self.rows if row.get(name) is not None}
        if len(lists) < 2:
            return self
        single = [row.get(name) is not None and type(row[name]) not in LISTS for row in self.rows]
        return DictTable(
            [{**row, name: [row[name]]} if one else row for row, one in zip(self.rows, single, strict=True)]
        )

    def taken(self, places: pa.Array, added: pa.Table) -> Any:
        return [{**self.rows[place], **more} for place, more in zip(places.to_pylist(), added.to_pylist(), strict=True)]

    def made(self, table: pa.Table) -> Any:
        return table.to_pylist()


def _taken(column: pa.ChunkedArray, places: pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return the values of a column at some places."""
    import pyarrow as pa

    plain = _without_view(column.type)
    try:
        return column.take(places) if plain == column.type else column.cast(plain).take(places).cast(column.type)
    except pa.ArrowNotImplementedError:  # runs, and views in maps, unions and extension types (pyarrow 26)
        whole = column.combine_chunks()
        return pa.concat_arrays([whole.slice(0, 0), *(whole.slice(place, 1) for place in places.to_pylist())])


def without_views(table: pa.Table) -> pa.Table:
    """Return a table whose texts are not views: pyarrow has no `take` for those, and Polars gives no others."""
    import pyarrow as pa

    kinds = table.schema.types
    types = [_without_view(kind) for kind in kinds]
    if types == kinds:
        return table
    fields = [field.with_type(kind) for field, kind in zip(table.schema, types, strict=True)]
    return table.cast(pa.schema(fields, table.schema.metadata))


def is_any_list(kind: pa.DataType) -> bool:
    """Return whether a type is one of Arrow's lists: with offsets, of one size, or a view."""
    import pyarrow as pa

    kinds = (
        pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view,
        pa.types.is_large_list_view,
    )  # fmt: skip
    return any(each(kind) for each in kinds)


def with_plain_lists(table: pa.Table) -> pa.Table:
    """Return a table whose lists have offsets, as the rule reads them; no kernel reads half floats and runs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, kind in enumerate(table.schema.types):
        if pa.types.is_run_end_encoded(kind):
            table = table.set_column(place, table.schema.names[place], pc.run_end_decode(table.column(place)))
        elif pa.types.is_float16(kind):
            table = table.set_column(place, table.schema.names[place], table.column(place).cast(pa.float32()))
        elif is_any_list(kind) and not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            lists = pa.large_list(kind.value_type)
            chunks = [_plain_lists(chunk) for chunk in table.column(place).chunks]
            table = table.set_column(place, table.schema.names[place], pa.chunked_array(chunks, lists))
    return without_views(table)


def _plain_lists(lists: pa.Array) -> pa.Array:
    """Return lists with offsets; `cast` from views writes one offset too few (pyarrow 26)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int64()))
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    return pa.LargeListArray.from_arrays(offsets, lists.flatten(), mask=lists.is_null())


def _without_view(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _without_view(kind.value_type), kind.ordered)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_without_view(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_without_view(kind.value_type)), kind.list_size)
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_without_view(each.type)) for each in kind.fields])
    return kind


def _refuse_doubled(names: Sequence[str], wanted: Iterable[str]) -> None:
    for name in wanted:
        if names.count(name) > 1:
            raise MisuseError(f"column {name!r} is there {names.count(name)} times; rename all but one")


def _or_null(value: Any) -> Any:
    """Return a value of a pandas column of objects; its several nulls are None."""
    if isinstance(value, float) and value != value:
        return None
    return None if type(value).__name__ in ("NAType", "NaTType") else value


def _without_fractions(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return floats as integers if all are whole: a pandas column of integers that has or had a gap is of floats."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_floating(values.type):
        return values
    whole = pc.and_(pc.equal(pc.floor(values), values), pc.less(pc.abs(values), WHOLE))
    return values.cast(pa.int64()) if pc.all(whole).as_py() is not False else values


def _column(name: str, values: list[Any], kind: pa.DataType | None) -> pa.Array:
    """Return Python values as a column, UUIDs as texts, and whole numbers beyond 64 bits as decimals."""
    import pyarrow as pa

    if kind is not None and pa.types.is_map(kind):
        values = [list(value.items()) if isinstance(value, Mapping) else value for value in values]
    try:
        return _known(pa.array(values, kind))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass  # perhaps for UUIDs or large numbers
    try:
        return _known(pa.array([_plain(value) for value in values], kind))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        held = sorted({type(value).__name__ for value in values if value is not None})
        why = (str(error).splitlines() or [""])[0]
        raise MisuseError(f"column {name!r} holds {', '.join(held)}; values of one type are accepted ({why})") from None


def _known(values: pa.Array) -> pa.Array:
    """Return values of a type that Arrow itself has: the one for UUIDs is an extension, without kernels."""
    import pyarrow as pa

    inner = values.type.value_type if pa.types.is_list(values.type) else values.type
    if isinstance(inner, pa.BaseExtensionType):
        raise TypeError(f"{inner} is an extension type")
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, int) and not -LARGE <= value < LARGE:
        return Decimal(value)
    return [_plain(each) for each in value] if isinstance(value, LISTS) else value
