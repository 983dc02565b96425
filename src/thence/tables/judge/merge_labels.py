"""One label of two neighbouring chunks of a run, merged: what the second imports from the first is decided here.

Invariant. The result is what `chunk.summarise` would leave of the label if both chunks were one chunk, except that a
message all of whose copies are delivered is dropped where they meet. Merging is therefore associative: any tree over
the chunks of a run gives what the sequence gives.

What the second chunk needs from the first are only the clocks on entering (process x sender) and those of the
messages in flight: `chunk_clocks.py` joins them with its own. Cost: (imports + exports) x senders^2. Which message came
early follows from when the processes of the second chunk first heard of each other: it is the first delivery to tell
the destination of a send made after the entrance, or the import, by which its sender knew of the missing message.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from thence.tables.contract.numpy_types import Clocks, Flags, Ints, Longs
from thence.tables.judge import findings
from thence.tables.judge.chunk import DONE, OPEN, SETTLED, STATE_CELLS, LabelSummary
from thence.tables.judge.chunk_clocks import Contacts, Stack, earliest, knew, lift, stacked
from thence.tables.judge.findings import tagged


class TroubleError(Exception):
    """The chunks of a run are not in order, or too wide: the run has to be judged whole."""


@dataclass(slots=True)
class _Resolved:
    """The imports of the second chunk, resolved; numbers of imports, of exports and of copies."""

    used: list[int] = field(default_factory=list)
    """Imports whose message the first chunk sent under this label, and the export behind each."""
    export: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    """Imports whose message was sent earlier still, or never."""
    foreign: list[int] = field(default_factory=list)
    """Imports whose message the first chunk sent under another label."""
    tested: list[tuple[int, int]] = field(default_factory=list)
    """First deliveries (import, copy) of copies that may be late."""
    closed: list[int] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    astray: list[int] = field(default_factory=list)


class LabelPair:
    """The same label of two neighbouring chunks."""

    def __init__(self, run: str, one: LabelSummary, two: LabelSummary, *, opens: bool) -> None:
        """`opens`: no chunk comes before the first chunk, so that nothing need be kept for one."""
        self.run, self.one, self.two, self.opens = run, one, two, opens
        senders = dict.fromkeys([*one.processes[: one.senders], *two.processes[: two.senders]])
        self.names = list(dict.fromkeys([*senders, *one.processes, *two.processes]))
        self.width = len(senders)
        place = {name: number for number, name in enumerate(self.names)}
        self.a = np.array([place[name] for name in one.processes], np.int32)
        self.b = np.array([place[name] for name in two.processes], np.int32)
        reported = 0 if opens else len(one.imports) + len(two.imports)
        if len(self.names) * (self.width * (1 if opens else 3) + reported) > STATE_CELLS:
            raise TroubleError(f"{len(self.names)} processes are too many for chunks")
        self.state = one.copy_state.copy()
        self.early = dict(
            zip(
                np.flatnonzero(self.state == SETTLED).tolist(),
                zip(one.settled_early, one.settled_at.tolist(), strict=True),
                strict=True,
            )
        )
        self.parts: list[pa.Table] = []

    def merged(self, sent: Collection[str], wanted: Collection[str], shift: int) -> tuple[LabelSummary, list[int]]:
        """Return the label of both chunks, and the rows of imports of the second sent under another label.

        `sent` are the messages that the first chunk exports in any label; `wanted` are kept though delivered; `shift`
        is how many strangers the first chunk has, which stand before those of the second.
        """
        one, two, width = self.one, self.two, self.width
        found = self._resolve(sent)
        used, export, left = (np.array(each, np.int64) for each in (found.used, found.export, found.left))
        at = self.b[two.at]
        known = np.zeros((len(self.names), width), np.int64)
        known[self.a] = self._of_one(one.known)
        brought = self._of_one(one.carried)[export]
        stack = stacked(known, at[used], two.at_index[used], brought, np.arange(width, dtype=np.int32))
        late = self._late(found.tested, at, stack)
        after = stack.rows[stack.starts[1:] - 1]
        own = lift(self._of_two(two.known), np.arange(len(two.processes), dtype=np.int32), stack)
        after[self.b] = np.maximum(after[self.b], own)
        self._explain(late + self._overtaken(after), stack, used)
        self._say(found)
        summary = self._exported(found, wanted, lift(self._of_two(two.carried), self.b[two.sender], stack))
        summary.known = after
        self._imported(summary, left, at, stack)
        summary.rows = np.concatenate([one.rows, two.rows[left] + shift]).astype(np.int32)
        if not self.opens:
            self._contacts_of_both(summary, used, left, stack)
        return summary, [int(two.rows[i]) + shift for i in found.foreign]

    def _of_one(self, clocks: Clocks) -> Clocks:
        return _spread(clocks, self.a[: self.one.senders], self.width)

    def _of_two(self, clocks: Clocks) -> Clocks:
        return _spread(clocks, self.b[: self.two.senders], self.width)

    def _resolve(self, sent: Collection[str]) -> _Resolved:
        """Resolve each import of the second chunk, and mark the copies that arrive by them."""
        one, two, found = self.one, self.two, _Resolved()
        number = {name: export for export, name in enumerate(one.exports)}
        pairs = zip(one.copy_of.tolist(), self.a[one.copy_to].tolist(), strict=True)
        copy_at = {pair: copy for copy, pair in enumerate(pairs)}
        strayed = set(zip(one.astray_of.tolist(), self.a[one.astray_at].tolist(), strict=True))
        for i, (name, at) in enumerate(zip(two.imports, self.b[two.at].tolist(), strict=True)):
            export = number.get(name)
            if export is None:
                (found.foreign if name in sent else found.left).append(i)
                continue
            found.used.append(i)
            found.export.append(export)
            copy = copy_at.get((export, at))
            if copy is None:
                found.astray.append(i)
                if (export, at) in strayed:
                    found.again.append(i)
                strayed.add((export, at))
            elif self.state[copy] == DONE:
                found.again.append(i)
            else:
                if self.state[copy] == OPEN:
                    found.tested.append((i, copy))
                self.state[copy] = DONE
                found.closed.append(copy)
        return found

    def _late(self, tested: list[tuple[int, int]], at: Ints, stack: Stack) -> list[int]:
        """Return the copies among those tested that were delivered late."""
        if not tested:
            return []
        which, copies = np.array(tested, np.int64).T
        source, least = self._sends_of(copies)
        before = self._of_two(self.two.before)[which]
        late = knew(before, at[which], self.two.at_index[which], source, least, stack)
        return [int(copy) for copy in copies[late]]

    def _sends_of(self, copies: Longs) -> tuple[Longs, Longs]:
        """Return who sent the message of each copy, and at which index."""
        export = self.one.copy_of[copies]
        return self.a[self.one.sender[export]].astype(np.int64), self.one.index[export]

    def _overtaken(self, known: Clocks) -> list[int]:
        """Return the copies still open whose message its destination now knows of."""
        waiting = np.flatnonzero(self.state == OPEN)
        source, least = self._sends_of(waiting)
        hit = waiting[known[self.a[self.one.copy_to[waiting]], source] >= least]
        self.state[hit] = SETTLED
        return [int(copy) for copy in hit]

    def _explain(self, copies: list[int], stack: Stack, used: Longs) -> None:
        """Find what was delivered in the second chunk before, or instead of, each of these copies."""
        if not copies:
            return
        chosen = np.array(copies, np.int64)
        source, least = self._sends_of(chosen)
        to = self.a[self.one.copy_to[chosen]].astype(np.int64)
        early = earliest(to, source, least, stack, self._contacts(used))
        texts = findings.names(self.two.texts, early).to_pylist()
        self.early.update(zip(copies, zip(texts, self.two.text_at[early].tolist(), strict=True), strict=True))

    def _contacts(self, used: Longs) -> Contacts:
        """Return by which delivery each process of the second chunk first heard of what."""
        two = self.two
        here, column = (np.full(len(self.names), -1, np.int64) for _ in range(2))
        here[self.b] = np.arange(len(self.b))
        column[self.b[: two.senders]] = np.arange(two.senders)
        return Contacts(here, column, two.met, two.heard[used], two.place[used], len(two.texts))

    def _say(self, found: _Resolved) -> None:
        """Report the late, the repeated and the misdelivered."""
        one, two = self.one, self.two
        late = [copy for copy in found.closed if copy in self.early]
        if late:
            names = [one.exports[one.copy_of[copy]] for copy in late]
            places = [one.processes[one.copy_to[copy]] for copy in late]
            early = [self.early[copy][0] for copy in late]
            self.parts.append(
                tagged(findings.VIOLATION, self.run, len(late), message=names, destination=places, early=early)
            )
        for tag, which in ((findings.DUPLICATE, found.again), (findings.MISDELIVERED, found.astray)):
            if which:
                names = [two.imports[i] for i in which]
                places = [two.processes[two.at[i]] for i in which]
                self.parts.append(tagged(tag, self.run, len(which), message=names, destination=places))

    def _exported(self, found: _Resolved, wanted: Collection[str], lifted: Clocks) -> LabelSummary:
        """Return the label with the messages that leave both chunks, and their copies; clocks and imports follow."""
        one, two, a, b = self.one, self.two, self.a, self.b
        kept: Flags = np.zeros(len(one.exports), np.bool_)
        kept[one.copy_of[self.state != DONE]] = True
        if wanted:
            kept |= np.array([name in wanted for name in one.exports], np.bool_)
        number = np.cumsum(kept, dtype=np.int32) - 1
        chosen, shift = np.flatnonzero(kept), int(np.count_nonzero(kept))
        copies = np.flatnonzero(kept[one.copy_of])
        settled = [self.early[copy] for copy in copies[self.state[copies] == SETTLED].tolist()]
        own = np.flatnonzero(kept[one.astray_of])
        astray = set(found.astray)
        more = [(e, i) for e, i in zip(found.export, found.used, strict=True) if i in astray and kept[e]]
        strayed, where = np.array(more, np.int64).reshape(-1, 2).T
        return LabelSummary(
            label=two.label, processes=self.names, senders=self.width, known=lifted[:0],
            exports=[one.exports[i] for i in chosen.tolist()] + two.exports,
            sender=np.concatenate([a[one.sender[chosen]], b[two.sender]]),
            index=np.concatenate([one.index[chosen], two.index]),
            carried=np.concatenate([self._of_one(one.carried)[chosen], lifted]),
            copy_of=np.concatenate([number[one.copy_of[copies]], two.copy_of + shift]).astype(np.int32),
            copy_to=np.concatenate([a[one.copy_to[copies]], b[two.copy_to]]),
            copy_state=np.concatenate([self.state[copies], two.copy_state]),
            settled_early=[text for text, _ in settled] + two.settled_early,
            settled_at=np.concatenate([np.array([at for _, at in settled], np.int64), two.settled_at]),
            astray_of=np.concatenate(
                [number[one.astray_of[own]], number[strayed], two.astray_of + shift]
            ).astype(np.int32),
            astray_at=np.concatenate([a[one.astray_at[own]], b[two.at[where]], b[two.astray_at]]),
            imports=[], at=a[:0], at_index=one.at_index[:0], before=lifted[:0], rows=one.rows[:0],
            met=_NO_CONTACTS, heard=_NO_CONTACTS, place=a[:0], texts=one.texts[:0], text_at=one.text_at[:0],
        )  # fmt: skip

    def _imported(self, summary: LabelSummary, left: Longs, at: Ints, stack: Stack) -> None:
        """Keep the imports that wait for what comes before both chunks, with what was known before each."""
        one, two = self.one, self.two
        summary.imports = one.imports + [two.imports[i] for i in left.tolist()]
        summary.at = np.concatenate([self.a[one.at], at[left]])
        summary.at_index = np.concatenate([one.at_index, two.at_index[left]])
        if self.opens:
            summary.before = np.zeros((len(summary.imports), self.width), np.int64)
            return
        late = lift(self._of_two(two.before)[left], at[left], stack)
        for row, (process, index) in enumerate(zip(at[left].tolist(), two.at_index[left].tolist(), strict=True)):
            own = slice(stack.starts[process], stack.starts[process + 1])
            entered = int(np.searchsorted(stack.since[own], index - 1, side="right")) - 1
            np.maximum(late[row], stack.rows[own.start + entered], out=late[row])
        summary.before = np.concatenate([self._of_one(one.before), late])

    def _contacts_of_both(self, summary: LabelSummary, used: Longs, left: Longs, stack: Stack) -> None:
        """Number the deliveries by which processes first heard of each other, and of imports, in either chunk."""
        one, two, a, b, size = self.one, self.two, self.a, self.b, len(self.names)
        first, none = len(one.texts), len(one.texts) + len(two.texts)
        table = np.full((self.width + len(one.imports), size), none, np.int64)
        table[a[: one.senders, None], a] = _renumbered(one.met, first, 0, none)
        table[self.width :, a] = _renumbered(one.heard, first, 0, none)
        # Knowing any send of a process, or one after an import there, is knowing it up to an index.
        source = np.concatenate([np.arange(self.width), a[one.at]])
        least = np.concatenate([np.ones(self.width, np.int64), one.at_index])
        asked = table == none
        asked[source >= self.width] = False  # sends nothing, so that it is heard of nowhere
        asked[:, ~np.isin(np.arange(size), b)] = False  # `earliest` takes only processes with rows in the second
        row, to = np.nonzero(asked)
        answer = earliest(to, source[row], least[row], stack, self._contacts(used))
        table[row, to] = np.where(answer < 0, none, answer + first)
        rest = np.full((len(left), size), none, np.int64)
        rest[:, b] = _renumbered(two.heard[left], len(two.texts), first, none)
        place = np.concatenate([one.place, two.place[left].astype(np.int64) + first])
        named = np.zeros(none + 1, np.bool_)
        for numbers in (table, rest, place):
            named[numbers] = True
        named[none] = False
        number = (np.cumsum(named) - 1).astype(np.int32)
        number[none] = np.count_nonzero(named)
        summary.met, summary.heard = number[table[: self.width]], number[np.concatenate([table[self.width :], rest])]
        summary.place = number[place]
        chosen = np.flatnonzero(named[:-1])
        summary.texts = pa.concat_arrays([one.texts, two.texts]).take(pa.array(chosen))
        summary.text_at = np.concatenate([one.text_at, two.text_at])[chosen]


_NO_CONTACTS = np.zeros((0, 0), np.int32)


def nothing(label: str | None) -> LabelSummary:
    """Return the label of a chunk that has no row of this label."""
    ints, longs, clocks = np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros((0, 0), np.int64)
    return LabelSummary(
        label=label, processes=[], senders=0, known=clocks, exports=[], sender=ints, index=longs, carried=clocks,
        copy_of=ints, copy_to=ints, copy_state=np.zeros(0, np.int8), settled_early=[], settled_at=longs,
        astray_of=ints, astray_at=ints, imports=[], at=ints, at_index=longs, before=clocks, rows=ints,
        met=_NO_CONTACTS, heard=_NO_CONTACTS, place=ints, texts=pa.array([], pa.string()), text_at=longs,
    )  # fmt: skip


def _spread(clocks: Clocks, columns: Ints, width: int) -> Clocks:
    """Put the columns of a chunk's clocks where both chunks have those senders."""
    wide = np.zeros((len(clocks), width), np.int64)
    wide[:, columns] = clocks
    return wide


def _renumbered(numbers: Ints, none: int, shift: int, other: int) -> Longs:
    """Shift the numbers of deliveries; `none` becomes `other`."""
    moved: Longs = np.where(numbers == none, other, numbers.astype(np.int64) + shift)
    return moved
