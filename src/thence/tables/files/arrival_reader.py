"""Tables of arrivals in files: which files, of which format, with which rosters; and their rows as one Arrow table.

Invariant: files are found and their formats recognised as for traces; one format at a time. In JSON lines a stamp is
base64, a clock an object, and the first line of a file may say the `roster`. A line that is not a JSON object is a row
without anything in it but its text, in the column that Spark calls `_corrupt_record`, and delivery quarantines it; a
reader in this process also says where it stands (`unread`). A column of that name that the files have is the user's
own.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from thence.core.model.plain import Row
from thence.core.model.roster import Roster
from thence.errors import Argument, MisuseError, TraceError
from thence.tables.contract.columns import CAUSE_COLUMNS, By
from thence.tables.delivery.reading_cy import id_text
from thence.tables.files.formats import FORMATS, RECORDS, SAY_WHICH, WHOLE, Format, Unfit, detect, find_files
from thence.tables.files.inputs import ArrowTable
from thence.tables.files.jsonl import parse_row
from thence.tables.files.line_reader import LINE_LIMIT, Block, blocks, lines, lines_of
from thence.tables.files.source import BROKEN, Quarantined, excerpt, first_line, open_bytes, packed_by
from thence.tables.files.whole_tables import read_whole

if TYPE_CHECKING:
    import pyarrow as pa

    from thence.tables.delivery.columns import Columns, Family

ROSTER = "roster"
SEPARATED: tuple[Format, ...] = ("csv", "tsv")
"""Formats whose fields are texts."""
FIRST = 1000
"""Rows of each file whose types are looked at before Spark reads them."""
ACCEPTED_FORMATS = "JSON lines, Parquet, CSV, TSV, Arrow, Delta or Iceberg"
CORRUPT = "_corrupt_record"
"""Where the text of a line without an object is kept, with as many underscores behind as make it a name of its own."""
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
NO_OBJECT = "the line holds no JSON object"
"""Why a row with nothing in it but its text is quarantined."""


class ArrivalTable(NamedTuple):
    """A table of arrivals; lines of its files that hold no object, and the column of their texts, if there are any."""

    table: pa.Table
    unread: list[Quarantined]
    lines: str | None
    kind: Format = "jsonl"

    def input(self, columns: Columns) -> ArrowTable:
        """Return the rows as the rule reads them."""
        return WholeTable(self, columns) if self.kind in WHOLE else ArrowTable(self.table)


class ArrivalFiles(NamedTuple):
    """Files of arrivals that all have one format."""

    kind: Format
    files: list[Path]
    kept: dict[Path, bytes]
    """The content of small files that were read to tell their format."""

    def rosters(self) -> list[Roster] | None:
        """Return the rosters that the files say, each once; None if they say none."""
        if self.kind == "parquet":
            from thence.tables.files.parquet import read_rosters

            found = [roster for file in self.files for roster in read_rosters(file)]
        elif self.kind != "jsonl":
            return None
        else:
            found = [roster for file in self.files if (roster := self._first_roster(file)) is not None]
        return list(dict.fromkeys(found)) or None

    def _first_roster(self, file: Path) -> Roster | None:
        with _opened(file, self.kept.get(file)) as stream:
            line = next(lines(stream), None)
        row = None if line is None or not line.whole else _object(line.data)
        names = None if row is None else row.get(ROSTER)
        return Roster(names) if isinstance(names, list) else None

    def check_for_spark(self) -> None:
        """Refuse files that Spark itself cannot read."""
        if self.kind in (*WHOLE, *RECORDS):
            raise MisuseError(
                f"{self.files[0]} is {self.kind.upper()}, which this command reads in this process only; for Spark "
                "write it as Parquet or JSON lines, or read it in Python and call thence.spark.deliver on the DataFrame"
            )
        for file in self.files:
            packed = packed_by(file)
            if packed == ".zst":
                raise MisuseError(f"{file} is packed by zstandard, which Spark may not read; unpack it or use gzip")
            if packed is not None and file.suffix != packed:
                raise TraceError(
                    f"{file} is gzipped, which Spark recognises only by a name that ends in .gz; rename it"
                )


def arrival_files(path: str, form: str | None = None, *, records: bool = False) -> ArrivalFiles:
    """Return the files behind a name, folder or glob, and the one format that they have, or `form` if it is given.

    `records`: spans, CloudEvents and Debezium's records are recognised; else their objects are rows.
    """
    if form is not None and form not in FORMATS:
        raise MisuseError(f"no format {form!r}; {', '.join(each for each in FORMATS if each != 'shiviz')} are accepted")
    kept: dict[Path, bytes] = {}
    formats = _formats(path, next((each for each in FORMATS if each == form), None), kept, records=records)
    if not formats:
        raise TraceError(f"{path} holds no arrivals: {ACCEPTED_FORMATS} are accepted")
    kind = next(iter(formats.values()))
    for file, found in formats.items():
        if found != kind or found == "shiviz":
            raise MisuseError(f"{file} is {found}; {ACCEPTED_FORMATS} are accepted, one kind at a time")
    return ArrivalFiles(kind, list(formats), kept)


def _formats(path: str, form: Format | None, kept: dict[Path, bytes], *, records: bool) -> dict[Path, Format]:
    formats: dict[Path, Format] = {}
    for file in find_files(path):
        found = form or detect(file.path, clocks=False, records=records, kept=kept)
        if not isinstance(found, Unfit):
            formats[file.path] = found
        elif file.named or found.claims:
            reason = found.reason.replace(
                SAY_WHICH,
                f"; {ACCEPTED_FORMATS} are accepted; an ending such as .csv says which; on the command line --from csv",
            )
            raise TraceError(f"{file.path}: {reason}")
    return formats


def _object(data: bytes) -> Row | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else None


def column_of_lines(names: Iterable[str]) -> str:
    """Return the name of the column for texts of lines without an object, in a table that has these columns."""
    called, taken = CORRUPT, {name.lower() for name in names}
    while called in taken:
        called += "_"
    return called


def read_arrivals(found: ArrivalFiles, by: By, columns: Columns) -> ArrivalTable:
    """Return the rows of all files as one table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from thence.tables.delivery.without_collection import without_collection
    from thence.tables.files.parquet_reader import footer

    if found.kind == "parquet":
        tables = []
        for file in found.files:
            try:
                tables.append(pq.ParquetFile(file, metadata=footer(str(file))).read())
            except (OSError, pa.ArrowException) as error:
                raise TraceError(f"{file} cannot be read as Parquet: {first_line(error)}") from error
        return ArrivalTable(pa.concat_tables(tables, promote_options="permissive"), [], None)
    if found.kind in WHOLE:
        return ArrivalTable(_read_whole(found, by), [], None, found.kind)
    with without_collection():
        return _read_lines(found, by, columns)


def read_known(path: str, by: By, columns: Columns) -> pa.Table:
    """Return the table at a file or folder whose ids count as delivered."""
    from thence.tables.delivery.delivery_terms import check_known

    check_known(by)
    return read_arrivals(arrival_files(path), by, columns).table


def _read_lines(found: ArrivalFiles, by: By, columns: Columns) -> ArrivalTable:
    """Return the rows of JSON lines, and of records that become such rows."""
    import pyarrow as pa

    from thence.tables.contract.spark_to_arrow_types import arrow_type

    unread: list[Quarantined] = []
    if found.kind in RECORDS:
        from thence.tables.files.record_files import deliverable, read_records

        rows_read = [row for file in found.files for row in read_records(file, found.kind)]
        read: list[Row | str] = [*deliverable(rows_read, found.kind)]
    else:
        read = [each for file in found.files for each in _rows(file, unread, found.kept.get(file))]
    if unread and len(unread) == len(read):
        raise _no_object(unread[0])
    called = column_of_lines(
        {name for shape in {tuple(row) for row in read if isinstance(row, dict)} for name in shape}
    )
    rows = [row if isinstance(row, dict) else {called: row} for row in read]
    types = {columns.arrival: pa.int64(), columns.cause: arrow_type(CAUSE_COLUMNS[by].type)}
    types[columns.message] = pa.string()
    if by == "depends_on":
        values = [row.get(columns.cause) for row in rows]
        check_types([row.get(columns.message) for row in rows], values, columns)
        types[columns.cause] = (
            types[columns.cause] if all(v is None or isinstance(v, list) for v in values) else pa.string()
        )
    shapes = dict.fromkeys(map(tuple, rows))
    names = dict.fromkeys(name for shape in shapes for name in shape if name != ROSTER)
    table = pa.table({name: _column([row.get(name) for row in rows], types.get(name)) for name in names})
    return ArrivalTable(table, unread, called if unread else None, found.kind)


def _read_whole(found: ArrivalFiles, by: By) -> pa.Table:
    import pyarrow as pa

    if found.kind in SEPARATED and by != "depends_on":
        raise MisuseError(
            f"{found.kind.upper()} has no form for ", Argument("by", by), "; explicit causes are accepted"
        )
    tables = [read_whole(file, found.kind, None, found.kept.get(file)) for file in found.files]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise TraceError(f"the files of arrivals do not fit together: {first_line(error)}") from error


class WholeTable(ArrowTable):
    """Rows that were read whole: the rule reads numbers and moments from texts of CSV, which come out as they were."""

    def __init__(self, arrivals: ArrivalTable, columns: Columns) -> None:
        super().__init__(arrivals.table)
        texts = (columns.message, columns.cause, columns.sender, *columns.key)
        numbers = (columns.arrival, columns.time) if arrivals.kind in SEPARATED else ()
        self._columns, self._typed = columns, [name for name in numbers if name not in texts]

    def arrow(self, names: Iterable[str], types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
        """Return some of its columns, with the types that the rule needs."""
        rows = super().arrow(names, types)
        for place, name in enumerate(rows.column_names):
            if name in self._typed:
                rows = rows.set_column(place, name, _typed(rows.column(place)))
        return _without_points(rows, self._columns)


def _typed(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts as whole numbers, numbers or moments where all of them are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = pc.utf8_trim_whitespace(texts)
    for kind in (pa.int64(), pa.float64(), pa.timestamp("us", "UTC"), pa.timestamp("us")):
        try:
            return values.cast(kind)
        except pa.ArrowInvalid:
            continue
    return texts


def _without_points(table: pa.Table, columns: Columns) -> pa.Table:
    """Return texts with causes `2.0` as `2` where all ids are whole: so pandas writes whole numbers with gaps."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not {columns.message, columns.cause} <= set(table.column_names):
        return table
    ids, causes = table.column(columns.message), table.column(columns.cause)
    for column, form in ((causes, r"^-?\d+\.0$"), (ids, r"^-?\d+$")):
        if not (pa.types.is_string(column.type) and pc.all(pc.match_substring_regex(column, form)).as_py()):
            return table
    place = table.column_names.index(columns.cause)
    return table.set_column(place, columns.cause, pc.utf8_slice_codeunits(causes, 0, -2))


def check_types(messages: Iterable[object], causes: Sequence[object], columns: Columns) -> None:
    """Refuse causes of JSON whose type says that they are never equal to the ids, as a table with types is refused."""
    listed = [cause if isinstance(cause, list) else [cause] for cause in causes]
    own, others = _family(messages), _family(one for cause in listed for one in cause)
    if own is not None and others is not None:
        shown = _TYPES[others] if all(not isinstance(cause, list) for cause in causes) else f"array<{_TYPES[others]}>"
        columns.check_ids(_TYPES[own], own, shown, others)


def check_first_types(files: Iterable[Path], columns: Columns) -> None:
    """Check the types in the first rows of JSON lines, as `check_types` checks all rows."""
    rows = [row for file in files for row in islice(_rows(file, []), FIRST) if isinstance(row, dict)]
    check_types((row.get(columns.message) for row in rows), [row.get(columns.cause) for row in rows], columns)


_TYPES = {"text": "string", "number": "bigint"}
"""Spark's names of the types of JSON."""


def _family(values: Iterable[object]) -> Family | None:
    """Return the type as which ids are compared; None without ids, or with ids of several types."""
    names: dict[type[object], Family] = {str: "text", int: "number", float: "number"}
    found = {names.get(type(value)) for value in values if value is not None and value != ""}
    return found.pop() if len(found) == 1 else None


def refusal_of_all(files: Iterable[Path]) -> TraceError:
    """Return the error for files without any JSON object, as another reader found them."""
    unread: list[Quarantined] = []
    for file in files:
        for _ in _rows(file, unread):
            return _no_object(unread[0] if unread else Quarantined(str(file), None, NO_OBJECT))
    raise AssertionError("files without a line have none that holds no object")


def _no_object(first: Quarantined) -> TraceError:
    return TraceError(f"{first}; JSON lines are accepted, one object a line")


@contextmanager
def _opened(file: Path, content: bytes | None) -> Iterator[io.BufferedIOBase]:
    """Open a file, or the content that was kept when its format was recognised; a damaged one is a `TraceError`."""
    try:
        with open_bytes(file, content) as stream:
            yield stream
    except BROKEN as error:
        raise TraceError(f"{file} cannot be read: {first_line(error)}") from error


def _rows(file: Path, unread: list[Quarantined], content: bytes | None = None) -> Iterator[Row | str]:
    """Yield an object for each line, or the line itself, which is then put into `unread`, with its place."""
    with _opened(file, content) as stream:
        for block in blocks(stream):
            rows = _plain_objects(block)
            if rows is not None:
                yield from rows
                continue
            for line in lines_of(block):
                if not line.whole:
                    where = f"{file}:{line.number}"
                    raise TraceError(f"{where}: a line longer than 64 MB; arrivals of that size are for Spark")
                if line.data.strip():
                    row = _object(line.data)
                    if row is None:
                        reason = parse_row(line.data)
                        why = reason if isinstance(reason, str) else NO_OBJECT
                        unread.append(Quarantined(str(file), line.number, why, excerpt(line.data)))
                    yield line.data.decode("utf-8", "replace").rstrip("\r\n") if row is None else row


def _plain_objects(block: Block) -> list[Row] | None:
    """Return the objects of a block that has one on each line and nothing else; None where a line must be looked at.

    The scanner of `json` reads on where the last object ended: `json.loads` spends two thirds of its time around it.
    """
    if not block.whole or len(block.data) >= LINE_LIMIT:
        return None
    found: list[Row] = []
    try:
        text, at = block.data.decode(), 0
        while at < len(text):
            if text[at] != "{":
                return None
            row, end = _scan(text, at)
            stop = text.find("\n", at)
            stop = len(text) if stop < 0 else stop
            if end != stop and (end > stop or text[end:stop] != "\r"):  # an object may not go over several lines
                return None
            found.append(row)
            at = stop + 1
    except (ValueError, RecursionError, StopIteration):
        return None
    return found


def _noted(ordered: pa.Table) -> pa.Table:
    """Give quarantined records the reason in their note: a record without an id could not be read."""
    import pyarrow.compute as pc

    aside = pc.and_(pc.equal(ordered.column("outcome"), "quarantined"), pc.is_valid(ordered.column("note")))
    reasons = pc.if_else(aside, ordered.column("note"), ordered.column("reason"))
    return ordered.set_column(ordered.column_names.index("reason"), "reason", reasons)


def with_reasons(ordered: pa.Table, lines: str | None, kind: Format) -> pa.Table:
    """Give quarantined rows their reason: lines without an object (column `lines`), or records with a note."""
    import pyarrow.compute as pc

    if kind in RECORDS:
        return _noted(ordered) if "note" in ordered.column_names else ordered  # a file without records has no columns
    if lines is None:
        return ordered

    reasons = pc.if_else(pc.is_valid(ordered.column(lines)), NO_OBJECT, ordered.column("reason"))
    return ordered.set_column(ordered.column_names.index("reason"), "reason", reasons)


def _column(values: list[object], kind: pa.DataType | None) -> pa.Array:
    """Return a column in its type; a value that does not fit is null, and mixed columns of the user's are text."""
    import pyarrow as pa

    if kind is not None:
        return pa.array(_fitted(values, kind), kind)
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # OverflowError: integers above 64 bits
        return pa.array([v if v is None or isinstance(v, str) else json.dumps(v) for v in values], pa.string())


def _fitted(values: list[object], kind: pa.DataType) -> list[Any]:
    import pyarrow as pa

    if pa.types.is_binary(kind):
        return [_bytes(value) for value in values]
    if pa.types.is_map(kind):
        return [list(v.items()) if isinstance(v, dict) and all(map(_whole, v.values())) else None for v in values]
    if pa.types.is_list(kind):
        return [[_text(each) for each in value] if isinstance(value, list) else None for value in values]
    if pa.types.is_integer(kind):
        return [value if _whole(value) else None for value in values]
    return [value if type(value) is str else _text(value) for value in values]


def _bytes(value: object) -> bytes | None:
    try:
        return base64.b64decode(value) if isinstance(value, str) else None
    except (binascii.Error, ValueError):
        return None


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else id_text(value)
