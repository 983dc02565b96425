"""Choice of the engine for a table in files: this process, or Spark for tables that do not fit here.

Invariant: both engines give the same answer; the choice is about time and memory alone. `auto` takes this process as
long as the rows fit into half of the memory that is free now, by an estimate from bytes on disk and rows in Parquet
footers. A choice says why it was made and how to make the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from thence.errors import MisuseError
from thence.tables.files.formats import PARQUET, by_name
from thence.tables.files.memory import SHARE, free_memory
from thence.tables.files.source import GZIP
from thence.tables.files.source import PACKED as PACKED_NAMES

ROW_BYTES = 320
"""Memory that one row takes at the peak of an audit in this process (measured: 250 to 300)."""
LINE_BYTES = 100
"""Bytes of a line of JSONL, about; gzip makes ten of them one."""
PACKED = 10
LEAST_ESTIMATE = 10_000
"""Smaller estimates are shown as "fewer than" this number."""


class Engine(StrEnum):
    """The values that `--engine` accepts."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Which engine runs a command, and why."""

    engine: Engine
    """LOCAL or SPARK"""
    why: str

    def __str__(self) -> str:
        other = Engine.SPARK if self.engine is Engine.LOCAL else Engine.LOCAL
        who = "in this process" if self.engine is Engine.LOCAL else "on Spark"
        return f"{who} ({self.why}; --engine {other} chooses the other)"


def choose_engine(asked: str, files: Iterable[Path], *, free: int | None = None) -> EngineChoice:
    """Choose the engine for some files; `free` is the memory in bytes that counts as free, measured if not given."""
    if asked not in tuple(Engine):
        raise MisuseError(f"no engine {asked!r}; {', '.join(Engine)} are accepted")
    if asked != Engine.AUTO:
        return EngineChoice(Engine(asked), "as asked")
    rows = sum(estimated_rows(path) for path in files)
    room = int(SHARE * (free_memory() if free is None else free))
    some = f"about {rows:,} rows" if rows >= LEAST_ESTIMATE else f"fewer than {LEAST_ESTIMATE:,} rows"
    reason = f"{some}, {rows * ROW_BYTES / 1e9:.1f} of {room / 1e9:.1f} GB"
    return EngineChoice(Engine.LOCAL if rows * ROW_BYTES <= room else Engine.SPARK, reason)


def estimated_rows(path: Path) -> int:
    """Return the approximate number of rows in a file: from Parquet's footer, else from the size."""
    try:
        size, named = path.stat().st_size, by_name(path)
        if named is None:
            with path.open("rb") as stream:
                head = stream.read(4)
            named, packed = "parquet" if head == PARQUET else None, head.startswith(GZIP)
        else:
            packed = path.suffix.lower() in PACKED_NAMES
    except OSError:
        return 0  # the reader says why not
    if named == "parquet":
        return _footer_rows(path, size)
    return size * (PACKED if packed else 1) // LINE_BYTES


def _footer_rows(path: Path, size: int) -> int:
    try:
        from thence.tables.files.parquet_reader import UNREADABLE, footer
    except ModuleNotFoundError:
        return size * PACKED // LINE_BYTES
    try:
        return int(footer(str(path)).num_rows)
    except UNREADABLE:
        return size // LINE_BYTES
