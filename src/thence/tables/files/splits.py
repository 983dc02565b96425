"""Parts of tables that can be read on their own: some whole lines of a JSONL file, or one row group of Parquet.

Invariant: the splits of a file hold each of its rows once, in order. A split knows the number of its first line (in
Parquet its row) and the `order` that the first line of its file has, so that any reader says the same
lines and the same order as a reader of all files from the beginning.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from thence.tables.files.formats import Format
from thence.tables.files.source import BROKEN, is_packed, open_bytes

COUNTED = 1 << 20


@dataclass(frozen=True, slots=True)
class Split:
    """A part of one file; every field is plain, so that it can travel."""

    file: str
    format: Format
    first: int = 1
    """The number of its first line, or row."""
    order: int = 0
    """JSONL: the `order` of the first line of the file."""
    start: int = 0
    """JSONL: where it begins, in bytes; a gzipped file is one split."""
    length: int | None = None
    """How many bytes of JSONL, or rows of Parquet, it has; null: all that there are."""
    group: int = 0
    """Parquet: its row group."""


def split_lines(path: Path, size: int | None, order: int, *, last: bool) -> tuple[list[Split], int]:
    """Return the splits of a JSONL file and how many lines it has; the lines of the last are not counted in vain."""
    whole = [Split(str(path), "jsonl", order=order)]
    one = size is None or path.stat().st_size <= size or is_packed(path)
    if one and last:
        with path.open("rb"):
            return whole, 0
    counted = _counted(path, size if not one else None, order)
    splits = [each for each, _ in counted]
    return (whole if one else splits), sum(count for _, count in counted)


def _counted(path: Path, size: int | None, order: int) -> list[tuple[Split, int]]:
    """Return parts of a file that end with a line, with how many lines each has; where it breaks off, the rest too."""
    found: list[tuple[Split, int]] = []
    start = at = lines = ended = 0
    first = 1
    with open_bytes(path) as stream:
        for chunk in _chunks(stream):
            cut = chunk.rfind(b"\n") + 1
            lines += chunk.count(b"\n")
            ended = at + cut if cut else ended
            at += len(chunk)
            if size is not None and ended - start >= size:
                found.append((Split(str(path), "jsonl", first, order, start, ended - start), lines))
                first, start, lines = first + lines, ended, 0
    if at > start:
        rest = lines + (at > ended)
        found.append((Split(str(path), "jsonl", first, order, start, at - start), rest))
    return found


def _chunks(stream: io.BufferedIOBase) -> Iterator[bytes]:
    try:
        while chunk := stream.read1(COUNTED):
            yield chunk
    except BROKEN:
        return


def open_split(split: Split) -> io.BufferedIOBase:
    """Open a JSONL file where a split of it begins."""
    stream = open_bytes(Path(split.file))
    if split.start:
        stream.seek(split.start)
    return stream
