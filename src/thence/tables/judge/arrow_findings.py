"""Findings in an Arrow table, made into rows a few at a time; proofs ask `stored_rows` for the events behind them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from thence.core.model.events import Event
from thence.tables.explain.sentence import PathStep
from thence.tables.judge.normal_table import events_of
from thence.tables.judge.proof_path import shortest_paths
from thence.tables.judge.result import (
    ABSENT,
    CALLED,
    COLUMNS,
    SORTED_BY,
    SUMS,
    TAGS,
    FindingRow,
    Findings,
    ListName,
    ViolationKey,
    key_of,
)
from thence.tables.judge.stored_rows import JudgedEvents

FINDINGS_BATCH = 10_000
"""Findings that are made into rows at a time."""


def _null_first(table: pa.Table) -> pa.Array:
    """Return the places of rows sorted by all columns, null before everything else."""
    if not len(table):
        return pa.array([], pa.int64())
    keys: dict[str, pa.ChunkedArray] = {}
    for name in table.column_names:
        if table.column(name).null_count:
            keys[f"{name} is there"] = table.column(name).is_valid()
        keys[name] = table.column(name)
    return pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])


class ArrowFindings(Findings):
    """Findings in a tagged table; `events` are those that were judged."""

    def __init__(self, tagged: pa.Table, events: JudgedEvents) -> None:
        """Take what was found, and the events behind it."""
        self.tagged, self._events = tagged, events

    def counts(self) -> Iterator[tuple[str, Mapping[str, int]]]:
        counted = self.tagged.group_by(["run", "tag"]).aggregate([([], "count_all"), *((name, "sum") for name in SUMS)])
        found: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(SUMS, 0))
        for row in counted.to_pylist():
            if row["run"] is not None:
                own = found[row["run"]]
                own[row["tag"]] = row["count_all"]
                for name in SUMS:
                    own[name] += row[f"{name}_sum"] or 0
        yield from sorted(found.items())

    def rows(self, name: ListName) -> Iterator[FindingRow]:
        found = self.listed(name)
        order = _null_first(found.select(SORTED_BY[name]))
        for start in range(0, len(order), FINDINGS_BATCH):
            yield from found.take(order.slice(start, FINDINGS_BATCH)).to_pylist()

    def listed(self, name: ListName) -> pa.Table:
        """Return a list of findings as a table."""
        tags = self.tagged.column("tag")
        chosen = pc.equal(tags, TAGS[name])
        if name in ("violations", "possible"):
            clouded = pc.is_in(self.tagged.column("run"), pa.array(sorted(self.clouded()), pa.string()))
            here = clouded if name == "possible" else pc.invert(clouded)
            chosen = pc.or_(chosen, pc.and_(pc.equal(tags, ABSENT), here))
        found = self.tagged.filter(chosen)
        return pa.table([found.column(CALLED.get(c, c)) for c in COLUMNS[name]], names=list(COLUMNS[name]))

    def paths(self, violations: Sequence[FindingRow]) -> dict[ViolationKey, list[PathStep]]:
        runs: dict[str, list[FindingRow]] = defaultdict(list)
        for row in violations:
            runs[str(row["run"])].append(row)
        found: dict[ViolationKey, list[PathStep]] = {}
        for run, asked in runs.items():
            pairs = [(str(row["missing"]), str(row["early"])) for row in asked]
            for row, path in zip(asked, shortest_paths(self._events.of_run(run, pairs), pairs), strict=True):
                if path is not None:
                    found[key_of(row)] = path
        return found

    def events(self, run: str, messages: Iterable[str]) -> list[Event]:
        return events_of(self._events.of_messages(run, pa.array(sorted(messages), pa.string())))

    def runs_in(self, files: Iterable[str]) -> set[str]:
        return self._events.runs_in(files)

    def close(self) -> None:
        self._events.close()
