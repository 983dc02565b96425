"""Traces in files, without Spark: finds the files, recognises their formats and reads their rows.

    trace = open_trace("traces/")            # a name, a folder, a glob, file://..., or several
    trace.files                              # {path: "jsonl" | "parquet" | ...}, sorted by name; see `formats`
    trace.skipped                            # files in a folder that are not traces, each with a reason
    trace.events()                           # Event by Event; the standard library alone, if all is JSONL
    trace.batches()                          # Arrow record batches: event columns, file, line, reason
    trace.clocks()                           # the events of logs with vector clocks
    trace.quarantine                         # what could not be used so far; `events` and `clocks` add to it
    trace.splits()                           # parts that can be read side by side, by any process with the files

Invariant: tables give events, logs give clock events; what can be used in neither is quarantined. A file that is no
trace is an error if it was named itself; in a folder it is quarantined if its name says it is one, and skipped if not.
`order` of a JSONL row that says none is the place of its line in all lines, file after file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from thence.core.model.events import Event
from thence.errors import MisuseError, TraceError
from thence.tables.contract.columns import EVENT_COLUMNS, JUDGED_COLUMNS, Called, Column, names_of, renamed, their_names
from thence.tables.files.formats import (
    FORMATS,
    RECORDS,
    WHOLE,
    File,
    Format,
    Paths,
    Unfit,
    detect,
    find_files,
    of_endpoint,
)
from thence.tables.files.jsonl import Located, broken_off, called_in, located_line
from thence.tables.files.line_reader import Block, blocks, lines_of
from thence.tables.files.shiviz import ClockEvent, read_shiviz
from thence.tables.files.source import BROKEN, Quarantined, first_line, open_bytes
from thence.tables.files.splits import Split, split_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from thence.core.model.plain import Row
    from thence.tables.files.record_events import RecordAudit

ReadTask = Callable[[], "list[pa.RecordBatch]"]
"""Work that reads some rows."""


@dataclass(slots=True)
class Trace:
    """Files and their formats; `events` and `clocks` read them, and `quarantine` grows on the way."""

    files: dict[Path, Format]
    pattern: str | None = None
    delimiter: str | None = None
    quarantine: list[Quarantined] = field(default_factory=list)
    skipped: list[Quarantined] = field(default_factory=list)
    columns: tuple[Column, ...] = EVENT_COLUMNS
    """The columns of an event, as these files call them."""
    whole: dict[Path, pa.Table] = field(default_factory=dict)
    """The rows of tables that are read whole (`formats.WHOLE`), in our names."""
    records: dict[Path, list[Row]] = field(default_factory=dict)
    """The arrivals of files of records (`formats.RECORDS`)."""
    kept: dict[Path, bytes] = field(default_factory=dict)
    """The content of small files that were read to tell their format."""

    def called(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return some columns, under the names in these files."""
        names = names_of(columns)
        return tuple(column for column in self.columns if column.name in names)

    @property
    def judged(self) -> tuple[Column, ...]:
        """The columns that an audit reads, as these files call them."""
        return self.called(JUDGED_COLUMNS)

    @property
    def in_our_names(self) -> bool:
        """Return whether the tables use the contract's names and words."""
        return their_names(self.judged) is None

    def splits(self, size: int | None = None, columns: Sequence[Column] = EVENT_COLUMNS) -> Splits:
        """Return the tables in parts: JSONL of about `size` bytes (default: whole files), Parquet by row groups."""
        return split_files(self.files, size, self.called(columns))

    def located(
        self, columns: Sequence[Column] = EVENT_COLUMNS, *, needs: bool = True
    ) -> Iterator[tuple[str, Located]]:
        """Yield the rows of the tables with their files, file by file; only `columns` are read and looked at."""
        called = self.called(columns)
        start = 0
        for path, kind in self.files.items():
            if kind == "parquet" or path in self.whole:
                from thence.tables.files.checked_batches import located_in

                for task in self._table_tasks(path, called, needs=needs):
                    yield from ((str(path), each) for batch in task() for each in located_in(batch))
            elif path in self.records:
                from thence.tables.files.record_events import record_events

                yield from ((str(path), each) for each in record_events(str(path), kind, self.records[path])[0])
            elif kind == "jsonl":
                lines = _Lines(self, path)
                for each in lines.located(start, called_in(called), needs=needs):
                    yield str(path), each
                start += lines.count

    def events(self, columns: Sequence[Column] = EVENT_COLUMNS) -> Iterator[Event]:
        """Yield the events of the tables, file by file; only `columns` are read and looked at."""
        for _, found in self.located(columns):
            if isinstance(found, Quarantined):
                self.quarantine.append(found)
            else:
                yield found[1]

    def tasks(
        self, columns: Sequence[Column] = EVENT_COLUMNS, *, needs: bool = True, coded: bool = False
    ) -> Iterator[ReadTask]:
        """Yield work that reads some rows each, in order, as `batches` has them; it can be done in threads.

        Files are opened once, one after the other. `needs` and `coded` as in `read_batches`.
        """
        from thence.tables.files.batches import block_batch
        from thence.tables.files.checked_batches import located_batch, refused_batch

        called = self.called(columns)
        start = 0
        if self.quarantine:
            yield lambda: [refused_batch(self.quarantine, called)]
        for path, kind in self.files.items():
            if kind == "parquet" or path in self.whole:
                yield from self._table_tasks(path, called, needs=needs, coded=coded)
            elif path in self.records:
                from thence.tables.files.record_events import record_events

                found, _ = record_events(str(path), kind, self.records[path])
                yield partial(_one, located_batch, found, str(path), called)
            elif kind == "jsonl":
                lines = _Lines(self, path)
                place = Split(str(path), "jsonl", order=start)
                for block in lines.blocks():
                    if isinstance(block, Quarantined):
                        yield partial(_one, refused_batch, [block], called)
                    else:
                        yield partial(_one, block_batch, block, place, called, needs=needs)
                start += lines.count

    def _table_tasks(
        self, path: Path, called: Sequence[Column], *, needs: bool, coded: bool = False
    ) -> Iterator[ReadTask]:
        """Yield work that reads the rows of a file of Parquet, or of one that was read whole."""
        from thence.tables.files.checked_batches import refused_batch, table_batches
        from thence.tables.files.parquet_reader import row_group_batches, row_groups

        if path in self.whole:
            own = self.whole[path].select([c.name for c in called if c.name in self.whole[path].column_names])
            yield partial(_all, table_batches, own, called, str(path), needs=needs, coded=coded)
            return
        for split in row_groups(path, called):
            if isinstance(split, Quarantined):
                yield partial(_one, refused_batch, [split], called)
            else:
                yield partial(_all, row_group_batches, split, called, needs=needs, coded=coded)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the tables as `tables.files.batches` has them: refused rows too, each with its `reason`."""
        for task in self.tasks():
            yield from task()

    def opened(self, path: Path) -> io.BufferedIOBase:
        """Open a file, unless its content was kept when its format was recognised."""
        return open_bytes(path, self.kept.get(path))

    def record_audit(self) -> RecordAudit | None:
        """Return the findings about files of records besides the verdict on their order; None without such files."""
        if not self.records:
            return None
        from thence.tables.files.record_events import RecordAudit, record_events

        whole = RecordAudit()
        for path, rows in self.records.items():
            found = record_events(str(path), self.files[path], rows)[1]
            whole.records += found.records
            whole.orphans += found.orphans
            whole.skews += found.skews
            whole.early += found.early
            whole.without_cause += found.without_cause
        return whole

    def clocks(self) -> Iterator[ClockEvent]:
        """Yield the events of the logs, file by file."""
        for path, kind in self.files.items():
            if kind == "shiviz":
                yield from read_shiviz(path, self.quarantine, pattern=self.pattern, delimiter=self.delimiter)


def open_trace(
    paths: Paths,
    format: str = "auto",
    pattern: str | None = None,
    delimiter: str | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Trace:
    """Find the files behind names, folders and globs, and the format of each.

    Of JSON lines, Parquet and logs only samples are read yet; tables of `formats.WHOLE` are read.

    A `pattern` says that what is not a table by its name is a log; `columns`, what the tables call our columns, where
    that is another name; `kinds`, their words for the values of `kind`, each with ours.
    """
    if format not in ("auto", *FORMATS):
        raise MisuseError(f"no format {format!r}; auto, {', '.join(FORMATS)} are accepted")
    trace = Trace({}, pattern, delimiter, columns=renamed(EVENT_COLUMNS, columns, kinds))
    for file in find_files(paths):
        if not file.named and of_endpoint(file.path):
            continue
        asked = next((name for name in FORMATS if name == format), None)
        named = bool(columns or kinds)
        kind = asked or detect(
            file.path, log=pattern is not None, records=not named, kept=trace.kept, columns=trace.judged
        )
        if kind == "parquet" and file.named:
            from thence.tables.files.parquet_reader import unfit_file

            kind = unfit_file(file.path, trace.judged) or kind
        elif kind in WHOLE:
            from thence.tables.files.whole_tables import event_table

            read = event_table(file.path, kind, trace.columns, trace.kept.pop(file.path, None))
            kind = read if isinstance(read, Unfit) else kind
            if not isinstance(read, Unfit):
                trace.whole[file.path] = read
        elif kind in RECORDS:
            from thence.tables.files.record_files import read_records

            trace.records[file.path] = read_records(file.path, kind)
        if isinstance(kind, Unfit):
            _set_aside(trace, file, kind)
        else:
            trace.files[file.path] = kind
    if trace.skipped and not (trace.files or trace.quarantine):
        raise TraceError(f"none of {len(trace.skipped)} files is a trace; the first: {trace.skipped[0]}")
    return trace


def _set_aside(trace: Trace, file: File, unfit: Unfit) -> None:
    if file.named:
        if unfit.parts:
            raise MisuseError(f"{file.path}: ", *unfit.parts)
        raise TraceError(f"{file.path}: {unfit.reason}")
    kept = trace.quarantine if unfit.claims else trace.skipped
    kept.append(Quarantined(str(file.path), None, unfit.reason))


class _Lines:
    """The lines of a file, which is opened once; `count` is how many have come."""

    def __init__(self, trace: Trace, path: Path) -> None:
        self._trace, self._path, self.count = trace, path, 0

    def blocks(self) -> Iterator[Block | Quarantined]:
        """Yield blocks of lines, and a record if the file cannot be read, or not to its end."""
        try:
            stream = self._trace.opened(self._path)
        except OSError as error:
            yield Quarantined(str(self._path), None, f"it cannot be read: {first_line(error)}")
            return
        try:
            with stream:
                for block in blocks(stream):
                    ends = block.data.count(b"\n") if block.whole else 1
                    self.count = block.first - 1 + ends + (block.whole and not block.data.endswith(b"\n"))
                    yield block
        except BROKEN as error:
            yield broken_off(str(self._path), self.count + 1, error)

    def located(self, start: int, called: Called | None, *, needs: bool) -> Iterator[Located]:
        """Yield the event or quarantine record of each line that is not blank."""
        for block in self.blocks():
            if isinstance(block, Quarantined):
                yield block
                continue
            for line in lines_of(block):
                if found := located_line(line, str(self._path), start, called, needs=needs):
                    yield found


def _one(make: Callable[..., pa.RecordBatch], *given: object, **named: object) -> list[pa.RecordBatch]:
    return [make(*given, **named)]


def _all(make: Callable[..., Iterator[pa.RecordBatch]], *given: object, **named: object) -> list[pa.RecordBatch]:
    return list(make(*given, **named))


class Splits(NamedTuple):
    """The splits of some tables, and the files that cannot be cut, each with the reason."""

    splits: list[Split]
    refused: list[Quarantined]


def split_files(
    files: Mapping[Path, Format], size: int | None = None, columns: Sequence[Column] = EVENT_COLUMNS
) -> Splits:
    """Return the splits of tables: JSONL in parts of about `size` bytes (default: whole), Parquet by row groups.

    Of Parquet, only `columns` are looked at.
    """
    splits: list[Split] = []
    refused: list[Quarantined] = []
    order = 0
    lines = [path for path, kind in files.items() if kind == "jsonl"]
    for path, kind in files.items():
        if kind == "parquet":
            from thence.tables.files.parquet_reader import row_groups

            found = row_groups(path, columns)
            splits += [each for each in found if isinstance(each, Split)]
            refused += [each for each in found if isinstance(each, Quarantined)]
        elif kind == "jsonl":
            try:
                own, count = split_lines(path, size, order, last=path == lines[-1])
            except OSError as error:
                refused.append(Quarantined(str(path), None, f"it cannot be read: {first_line(error)}"))
                continue
            splits += own
            order += count
    return Splits(splits, refused)
