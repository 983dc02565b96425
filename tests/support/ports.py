"""Ports for the servers that tests start: no other process of the tests has them, and no connection gets one by chance.

They lie below those that systems give to connections by themselves. Each process of the tests has a block of its own.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import cycle, islice

FIRST, SIZE, BLOCKS = 10_000, 50, 200


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens at; the same ones come again only when the block is used up."""
    assert count < SIZE
    found = []
    for port in islice(_block()[1], SIZE):
        with socket.socket() as each, suppress(OSError):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of a test before may linger
            each.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError(f"{len(found)} of {count} ports are free")


@cache
def _block() -> tuple[socket.socket, Iterator[int]]:
    """Take a block that nobody has: its first port, held as long as this process lives, keeps the others away."""
    for start in range(FIRST, FIRST + SIZE * BLOCKS, SIZE):
        held = socket.socket()
        try:
            held.bind(("127.0.0.1", start))
        except OSError:
            held.close()
            continue
        return held, cycle(range(start + 1, start + SIZE))
    raise AssertionError("all blocks of ports are taken")
