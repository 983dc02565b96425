"""Snapshots: what one costs follows what has changed, and both that are kept lead to the same state."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from support.live import World, needed, wander
from support.live_pair import folder

from thence.live import snapshots
from thence.live.core import Core
from thence.live.database import StandardDatabase
from thence.live.group import QueuedInput
from thence.live.inputs import Receive, Send, read_input
from thence.live.journal import Journal
from thence.live.process import LiveProcess
from thence.live.recovery import recover
from thence.live.state import dump, read_state
from thence.runtime import JournalError

assert folder is not None


class Counted(StandardDatabase):
    """Counts the rows of the inbox that are written."""

    rows = 0

    def execute_many(self, sql: str, rows: list) -> None:  # type: ignore[override,type-arg]
        self.rows += len(rows) if "thence_inbox" in sql else 0
        super().execute_many(sql, rows)


class Receiver:
    """A process that receives, and whose application is slow."""

    def __init__(self, path: Path, every: int = 100) -> None:
        self.sender, self.number = Core.fresh("ks", "ab", "a", record=False), 0
        self.database = Counted(path, synchronous="normal")
        journal = Journal(self.database)
        self.process = LiveProcess(recover(journal, "ks", "ab", "b", record=False).core, journal, snapshot_every=every)

    def receive(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            entry = self.sender.apply(Send(2, b"x"), 0.0).sent[0][1]
            self.process.queue.append(QueuedInput(Receive(0, self.number, entry.head + b"x")))
        self.work()

    def finish(self, count: int) -> None:
        for number in list(self.process.core.inbox)[:count]:
            self.process.finish(number)
        self.work()

    def work(self) -> None:
        while not self.process.idle:
            self.process.prepare(1.0)
            self.process.commit()
            self.process.release()


def test_a_snapshot_costs_what_has_changed_not_what_waits(folder: Path) -> None:
    sizes, rows = [], []
    for waiting in (200, 2000):
        made = Receiver(folder / f"{waiting}.journal")
        made.receive(waiting)
        before = made.database.rows
        for _ in range(10):
            made.receive(100)
            made.finish(100)
        rows.append(made.database.rows - before)
        sizes.append(len(made.process.journal.snapshots()[0].data))
        assert len(made.process.core.inbox) == waiting
        made.database.close()
    assert abs(sizes[0] - sizes[1]) < 50
    assert rows[0] == rows[1] <= 10 * 220


def test_what_is_done_before_the_next_snapshot_is_never_written(folder: Path) -> None:
    made = Receiver(folder / "b.journal")
    for _ in range(200):
        made.receive(10)
        made.finish(10)
    assert made.database.rows <= 22 * 20  # 22 snapshots, and no more than ten waited at each
    made.database.close()


def test_both_snapshots_lead_to_the_same_state(folder: Path) -> None:
    """In random worlds, with deliveries that stay; and what is pruned is what nothing needs."""
    for seed in range(12):
        print(f"seed {seed}")
        target = folder / str(seed)
        target.mkdir()
        options: dict[str, int | str | bool] = {"groups": "ab|c"} if seed % 3 == 2 else {}
        world = World(target, 3, seed, protocol="ks-ft" if options else "ks", options=options)
        slow(world, Random(seed))
        for first in range(3):
            for second in range(first):
                world.connect(first, second)
        wander(world, 400, sends=60)
        for process in world.processes:
            if process.live is not None:
                _check(process.live)
        world.close()


def slow(world: World, chance: Random) -> None:
    """Let the application be done with less than it is handed."""

    def done(position: int) -> None:
        if chance.random() > 0.7:
            World.done(world, position)

    world.done = done  # type: ignore[method-assign]


def _check(process: LiveProcess) -> None:
    core, journal = process.core, process.journal
    refs = [ref.number for ref in core.payloads.values()] + [delivery.ref for delivery in core.inbox.values()]
    assert core.kept == Counter(refs)
    stored = {row[0] for row in journal.database.execute("SELECT number FROM thence_inputs")}
    assert needed(core) - {0} <= stored
    for taken in journal.snapshots():
        other = read_state(taken.data, inbox=journal.inbox)
        for row in journal.inputs(taken.number):
            step = other.apply(read_input(row.kind, row.data), row.time)
            assert other.seal(step).digest == row.digest
        for mine, theirs in zip(core.outboxes, other.outboxes, strict=True):
            theirs.acknowledge(mine.acked)
            mine.front, theirs.front = type(mine.front)(), type(mine.front)()  # what is refilled differs
        for each in (core, other):
            each.forget()  # what nothing can ask for any more
        assert dump(other) == dump(core)


def test_inputs_that_became_free_are_swept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "SWEEP", 50)
    made = Receiver(folder / "b.journal", every=20)
    made.receive(400)
    made.finish(399)
    for _ in range(30):
        made.receive(20)
        made.finish(20)
    (stored,) = made.database.execute("SELECT count(*) FROM thence_inputs")[0]
    assert isinstance(stored, int)
    assert stored < 100
    made.database.close()


def test_a_damaged_inbox_is_refused(folder: Path) -> None:
    made = Receiver(folder / "b.journal")
    made.receive(250)
    made.database.execute("UPDATE thence_inbox SET count = count + 1 WHERE number = 7")
    made.database.close()
    with pytest.raises(JournalError, match="delivery 7 is damaged"):
        Receiver(folder / "b.journal")
