"""A disk that forgets: SQLite over a file system of our own that logs every write and sync.

An image is what a power cut at some moment may leave: of each file everything that was synced, and of what was written
after that any part, write by write: kept, dropped, or torn at a sector.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import apsw

from thence.live.database import PRAGMAS, JournalError, SqlRow, SqlValue, SyncMode

SECTOR = 512


@dataclass
class Log:
    """What happened to the files, in order: (file, what, offset or size, data)."""

    steps: list[tuple[str, str, int, bytes]] = field(default_factory=list)
    fail_after: int | None = None
    failure: type[Exception] = apsw.IOError

    def add(self, name: str, what: str, at: int = 0, data: bytes = b"") -> None:
        if self.fail_after is not None:
            self.fail_after -= 1
            if self.fail_after < 0:
                raise self.failure("the disk fails")
        self.steps.append((Path(name).name, what, at, data))


class LoggedFile(apsw.VFSFile):
    def __init__(self, vfs: str, name: object, flags: list[int], log: Log) -> None:
        self.log = log
        self.name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__(vfs, name, flags)  # type: ignore[arg-type]

    def xWrite(self, data: bytes, offset: int) -> None:
        self.log.add(self.name, "write", offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self.log.add(self.name, "truncate", size)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        self.log.add(self.name, "sync")
        super().xSync(flags)


class LoggedDisk(apsw.VFS):
    def __init__(self, name: str, log: Log) -> None:
        self.log, self.label = log, name
        super().__init__(name, "")

    def xOpen(self, name: object, flags: list[int]) -> LoggedFile:  # type: ignore[override]
        return LoggedFile("", name, flags, self.log)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.log.add(filename, "delete")
        super().xDelete(filename, syncdir)


class ApswDatabase:
    """The journal's interface over the other SQLite."""

    def __init__(self, path: Path, *, synchronous: SyncMode = "full", vfs: str | None = None) -> None:
        self.path = str(path)
        self._connection = apsw.Connection(self.path, vfs=vfs)
        for pragma in PRAGMAS:
            self.execute(pragma.format(synchronous=synchronous.upper()))

    def execute(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[SqlRow]:
        try:
            return list(self._connection.cursor().execute(sql, tuple(parameters)))
        except apsw.Error as error:
            raise JournalError(f"journal {self.path}: {error}") from error

    def execute_many(self, sql: str, rows: Iterable[Sequence[SqlValue]]) -> None:
        try:
            self._connection.cursor().executemany(sql, [tuple(row) for row in rows])
        except apsw.Error as error:
            raise JournalError(f"journal {self.path}: {error}") from error

    def begin(self) -> None:
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self.execute("ROLLBACK")

    def checkpoint(self) -> None:
        self.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._connection.close(True)


def image(log: Log, steps: int, chance: Random, folder: Path) -> None:
    """Write into a folder what a power cut after that many steps may leave."""
    files: dict[str, bytearray] = {}
    pending: dict[str, list[tuple[str, int, bytes]]] = {}
    for name, what, at, data in log.steps[:steps]:
        if what == "delete":
            files.pop(name, None)
            pending.pop(name, None)
            continue
        waiting = pending.setdefault(name, [])
        if what != "sync":
            waiting.append((what, at, data))
            continue
        for each in waiting:
            _apply(files.setdefault(name, bytearray()), *each)
        waiting.clear()
    for name, waiting in pending.items():
        content = files.setdefault(name, bytearray())
        for what, at, data in waiting:
            fate = chance.random()
            if fate < 0.4:
                continue
            if fate < 0.6 and what == "write":
                data = data[: SECTOR * chance.randrange(0, len(data) // SECTOR + 1)]
            _apply(content, what, at, data)
    for name, content in files.items():
        if not name.endswith("-shm"):
            (folder / name).write_bytes(content)


def _apply(content: bytearray, what: str, at: int, data: bytes) -> None:
    if what == "truncate":
        del content[at:]
        return
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    content[at : at + len(data)] = data
