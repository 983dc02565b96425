"""Handlers in parallel: no handler begins before the causes of its message are done."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random

import pytest
from support.live_pair import PATIENCE, configure, folder, run, take, until

from thence.errors import MisuseError
from thence.runtime import Endpoint, FailedError, Message

assert folder is not None
SEED = 3


def test_effects_wait_until_their_causes_are_done(folder: Path) -> None:
    """Every payload names its causal past, as the applications know it: that is the judge."""
    print(f"seed {SEED}")
    chance = Random(SEED)
    done: list[str] = []
    pasts: dict[str, set[str]] = {}
    together, running = 0, 0

    async def handle(message: Message) -> None:
        nonlocal together, running
        past = pasts[message.id] = set(json.loads(message.payload))
        missing = past & {each for each in pasts if each not in done} - {message.id}
        assert not missing, f"{message.id} begins before {missing} are done"
        running += 1
        together = max(together, running)
        await asyncio.sleep(chance.random() * 0.01)
        running -= 1
        if chance.random() < 0.2:
            raise ValueError("not yet")
        done.append(message.id)

    async def go() -> None:
        files = configure(folder, "abcd")
        async with Endpoint(files[0]) as a, Endpoint(files[1]) as b, Endpoint(files[2]) as c, Endpoint(files[3]) as d:
            working = asyncio.create_task(d.run(handle, concurrency=4, retry_after=0.01))

            async def talk(me: Endpoint, others: set[str]) -> None:
                known: set[str] = set()

                async def listen() -> None:
                    async for message in me.deliveries():
                        known.update(json.loads(message.payload))
                        known.add(message.id)
                        await message.done()

                listener = asyncio.create_task(listen())
                for _ in range(40):
                    past = sorted(known)
                    number = me.process.core.member.count + 1
                    known.add(f"{me.config.name}{number}")
                    to = {"d", chance.choice(sorted(others))} if chance.random() < 0.3 else {"d"}
                    assert await me.send(to, json.dumps(past).encode()) == f"{me.config.name}{number}"
                listener.cancel()

            await asyncio.gather(talk(a, {"b", "c"}), talk(b, {"a", "c"}), talk(c, {"a", "b"}))
            await until(lambda: len(set(done)) == 120)
            await until(lambda: not d.process.core.inbox)
            working.cancel()
            await asyncio.wait({working})

    run(go())
    assert len(done) == 120
    assert together > 1
    print(f"up to {together} at once")


def test_a_handler_may_say_itself_what_becomes_of_a_message(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            seen: list[tuple[bytes, int]] = []

            async def handle(message: Message) -> None:
                seen.append((message.payload, message.attempt))
                if message.payload == b"tx":
                    async with message.transaction() as tx:
                        tx.send({"a"}, b"reply")
                elif message.payload == b"later" and message.attempt < 3:
                    await message.nack(after=0.01)

            working = asyncio.create_task(b.run(handle))
            for text in (b"tx", b"later", b"last"):
                await a.send({"b"}, text)
            await until(lambda: (b"last", 1) in seen and not b.process.core.inbox)
            assert seen == [(b"tx", 1), (b"later", 1), (b"later", 2), (b"later", 3), (b"last", 1)]
            assert [m.payload for m in await take(a, 1)] == [b"reply"]
            working.cancel()

    run(go())


def test_what_is_in_hand_goes_to_the_next_reader(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            for number in range(10):
                await a.send({"b"}, b"%d" % number)
            begun = asyncio.Event()

            async def handle(message: Message) -> None:
                begun.set()
                await asyncio.sleep(PATIENCE)

            working = asyncio.create_task(b.run(handle, concurrency=2))
            await begun.wait()
            working.cancel()
            await asyncio.wait({working})
            found = await take(b, 10)
            assert [(int(m.payload), m.attempt) for m in found] == [(number, 1) for number in range(10)]

    run(go())


def test_a_run_ends_with_its_endpoint(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)

        async def handle(message: Message) -> None:
            await message.done()

        async with Endpoint(second) as b:
            with pytest.raises(MisuseError, match="concurrency is 0; at least 1"):
                await b.run(handle, concurrency=0)
            working = asyncio.create_task(b.run(handle))
            await asyncio.sleep(0)
        await working
        async with Endpoint(first) as a:
            working = asyncio.create_task(a.run(handle))
            await asyncio.sleep(0)
            a.process.broken(RuntimeError("boom"))
            with pytest.raises(FailedError, match="boom"):
                await working

    run(go())


def test_a_cancellation_that_a_handler_lets_out_is_an_error_like_others(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        attempts: list[int] = []

        async def handle(message: Message) -> None:
            attempts.append(message.attempt)
            if message.attempt == 1:
                other = asyncio.create_task(asyncio.sleep(PATIENCE))
                asyncio.get_running_loop().call_soon(other.cancel)
                await other

        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"1")
            working = asyncio.create_task(b.run(handle, retry_after=0.01))
            await until(lambda: working.done() or (len(attempts) == 2 and not b.process.core.inbox))
            assert not working.done()
            working.cancel()
            await asyncio.wait({working})
            assert working.cancelled()
            assert attempts == [1, 2]

    run(go())
