"""Bytes of a test's own, said to a running endpoint."""

from __future__ import annotations

import asyncio
import ssl

from support.live_pair import PATIENCE
from thence.live.frames import REFUSED, Framer, Hello, hello_frame
from thence.runtime import Endpoint


async def talk(
    endpoint: Endpoint, data: bytes, tls: ssl.SSLContext | None = None, wait: float = PATIENCE
) -> list[bytes]:
    """Send bytes to an endpoint and return the bodies of the refusals that come back."""
    address = endpoint.config.listen
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
    try:
        writer.write(data)
        async with asyncio.timeout(wait):
            answer = await reader.read(-1)
    finally:
        writer.close()
    return [body for kind, body in Framer(1 << 22).feed(answer) if kind == REFUSED]


def hello(endpoint: Endpoint, by: str, **changes: object) -> bytes:
    core = endpoint.process.core
    said = Hello(by, "0" * 32, list(core.roster), core.member.name, "[('explicit', False)]", 0, 0, 1 << 20)
    return hello_frame(said if not changes else Hello(**{**{s: getattr(said, s) for s in said.__slots__}, **changes}))
