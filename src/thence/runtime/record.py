"""The trace of a live endpoint: rows of the trace table as JSON lines, projected from the journal.

Law. A row is written when its input is committed, and not before; a restart writes the rows that the file lacks, from
the same inputs. So file and journal cannot disagree: a last line that was cut off is recognised and written anew, and
a file that knows more than the journal shows that the journal has lost its memory. Before inputs are pruned the file
is on disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from thence.model.events import Event
from thence.runtime.database import JournalError
from thence.trace.jsonl import event_in, format_line, parse_row

TAIL = 1 << 16


class Recorder:
    """Appends rows to one file."""

    def __init__(self, path: Path, process: str) -> None:
        """Open the file, cut off a torn tail, and find the last row."""
        self.path, self.process = path, process
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.index = self._last()
        """index of the last row in the file; 0 if there is none"""
        self.empty = self.index == 0

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

    def write(self, events: Iterable[Event]) -> None:
        """Append the rows that the file lacks."""
        fresh = [event for event in events if event.index > self.index]
        if fresh:
            data = b"".join(map(format_line, fresh))
            os.lseek(self._file, 0, os.SEEK_END)
            while data:
                data = data[os.write(self._file, data) :]
            self.index = fresh[-1].index

    def sync(self) -> None:
        """Put the rows on disk."""
        os.fsync(self._file)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)
