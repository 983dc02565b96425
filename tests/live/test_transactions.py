"""A transaction is one commit, however large, or nothing of it was committed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from live import burst as live_burst
from support.live_pair import PATIENCE, configure, folder, run, take, until

from thence.errors import MisuseError
from thence.live.config import Limits
from thence.runtime import Endpoint

assert folder is not None
SOURCE = Path(__file__).parents[2] / "src"


@pytest.mark.parametrize(("sends", "size"), [(2000, 10), (12, 900_000), (20_000, 0)])
def test_a_transaction_of_any_size_survives_the_end_of_its_process(folder: Path, sends: int, size: int) -> None:
    """512 sends or 4 MiB are what other inputs share a commit with; a transaction is not bound by either."""

    async def go() -> None:
        first, second = configure(folder)
        command = [sys.executable, live_burst.__file__, str(second), str(sends), str(size)]
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(SOURCE)})
        async with Endpoint(first) as a:
            await a.send({"b"}, b"go")
            assert await asyncio.to_thread(process.wait, PATIENCE) == -signal.SIGKILL
            async with Endpoint(second) as b:
                assert not b.process.core.inbox
                assert b.database.execute("SELECT message FROM effects") == [("a1",)]
                assert b.process.core.outboxes[0].sent == sends
                seen = 0
                async with asyncio.timeout(PATIENCE):
                    async for message in a.deliveries():
                        assert message.payload.startswith(b"%d " % seen)
                        message.finish()
                        seen += 1
                        if seen == sends:
                            break

    run(go())


def test_a_transaction_takes_what_its_limits_say_and_not_one_more(folder: Path) -> None:
    assert (Limits().transaction_sends, Limits().transaction_bytes) == (100_000, 1 << 28)

    async def go() -> None:
        first, second = configure(folder, limits={"transaction_sends": 600, "transaction_bytes": 5000})
        async with Endpoint(first) as a, Endpoint(second) as b:

            async def burst(sizes: list[int], *, caught: bool = False) -> None:
                await a.send({"b"}, b"go")
                (message,) = await take(b, 1, done=False)
                try:
                    async with message.transaction() as tx:
                        tx.execute("CREATE TABLE IF NOT EXISTS effects (message TEXT)")
                        tx.execute("INSERT INTO effects VALUES (?)", (message.id,))
                        for size in sizes:
                            try:
                                tx.send({"a"}, b"x" * size)
                            except MisuseError:
                                if not caught:
                                    raise
                finally:
                    await message.done()

            await burst([0] * 600)
            await burst([2500, 2500])
            kept = [("a1",), ("a2",)]
            for sizes, told in (([0] * 601, r"601 sends; limits\.transaction_sends is 600"), ([5000, 1], "5001 bytes")):
                for caught in (False, True):
                    with pytest.raises(MisuseError, match=told):
                        await burst(sizes, caught=caught)
            assert b.database.execute("SELECT message FROM effects") == kept
            assert b.process.core.outboxes[0].sent == 602
            assert len(await take(a, 602)) == 602
            await until(lambda: not b.process.core.inbox)

    run(go())


def test_a_send_that_the_protocol_refuses_is_refused_where_it_is_made(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder, "ab", protocol="synchronous")
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"go")
            (message,) = await take(b, 1, done=False)
            async with message.transaction() as tx:
                with pytest.raises(MisuseError, match="unicast only"):
                    tx.send({"a", "b"}, b"x")
                tx.send({"a"}, b"y")
            assert [m.payload for m in await take(a, 1)] == [b"y"]

    run(go())


def test_what_arrives_while_a_large_transaction_is_applied_keeps_its_order(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"go")
            (message,) = await take(b, 1, done=False)
            more = asyncio.create_task(a.send({"b"}, b"0"))
            async with message.transaction() as tx:
                for number in range(3000):
                    tx.send({"a"}, b"%d" % number)
            await more
            for number in range(1, 50):
                await a.send({"b"}, b"%d" % number)
            assert [int(m.payload) for m in await take(b, 50)] == list(range(50))
            assert [int(m.payload) for m in await take(a, 3000)] == list(range(3000))

    run(go())


def test_what_would_wait_for_its_own_transaction_is_refused_at_once(folder: Path) -> None:
    """Another task waits, as ever, until the transaction is over."""

    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"go")
            (message,) = await take(b, 1, done=False)
            async with asyncio.timeout(PATIENCE), message.transaction() as tx:
                other = asyncio.create_task(b.send({"a"}, b"other"))
                with pytest.raises(MisuseError, match=r"use tx\.send inside it, or send after the block"):
                    await b.send({"a"}, b"never")
                with pytest.raises(MisuseError, match="done inside a transaction of the same task"):
                    await message.done()
                with pytest.raises(MisuseError, match="nack inside a transaction"):
                    await message.nack()
                with pytest.raises(MisuseError, match="another transaction inside a transaction"):
                    async with message.transaction():
                        pass
                tx.send({"a"}, b"mine")
                await asyncio.sleep(0.05)
                assert not other.done()
            await other
            await b.send({"a"}, b"after")
            assert [m.payload for m in await take(a, 3)] == [b"mine", b"other", b"after"]

    run(go())


def test_a_message_whose_transaction_is_rolled_back_comes_again_before_what_depends_on_it(folder: Path) -> None:
    """A loop that logs the error and goes on; one that tries again in place; one that gives up."""

    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            for text in (b"order", b"payment", b"again", b"skipped", b"last"):
                await a.send({"b"}, text)
            seen: list[tuple[bytes, int]] = []
            async with asyncio.timeout(PATIENCE):
                async for message in b.deliveries():
                    seen.append((message.payload, message.attempt))
                    for trial in range(2 if message.payload == b"again" else 1):
                        try:
                            async with message.transaction():
                                if message.payload == b"order" and message.attempt < 3:
                                    raise ValueError("busy")
                                if message.payload == b"skipped" or (message.payload == b"again" and trial == 0):
                                    raise ValueError("busy")
                        except ValueError:
                            if message.payload == b"skipped":
                                message.finish()
                    if message.payload == b"last":
                        break
            expected = [(b"order", 1), (b"order", 2), (b"order", 3), (b"payment", 1)]
            assert seen == [*expected, (b"again", 1), (b"skipped", 1), (b"last", 1)]
            await until(lambda: not b.process.core.inbox)
            assert not b.process.attempts

    run(go())
