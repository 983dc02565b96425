"""Reader of text lines: blocks of whole lines, and the lines in them with their numbers.

Invariant: every line of a stream comes out once, with its number in the file, from 1. A line ends with a newline; a
carriage return before it belongs to the end. A byte-order mark before the first line is passed over. A line of
`LINE_LIMIT` bytes or more is never held as a whole: it comes out as its beginning, marked as not whole. Errors of
a damaged stream are for the caller, after every whole line that came before the damage.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import NamedTuple

from thence.tables.files.source import BROKEN, TEXT_LIMIT

BLOCK = 1 << 20
"""Bytes that are read at once."""
LINE_LIMIT = 1 << 26
"""Size in bytes from which a line is refused."""
BEGINNING = 4 * TEXT_LIMIT
"""Bytes that are kept of such a line."""
_MARK = b"\xef\xbb\xbf"


class Block(NamedTuple):
    """Whole lines that stand together; only the last line of a file may have no newline."""

    first: int
    """The number of the first line."""
    data: bytes
    whole: bool = True
    """False: `data` is the beginning of one line that is too long."""


class Line(NamedTuple):
    """One line without its end; `ended` tells whether there was a newline, `whole` whether it is all there."""

    number: int
    data: bytes
    ended: bool = True
    whole: bool = True


def blocks(stream: io.BufferedIOBase, *, first: int = 1, length: int | None = None) -> Iterator[Block]:
    """Yield the lines of a stream in blocks, or of the next `length` bytes; `first` is the number of the first."""
    held: list[bytes] = []  # the parts of a line that has not ended yet
    too_long: bytes | None = None  # or the beginning of one that is too long
    number = first
    for chunk in _chunks(stream, length):
        if number == 1 and not held and too_long is None:
            chunk = chunk.removeprefix(_MARK)
        if too_long is not None:
            end = chunk.find(b"\n") + 1
            if not end:
                continue
            yield Block(number, too_long, whole=False)
            number, too_long, chunk = number + 1, None, chunk[end:]
        cut = chunk.rfind(b"\n") + 1
        if cut:
            data = b"".join([*held, chunk[:cut]])
            yield Block(number, data)
            number, held = number + data.count(b"\n"), []
        held.append(chunk[cut:])
        if sum(map(len, held)) >= LINE_LIMIT:
            too_long, held = b"".join(held)[:BEGINNING], []
    rest = b"".join(held)
    if too_long is not None:
        yield Block(number, too_long, whole=False)
    elif rest:
        yield Block(number, rest)


def _chunks(stream: io.BufferedIOBase, length: int | None) -> Iterator[bytes]:
    """Yield the next bytes in chunks; where the stream breaks off, what came before comes out first."""
    left = length
    while left is None or left > 0:
        parts: list[bytes] = []
        wanted = BLOCK if left is None else min(BLOCK, left)
        try:
            while wanted and (part := stream.read1(wanted)):
                parts.append(part)
                wanted -= len(part)
        except BROKEN:
            yield b"".join(parts)
            raise
        chunk = b"".join(parts)
        if not chunk:
            return
        left = None if left is None else left - len(chunk)
        yield chunk


def lines_of(block: Block) -> Iterator[Line]:
    """Yield the lines of a block; those that are too long as their beginnings."""
    if not block.whole:
        yield Line(block.first, block.data, whole=False)
        return
    parts = block.data.split(b"\n")
    last = parts.pop()
    for number, data in enumerate(parts, block.first):
        yield _line(number, data, ended=True)
    if last:
        yield _line(block.first + len(parts), last, ended=False)


def _line(number: int, data: bytes, *, ended: bool) -> Line:
    if len(data) >= LINE_LIMIT:
        return Line(number, data[:BEGINNING], ended, whole=False)
    return Line(number, data.rstrip(b"\r") if ended else data, ended)


def lines(stream: io.BufferedIOBase, *, first: int = 1, length: int | None = None) -> Iterator[Line]:
    """Yield the lines of a stream, or of its next `length` bytes, blank ones too."""
    for block in blocks(stream, first=first, length=length):
        yield from lines_of(block)
