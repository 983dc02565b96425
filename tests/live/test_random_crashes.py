"""Core, links and journal under random steps: crashes at every boundary of a commit, cuts, one-way stillness."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.live import SHARED, World, wander
from support.live_pair import folder

from thence.core.protocols.ack_member import AckMember
from thence.errors import MisuseError, PeerError
from thence.live import core
from thence.live import process as process_module
from thence.live.inputs import PAYLOAD, RECEIVE, WANT, Receive, Send, Trusted, read_input

assert folder is not None


def fresh(folder: Path, seed: int) -> Path:
    made = folder / str(seed)
    made.mkdir()
    return made


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), count=st.integers(2, 4), steps=st.integers(10, 250))
def test_nothing_is_lost_doubled_or_early(seed: int, count: int, steps: int) -> None:
    with TemporaryDirectory(dir=SHARED) as folder:
        world = World(Path(folder), count, seed)
        wander(world, steps)
        world.heal()
        world.check()
        world.close()


@pytest.mark.parametrize("protocol", ["ks-hardware", "ci-dc", "rst", "ses", "prs", "history", "gossip", "fifo"])
def test_other_protocols(protocol: str, folder: Path) -> None:
    for seed in range(3):
        world = World(fresh(folder, seed), 3, seed, protocol=protocol)
        wander(world, 150)
        world.heal()
        world.check()
        world.close()


@pytest.mark.parametrize("protocol", ["ks-ft", "a-causal", "a-fifo"])
def test_protocols_with_groups(protocol: str, folder: Path) -> None:
    for seed in range(4):
        world = World(fresh(folder, seed), 3, seed, protocol=protocol, options={"groups": "ab|c"})
        wander(world, 150, sends=15, labels=(None,) if seed % 2 else (None, "red", "blue"))
        world.heal()
        world.check()
        assert world.events(".hops")
        world.close()


def test_large_payloads_travel_once_and_by_reference_after_that(folder: Path) -> None:
    kinds: Counter[int] = Counter()
    carried = 0
    for seed in range(6):
        world = World(fresh(folder, seed), 4, seed, protocol="ks-ft", options={"groups": "abc|d"}, snapshot_every=10**6)
        payload = b"p" * 5000
        for position in range(4):
            world.send(position, 0b1111, payload)
            world.work(position)
        wander(world, 60, sends=0, stills=False)
        world.heal()
        world.check()
        for process in world.processes:
            assert process.live is not None
            for (data,) in process.live.journal.database.execute(
                "SELECT data FROM thence_inputs WHERE kind = ?", (RECEIVE,)
            ):
                given = read_input(RECEIVE, data)  # type: ignore[arg-type]
                assert isinstance(given, Receive)
                kinds[given.item[0]] += 1
                carried += payload in given.item
        world.close()
    assert kinds[WANT] > 0
    assert kinds[PAYLOAD] > 0
    assert carried <= 6 * 4 * 4 + kinds[PAYLOAD]


def test_labels_are_orders_of_their_own(folder: Path) -> None:
    for seed in range(4):
        world = World(fresh(folder, seed), 3, seed)
        wander(world, 150, labels=(None, "red", "blue"))
        world.heal()
        assert {event.label for event in world.check() if event.kind == "deliver"} >= {"red", "blue"}
        world.close()


def test_whom_a_process_trusts_is_in_its_journal(folder: Path) -> None:
    world = World(folder, 3, 1, protocol="ks-ft", options={"groups": "abc"})
    first = world.processes[0].live
    assert first is not None
    world.work(0)
    first.ask(Trusted(("a", "b")))
    world.work(0, "committed")
    world.start(0)
    restarted = world.processes[0].live
    assert restarted is not None
    assert isinstance(restarted.core.member, AckMember)
    assert restarted.core.member.receiver.trust == 0b011
    world.close()


def test_held_messages_are_bounded_and_drain(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """c lacks a1; whatever b says after it is held there, and b runs out of credit long before all has come."""
    for module in (core, process_module):
        monkeypatch.setattr(module, "HELD_LIMIT", 20)
    world = World(folder, 3, 1, window=1024)
    world.connect(0, 1)
    world.connect(1, 2)
    world.send(0, 0b110, b"question")
    settle(world)
    for number in range(300):
        world.send(1, 0b100, b"answer %d" % number)
    settle(world)
    third = world.processes[2].live
    assert third is not None
    assert 20 <= third.core.held <= 20 + 1024 // 20
    assert third.core.member.pending()[0].waits_for[0].sender == "a"
    world.heal()
    assert sum(event.kind == "deliver" for event in world.check()) == 302
    world.close()


def settle(world: World) -> None:
    """Let everything happen that can, over the connections there are."""
    for _ in range(10_000):
        moved = world.network.step()
        for position, process in enumerate(world.processes):
            while process.waiting:
                world.done(position)
            assert process.live is not None
            if not process.live.idle:
                moved = True
                world.work(position)
        if not moved:
            return
    raise AssertionError("the world does not come to rest")


def test_what_is_not_done_holds_the_others_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "INBOX_LIMIT", 20)
    world = World(folder, 2, 1, window=1024)
    world.connect(0, 1)
    for number in range(300):
        world.send(0, 0b10, b"%d" % number)
    for _ in range(500):
        world.work(0)
        world.work(1)
        world.move()
    second = world.processes[1].live
    assert second is not None
    assert 20 <= len(second.core.inbox) <= 20 + 1024 // 20
    world.heal()
    assert sum(event.kind == "deliver" for event in world.check()) == 300
    world.close()


def test_labels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "LABEL_LIMIT", 2)
    sender, receiver = core.Core.fresh("ks", "ab", "a"), core.Core.fresh("ks", "ab", "b")
    for number, label in enumerate(("red", "blue", "red")):
        sender.apply(Send(2, b"", label), 0.0)
        assert len(sender.labels) == min(number + 1, 2)
    with pytest.raises(MisuseError, match="'green' would be one more than the 2 that are accepted"):
        sender.apply(Send(2, b"", "green"), 0.0)
    monkeypatch.setattr(core, "LABEL_LIMIT", 3)
    sender.apply(Send(2, b"", "green"), 0.0)
    monkeypatch.setattr(core, "LABEL_LIMIT", 2)
    for entry in sender.outboxes[1].front:
        given = Receive(0, entry.number, entry.head)
        if entry.number < 4:
            receiver.apply(given, 0.0)
        else:
            before = receiver.number
            with pytest.raises(PeerError, match="'green'"):
                receiver.apply(given, 0.0)
            assert receiver.number == before
