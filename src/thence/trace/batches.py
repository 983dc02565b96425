"""Slices of traces as Arrow record batches: the columns of the event table, then `file`, `line` and `reason`.

    for batch in read_batches(part):         # a slice of JSONL or Parquet, see `trace.slices`
        ...

Law. The batches of a slice say exactly what `read.located_rows` says of it, row by row. What is well formed is read by
Arrow, a block at a time; a block that holds anything else is read row by row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from thence.model.columns import EVENT_COLUMNS, Column, names_of, their_names
from thence.trace.arrow import EVENTS, all_events, located_batch, placed_batch, refused_batch
from thence.trace.jsonl import DEEPEST, broken_off, located_line, too_deep
from thence.trace.line_reader import LINE_LIMIT, Block, blocks, lines_of
from thence.trace.parquet_reader import group_batches
from thence.trace.slices import Slice, open_slice
from thence.trace.source import BROKEN

_PARSE = pj.ParseOptions(explicit_schema=EVENTS, unexpected_field_behavior="ignore", newlines_in_values=True)
_CONSTANT = re.compile(rb'[^"\w](?:NaN|Inf)')


def read_batches(part: Slice, columns: Sequence[Column] = EVENT_COLUMNS) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slice."""
    if part.format == "parquet":
        yield from group_batches(part, columns)
        return
    number = part.first
    try:
        with open_slice(part) as stream:
            for block in blocks(stream, first=part.first, length=part.length):
                number = block.first + block.data.count(b"\n")
                yield _well_formed(block, part, columns) or _row_by_row(block, part, columns)
    except BROKEN as error:
        yield refused_batch([broken_off(part.file, number, error)], columns)


def _row_by_row(block: Block, part: Slice, columns: Sequence[Column]) -> pa.RecordBatch:
    """Read a block as the standard library does."""
    called = their_names(columns)
    found = [each for line in lines_of(block) if (each := located_line(line, part.file, part.order, called))]
    return located_batch(found, part.file, columns)


def _well_formed(block: Block, part: Slice, columns: Sequence[Column]) -> pa.RecordBatch | None:
    """Read a block by Arrow if each of its lines is an event in columns of our names, else not at all."""
    count = _objects(block)
    if not count or their_names(columns) is not None:
        return None
    try:
        options = pj.ReadOptions(use_threads=False, block_size=len(block.data) + 1)
        table = pj.read_json(pa.BufferReader(block.data), read_options=options, parse_options=_PARSE)
    except pa.ArrowException:
        return None
    if len(table) != count:
        return None
    rows = table.combine_chunks().to_batches()[0]
    if not all_events(rows):
        return None
    lines = pa.array(range(block.first, block.first + count), pa.int64())
    values = {name: rows.column(name) for name in names_of(columns)}
    if "order" in values and values["order"].null_count:
        values["order"] = pc.coalesce(values["order"], pc.add(lines, part.order - 1))
    return placed_batch(values, part.file, lines, pa.nulls(count, pa.string()), columns)


def _objects(block: Block) -> int:
    """Return how many lines a block has if Arrow may read them: each begins with { and ends with }, and no value in
    them is taken by Arrow that is no JSON to us. Then no value can span lines, and as many rows as lines means one
    object a line.
    """
    data = block.data.removesuffix(b"\n").removesuffix(b"\r")
    if not (block.whole and data.startswith(b"{") and data.endswith(b"}")):
        return 0
    breaks = data.count(b"\n")
    if breaks != data.count(b"}\n{") + (data.count(b"}\r\n{") if b"\r" in data else 0):
        return 0
    if b"\0" in data or ((b"NaN" in data or b"Inf" in data) and _CONSTANT.search(data)):
        return 0
    longest = max(map(len, data.split(b"\n"))) if len(data) > 2 * DEEPEST else 0
    if longest >= LINE_LIMIT or (longest > 2 * DEEPEST and any(map(too_deep, data.split(b"\n")))):
        return 0
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            return 0
    return breaks + 1
