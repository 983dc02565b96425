"""Tables of arrivals in files: which files, of which format, with which rosters; and their rows as one Arrow table.

Law. Files are found and their formats told as for traces; one format at a time. In JSON lines a stamp is base64, a
clock an object, and the first line of a file may say the `roster`. A line that is no JSON object is a row without
anything in it but its text, in the column that Spark calls `_corrupt_record`, and delivery quarantines it; a reader in
this process also says where it stands (`unread`). A column of that name that the files have is the user's own.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from thence.core.model.plain import Row
from thence.core.model.roster import Roster
from thence.errors import MisuseError, TraceError
from thence.tables.contract.columns import CAUSE_COLUMNS, By
from thence.tables.files.csv_arrivals import Separated, read_separated, separated
from thence.tables.files.formats import SAY_WHICH, Format, Unfit, detect
from thence.tables.files.jsonl import parse_row
from thence.tables.files.line_reader import LINE_LIMIT, Block, blocks, lines, lines_of
from thence.tables.files.paths import find_files
from thence.tables.files.source import Quarantined, excerpt, is_packed, open_bytes

if TYPE_CHECKING:
    import pyarrow as pa

    from thence.tables.delivery.columns import Columns

ROSTER = "roster"
ACCEPTED = "JSON lines, Parquet, CSV or TSV"
CORRUPT = "_corrupt_record"
"""Where the text of a line without an object is kept, with as many underscores behind as make it a name of its own."""
_scan = json.JSONDecoder().scan_once
NO_OBJECT = "the line holds no JSON object"
"""Why a row with nothing in it but its text is quarantined."""


class Arrivals(NamedTuple):
    """A table of arrivals; lines of its files that hold no object, and the column of their texts, if there are any."""

    table: pa.Table
    unread: list[Quarantined]
    lines: str | None


class ArrivalFiles(NamedTuple):
    """Files of one format."""

    kind: Format | Separated
    files: list[Path]

    def rosters(self) -> list[Roster] | None:
        """Return the rosters that the files say, each once; None if they say none."""
        if self.kind == "parquet":
            from thence.tables.files.parquet import read_rosters

            found = [roster for file in self.files for roster in read_rosters(file)]
        elif self.kind != "jsonl":
            return None
        else:
            found = [roster for file in self.files if (roster := _first_roster(file)) is not None]
        return list(dict.fromkeys(found)) or None


def arrival_files(path: str) -> ArrivalFiles:
    """Return the files behind a name, folder or glob, and the one format that they have."""
    formats = _formats(path)
    if not formats:
        raise TraceError(f"{path} holds no arrivals: {ACCEPTED} are accepted")
    kind = next(iter(formats.values()))
    for file, found in formats.items():
        if found != kind or found == "shiviz":
            raise MisuseError(f"{file} is {found}; {ACCEPTED} are accepted, one kind at a time")
        if found in ("jsonl", "parquet") and is_packed(file) and file.suffix != ".gz":
            raise TraceError(f"{file} is gzipped, which Spark knows by a name that ends in .gz alone; rename it")
    return ArrivalFiles(kind, list(formats))


def _formats(path: str) -> dict[Path, Format | Separated]:
    formats: dict[Path, Format | Separated] = {}
    for file in find_files(path):
        found = separated(file.path) or detect(file.path, clocks=False)
        if not isinstance(found, Unfit):
            formats[file.path] = found
        elif file.named or found.claims:
            reason = found.reason.replace(SAY_WHICH, f"; {ACCEPTED} are accepted")
            raise TraceError(f"{file.path}: {reason}")
    return formats


def _first_roster(file: Path) -> Roster | None:
    with open_bytes(file) as stream:
        line = next(lines(stream), None)
    row = None if line is None or not line.whole else _object(line.data)
    names = None if row is None else row.get(ROSTER)
    return Roster(names) if isinstance(names, list) else None


def _object(data: bytes) -> Row | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else None


def column_of_lines(names: Iterable[str]) -> str:
    """Return what the column for texts of lines without an object is called in a table that has these columns."""
    called, taken = CORRUPT, {name.lower() for name in names}
    while called in taken:
        called += "_"
    return called


def read_arrivals(found: ArrivalFiles, by: By, columns: Columns) -> Arrivals:
    """Return all rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from thence.tables.delivery.key_state import without_collection

    if found.kind == "parquet":
        try:
            tables = [pq.ParquetFile(file).read() for file in found.files]
        except (OSError, pa.ArrowException) as error:
            raise TraceError(f"a file of arrivals cannot be read: {(str(error).splitlines() or [''])[0]}") from error
        return Arrivals(pa.concat_tables(tables, promote_options="permissive"), [], None)
    if found.kind == "csv" or found.kind == "tsv":
        if by != "depends_on":
            raise MisuseError(f"{found.kind.upper()} has no form for by={by!r}; explicit causes are accepted")
        return Arrivals(read_separated(found.files, found.kind, columns), [], None)
    with without_collection():
        return _read_lines(found.files, by, columns)


def _read_lines(files: list[Path], by: By, columns: Columns) -> Arrivals:
    """Return the rows of JSON lines."""
    import pyarrow as pa

    from thence.tables.contract.type_map import arrow_type

    unread: list[Quarantined] = []
    read = [each for file in files for each in _rows(file, unread)]
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
        check_numbers([row.get(columns.message) for row in rows], values, columns)
        types[columns.cause] = (
            types[columns.cause] if all(v is None or isinstance(v, list) for v in values) else pa.string()
        )
    shapes = dict.fromkeys(map(tuple, rows))
    names = dict.fromkeys(name for shape in shapes for name in shape if name != ROSTER)
    table = pa.table({name: _column([row.get(name) for row in rows], types.get(name)) for name in names})
    return Arrivals(table, unread, called if unread else None)


def check_numbers(messages: list[object], causes: list[object], columns: Columns) -> None:
    """Refuse causes that are written as fractions where the ids are whole numbers, in the words of Spark."""
    each = [one for cause in causes for one in (cause if isinstance(cause, list) else [cause]) if one is not None]
    whole = all(type(one) is int for one in messages if one is not None)
    if whole and any(type(one) is float for one in each) and not any(isinstance(one, str) for one in each):
        kind = "array<double>" if any(isinstance(cause, list) for cause in causes) else "double"
        columns.check_ids("bigint", "whole number", kind, "fraction")


def refusal_of_all(files: Iterable[Path]) -> TraceError:
    """Return what is said of files none of whose lines holds an object, as another reader found."""
    unread: list[Quarantined] = []
    for file in files:
        for _ in _rows(file, unread):
            return _no_object(unread[0] if unread else Quarantined(str(file), None, NO_OBJECT))
    raise AssertionError("files without a line have none that holds no object")


def _no_object(first: Quarantined) -> TraceError:
    return TraceError(f"{first}; JSON lines are accepted, one object a line")


def _rows(file: Path, unread: list[Quarantined]) -> Iterator[Row | str]:
    """Yield an object for each line, or the line itself, which is then put into `unread`, with its place."""
    with open_bytes(file) as stream:
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


def with_lines_named(ordered: pa.Table, lines: str) -> pa.Table:
    """Say of delivered rows that are lines without an object, which stand in the column `lines`, that they are."""
    import pyarrow.compute as pc

    reasons = pc.if_else(pc.is_valid(ordered.column(lines)), NO_OBJECT, ordered.column("reason"))
    return ordered.set_column(ordered.column_names.index("reason"), "reason", reasons)


def _column(values: list[object], kind: pa.DataType | None) -> pa.Array:
    """Return a column in its type; a value that does not fit is null, and mixed columns of the user's are text."""
    import pyarrow as pa

    if kind is not None:
        return pa.array(_fitted(values, kind), kind)
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
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
    return value if value is None or isinstance(value, str) else json.dumps(value, separators=(",", ":"))
