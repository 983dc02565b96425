"""A to-do list, replicated over three processes, that converges: each change is a message to all.

Additions and removals commute unless one caused the other, and causal order keeps those in order: nobody removes what
it has not seen. So every replica can apply a change as it comes. The list lives in the journal's own database, and a
change and the end of its message are one commit.
"""

import asyncio
import tempfile
from pathlib import Path

from thence.live.init import initialise
from thence.runtime import Endpoint

EVERYBODY = {"home", "work", "phone"}


async def replicate(me: Endpoint, changes: int) -> list[str]:
    """Apply that many changes, and return the list."""
    async for message in me.deliveries():
        what, _, item = message.payload.decode().partition(" ")
        async with message.transaction() as tx:
            tx.execute("CREATE TABLE IF NOT EXISTS items (item TEXT PRIMARY KEY)")
            if what == "add":
                tx.execute("INSERT OR IGNORE INTO items VALUES (?)", (item,))
                if item == "call Ann" and me.config.name == "phone":
                    tx.send(EVERYBODY, b"remove call Ann")  # done on the way
            else:
                tx.execute("DELETE FROM items WHERE item = ?", (item,))
            found = [str(row[0]) for row in tx.execute("SELECT item FROM items ORDER BY item")]
        changes -= 1
        if changes == 0:
            return found
    return []


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = initialise(Path(folder), sorted(EVERYBODY))
        async with Endpoint(files[0]) as home, Endpoint(files[1]) as phone, Endpoint(files[2]) as work:
            await asyncio.gather(
                home.send(EVERYBODY, b"add buy milk"),
                work.send(EVERYBODY, b"add call Ann"),
                phone.send(EVERYBODY, b"add water plants"),
            )
            lists = await asyncio.gather(*(replicate(each, 4) for each in (home, phone, work)))
    for name, found in zip(sorted(EVERYBODY), lists, strict=True):
        print(f"{name}: {', '.join(found)}")
    assert lists[0] == lists[1] == lists[2] == ["buy milk", "water plants"]


asyncio.run(main())
