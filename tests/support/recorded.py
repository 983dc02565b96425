"""The events of a recorded file, read as every command reads them, and its rows one by one, as a twin of batches."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from thence.core.model.events import Event
from thence.core.model.order import Judgement, by_run, judge
from thence.tables.contract.columns import EVENT_COLUMNS, Column
from thence.tables.files.checked_batches import located
from thence.tables.files.formats import Format
from thence.tables.files.jsonl import Called, Located, broken_off, called_in, located_line
from thence.tables.files.line_reader import lines as read_lines
from thence.tables.files.parquet_reader import read_row_group
from thence.tables.files.read import Trace
from thence.tables.files.source import BROKEN, Quarantined
from thence.tables.files.splits import Split, open_split


def read_events(path: Path, quarantine: list[Quarantined] | None = None) -> list[Event]:
    """Return the events of one file; what cannot be used is appended to `quarantine`."""
    kind: Format = "jsonl" if ".jsonl" in path.suffixes else "parquet"
    return list(Trace({path: kind}, quarantine=[] if quarantine is None else quarantine).events())


def judge_runs(events: Iterable[Event]) -> dict[str, Judgement]:
    """Judge every run of a table apart."""
    return {run: judge(rows) for run, rows in by_run(events).items()}


def located_lines(
    stream: io.BufferedIOBase,
    file: str,
    *,
    start: int = 0,
    first: int = 1,
    length: int | None = None,
    called: Called | None = None,
    needs: bool = True,
) -> Iterator[Located]:
    """Yield (line number, event) or a quarantine record for each line of a stream that is not blank.

    `start` is the `order` that the first line of the file would have, `first` the number of the first line that
    is read, `length` how many bytes of lines are read (default: all), `called` what columns are called there.
    """
    number = first - 1
    try:
        for line in read_lines(stream, first=first, length=length):
            number = line.number
            if found := located_line(line, file, start, called, needs=needs):
                yield found
    except BROKEN as error:
        yield broken_off(file, number + 1, error)


def located_rows(split: Split, columns: Sequence[Column] = EVENT_COLUMNS, *, needs: bool = True) -> Iterator[Located]:
    """Yield (line or row number, event) or a quarantine record for each row; only `columns` are read.

    Unless `needs`, what a kind of row needs is left to the judge of its run.
    """
    if split.format == "parquet":
        table = read_row_group(split, columns)
        if isinstance(table, Quarantined):
            yield table
            return
        first = split.first
        for batch in table.to_batches():
            yield from located(batch, split.file, first, needs=needs)
            first += len(batch)
        return
    try:
        with open_split(split) as stream:
            called, length = called_in(columns), split.length
            yield from located_lines(
                stream, split.file, start=split.order, first=split.first, length=length, called=called, needs=needs
            )
    except BROKEN as error:
        yield broken_off(split.file, split.first, error)
