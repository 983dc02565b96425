"""Credit: honest peers never refuse each other, and what is on its way and not written down stays bounded."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.live import World, wander
from support.live_pair import configure, folder, run, take, until

from thence.errors import PeerError
from thence.live.frames import Hello
from thence.live.link import Link
from thence.live.outbox import Outbox
from thence.live.process import LiveProcess
from thence.runtime import Endpoint

assert folder is not None


def connections(caplog: pytest.LogCaptureFixture) -> int:
    return sum(getattr(record, "event", "") == "connected" for record in caplog.records)


@pytest.mark.parametrize(("count", "size"), [(40, 900_000), (3000, 1000), (5, 1 << 20)])
@pytest.mark.parametrize("away", [False, True], ids=["connected", "backlog"])
def test_any_load_goes_over_one_connection(
    folder: Path, caplog: pytest.LogCaptureFixture, count: int, size: int, away: bool
) -> None:
    caplog.set_level(logging.INFO, "thence.runtime")

    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a:
            sends = [asyncio.create_task(a.send({"b"}, b"x" * size)) for _ in range(count)]
            if away:
                await asyncio.gather(*sends)
            async with Endpoint(second) as b:
                assert len(await take(b, count)) == count
                await asyncio.gather(*sends)
                await until(lambda: a.process.links[1].outbox.acked == count)

    run(go())
    assert connections(caplog) == 2  # both ends say it once
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), window=st.integers(10, 3000))
def test_what_a_sender_may_do_a_receiver_takes(seed: int, window: int) -> None:
    chance, outbox = Random(seed), Outbox()
    sender, receiver = Link("b", outbox, 0, None), Link("a", Outbox(), 0, None, window=window)
    sizes: dict[int, int] = {}
    largest = 2 * window
    wire: deque[int] = deque()
    unwritten: deque[int] = deque()
    answers: deque[tuple[int, int]] = deque()
    mine, theirs = sender.greet("a", "", [], "", ""), receiver.greet("b", "", [], "", "")
    sender.meet(mine, theirs)
    receiver.meet(theirs, mine)
    taken = 0
    for _ in range(300):
        what = chance.randrange(5)
        if what == 0:
            entry, _ = outbox.add(b"", 0, bytes(chance.choice((0, 1, window // 3, chance.randrange(largest + 1)))))
            sizes[entry.number] = len(entry.body or b"")
            sender.durable = outbox.sent
        elif what == 1:
            for entry in sender.ready():
                if not sender.take(entry, sizes[entry.number]):
                    break
                wire.append(entry.number)
        elif what == 2 and wire:
            number = wire.popleft()
            assert receiver.accept(number, sizes[number])
            taken += 1
            unwritten.append(number)
            assert sum(sizes[each] for each in unwritten) <= max(window, sizes[unwritten[-1]])
        elif what == 3 and unwritten:
            number = unwritten.popleft()
            receiver.wrote(number, sizes[number])
            answers.append((number, receiver.grant()))
        elif what == 4 and answers:
            sender.acknowledged(*answers.popleft())
    assert taken


def test_worlds_with_little_credit_refuse_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[str] = []
    monkeypatch.setattr(LiveProcess, "refuse", lambda self, session, error: refused.append(str(error)))
    for seed in range(40):
        target = folder / str(seed)
        target.mkdir()
        world = World(target, 3, seed, window=1024)
        wander(world, 250, sends=60)
        world.heal()
        world.check()
        world.close()
        assert not refused, f"seed {seed}: {refused[0]}"


def test_an_acknowledgement_that_comes_after_a_reconnection_is_taken() -> None:
    outbox = Outbox()
    sender = Link("b", outbox, 0, None)
    for _ in range(10):
        outbox.add(b"x", 0, b"")
    sender.durable = outbox.sent
    for received in (0, 3):  # the second time b has written three down, and five more are in its queue
        sender.meet(sender.greet("a", "", [], "", ""), Hello("b", "", [], "", "", 0, received, 1 << 20))
        if received == 0:
            assert all(sender.take(entry, 1) for entry in list(sender.ready())[:8])
    sender.acknowledged(8, 1 << 20)
    assert (outbox.acked, [entry.number for entry in sender.ready()]) == (8, [9, 10])
    with pytest.raises(PeerError, match="acknowledges item 9; the last one sent to it is 8"):
        sender.acknowledged(9, 1 << 20)


def test_more_than_the_credit_is_refused() -> None:
    receiver = Link("a", Outbox(), 0, None, window=1000)
    receiver.greet("b", "", [], "", "")
    assert receiver.accept(1, 5000)  # alone
    with pytest.raises(PeerError, match="more than its credit of 1000 bytes"):
        receiver.accept(2, 1)
