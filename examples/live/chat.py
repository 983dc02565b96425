"""A group chat of three processes in which no reply precedes its question, however slow a line is.

c is not there when a asks and b answers. When it comes, it hears from b first, and still shows the question first.
"""

import asyncio
import tempfile
from pathlib import Path

from thence.live.init import initialise
from thence.runtime import Endpoint


async def show(me: Endpoint, lines: int, answer: dict[bytes, bytes]) -> list[str]:
    """Show what is said, and answer what there is an answer to, in one step with having read it."""
    shown: list[str] = []
    async for message in me.deliveries():
        async with message.transaction() as tx:
            shown.append(f"{message.sender}: {message.payload.decode()}")
            if message.payload in answer:
                others = set(me.config.processes) - {me.config.name}
                tx.send(others, answer[message.payload])
        if len(shown) == lines:
            return shown
    return shown


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        a, b, c = initialise(Path(folder), ["a", "b", "c"])
        async with Endpoint(a) as ann, Endpoint(b) as bob:
            await ann.send({"b", "c"}, b"Who has the key?")
            await asyncio.gather(show(bob, 1, {b"Who has the key?": b"I have."}), show(ann, 1, {}))
            async with Endpoint(c) as cleo:
                shown = await show(cleo, 2, {})
    print("\n".join(shown))
    assert shown == ["a: Who has the key?", "b: I have."]


asyncio.run(main())
