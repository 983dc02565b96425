"""Payloads of held messages stay in memory, up to a bound; long ones travel in pieces."""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live import World
from support.live_pair import configure, folder, run, take, until

from thence.errors import MisuseError
from thence.live import payloads
from thence.live.core import Core
from thence.live.frames import DATA, Framer, frame
from thence.live.group import InputResult
from thence.live.inbox import Inbox
from thence.live.journal import InputRow, Journal
from thence.live.payloads import Payloads
from thence.live.tcp import BLOCK_BYTES, TcpChannel
from thence.runtime import Endpoint

assert folder is not None


def test_the_oldest_leaves_when_there_are_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "MEMORY_BYTES", 10)
    made = Payloads()
    for number in range(1, 5):
        made.put(number, b"1234")
    made.put(5, b"x" * 11)
    assert [made.get(number) for number in range(1, 6)] == [None, None, b"1234", b"1234", None]
    assert made.pop(3) == b"1234"
    made.put(6, b"123456")
    assert [made.get(number) for number in (3, 4, 6)] == [None, b"1234", b"123456"]


@pytest.mark.parametrize("bound", [1 << 24, 0], ids=["memory", "journal"])
def test_held_messages_come_with_their_payloads(folder: Path, monkeypatch: pytest.MonkeyPatch, bound: int) -> None:
    """b answers a question that c does not have yet; the answers are held, and need not be read back."""
    monkeypatch.setattr(payloads, "MEMORY_BYTES", bound)
    world = World(folder, 3, 1, snapshot_every=10**6)
    processes = [each.live for each in world.processes]
    a, b, c = (process for process in processes if process is not None)
    inbox, reads = Inbox(c.journal), 0
    real = Journal.payload

    def payload(self: Journal, ref: int) -> bytes:
        nonlocal reads
        reads += self is c.journal
        return real(self, ref)

    def work() -> None:
        for _ in range(200):
            world.network.step()
            for process in (a, b, c):
                if not process.idle:
                    process.prepare(1.0)
                    process.commit()
                    released = process.release()
                    for delivery in released.delivered if process is c else ():
                        inbox.put(delivery, released.bodies.get(delivery.ref))

    world.connect(0, 1)
    world.connect(1, 2)
    world.send(0, 0b110, b"question")
    work()
    for number in range(20):
        world.send(1, 0b100, b"answer %d" % number)
    work()
    assert c.core.held == 20
    monkeypatch.setattr(Journal, "payload", payload)
    world.connect(0, 2)
    work()
    assert [inbox.take().payload for _ in range(21)] == [b"question", *(b"answer %d" % n for n in range(20))]
    assert reads == (0 if bound else 20)  # the question is delivered at once
    world.close()


def test_a_large_frame_costs_what_it_is_long() -> None:
    """A frame of 32 MB that comes in pieces of 4 KiB; copied with every piece that would be 130 GB."""
    framer, body = Framer(1 << 26), bytes(1 << 25)
    data = frame(DATA, body) + frame(DATA, b"next")
    begun, found = time.process_time(), []
    for at in range(0, len(data), 4096):
        found += framer.feed(data[at : at + 4096])
    assert found == [(DATA, body), (DATA, b"next")]
    assert time.process_time() - begun < 5.0


class SlowNetwork:
    """A transport that takes some writes and then asks for a pause."""

    def __init__(self, channel: TcpChannel, room: int) -> None:
        self.channel, self.room, self.written, self.paused = channel, room, [b""], False

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | memoryview) -> None:
        self.written.append(bytes(data))
        if len(self.written) % self.room == 0:
            self.channel.pause_writing()
            self.paused = True

    def drain(self) -> None:
        if self.paused:
            self.paused = False
            self.channel.resume_writing()


@pytest.mark.parametrize("room", [1, 2, 3, 100])
def test_a_long_frame_is_written_in_pieces_and_in_order(room: int) -> None:
    """Whatever is written after it, before it has left, comes after it."""

    async def go() -> None:
        channel = TcpChannel(None, 0)  # type: ignore[arg-type]
        network = SlowNetwork(channel, room)
        channel.transport = network  # type: ignore[assignment]
        long = random.Random(5).randbytes(5 * BLOCK_BYTES + 7)
        channel.write(b"first")
        channel.write(long)
        channel.write(b"second")
        channel.write(long[:BLOCK_BYTES])
        channel.write(b"third")
        wanted = b"first" + long + b"second" + long[:BLOCK_BYTES] + b"third"
        turns = 0
        while sum(map(len, network.written)) < len(wanted):
            turns += 1
            assert turns < 1000
            await asyncio.sleep(0)
            network.drain()
        assert b"".join(network.written) == wanted
        assert max(map(len, network.written)) <= BLOCK_BYTES
        assert turns >= 5  # other tasks had their turn in between

    run(go())


@pytest.mark.parametrize("synchronous", ["full", "normal"])
def test_a_large_payload_is_committed_beside_the_loop(
    folder: Path, monkeypatch: pytest.MonkeyPatch, synchronous: str
) -> None:
    """12 MB between small messages arrive whole and in order; the loop's thread seals none of the large rows."""
    sealed: list[tuple[int, bool]] = []
    real = Core.seal

    def seal(self: Core, step: InputResult) -> InputRow:
        row = real(self, step)
        sealed.append((len(row.data), threading.current_thread() is threading.main_thread()))
        return row

    monkeypatch.setattr(Core, "seal", seal)
    files = configure(folder, limits={"payload_bytes": 1 << 24})
    for file in files:
        file.write_text(re.sub('synchronous = ".*"', f'synchronous = "{synchronous}"', file.read_text()))
    large = random.Random(6).randbytes(12 << 20)

    async def go() -> None:
        async with Endpoint(files[0]) as a, Endpoint(files[1]) as b:
            await a.send({"b"}, b"before")
            await a.send({"b"}, large)
            await a.send({"b"}, b"after")
            assert [message.payload for message in await take(b, 3)] == [b"before", large, b"after"]

    run(go())
    assert [on_loop for size, on_loop in sealed if size > 1 << 20] == [False, False]


def test_a_large_payload_survives_a_kill_of_either_side(folder: Path) -> None:
    """A connection that is cut in the middle of a long frame; the item comes again, whole, and once."""
    files = configure(folder, limits={"payload_bytes": 1 << 24})
    large = random.Random(7).randbytes(10 << 20)

    async def go() -> None:
        async with Endpoint(files[0]) as a, Endpoint(files[1]) as b:
            await until(lambda: a.process.links[1].open and b.process.links[0].open)
            heard = 0
            real = Framer.feed

            def feed(self: Framer, data: bytes) -> Iterator[tuple[int, bytes | memoryview]]:
                nonlocal heard
                heard += len(data)
                if heard > 3 << 20 and cuts:
                    cuts.pop()
                    heard = 0
                    for channel in list(b.transport.channels):  # type: ignore[attr-defined]
                        channel.abort()
                return real(self, data)

            cuts = [1, 2, 3]
            Framer.feed = feed  # type: ignore[method-assign]
            try:
                await a.send({"b"}, large)
                await a.send({"b"}, b"after")
                assert [message.payload for message in await take(b, 2)] == [large, b"after"]
            finally:
                Framer.feed = real  # type: ignore[method-assign]
            assert not cuts

    run(go())


def test_a_receiver_that_takes_smaller_payloads_is_known_when_it_has_connected(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Before that the payload is sent, and refused with both limits; a larger limit at the receiver lets it through."""
    first, second = configure(folder)
    text = second.read_text()
    second.write_text(text + "payload_bytes = 1000\n")

    async def go() -> None:
        async with Endpoint(first) as a:
            await a.send({"b"}, b"x" * 100_000)
            async with Endpoint(second) as b:
                told = "limits.payload_bytes is 1000 at b and 1048576 at a; set the same in all processes"
                await until(lambda: told in (b.process.links[0].refusal or ""))
                await until(lambda: told in (a.process.links[1].refusal or ""))
                with pytest.raises(MisuseError, match=r"1001 bytes; limits\.payload_bytes of b is 1000"):
                    await a.send({"b"}, b"x" * 1001)
                await a.send({"b"}, b"x" * 1000)
            second.write_text(text)
            async with Endpoint(second) as b:
                assert [len(m.payload) for m in await take(b, 2)] == [100_000, 1000]

    run(go())
    assert "refuses a: larger payloads: limits.payload_bytes is 1000 there and 1048576 at a" in caplog.text
