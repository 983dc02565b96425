"""The events of a recorded file, read as every command reads them, and a judgement of each of its runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from thence.core.model.events import Event
from thence.core.model.order import Judgement, by_run, judge
from thence.tables.files.formats import Format
from thence.tables.files.read import Trace
from thence.tables.files.source import Quarantined


def read_events(path: Path, quarantine: list[Quarantined] | None = None) -> list[Event]:
    """Return the events of one file; what cannot be used is appended to `quarantine`."""
    kind: Format = "jsonl" if ".jsonl" in path.suffixes else "parquet"
    return list(Trace({path: kind}, quarantine=[] if quarantine is None else quarantine).events())


def judge_runs(events: Iterable[Event]) -> dict[str, Judgement]:
    """Judge every run of a table apart."""
    return {run: judge(rows) for run, rows in by_run(events).items()}
