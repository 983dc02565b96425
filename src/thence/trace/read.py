"""One door for traces in files: which format each file has, and its rows one after the other, without Spark.

Law. A name decides the format where it can (.jsonl, .ndjson, .json, .parquet, .pq, each also .gz but
Parquet); else the content does. Tables give events, logs give clock events; what can be used in neither is
quarantined.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from thence.errors import MisuseError, TraceError
from thence.model.events import Event
from thence.trace.jsonl import located
from thence.trace.shiviz import ClockEvent, read_shiviz
from thence.trace.source import BROKEN, Quarantined, expand, open_bytes

Format = Literal["jsonl", "parquet", "shiviz"]
FORMATS: tuple[Format, ...] = ("jsonl", "parquet", "shiviz")
SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
SAMPLE = 1 << 16
CLOCK = re.compile(r'\{\s*"[^"\n]*"\s*:\s*\d')


@dataclass(slots=True)
class Trace:
    """Files and their formats; `events` and `clocks` read them, and `quarantine` grows on the way."""

    files: dict[Path, Format]
    pattern: str | None = None
    delimiter: str | None = None
    quarantine: list[Quarantined] = field(default_factory=list)

    def events(self) -> Iterator[Event]:
        """Yield the events of the tables, file by file.

        JSONL rows that say no `order` are numbered by line across the files.
        """
        start = 0
        for path, kind in self.files.items():
            if kind == "parquet":
                from thence.trace.parquet import read_parquet

                yield from read_parquet(path, self.quarantine)
            elif kind == "jsonl":
                start += yield from self._lines(path, start)

    def _lines(self, path: Path, start: int) -> Generator[Event, None, int]:
        """Yield the events of one JSONL file; return the number of its last line."""
        line = 0
        try:
            stream = open_bytes(path)
        except OSError as error:
            self.quarantine.append(Quarantined(str(path), None, f"it cannot be read: {error}"))
            return line
        with stream:
            for found in located(stream, str(path), start=start):
                if isinstance(found, Quarantined):
                    self.quarantine.append(found)
                    line = found.line or line
                else:
                    line, event = found
                    yield event
        return line

    def clocks(self) -> Iterator[ClockEvent]:
        """Yield the events of the logs, file by file."""
        for path, kind in self.files.items():
            if kind == "shiviz":
                yield from read_shiviz(path, self.quarantine, pattern=self.pattern, delimiter=self.delimiter)


def open_trace(
    paths: str | Path | Iterable[str | Path],
    format: str = "auto",
    pattern: str | None = None,
    delimiter: str | None = None,
) -> Trace:
    """Find the files behind names, folders and globs, and the format of each; only samples are read yet.

    A `pattern` says that what is no table by its name is a log.
    """
    if format not in ("auto", *FORMATS):
        raise MisuseError(f"no format {format!r}; auto, {', '.join(FORMATS)} are accepted")
    said = {name: name for name in FORMATS}.get(format)  # type: ignore[call-overload]
    files = {path: said or detect(path, log=pattern is not None) for path in expand(paths)}
    return Trace(files, pattern, delimiter)


def detect(path: Path, *, log: bool = False) -> Format:
    """Return the format of a file by its name, else by how it begins; `log`: what is no table is a log."""
    inner = path.with_suffix("") if path.suffix == ".gz" else path
    if inner.suffix.lower() in SUFFIXES:
        return SUFFIXES[inner.suffix.lower()]
    try:
        with open_bytes(path) as stream:
            raw = stream.read(SAMPLE)
    except BROKEN as error:
        raise TraceError(f"{path} cannot be read: {error}") from error
    if raw.startswith(b"PAR1"):
        return "parquet"
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    if log:
        return "shiviz"
    if text.lstrip().startswith("{"):
        return "jsonl"
    if CLOCK.search(text) or re.search(r"\(\?P?<clock>", text):
        return "shiviz"
    raise TraceError(
        f"{path} begins like no format known here; say which: {', '.join(FORMATS)}, "
        "or give a pattern with the groups host, clock and event"
    )
