"""Cancelled at every await of the public API, thousands of times: nothing is lost, doubled or wedged.

THENCE_SEED (1) and THENCE_CANCELS (1500 for each journal) say what is drawn.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.live_pair import PATIENCE, configure, folder, run, take, until
from support.recorded import read_events

import thence
from thence.errors import MisuseError
from thence.runtime import DoneError, Endpoint, Message, RolledBackError

assert folder is not None
SEED = int(os.environ.get("THENCE_SEED", "1"))
CANCELS = int(os.environ.get("THENCE_CANCELS", "1500"))


class Canceller:
    """Runs work and cancels it after a few turns of the loop, or a few milliseconds."""

    def __init__(self, chance: Random) -> None:
        self.chance, self.cancelled, self.calm = chance, 0, False

    async def attempt(self, work: Coroutine[Any, Any, Any]) -> bool:
        """Return whether the work came to its end."""
        if self.calm:
            await work
            return True
        task = asyncio.ensure_future(work)
        if self.chance.random() < 0.5:
            for _ in range(self.chance.randrange(12)):
                await asyncio.sleep(0)
        else:
            await asyncio.wait({task}, timeout=self.chance.random() * 0.004)
        for _ in range(self.chance.choice((1, 1, 2))):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait({task})
        if task.cancelled():
            self.cancelled += 1
            return False
        task.result()
        return True


async def effect(message: Message, reply: bool) -> None:
    async with message.transaction() as tx:
        tx.execute("INSERT INTO effects VALUES (?)", (message.id,))
        await asyncio.sleep(0)
        if reply:
            tx.send({message.sender}, b"reply to " + message.id.encode())


async def deal(canceller: Canceller, message: Message) -> None:
    """Have the effect of a message once, whatever is cancelled."""
    reply = message.payload.startswith(b"ask")
    while True:
        try:
            if await canceller.attempt(effect(message, reply)):
                return
        except DoneError:
            return
        except RolledBackError:
            continue


async def read(me: Endpoint, canceller: Canceller, seen: list[str], enough: asyncio.Event) -> None:
    """Read with a reader that is cancelled and begun anew all the time."""
    found: list[Message] = []

    async def next_one() -> None:
        async for message in me.deliveries():
            found.append(message)
            await asyncio.sleep(0)  # cancelled here, the message is in hand
            return

    while not enough.is_set():
        await canceller.attempt(next_one())
        while found:
            message = found.pop(0)
            seen.append(message.id)
            await deal(canceller, message)
            if canceller.chance.random() < 0.2:
                await canceller.attempt(message.done())  # once more does no harm


async def write(me: Endpoint, other: str, canceller: Canceller, answered: list[str]) -> None:
    async def send(payload: bytes) -> None:
        name = await me.send({other}, payload)
        assert name is not None
        answered.append(name)

    while canceller.cancelled < CANCELS:
        await canceller.attempt(send(canceller.chance.choice((b"ask", b"tell"))))
        if canceller.chance.random() < 0.02:
            await canceller.attempt(me.backup(me.config.journal.with_suffix(".copy")))


@pytest.mark.parametrize("synchronous", ["full", "normal"])
def test_random_cancellations_lose_double_and_wedge_nothing(folder: Path, synchronous: str) -> None:
    print(f"seed {SEED}")
    canceller = Canceller(Random(f"{SEED} {synchronous}"))
    seen: dict[str, list[str]] = {"a": [], "b": []}
    answered: dict[str, list[str]] = {"a": [], "b": []}

    async def go() -> None:
        files = configure(folder)
        for file in files:
            file.write_text(file.read_text().replace('"full"', f'"{synchronous}"'))
        async with Endpoint(files[0]) as a, Endpoint(files[1]) as b:
            for me in (a, b):
                async with me.writer.turn:
                    me.database.execute("CREATE TABLE effects (message TEXT)")
            enough = asyncio.Event()
            readers = [asyncio.create_task(read(me, canceller, seen[me.config.name], enough)) for me in (a, b)]
            pairs = [(a, "b"), (b, "a"), (a, "b")]
            writers = [write(me, to, canceller, answered[me.config.name]) for me, to in pairs]
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*writers)
            canceller.calm = True
            await a.send({"b"}, b"tell")
            await b.send({"a"}, b"tell")

            def over() -> bool:
                quiet = all(m.process.idle and not m.process.core.inbox and not m.inbox for m in (a, b))
                return quiet and all(link.outbox.sent == link.outbox.acked for m in (a, b) for link in m.process.links)

            await until(over)
            enough.set()
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
            for me in (a, b):
                assert me.failure is None
                rows = Counter(row[0] for row in me.database.execute("SELECT message FROM effects"))
                assert rows == Counter(set(seen[me.config.name])), "an effect is missing or doubled"

    run(go())
    print(f"{canceller.cancelled} cancelled, {sum(map(len, answered.values()))} sends answered")
    found = thence.audit([folder / "a.jsonl", folder / "b.jsonl"])
    assert found.verdict == "causal"
    assert not [*found.undelivered, *found.duplicates, *found.quarantine]
    for name, other in (("a", "b"), ("b", "a")):
        events = read_events(folder / f"{name}.jsonl", [])
        assert [event.index for event in events] == list(range(1, len(events) + 1)), "rows of the trace are missing"
        sent = {event.message for event in events if event.kind == "send"}
        assert set(answered[name]) <= sent
        assert sent == set(seen[other])
        assert len(seen[other]) == len(set(seen[other]))


@pytest.mark.parametrize("synchronous", ["full", "normal"])
def test_cancelled_starts_and_stops_leave_an_endpoint_that_can_be_started(folder: Path, synchronous: str) -> None:
    print(f"seed {SEED}")
    chance = Random(f"{SEED} {synchronous}")

    async def go() -> None:
        files = configure(folder, limits={"stop_seconds": 60.0})
        for file in files:
            file.write_text(file.read_text().replace('"full"', f'"{synchronous}"'))
        sent = 0
        for _ in range(40):

            async def life() -> None:
                nonlocal sent
                async with Endpoint(files[0]) as a:
                    await a.send({"b"}, b"x")  # b is away: a stop waits for it
                    sent += 1

            task = asyncio.create_task(life())
            await asyncio.wait({task}, timeout=chance.random() * 0.05)
            for _ in range(chance.choice((1, 2, 3))):
                task.cancel()
                await asyncio.sleep(chance.choice((0, 0.002)))
            await asyncio.wait({task})
        async with Endpoint(files[0]) as a, Endpoint(files[1]) as b:
            await a.send({"b"}, b"the last one")
            found = await take(b, a.process.core.member.count)
            assert found[-1].payload == b"the last one"
            assert len(found) > sent

    run(go())
    assert thence.audit([folder / "a.jsonl", folder / "b.jsonl"]).verdict == "causal"


def test_a_cancelled_send_that_was_not_applied_is_withdrawn(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"1")
            (message,) = await take(b, 1, done=False)
            async with message.transaction():
                tasks = [asyncio.create_task(b.send({"a"}, b"never")), asyncio.create_task(message.done())]
                await asyncio.sleep(0.01)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
            assert b.process.core.member.count == 0
            await b.send({"a"}, b"2")
            assert [m.payload for m in await take(a, 1)] == [b"2"]

    run(go())


def test_a_transaction_that_was_committed_is_not_opened_again(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"x")
            (message,) = await take(b, 1, done=False)
            async with message.transaction():
                pass
            with pytest.raises(DoneError, match="a1 is done already"):
                async with message.transaction():
                    pass

    run(go())


def test_a_reader_that_has_left_gives_way_and_two_at_once_are_refused(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            for _ in range(3):
                await a.send({"b"}, b"x")
            left = b.deliveries()
            await anext(left)
            assert [m.id for m in await take(b, 1)] == ["a2"]
            with pytest.raises(MisuseError, match="another reader now"):
                await anext(left)
            assert [m.id for m in await take(b, 1)] == ["a3"]
            waiting = asyncio.create_task(take(b, 1))
            await until(lambda: b._reading)
            with pytest.raises(MisuseError, match="being read already"):
                await anext(b.deliveries())
            await a.send({"b"}, b"y")
            await waiting

    run(go())
