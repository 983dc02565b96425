"""SQLite through one small interface, so that a test can put another SQLite, or a failing disk, in its place.

Invariant: one connection writes, and the same one checkpoints (SQLite before 3.51.3 can lose a write-ahead log that two
connections reset at once). Nothing is committed except by `commit`. Every failure of SQLite becomes a `JournalError`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Literal, Protocol

from thence.errors import MisuseError, TraceError
from thence.live.private import make_private

SyncMode = Literal["full", "normal"]
SqlValue = int | float | str | bytes | None
SqlRow = tuple[SqlValue, ...]

WAL_RESET_FIXED = (3, 51, 3)


class JournalError(TraceError):
    """The journal cannot be written, cannot be read, or has forgotten something."""


class Database(Protocol):
    """The operations of SQLite that the journal uses."""

    def execute(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[SqlRow]:
        """Run one statement and return its rows."""

    def execute_many(self, sql: str, rows: Iterable[Sequence[SqlValue]]) -> None:
        """Run one statement for each of many rows."""

    def begin(self) -> None:
        """Begin a transaction that writes."""

    def commit(self) -> None:
        """Put what was written on disk."""

    def rollback(self) -> None:
        """Take back what was written since `begin`."""

    def checkpoint(self) -> None:
        """Move what the write-ahead log holds into the database."""

    def close(self) -> None:
        """Close the files of the database."""


PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous={synchronous}",
    "PRAGMA wal_autocheckpoint=0",
    "PRAGMA foreign_keys=ON",
    "PRAGMA cache_size=-4000",
    "PRAGMA temp_store=MEMORY",
)


class StandardDatabase:
    """A journal's database, through the `sqlite3` of the standard library."""

    def __init__(self, path: Path | str, *, synchronous: SyncMode = "full") -> None:
        """Open or create a database file."""
        self.path = str(path)
        self._one_at_a_time = Lock()
        """one thread reads while another writes: a checkpoint fails if it meets a statement of this connection"""
        try:
            for each in (self.path, f"{self.path}-wal", f"{self.path}-shm"):
                if each == self.path or os.path.exists(each):  # SQLite makes the others like the first
                    make_private(each)
            self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=0.0)
        except (sqlite3.Error, OSError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            raise JournalError(f"journal {self.path} cannot be opened: {reason}") from error
        for pragma in PRAGMAS:
            self.execute(pragma.format(synchronous=synchronous.upper()))

    def execute(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[SqlRow]:
        """Run one statement and return its rows."""
        try:
            with self._one_at_a_time:
                return self._connection.execute(sql, parameters).fetchall()
        except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
            raise self._wrong(sql, error) from error

    def execute_many(self, sql: str, rows: Iterable[Sequence[SqlValue]]) -> None:
        """Run one statement for each of many rows."""
        try:
            with self._one_at_a_time:
                self._connection.executemany(sql, rows)
        except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
            raise self._wrong(sql, error) from error

    def _wrong(self, sql: str, error: Exception) -> JournalError:
        return JournalError(f"journal {self.path}: {error}, in {sql.split('(')[0].strip()[:60]}")

    def begin(self) -> None:
        """Begin a transaction that writes, and take SQLite's write lock."""
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Put what was written on disk."""
        self.execute("COMMIT")

    def rollback(self) -> None:
        """Take back what was written since `begin`."""
        if self._connection.in_transaction:
            self.execute("ROLLBACK")

    def checkpoint(self) -> None:
        """Move what the write-ahead log holds into the database, and restart the log."""
        self.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def backup(self, target: Path | str) -> None:
        """Write a consistent copy of what is committed, while the endpoint runs; may take long, so in another thread.

        It reads through a connection of its own, which cannot write: this one goes on meanwhile.
        """
        if Path(target).resolve() == Path(self.path).resolve():
            raise MisuseError(f"{target} is the journal itself; a copy goes to another file")
        try:
            make_private(target)
            with (
                closing(sqlite3.connect(f"{Path(self.path).absolute().as_uri()}?mode=ro", uri=True)) as source,
                closing(sqlite3.connect(target)) as other,
            ):
                source.backup(other)
        except (sqlite3.Error, OSError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            raise JournalError(f"journal {self.path} cannot be copied to {target}: {reason}") from error

    def guard(self, allowed: bool) -> None:
        """While `allowed` is false, refuse statements that touch the journal's own tables or end the transaction."""
        self._connection.set_authorizer(None if allowed else _authorize)

    def close(self) -> None:
        """Close the files of the database."""
        self._connection.close()


RESERVED = "thence_"
"""what the names of the journal's own tables begin with"""

_WRITES = {
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_UPDATE,
    sqlite3.SQLITE_DELETE,
    sqlite3.SQLITE_DROP_TABLE,
    sqlite3.SQLITE_DROP_INDEX,
    sqlite3.SQLITE_ALTER_TABLE,
    sqlite3.SQLITE_CREATE_TRIGGER,
}
_ENDS = {sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_PRAGMA}


def _authorize(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    ours = any(name is not None and name.lower().startswith(RESERVED) for name in (first, second))
    denied = action in _ENDS or (action in _WRITES and ours)
    return sqlite3.SQLITE_DENY if denied else sqlite3.SQLITE_OK
