"""The soak's judge: which events came out, which twice, which before a cause. It knows nothing of thence but names.

*Invariant.*
An event is right if it came once as delivered, and all its causes had come before it. Whatever came again must be
known as a duplicate.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote, urlparse


def causes_of(seed: int, number: int) -> list[int]:
    """Return what event `number` depends on: up to three of the fifty before it."""
    random = Random(f"{seed} {number}")
    return sorted({number - random.randint(1, min(50, number)) for _ in range(random.randint(0, 3))}) if number else []


class Judge:
    """Sees events in the order in which they came out."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rows, self.twice, self.early = seed, 0, 0, 0
        self.seen: set[int] = set()
        self.outcomes: Counter[str] = Counter()

    def see(self, name: str, outcome: str) -> None:
        self.rows += 1
        self.outcomes[outcome] += 1
        if outcome != "delivered":
            return
        number = int(name[1:])
        self.twice += number in self.seen
        self.early += not self.seen.issuperset(causes_of(self.seed, number))
        self.seen.add(number)

    def take(self, records: Iterable[Any]) -> None:
        """See what our consumer forwarded, in the order of the topic's one partition."""
        for record in records:
            if record.error() is None:
                told = dict(record.headers())
                self.see(told["thence-message"].decode(), told["thence-outcome"].decode())

    def told(self, events: int) -> dict[str, int]:
        """Return the counts; `lost` is what has not come (yet) of so many events."""
        known = self.outcomes["delivered"], self.outcomes["duplicate"]
        return {"rows": self.rows, "delivered": known[0], "known duplicates": known[1], "other": self.rows - sum(known),
                "twice": self.twice, "before a cause": self.early, "lost": max(0, events - len(self.seen))}  # fmt: skip


def judge_parquet(folder: Path, seed: int, events: int) -> dict[str, int]:
    """Judge what Spark wrote, in the order of its positions."""
    import pyarrow.parquet as pq

    rows = [row for path in written(folder) for row in pq.ParquetFile(path).read().to_pylist()]
    rows.sort(key=lambda row: -1 if row["position"] is None else row["position"])
    judge = Judge(seed)
    for row in rows:
        judge.see(row["message"], row["outcome"])
    return judge.told(events)


def rows_in(folder: Path) -> int:
    """Count the rows that Spark has written for good."""
    import pyarrow.parquet as pq

    for path in written(folder):
        if path not in _COUNTED:
            _COUNTED[path] = pq.ParquetFile(path).metadata.num_rows
    return sum(_COUNTED.values())


_COUNTED: dict[Path, int] = {}


def written(folder: Path) -> list[Path]:
    """Return the files that Spark's sink has committed: its log says them, a compacted entry says all before it."""
    found: dict[int, Path] = {}
    for entry in (folder / "_spark_metadata").glob("[0-9]*"):
        batch = int(entry.name.removesuffix(".compact"))
        if batch not in found or entry.suffix == ".compact":
            found[batch] = entry
    start = max((batch for batch, entry in found.items() if entry.suffix == ".compact"), default=0)
    files: dict[Path, None] = {}
    for batch in sorted(found):
        if batch >= start:
            for line in found[batch].read_text().splitlines()[1:]:
                files[Path(unquote(urlparse(json.loads(line)["path"]).path))] = None
    return list(files)
