"""Chunks of one run merged in order: what each left open is decided here, without seeing any row again.

Invariant. `merge` takes the summaries of two neighbouring chunks of a run and returns that of both. It is
associative: a sequence, a tree, or any other way of putting the same chunks together gives the same findings. Where
clocks would take more than `STATE_CELLS`, the run is in trouble and judged whole, in blocks of columns.

A message that was delivered to all its destinations leaves its chunk without trace; if it turns up again, or where it
was not addressed, `finish` wants it, and the chunks are summarised once more with those messages kept. What is then
still unknown was never sent.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from thence.tables.judge import findings
from thence.tables.judge.chunk import DONE, SETTLED, Summary, summary_of
from thence.tables.judge.coded_rows import NORMAL
from thence.tables.judge.findings import set_aside, tagged
from thence.tables.judge.ids import repeated
from thence.tables.judge.merge_labels import LabelPair, TroubleError, nothing
from thence.tables.judge.packing import packed, unpacked


class ChunkMerger:
    """Takes summaries of one run, or of a part of it, in order, and the hashes of the ids of all its messages."""

    def __init__(self, run: str, *, last_round: bool = False, opens: bool = True) -> None:
        """`last_round`: what is unknown now was never sent. `opens`: no chunk comes before the first one taken."""
        self.run, self.last_round, self.opens = run, last_round, opens
        self._parts: list[pa.Table] = []
        self._hashes: list[bytes] = []
        self._so_far: Summary | None = None
        self._trouble: str | None = None

    def take(self, tag: str, payloads: Iterable[pa.Buffer]) -> None:
        """Take the payloads of the next summary, or hashes of any chunk."""
        if tag == findings.SUMMARY:
            self.add(summary_of(payloads))
        else:
            self._hashes += [bytes(each) for each in payloads]

    def add(self, summary: Summary) -> None:
        """Merge the summary of the next chunk into the result so far."""
        if self._trouble is not None:
            return
        try:
            self._so_far, parts = merge(self.run, self._so_far, summary, opens=self.opens)
        except TroubleError as trouble:
            self._trouble, self._so_far = str(trouble), None
        else:
            self._parts += parts

    def as_one_chunk(self, number: int) -> pa.Table:
        """Return what was found so far and the summary of all that was taken, as the rows of one chunk."""
        if self._trouble is not None or self._so_far is None:
            return self._in_trouble()
        summary = findings.payload(findings.SUMMARY, self.run, number, pickle.dumps(self._so_far, 5))
        return pa.concat_tables([*self._parts, summary])

    def finish(self) -> pa.Table:
        """Return what the run turned out to be, or what is wanted first, or the trouble that was met."""
        if (twice := twice_sent(self.run, self._hashes)) is not None:
            return twice
        if self._trouble is not None or self._so_far is None:
            return self._in_trouble()
        rest = finish(self.run, self._so_far, last_round=self.last_round)
        wants = rest.column("tag")[0].as_py() == findings.WANT
        return rest if wants else pa.concat_tables([rest, *self._parts])

    def _in_trouble(self) -> pa.Table:
        return tagged(findings.TROUBLE, self.run, 1, reason=self._trouble or "no chunk was summarised")


def twice_sent(run: str, hashes: Iterable[bytes]) -> pa.Table | None:
    """Return a row of trouble if a message of the run may have been sent twice."""
    return tagged(findings.TROUBLE, run, 1, reason="a message is sent twice") if repeated(hashes) else None


def merge(run: str, one: Summary | None, two: Summary, *, opens: bool) -> tuple[Summary, list[pa.Table]]:
    """Return the summary of two neighbouring chunks, and what is found out by merging them.

    `opens`: no chunk comes before the first. Raises `TroubleError` if the run has to be judged whole.
    """
    if one is None:
        return two, []
    sent = {name: own.label for own in one.labels for name in own.exports}
    _refuse_disorder(one, two, sent)
    both, gaps = _stand(one, two)
    parts = [tagged(findings.RUN, run, 1, events=0, messages=0, gaps=gaps)] if gaps else []
    strange = _Strangers(one, two)
    labels = {own.label: own for own in one.labels}
    for own in two.labels:
        pair = LabelPair(run, labels.get(own.label, nothing(own.label)), own, opens=opens)
        labels[own.label], foreign = pair.merged(sent.keys(), both.wanted, strange.shift)
        strange.foreign += foreign
        parts += pair.parts
    both.labels = list(labels.values())
    sent.update({name: own.label for own in two.labels for name in own.exports})
    strange.keep(both, sent)
    return both, parts


def _refuse_disorder(one: Summary, two: Summary, sent: dict[str, str | None]) -> None:
    unsent = {name for own in one.labels for name in own.imports}
    for name in (name for own in two.labels for name in own.exports):
        if name in sent:
            raise TroubleError(f"message {name} is sent twice")
        if name in unsent:
            raise TroubleError(f"message {name} is delivered before it is sent")


def _stand(one: Summary, two: Summary) -> tuple[Summary, int]:
    """Return where each process stands after both chunks, without labels, and the gaps between the two."""
    first = dict(zip(one.processes, one.first.tolist(), strict=True))
    last = dict(zip(one.processes, one.last.tolist(), strict=True))
    doubts, gaps = dict(one.doubts), 0
    for name, index in two.doubts.items():
        doubts[name] = min(index, doubts.get(name, index))
    for name, begin, end in zip(two.processes, two.first.tolist(), two.last.tolist(), strict=True):
        before = last.get(name)
        if before is None:
            first[name] = begin
        elif begin <= before:
            raise TroubleError(f"index {begin} of process {name} comes after {before} in the order")
        elif begin > before + 1:
            gaps += 1
            doubts[name] = min(before + 1, doubts.get(name, before + 1))
        last[name] = end
    begins, ends = (np.array([each[name] for name in last], np.int64) for each in (first, last))
    anywhere, wanted = one.anywhere or two.anywhere, one.wanted | two.wanted
    return Summary(one.chunk, list(last), begins, ends, doubts, anywhere, wanted=wanted), gaps


class _Strangers:
    """The rows of both chunks whose messages were not sent in them, as far as they are still needed."""

    def __init__(self, one: Summary, two: Summary) -> None:
        first, second = unpacked(one.strangers), unpacked(two.strangers)
        self._rows = pa.concat_tables([first, second], promote_options="default")
        self.shift = len(first)
        self._receipts = np.concatenate([one.receipts, two.receipts + self.shift]).tolist()
        self.foreign: list[int] = []
        """Deliveries of the second chunk under another label than that of the send, which the first made."""

    def keep(self, both: Summary, sent: dict[str, str | None]) -> None:
        """Write into the summary the rows that still wait for a send, or for the label of one."""
        message, label = self._rows.column("message").to_pylist(), self._rows.column("label").to_pylist()
        # A receipt only needs its message to have been sent, under its own label and at any time.
        receipts = [row for row in self._receipts if message[row] not in sent or sent[message[row]] != label[row]]
        receipts += self.foreign
        used = sorted({*receipts, *(int(row) for own in both.labels for row in own.rows)})
        place = np.zeros(len(self._rows), np.int32)
        place[used] = np.arange(len(used), dtype=np.int32)
        for own in both.labels:
            own.rows = place[own.rows]
        both.receipts = place[receipts]
        both.strangers = packed(self._rows.take(pa.array(used, pa.int64())))


def finish(run: str, whole: Summary, *, last_round: bool) -> pa.Table:
    """Return what a run turned out to be, from the summary of all its chunks, or one row of what is wanted first."""
    sent = {name: own.label for own in whole.labels for name in own.exports}
    rows = unpacked(whole.strangers)
    places = [*whole.receipts.tolist(), *(int(row) for own in whole.labels for row in own.rows)]
    strange = [(rows.column("message")[place].as_py(), rows.slice(place, 1)) for place in places]
    unknown = frozenset(name for name, _ in strange if name not in sent)
    if unknown and not last_round:
        return tagged(findings.WANT, run, 1, payload=[pickle.dumps(unknown, 5)])
    doubts = dict(whole.doubts)
    opening = [name for name, first in zip(whole.processes, whole.first.tolist(), strict=True) if first > 1]
    doubts.update(dict.fromkeys(opening, 1))
    counts = tagged(findings.RUN, run, 1, events=0, messages=0, gaps=len(opening))
    rejected = _rejected(run, strange, sent, doubts)  # they raise doubts, so they come first
    return pa.concat_tables([counts, *rejected, *_undelivered(run, whole, doubts)])


def _rejected(
    run: str, strange: list[tuple[str, pa.Table]], sent: dict[str, str | None], doubts: dict[str, int]
) -> list[pa.Table]:
    parts = []
    for name, row in strange:
        label = row["label"][0].as_py()
        reason = (
            f"message {name} was sent under label {sent[name]}, not {label}"
            if name in sent
            else f"message {name} was never sent"
        )
        process, index = row["process"][0].as_py(), row["index"][0].as_py()
        doubts[process] = min(index, doubts.get(process, index))
        table = pa.table({n: row[n] if n in row.column_names else pa.nulls(1) for n in NORMAL.names})
        parts.append(set_aside(run, table, [reason]))
    return parts


def _undelivered(run: str, whole: Summary, doubts: dict[str, int]) -> list[pa.Table]:
    """Return the copies that never came, and what was delivered in their stead where something was."""
    found: dict[str, list[tuple[str, str, str | None]]] = {
        findings.UNDELIVERED: [], findings.ABSENT: [], findings.POSSIBLE: [],
    }  # fmt: skip
    for own in whole.labels:
        instead = iter(zip(own.settled_early, own.settled_at.tolist(), strict=True))
        for export, to, state in zip(own.copy_of, own.copy_to, own.copy_state, strict=True):
            message, place = own.exports[export], own.processes[to]
            if state != DONE:
                found[findings.UNDELIVERED].append((message, place, None))
            if state == SETTLED:
                early, index = next(instead)
                hidden = whole.anywhere or doubts.get(place, index + 1) <= index
                found[findings.POSSIBLE if hidden else findings.ABSENT].append((message, place, early))
    return [
        tagged(
            tag, run, len(own), message=[message for message, _, _ in own],
            destination=[place for _, place, _ in own], early=[early for _, _, early in own],
        )
        for tag, own in found.items()
    ]  # fmt: skip
