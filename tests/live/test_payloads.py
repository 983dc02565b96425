"""Payloads of held messages stay in memory, up to a bound."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from support.live import World
from support.live_pair import folder

from thence.live import payloads
from thence.live.frames import DATA, Framer, frame
from thence.live.inbox import Inbox
from thence.live.journal import Journal
from thence.live.payloads import Payloads

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
