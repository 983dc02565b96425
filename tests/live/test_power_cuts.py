"""Power cuts, failing disks and flipped bits under the journal: nothing is lost, or it is found out."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import apsw
import pytest
from live.logged_disk import ApswDatabase, Log, LoggedDisk, image
from support.live_pair import folder

from thence.errors import ThenceError
from thence.live.core import Core
from thence.live.database import Database, JournalError, StandardDatabase, SyncMode
from thence.live.frames import Hello
from thence.live.inputs import Send
from thence.live.journal import Journal, JournalPosition
from thence.live.link import Link, LinkRefused
from thence.live.process import LiveProcess
from thence.live.recovery import recover

assert folder is not None


def open_station(database: Database, mark: JournalPosition | None = None) -> LiveProcess:
    journal = Journal(database, mark)
    found = recover(journal, "ks", ["a", "b"], "a", record=False)
    return LiveProcess(found.core, journal, snapshot_every=15)


def work(process: LiveProcess, log: Log | None, groups: int, chance: Random) -> list[tuple[int, int, int]]:
    """Send in groups; return for each commit (steps of the disk by then, inputs, items that may have left)."""
    promised = [(len(log.steps) if log else 0, 0, 0)]
    for _ in range(groups):
        for _ in range(chance.randrange(1, 5)):
            process.ask(Send(2, chance.randbytes(chance.randrange(600))))
        process.prepare(1.0)
        process.commit()
        process.release()
        promised.append((len(log.steps) if log else 0, process.core.number, process.core.outboxes[1].sent))
    return promised


def cut_power(folder: Path, synchronous: SyncMode, images: int, seed: int) -> dict[str, int]:
    """Cut the power at many moments of one run, and look at what is left."""
    print(f"seed {seed}, {synchronous}")
    chance, log, name = Random(seed), Log(), f"logged-{folder.name}-{synchronous}-{seed}"
    disk = LoggedDisk(name, log)
    run = folder / f"run-{synchronous}"
    run.mkdir()
    database = ApswDatabase(run / "a.journal", synchronous=synchronous, vfs=name)
    process = open_station(database)
    created = len(log.steps)
    promised = work(process, log, 40, chance)
    database.close()
    disk.unregister()
    totals = {"images": 0, "whole": 0, "forgot": 0}
    for number in range(images):
        steps = chance.randrange(created, len(log.steps) + 1)
        inputs, left = max(((i, o) for at, i, o in promised if at <= steps), default=(0, 0))
        target = folder / f"image-{synchronous}-{number}"
        target.mkdir()
        image(log, steps, chance, target)
        totals["images"] += 1
        try:
            core = open_station(StandardDatabase(target / "a.journal")).core
        except JournalError:
            assert synchronous == "normal", f"a power cut after {steps} steps left a journal that is refused"
            totals["forgot"] += 1
        else:
            forgot = core.number < inputs
            assert not (forgot and synchronous == "full"), f"{core.number} of {inputs} inputs after {steps} steps"
            if forgot and core.outboxes[1].sent < left:
                assert found_out(core, left)
            totals["forgot" if forgot else "whole"] += 1
        shutil.rmtree(target)
    return totals


def found_out(core: Core, left: int) -> bool:
    """Return whether a peer that has received items which the journal forgot refuses it by name."""
    link = Link("b", core.outboxes[1], core.received[1], None)
    mine = link.greet("a", "0" * 32, ["a", "b"], "ks", "")
    try:
        link.meet(mine, Hello("b", "1" * 32, ["a", "b"], "ks", "", 0, left, 1 << 20))
    except LinkRefused as refused:
        return refused.forgetful == "a"
    return False


def test_full_survives_every_power_cut(folder: Path) -> None:
    totals = cut_power(folder, "full", 120, 1)
    print(totals)
    assert totals["whole"] == totals["images"]


def test_normal_may_forget_and_is_found_out(folder: Path) -> None:
    totals = cut_power(folder, "normal", 120, 1)
    print(totals)
    assert totals["forgot"] > 0


@pytest.mark.parametrize("failure", [apsw.IOError, apsw.FullError], ids=["EIO", "full"])
def test_a_disk_that_fails_stops_the_journal_and_loses_nothing(folder: Path, failure: type[Exception]) -> None:
    for after in range(0, 60, 4):
        log = Log(failure=failure)
        name = f"failing-{folder.name}-{after}"
        disk = LoggedDisk(name, log)
        path = folder / f"{failure.__name__}{after}.journal"
        database = ApswDatabase(path, vfs=name)
        process = open_station(database)
        log.fail_after = after
        done = 0
        try:
            for group in range(50):
                process.ask(Send(2, b"x" * 300))
                process.prepare(1.0)
                process.commit()
                process.release()
                done = group + 1
        except JournalError:
            with pytest.raises(JournalError):
                process.prepare(1.0)
        log.fail_after = None
        try:
            database.close()
        finally:
            disk.unregister()
        assert open_station(StandardDatabase(path)).core.number >= done


def test_flipped_bits_are_refused_or_harmless(folder: Path) -> None:
    seed, chance = 1, Random(1)
    print(f"seed {seed}")
    path = folder / "a.journal"
    database = StandardDatabase(path)
    process = open_station(database, JournalPosition(folder / "a.journal.mark"))
    work(process, None, 40, chance)
    kept = {name: (folder / name).read_bytes() for name in ("a.journal", "a.journal-wal", "a.journal.mark")}
    sound = folder / "sound"
    sound.mkdir()
    for each, content in kept.items():
        (sound / each).write_bytes(content)
    wanted = state_of(open_station(StandardDatabase(sound / "a.journal"), JournalPosition(sound / "a.journal.mark")))
    refused = 0
    for number in range(250):
        target = folder / f"flip{number}"
        target.mkdir()
        name = chance.choice(("a.journal", "a.journal-wal"))
        for each, content in kept.items():
            data = bytearray(content)
            if each == name and data:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            (target / each).write_bytes(data)
        try:
            mark = JournalPosition(target / "a.journal.mark")
            opened = open_station(StandardDatabase(target / "a.journal"), mark)
            assert state_of(opened) == wanted, f"flip {number} in {name} went unnoticed"
            opened.journal.close()
        except ThenceError:
            refused += 1
    database.close()
    print(f"{refused} of 250 refused")
    assert refused > 20


def state_of(process: LiveProcess) -> tuple[object, ...]:
    core, journal = process.core, process.journal
    entries = list(core.outboxes[1].front)
    return (core.number, core.digest, core.outboxes[1].sent, [journal.payload(e.ref) for e in entries])


def test_both_sqlites_write_the_same_rows(folder: Path) -> None:
    rows = []
    for kind in (StandardDatabase, ApswDatabase):
        database = kind(folder / kind.__name__)
        work(open_station(database), None, 30, Random(3))
        rows.append(database.execute("SELECT number, kind, version, data, digest FROM thence_inputs"))
        rows.append(database.execute("SELECT number, position FROM thence_snapshots"))
        database.close()
    assert rows[:2] == rows[2:]
