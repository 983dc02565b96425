"""The trace of a live endpoint: rows of the trace table as JSON lines, projected from the journal.

*Invariant.* A row is written when its input is committed, and not before; a restart writes the rows that the file
lacks, from the same inputs. So file and journal cannot disagree: a last line that was cut off is recognised and
rewritten, and a file that knows more than the journal shows that the journal has lost state. Before inputs are pruned
the file is on disk.

A file that has grown to `limit` bytes is set aside under the index of its last row (`a.jsonl` becomes
`a.000000001234.jsonl`) and the trace goes on in a new one; all of them together are the trace. None is ever deleted.

Hops (OKs, relays) are rows of a run of their own, `<run>/hops`, in a file of its own (`a.hops.jsonl`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from thence.core.model.events import Event
from thence.core.model.message_names import HOPS
from thence.live.database import JournalError
from thence.live.logs import note
from thence.live.private import make_private
from thence.tables.files.jsonl import event_in, format_line, parse_row

TAIL = 1 << 16
DIGITS = 12


class TraceFiles:
    """The trace of one endpoint: the file of its run and, once there are any, one beside it for its hops."""

    def __init__(self, path: Path, process: str, *, limit: int = 0) -> None:
        """Open the existing files, and make them readable by their owner only."""
        self.path, self._process, self._limit = path, process, limit
        with self._writable():
            make_private(path)
        self._run = TraceFile(path, process, limit=limit)
        self._beside = path.with_name(f"{path.stem}.hops{path.suffix}")
        self._hops = TraceFile(self._beside, process, limit=limit) if self._beside.exists() else None

    @property
    def last(self) -> tuple[int, int]:
        """Index of the last row of the run, and of its hops; 0 if there is none."""
        return self._run.index, 0 if self._hops is None else self._hops.index

    def write(self, events: Sequence[Event]) -> None:
        """Append the rows that the files lack."""
        hops = [event for event in events if event.run.endswith(HOPS)]
        with self._writable():
            self._run.write([event for event in events if not event.run.endswith(HOPS)] if hops else events)
            if hops:
                self._hops = self._hops or TraceFile(self._beside, self._process, limit=self._limit)
                self._hops.write(hops)

    def sync(self) -> None:
        """Put the rows on disk."""
        with self._writable():
            for each in (self._run, self._hops):
                if each is not None:
                    each.sync()

    @contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JournalError(f"the trace {self.path} cannot be written: {error.strerror or error}") from error

    def close(self) -> None:
        """Close the files of the trace."""
        for each in (self._run, self._hops):
            if each is not None:
                each.close()


class TraceFile:
    """Appends rows to one file."""

    def __init__(self, path: Path, process: str, *, limit: int = 0) -> None:
        """Open the file, cut off a torn tail, and find the last row; a limit of 0 means no limit."""
        self.path, self.process, self.limit = path, process, limit
        self._file = self._open()
        self.index = self._last() or max((last for last, _ in self.aside()), default=0)
        """index of the last row that was written; 0 if there is none"""

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def aside(self) -> list[tuple[int, Path]]:
        """Return the files that were set aside, with the index of the last row of each, the oldest first."""
        stem, suffix = self.path.stem, self.path.suffix
        found = []
        for path in self.path.parent.iterdir():
            number = path.name[len(stem) + 1 : -len(suffix) or None]
            if path.name == f"{stem}.{number}{suffix}" and len(number) == DIGITS and number.isdecimal():
                found.append((int(number), path))
        return sorted(found)

    def _last(self) -> int:
        end = os.fstat(self._file).st_size
        while end:
            start = max(0, end - TAIL)
            block = os.pread(self._file, end - start, start)
            whole = block.rfind(b"\n")
            if whole < 0 and start:
                raise JournalError(f"the last {TAIL} bytes of {self.path} hold no line; it is not a trace of ours")
            os.ftruncate(self._file, start + whole + 1)
            end = start + whole + 1
            if not end:
                return 0
            line = block[block.rfind(b"\n", 0, whole) + 1 : whole + 1]
            row = parse_row(line)
            found = row if isinstance(row, str) else event_in(row, None)
            if isinstance(found, Event) and found.process == self.process:
                return found.index
            raise JournalError(f"the last line of {self.path} is not a row of {self.process}: {line[:80]!r}")
        return 0

    def write(self, events: Sequence[Event]) -> None:
        """Append the rows that the file lacks."""
        fresh = [event for event in events if event.index > self.index]
        if fresh:
            data = b"".join(map(format_line, fresh))
            os.lseek(self._file, 0, os.SEEK_END)
            while data:
                data = data[os.write(self._file, data) :]
            self.index = fresh[-1].index
            if self.limit and os.fstat(self._file).st_size >= self.limit:
                self._set_aside()

    def _set_aside(self) -> None:
        self.sync()
        os.close(self._file)
        name = self.path.with_name(f"{self.path.stem}.{self.index:0{DIGITS}}{self.path.suffix}")
        self.path.rename(name)
        self._file = self._open()
        sentence = f"{self.process} goes on in a new {self.path.name}; {name.name} is set aside"
        note(logging.INFO, "rotated", sentence, process=self.process, file=str(name))

    def sync(self) -> None:
        """Put the rows on disk."""
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file of the trace."""
        os.close(self._file)
