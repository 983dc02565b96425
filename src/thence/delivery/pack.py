"""Columns of numbers and texts as bytes, for state that is written once per micro-batch and read by arrays or lists.

Law. `unpack(pack(header, columns)) == (header, columns)`; anything else raises `PeerError`. Numbers are 64-bit
little-endian and start at multiples of 8, so that an array can be laid over them without a copy.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from thence.errors import PeerError

MAGIC = b"thence-d"
VERSION = 1
Column = Sequence[int] | Sequence[float] | Sequence[str] | bytes
_SWAP = sys.byteorder == "big"


def pack(header: Mapping[str, Any], columns: Mapping[str, tuple[str, Any]]) -> bytes:
    """Write a header and named columns; a column is (type, values) with type q, d, s (texts) or b (bytes)."""
    parts: list[bytes] = []
    index: list[tuple[str, str, int]] = []
    for name, (kind, values) in columns.items():
        if kind == "s":
            texts = [text.encode() for text in values]
            index.append((name, "s", len(texts)))
            parts.append(_numbers("q", [len(text) for text in texts]))
            parts.append(_padded(b"".join(texts)))
        elif kind == "b":
            index.append((name, "b", len(values)))
            parts.append(_padded(bytes(values)))
        else:
            index.append((name, kind, len(values)))
            parts.append(_numbers(kind, values))
    head = json.dumps({"header": header, "columns": index}, separators=(",", ":")).encode()
    prefix = MAGIC + bytes((VERSION, 0, 0, 0)) + len(head).to_bytes(4, "little")
    return b"".join([prefix, _padded(head), *parts])


def unpack(data: bytes | memoryview) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read what `pack` wrote; number columns come back as `array`, texts as lists, bytes as bytes."""
    data = memoryview(data)
    if bytes(data[:8]) != MAGIC:
        raise PeerError(f"not a delivery state: starts with {bytes(data[:8])!r}, expected {MAGIC!r}")
    if len(data) < 16 or data[8] != VERSION:
        raise PeerError(f"delivery state of version {data[8:9].hex()}; this release reads version {VERSION}")
    at = 16 + int.from_bytes(data[12:16], "little")
    try:
        head = json.loads(bytes(data[16:at]))
        header, index = head["header"], head["columns"]
        columns: dict[str, Any] = {}
        at += -at % 8
        for name, kind, length in index:
            if kind == "b":
                columns[name], at = bytes(data[at : at + length]), at + length + -length % 8
                continue
            numbers = array("d" if kind == "d" else "q")
            numbers.frombytes(data[at : at + 8 * length])
            if _SWAP:
                numbers.byteswap()
            at += 8 * length
            if len(numbers) != length:
                raise ValueError(f"column {name} ends early")
            if kind == "s":
                columns[name], at = _texts(data, at, numbers)
            else:
                columns[name] = numbers
    except (ValueError, KeyError, TypeError) as error:
        raise PeerError(f"delivery state is damaged: {error}") from None
    return header, columns


def _texts(data: memoryview, at: int, lengths: Sequence[int]) -> tuple[list[str], int]:
    texts = []
    start = at
    for length in lengths:
        texts.append(bytes(data[at : at + length]).decode())
        at += length
    return texts, at + -(at - start) % 8


def _numbers(kind: str, values: Any) -> bytes:
    numbers = array(kind, values.tobytes() if hasattr(values, "tobytes") else values)
    if _SWAP:
        numbers = array(kind, numbers)
        numbers.byteswap()
    return numbers.tobytes()


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)
