"""Slices of traces as Arrow record batches: the columns of the event table, then `file`, `line` and `reason`.

    for batch in read_batches(split):         # a split of JSONL or Parquet, see `tables.files.splits`
        ...

*Invariant.* The batches of a split say exactly what `Trace.located` says of its rows. Lines that hold an
object each, with values in our types, are read by Arrow, a block at a time; a block that holds anything else, row by
row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from thence.tables.contract.columns import EVENT_COLUMNS, Column
from thence.tables.contract.spark_to_arrow_types import arrow_type
from thence.tables.files.checked_batches import checked, located_batch, numbered, placed_batch, refused_batch
from thence.tables.files.jsonl import DEEPEST, broken_off, called_in, located_line, too_deep
from thence.tables.files.line_reader import LINE_LIMIT, Block, blocks, lines_of
from thence.tables.files.parquet_reader import our_words, row_group_batches
from thence.tables.files.source import BROKEN
from thence.tables.files.splits import Split, open_split

_CONSTANT = re.compile(rb'[^"\w](?:NaN|Inf)')


def read_batches(
    split: Split, columns: Sequence[Column] = EVENT_COLUMNS, *, needs: bool = True, coded: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split.

    Unless `needs`, what a kind of row needs is left to the judge of its run. `coded`: texts may stay in dictionaries.
    """
    if split.format == "parquet":
        yield from row_group_batches(split, columns, needs=needs, coded=coded)
        return
    number = split.first
    try:
        with open_split(split) as stream:
            for block in blocks(stream, first=split.first, length=split.length):
                number = block.first + block.data.count(b"\n")
                yield block_batch(block, split, columns, needs=needs)
    except BROKEN as error:
        yield refused_batch([broken_off(split.file, number, error)], columns)


def block_batch(block: Block, split: Split, columns: Sequence[Column], *, needs: bool) -> pa.RecordBatch:
    """Return the rows of some lines."""
    return _well_formed(block, split, columns, needs=needs) or _row_by_row(block, split, columns, needs=needs)


def _row_by_row(block: Block, split: Split, columns: Sequence[Column], *, needs: bool) -> pa.RecordBatch:
    """Read a block as the standard library does."""
    called = called_in(columns)
    lines = lines_of(block)
    found = [each for line in lines if (each := located_line(line, split.file, split.order, called, needs=needs))]
    return located_batch(found, split.file, columns)


def _well_formed(block: Block, split: Split, columns: Sequence[Column], *, needs: bool) -> pa.RecordBatch | None:
    """Read a block by Arrow if each of its lines is an object, else not at all."""
    count = _objects(block)
    if not count:
        return None
    try:
        options = pj.ReadOptions(use_threads=False, block_size=len(block.data) + 1)
        table = pj.read_json(pa.BufferReader(block.data), read_options=options, parse_options=_parsing(tuple(columns)))
    except pa.ArrowException:
        return None
    if len(table) != count:
        return None
    rows = table.combine_chunks().to_batches()[0]
    lines = numbered(block.first, count)
    values = {column.name: our_words(rows.column(column.theirs), column) for column in columns if column.theirs}
    if "order" in values and values["order"].null_count:
        values["order"] = pc.coalesce(values["order"], pc.add(lines, split.order - 1))
    reasons = pa.nulls(count, pa.string())
    found = checked(placed_batch(values, split.file, lines, reasons, columns), needs=needs)
    cut_off = not block.data.endswith(b"\n") and found.column("reason")[-1].is_valid
    return None if cut_off else found


@lru_cache
def _parsing(columns: tuple[Column, ...]) -> pj.ParseOptions:
    """Return how lines are parsed: these columns, as the writer calls them, and no other."""
    schema = pa.schema([(column.theirs, arrow_type(column.type)) for column in columns if column.theirs])
    return pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore", newlines_in_values=True)


def _objects(block: Block) -> int:
    """Return how many lines a block has if Arrow may read them: each begins with { and ends with }, and no value in
    them is taken by Arrow that is not JSON to us. Then no value can span lines, and as many rows as lines means one
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
