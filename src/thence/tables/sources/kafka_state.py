"""The state of a consumer as records of a compacted topic: in pieces that a broker takes, and whole again.

Law. The last state of which every piece is there, in order, is the one that holds. Pieces of earlier states that
compaction left behind, or that a crash cut off, never become part of it: each piece names its state.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import NamedTuple

CHUNK = 900_000
"""bytes of state in one record; brokers accept a little more than a million"""
Headers = list[tuple[str, bytes]]


class Piece(NamedTuple):
    """One record of a state. Its key is its number, so that compaction keeps the latest of each."""

    key: bytes
    value: bytes
    headers: Headers


def pieces_of(data: bytes, size: int = CHUNK) -> list[Piece]:
    """Cut a state into records."""
    state = secrets.token_hex(8).encode()
    values = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
    headers = [("state", state), ("pieces", str(len(values)).encode())]
    return [Piece(str(number).encode(), value, headers) for number, value in enumerate(values)]


def whole_state(pieces: Iterable[Piece]) -> bytes | None:
    """Return the last state that is whole, or None."""
    last, state, values = None, b"", list[bytes]()
    for piece in pieces:
        headers = dict(piece.headers)
        if piece.key == b"0":
            state, values = headers["state"], []
        if headers["state"] == state and int(piece.key) == len(values):
            values.append(piece.value)
            if len(values) == int(headers["pieces"]):
                last = b"".join(values)
    return last
