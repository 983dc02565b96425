"""Mutants: each breaks one promise, and the world's checks must find every one of them within a few seeds."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.live import SHARED, World, wander

from thence.errors import ThenceError
from thence.live.core import Core
from thence.live.frames import ack_frame
from thence.live.group import Released
from thence.live.process import LiveProcess
from thence.live.session import Session

SEEDS = range(40)


class AcknowledgesBeforeCommit(LiveProcess):
    def item(self, session: Session, number: int, item: bytes) -> None:
        super().item(session, number, item)
        assert session.peer is not None
        session.channel.write(ack_frame(number, self.links[session.peer].grant()))


class SkipsTheDuplicateCheck(LiveProcess):
    def __init__(self, core: Core, *args: object, **options: object) -> None:
        super().__init__(core, *args, **options)  # type: ignore[arg-type]
        for link in self.links:
            link.accept = lambda number, size: True  # type: ignore[method-assign]


class HandsOverBeforeCommit(LiveProcess):
    def prepare(self, now: float) -> None:
        super().prepare(now)
        assert self.group is not None
        world, position = self.world  # type: ignore[attr-defined]
        for delivery in self.group.released.delivered:
            world.hand_over(position, delivery.number, self.core.name(delivery.key), delivery.ref)
        self.early = True

    def release(self) -> Released:
        released = super().release()
        released.delivered = []
        return released


def survives(world: World, steps: int = 250) -> bool:
    """Return whether the world's checks find nothing."""
    try:
        wander(world, steps)
        world.heal()
        world.check()
    except (AssertionError, ThenceError, KeyError):
        return False
    finally:
        world.close()
    return True


def found(seed: int, **options: object) -> bool:
    with TemporaryDirectory(dir=SHARED) as folder:
        world = World(Path(folder), 3, seed, **options)  # type: ignore[arg-type]
        for position, process in enumerate(world.processes):
            process.live.world = (world, position)  # type: ignore[union-attr]
        return not survives(world)


@pytest.mark.parametrize(
    "process", [AcknowledgesBeforeCommit, SkipsTheDuplicateCheck, HandsOverBeforeCommit], ids=lambda s: s.__name__
)
def test_a_broken_station_is_found(process: type[LiveProcess]) -> None:
    start = World.start

    class Marked(World):
        def start(self, position: int) -> None:
            start(self, position)
            self.processes[position].live.world = (self, position)  # type: ignore[union-attr]

    for seed in SEEDS:
        with TemporaryDirectory(dir=SHARED) as folder:
            if not survives(Marked(Path(folder), 3, seed, process=process)):
                return
    raise AssertionError(f"{process.__name__} was not found in {len(SEEDS)} seeds")


def test_a_reused_count_is_found() -> None:
    def forget(core: Core) -> None:
        if core.member.count:
            core.member.count -= 1

    assert any(found(seed, restored=forget) for seed in SEEDS)


def test_delivering_unordered_is_found() -> None:
    class Liar(World):
        def check(self) -> list:  # type: ignore[type-arg]
            self.protocol = "ks"  # judged as what it pretends to be
            return super().check()

    for seed in SEEDS:
        with TemporaryDirectory(dir=SHARED) as folder:
            if not survives(Liar(Path(folder), 3, seed, protocol="unordered")):
                return
    raise AssertionError("unordered was not found")


def test_the_real_one_is_not_found() -> None:
    assert not any(found(seed) for seed in SEEDS)
