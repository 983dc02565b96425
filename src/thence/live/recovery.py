"""Restores a core from its journal.

Invariant: the core is restored from a snapshot, the inputs behind it are replayed, and after each of them the digest
must be the one that stands in the row: the same effects, byte for byte. So rows of another release are replayed too, as
long as this release gives them the same effects. A digest that differs, a journal behind its mark or behind the trace
it wrote: each refuses to start, and says what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from thence.core.model.events import Event
from thence.errors import MisuseError, ThenceError
from thence.live.core import Core
from thence.live.database import JournalError
from thence.live.inputs import INPUT_NAMES, STOP, Crash, Input, Join, read_input
from thence.live.journal import RELEASE, RESTORE, InputRow, Journal, Snapshot
from thence.live.state import hops_of, read_state


@dataclass(slots=True)
class Recovered:
    """A core as it was, and what must be done before it goes on."""

    core: Core
    replayed: int = 0
    events: list[Event] = field(default_factory=list)
    """rows of the trace that the replayed inputs gave"""
    stopped: bool = True
    """whether the journal is new or was left by a clean stop"""


def recover(
    journal: Journal,
    protocol: str,
    processes: Sequence[str],
    me: str,
    *,
    run: str = "run",
    record: bool = True,
    options: dict[str, int | str | bool] | None = None,
    recorded: tuple[int, int] | None = None,
    now: float = 0.0,
) -> Recovered:
    """Return the core that this journal describes; `recorded` are the last rows in the trace: run and hops.

    A process that was ended without a stop begins with an input that says so, and one for each process that was added.
    """
    journal.begin()
    try:
        _same(journal, "process", me)
        _same(journal, "protocol", protocol)
        _same(journal, "options", repr(sorted((options or {}).items())))
        _check_mark(journal)
        core = _start(journal, run, record, recorded)
        if core is None:
            core = Core.fresh(protocol, processes, me, run=run, record=record, options=options)
        found = _replayed(journal, core)
        _check_peers(journal, core)
        beginning: list[Input] = [] if found.stopped else [Crash()]
        for given in [*beginning, *_joins(core, processes)]:
            step = core.apply(given, now)
            journal.append(core.seal(step))
            found.events += step.events
    except ThenceError:
        journal.rollback()
        raise
    journal.commit(core.number)
    for rows, known in zip(recorded or (), (core.rows.index, core.rows.hops), strict=False):
        if rows > known:
            raise JournalError(
                f"the trace has {rows} rows of {me}, the journal knows of {known}: it has lost its memory; {RESTORE}"
            )
    return found


def _joins(core: Core, wanted: Sequence[str]) -> list[Join]:
    """Compare the list of processes with the journal's, and return the processes that can be added."""
    known = core.roster.names
    joined = core.membership.joined()
    if tuple(wanted) == known[: len(wanted)] and all(name in joined for name in known[len(wanted) :]):
        return []  # the rest joined at run time
    if tuple(wanted[: len(known)]) != known:
        raise MisuseError(
            f"processes are {', '.join(wanted)}, but the journal knows {', '.join(known)}: names can be added at the "
            "end of the list, and none can be taken away or moved; give up a process that is gone"
        )
    return [Join(name) for name in wanted[len(known) :]]


def _check_mark(journal: Journal) -> None:
    known = journal.mark.read() if journal.mark is not None else 0
    if journal.last() < known:
        raise JournalError(
            f"the journal ends with input {journal.last()}, but input {known} was committed: it has lost its memory; "
            f"{RESTORE}"
        )


def _check_peers(journal: Journal, core: Core) -> None:
    for name, (_, acked) in journal.peers().items():
        outbox = core.outboxes[core.roster.position(name)]
        if acked > outbox.sent:
            raise JournalError(
                f"{name} has acknowledged {acked} items, the journal knows of {outbox.sent}: it has lost its memory; "
                f"{RESTORE}"
            )
        outbox.acknowledge(acked)


def _same(journal: Journal, key: str, value: str) -> None:
    found = journal.settle(key, value)
    if found != value:
        raise MisuseError(f"{key} = {value!r} in the configuration, but the journal was made with {found!r}")


def _start(journal: Journal, run: str, record: bool, recorded: tuple[int, int] | None) -> Core | None:
    """Return the state of the latest snapshot from which the trace can be continued; None to begin with input 1.

    If the file was taken away, the rows before the latest snapshot are gone with it.
    """
    snapshots = journal.snapshots()
    fit = [s for s in snapshots if recorded is None or _within(s, recorded)]
    if not fit:
        if not snapshots or journal.database.execute("SELECT 1 FROM thence_inputs WHERE number = 1"):
            return None
        fit = snapshots
    try:
        return read_state(fit[0].data, run=run, record=record, inbox=journal.inbox)
    except ThenceError as error:
        raise JournalError(f"the snapshot after input {fit[0].number} cannot be used: {error}; {RESTORE}") from error


def _within(snapshot: Snapshot, recorded: tuple[int, int]) -> bool:
    return snapshot.position <= recorded[0] and hops_of(snapshot.data) <= recorded[1]


def _replayed(journal: Journal, core: Core) -> Recovered:
    found = Recovered(core)
    last: InputRow | None = None
    for row in journal.inputs(core.number):
        _replay(journal, core, row, found)
        last = row
    if last is None:
        rows = journal.database.execute("SELECT kind FROM thence_inputs WHERE number = ?", (core.number,))
        found.stopped = core.number == 0 or bool(rows and rows[0][0] == STOP)
    else:
        found.stopped = last.kind == STOP
    return found


def _replay(journal: Journal, core: Core, row: InputRow, found: Recovered) -> None:
    what = f"input {row.number} ({INPUT_NAMES.get(row.kind, row.kind)})"
    try:
        step = core.apply(read_input(row.kind, row.data), row.time)
    except (ThenceError, ValueError, KeyError, IndexError) as error:
        raise JournalError(f"{what} cannot be replayed: {error}; {_advice(row)}") from error
    if core.seal(step).digest != row.digest:
        raise JournalError(f"{what} has other effects when it is replayed than when it was written; {_advice(row)}")
    for peer, entry, spill in step.sent:
        if spill:
            journal.spill(peer, entry)
    found.replayed += 1
    found.events += step.events


def _advice(row: InputRow) -> str:
    """Describe what to do about an input that cannot be replayed."""
    if row.version == RELEASE:
        return RESTORE
    return (
        f"it was written by thence {row.version}, this is {RELEASE}: start it once more with {row.version}, stop it "
        "cleanly, and upgrade then"
    )
