"""Chunks put together in order: what each left open is decided here, without seeing any row again.

Invariant. What a chunk needs from its past are only the clocks on entering (process x sender) and those of the messages
in flight: `chunk_clocks.py` joins them with its own. Cost: (imports + exports) x senders^2 per chunk. Where those
clocks would take more than `STATE_CELLS`, the run is in trouble and judged whole, in blocks of columns.

A violation whose missing message was sent in an earlier chunk is established here. Which message came early follows
from when the processes of that chunk first heard of each other: it is the first delivery to tell the destination of a
send made after the entrance, or the import, by which its sender knew of the missing message.

A message that was delivered to all its destinations leaves its chunk without trace; if it turns up again, or
where it was not addressed, `finish` wants it, and the chunks are summarised once more with those messages kept.
What is then still unknown was never sent.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from thence.tables.contract.numpy_types import Clocks, Ints, Longs
from thence.tables.judge import findings
from thence.tables.judge.chunk import DONE, OPEN, SETTLED, STATE_CELLS, LabelSummary, Summary
from thence.tables.judge.chunk_clocks import Contacts, Stack, earliest, knew, lift, stacked
from thence.tables.judge.coded_rows import NORMAL
from thence.tables.judge.findings import set_aside, tagged
from thence.tables.judge.packing import unpacked


@dataclass(slots=True)
class _Flying:
    """A message that left its chunk."""

    label: str | None
    clock: Clocks


@dataclass(slots=True)
class _State:
    """What is known on entering the next chunk, in one label: a row for each process, a column for each sender."""

    roster: dict[str, int] = field(default_factory=dict)
    senders: dict[str, int] = field(default_factory=dict)
    known: Clocks = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def codes(self, names: list[str], senders: int) -> tuple[Ints, Ints]:
        """Return the rows of processes and the columns of those that send, which come first; new ones are added."""
        rows = np.array([self.roster.setdefault(n, len(self.roster)) for n in names], np.int32)
        columns = np.array([self.senders.setdefault(n, len(self.senders)) for n in names[:senders]], np.int32)
        return rows, columns

    @property
    def too_wide(self) -> bool:
        """Tell whether there are too many processes and senders for their clocks to be held."""
        return len(self.roster) * len(self.senders) > STATE_CELLS

    def entered(self) -> Clocks:
        """Return what each process knew on entering, with rows and columns for those that are new."""
        more = len(self.roster) - len(self.known), len(self.senders) - self.known.shape[1]
        return np.pad(self.known, ((0, more[0]), (0, more[1]))) if any(more) else self.known


@dataclass(slots=True)
class _Copies:
    """All copies that left their chunk, as arrays that grow; `at` finds one by message and process."""

    message: list[str] = field(default_factory=list)
    label: list[str | None] = field(default_factory=list)
    to: list[str] = field(default_factory=list)
    numbers: Longs = field(default_factory=lambda: np.zeros((0, 4), np.int64))
    """destination, column of the sender, index of the send, state"""
    at: dict[tuple[str, int], int] = field(default_factory=dict)
    early: dict[int, tuple[str, int]] = field(default_factory=dict)
    """For each copy that was overtaken before it came: what was delivered instead, and the index of that delivery."""


class ChunkMerger:
    """Takes the summaries of one run in order."""

    def __init__(self, run: str, *, last_round: bool = False) -> None:
        """`last_round`: what is unknown now was never sent."""
        self.run = run
        self.last_round = last_round
        self.trouble: str | None = None
        self.gaps = 0
        self._last: dict[str, int] = {}
        self._doubts: dict[str, int] = {}
        self._anywhere = False
        self._states: dict[str | None, _State] = {}
        self._flying: dict[str, _Flying] = {}
        self._copies = _Copies()
        self._astray: set[tuple[str, int]] = set()
        self._strange: list[tuple[str, pa.Table]] = []
        self._unsent: set[str] = set()
        self._parts: list[pa.Table] = []

    def add(self, summary: Summary) -> None:
        """Take the next chunk."""
        strangers = unpacked(summary.strangers)
        self._stand(summary)
        for place in summary.receipts.tolist():
            self._strange.append((strangers["message"][place].as_py(), strangers.slice(place, 1)))
        for own in summary.labels:
            self._label(own, strangers)
        self._settle_receipts()

    def _stand(self, summary: Summary) -> None:
        for name, first, last in zip(summary.processes, summary.first.tolist(), summary.last.tolist(), strict=True):
            before = self._last.get(name, 0)
            if first <= before:
                self.trouble = f"index {first} of process {name} comes after {before} in the order"
            if first > before + 1:
                self.gaps += 1
                self._doubt(name, before + 1)
            self._last[name] = last
        for name, index in summary.doubts.items():
            self._doubt(name, index)
        self._anywhere = self._anywhere or summary.anywhere

    def _doubt(self, process: str, index: int) -> None:
        """Take note that a process may have a row there that is not among the usable."""
        self._doubts[process] = min(index, self._doubts.get(process, index))

    def _settle_receipts(self) -> None:
        """Let go of receipts whose message is known to have been sent under their label."""
        self._strange = [
            (name, row)
            for name, row in self._strange
            if name not in self._flying or self._flying[name].label != row["label"][0].as_py()
        ]

    def _label(self, own: LabelSummary, strangers: pa.Table) -> None:
        state = self._states.setdefault(own.label, _State())
        codes, columns = state.codes(own.processes, own.senders)
        if state.too_wide:
            self.trouble = f"{len(state.roster)} processes are too many for chunks"
        if self.trouble:
            return
        width = len(state.senders)
        used, tested = self._imports(own, codes, strangers)
        carried = np.zeros((len(used), width), np.int64)
        for row, i in enumerate(used):
            clock = self._flying[own.imports[i]].clock
            carried[row, : len(clock)] = clock
        at, index = codes[own.at], own.at_index
        row_of = np.array([state.roster[name] for name in state.senders], np.int32)
        stack = stacked(state.entered(), at[used], index[used], carried, row_of)
        late = self._late(own, tested, _spread(own.before, columns, width), at, stack)
        self._leave(own, codes, columns, lift(_spread(own.carried, columns, width), columns[own.sender], stack))
        known = stack.rows[stack.starts[1:] - 1]
        here = lift(_spread(own.known, columns, width), np.arange(len(codes), dtype=np.int32), stack)
        known[codes] = np.maximum(known[codes], here)
        state.known = known
        late += self._overtaken(own.label, state.known, len(own.copy_of))
        if late:
            contacts = _contacts(own, codes, columns, row_of, used, len(state.roster))
            to, source, least = self._copies.numbers[late, :3].T
            early = earliest(to, source, least, stack, contacts)
            texts = findings.names(own.texts, early).to_pylist()
            self._copies.early.update(zip(late, zip(texts, own.text_at[early].tolist(), strict=True), strict=True))

    def _violations(self) -> list[pa.Table]:
        """Return the copies that came late or not at all, and what came early instead."""
        found: dict[str, list[int]] = {findings.VIOLATION: [], findings.ABSENT: [], findings.POSSIBLE: []}
        copies = self._copies
        for copy, (_, index) in copies.early.items():
            hidden = self._anywhere or self._doubts.get(copies.to[copy], index + 1) <= index
            absent = findings.POSSIBLE if hidden else findings.ABSENT
            found[findings.VIOLATION if copies.numbers[copy, 3] == DONE else absent].append(copy)
        return [
            tagged(
                tag, self.run, len(at), message=[copies.message[i] for i in at],
                destination=[copies.to[i] for i in at], early=[copies.early[i][0] for i in at],
            )
            for tag, at in found.items()
        ]  # fmt: skip

    def _imports(self, own: LabelSummary, codes: Ints, strangers: pa.Table) -> tuple[Ints, list[tuple[int, int]]]:
        """Say which imports carry knowledge, and which are first deliveries to be tested (import, copy)."""
        used: list[int] = []
        tested: list[tuple[int, int]] = []
        again: list[int] = []
        astray: list[int] = []
        copies = self._copies
        for i, name in enumerate(own.imports):
            sent = self._flying.get(name)
            if sent is None or sent.label != own.label:
                self._strange.append((name, strangers.slice(int(own.rows[i]), 1)))
                if sent is None:
                    self._unsent.add(name)
                continue
            used.append(i)
            key = (name, int(codes[own.at[i]]))
            copy = copies.at.get(key)
            if copy is None:
                astray.append(i)
                if key in self._astray:
                    again.append(i)
                self._astray.add(key)
            elif copies.numbers[copy, 3] == DONE:
                again.append(i)
            else:
                if copies.numbers[copy, 3] == OPEN:
                    tested.append((i, copy))
                copies.numbers[copy, 3] = DONE
        for tag, which in ((findings.DUPLICATE, again), (findings.MISDELIVERED, astray)):
            if which:
                names = [own.imports[i] for i in which]
                places = [own.processes[own.at[i]] for i in which]
                self._parts.append(tagged(tag, self.run, len(which), message=names, destination=places))
        return np.array(used, np.int32), tested

    def _late(
        self, own: LabelSummary, tested: list[tuple[int, int]], before: Clocks, at: Ints, stack: Stack
    ) -> list[int]:
        """Return the copies among those tested that were delivered late."""
        if not tested:
            return []
        which = np.array([i for i, _ in tested], np.int64)
        copies = np.array([copy for _, copy in tested], np.int64)
        facts = self._copies.numbers[copies]
        late = knew(before[which], at[which], own.at_index[which], facts[:, 1], facts[:, 2], stack)
        return [int(copy) for copy in copies[late]]

    def _leave(self, own: LabelSummary, codes: Ints, columns: Ints, clocks: Clocks) -> None:
        """Note the messages that leave the chunk, and their copies."""
        for i, name in enumerate(own.exports):
            if name in self._flying:
                self.trouble = f"message {name} is sent twice"
            if name in self._unsent:
                self.trouble = f"message {name} is delivered before it is sent"
            self._flying[name] = _Flying(own.label, clocks[i])
        copies = self._copies
        start = len(copies.message)
        names = [own.exports[i] for i in own.copy_of]
        to = codes[own.copy_to]
        copies.message += names
        copies.label += [own.label] * len(names)
        copies.to += [own.processes[i] for i in own.copy_to]
        copies.at.update(zip(zip(names, to.tolist(), strict=True), range(start, start + len(names)), strict=True))
        settled = (start + np.flatnonzero(own.copy_state == SETTLED)).tolist()
        pairs = zip(own.settled_early, own.settled_at.tolist(), strict=True)
        copies.early.update(zip(settled, pairs, strict=True))
        fresh = np.stack(
            [to, columns[own.sender[own.copy_of]], own.index[own.copy_of], own.copy_state],
            axis=1,
        )
        copies.numbers = np.concatenate([copies.numbers, fresh.astype(np.int64)])
        self._astray |= {(own.exports[i], int(codes[p])) for i, p in zip(own.astray_of, own.astray_at, strict=True)}

    def _overtaken(self, label: str | None, known: Clocks, fresh: int) -> list[int]:
        """Return the copies still open whose message its destination now knows of; the last `fresh` left just now."""
        numbers = self._copies.numbers
        waiting = np.flatnonzero(numbers[: len(numbers) - fresh, 3] == OPEN)
        if len(self._states) > 1:
            waiting = np.array([i for i in waiting if self._copies.label[i] == label], np.int64)
        to, sender, index = (numbers[waiting, c] for c in range(3))
        hit = waiting[known[to, sender] >= index]
        numbers[hit, 3] = SETTLED
        return [int(i) for i in hit]

    def finish(self) -> pa.Table:
        """Return what the run turned out to be, or what is wanted first, or the trouble that was met."""
        if self.trouble:
            return tagged(findings.TROUBLE, self.run, 1, reason=self.trouble)
        unknown = frozenset(name for name, _ in self._strange if name not in self._flying)
        if unknown and not self.last_round:
            return tagged(findings.WANT, self.run, 1, payload=[pickle.dumps(unknown, 5)])
        copies = self._copies
        never = np.flatnonzero(copies.numbers[:, 3] != DONE).tolist()
        undelivered = tagged(
            findings.UNDELIVERED, self.run, len(never),
            message=[copies.message[i] for i in never], destination=[copies.to[i] for i in never],
        )  # fmt: skip
        counts = tagged(findings.RUN, self.run, 1, events=0, messages=0, gaps=self.gaps)
        rejected = self._rejected()  # they raise doubts, so they come first
        return pa.concat_tables([counts, undelivered, *self._parts, *rejected, *self._violations()])

    def _rejected(self) -> list[pa.Table]:
        parts = []
        for name, row in self._strange:
            sent = self._flying.get(name)
            label = row["label"][0].as_py()
            reason = (
                f"message {name} was never sent"
                if sent is None
                else f"message {name} was sent under label {sent.label}, not {label}"
            )
            self._doubt(row["process"][0].as_py(), row["index"][0].as_py())
            table = pa.table({n: row[n] if n in row.column_names else pa.nulls(1) for n in NORMAL.names})
            parts.append(set_aside(self.run, table, [reason]))
        return parts


def _spread(clocks: Clocks, columns: Ints, width: int) -> Clocks:
    """Put the columns of a chunk's clocks where the run has those senders."""
    wide = np.zeros((len(clocks), width), np.int64)
    wide[:, columns] = clocks
    return wide


def _contacts(own: LabelSummary, codes: Ints, columns: Ints, row_of: Ints, used: Ints, processes: int) -> Contacts:
    """Return by which delivery each process of the chunk first heard of what."""
    here, column = (np.full(processes, -1, np.int64) for _ in range(2))
    here[codes] = np.arange(len(codes))
    column[row_of[columns]] = np.arange(len(columns))
    return Contacts(here, column, own.met, own.heard[used], own.place[used], len(own.texts))
