"""The journal: the inputs of a core on disk, two snapshots of it, and what is known of the peers.

Invariant: a row is there wholly or not at all, and once `commit` has returned under `full` it stays, whatever becomes
of the process or the power. Rows are numbered without a gap behind the older of the two snapshots. Each carries the
release that wrote it, a checksum of its data, and the digest of what it set free; a chain, so that a missing or altered
row shows. The mark, a few bytes beside the database that are written after every commit and never waited for, says how
far the journal had come: a database behind its mark has forgotten something and is refused.

A damaged or incomplete journal is rejected, with a sentence that says what to do; nothing is guessed.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from thence import __version__
from thence.live.database import Database, JournalError, SqlRow
from thence.live.group import InboxEntry
from thence.live.inputs import payload_in
from thence.live.outbox import OutboxItem

FORMAT = 1
SNAPSHOTS_KEPT = 2
TOGETHER = 512
"""rows that are written in one call of SQLite, which costs half as much as one call for each"""
_MARK = Struct(">QI")

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS thence_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS thence_inputs (number INTEGER PRIMARY KEY, kind INTEGER NOT NULL, time REAL NOT NULL, "
    "version TEXT NOT NULL, data BLOB NOT NULL, crc INTEGER NOT NULL, digest BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS thence_snapshots (number INTEGER PRIMARY KEY, position INTEGER NOT NULL, "
    "version TEXT NOT NULL, data BLOB NOT NULL, digest BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS thence_outbox (peer INTEGER, number INTEGER, head BLOB NOT NULL, ref INTEGER NOT NULL, "
    "crc INTEGER NOT NULL, PRIMARY KEY (peer, number)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS thence_peers (name TEXT PRIMARY KEY, identity TEXT, acked INTEGER NOT NULL, "
    "crc INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS thence_inbox (number INTEGER PRIMARY KEY, label TEXT, sender INTEGER NOT NULL, "
    "count INTEGER NOT NULL, ref INTEGER NOT NULL, until INTEGER, crc INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS thence_inbox_until ON thence_inbox (until) WHERE until IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS thence_attempts (number INTEGER PRIMARY KEY, attempts INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS thence_outbox_ref ON thence_outbox (ref)",
)


class InputRow(NamedTuple):
    """One input as it stands in the journal."""

    number: int
    kind: int
    time: float
    version: str
    data: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after input `number`; `position` is the index of the last row of the trace by then."""

    number: int
    position: int
    version: str
    data: bytes


class JournalPosition:
    """The journal's progress mark, and the lock that excludes a second process."""

    def __init__(self, path: Path) -> None:
        """Open or create the file."""
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise JournalError(
                f"{path.with_suffix('')} is in use by another process; one endpoint to a journal"
            ) from None

    def read(self) -> int:
        """Return the number of the last input known to be committed; 0 if the file does not say."""
        data = os.pread(self._file, _MARK.size, 0)
        if len(data) < _MARK.size:
            return 0
        number, crc = _MARK.unpack(data)
        return int(number) if zlib.crc32(data[:8]) == crc else 0

    def write(self, number: int) -> None:
        """Write the number of the last committed input."""
        head = number.to_bytes(8, "big")
        os.pwrite(self._file, head + zlib.crc32(head).to_bytes(4, "big"), 0)

    def close(self) -> None:
        """Release the lock on the file."""
        os.close(self._file)


class Journal:
    """The tables of one endpoint."""

    def __init__(self, database: Database, mark: JournalPosition | None = None) -> None:
        """Take an open database; make the tables if they are not there."""
        self.database, self.mark = database, mark
        self.failed: str | None = None
        self._peers: dict[str, tuple[str | None, int]] | None = None
        """the result of `peers`, kept until a rollback"""
        self._rows: list[SqlRow] = []
        """inputs of the group that SQLite has not seen yet"""
        for row in database.execute("PRAGMA quick_check(1)"):
            if row[0] != "ok":
                raise JournalError(f"the journal is damaged: {row[0]!r}; {RESTORE}")
        database.begin()
        for statement in SCHEMA:
            database.execute(statement)
        self._meta("format", str(FORMAT))
        self._meta("identity", secrets.token_hex(16))
        database.commit()
        found = self.meta("format")
        if found != str(FORMAT):
            raise JournalError(f"journal of format {found}; this release reads {FORMAT}")
        identity = self.meta("identity") or ""
        if len(identity) != 32 or not identity.isalnum():
            raise JournalError(f"the journal says {identity!r} is its identity, which is invalid; {RESTORE}")
        self.identity = identity

    def _meta(self, key: str, value: str) -> None:
        self.database.execute("INSERT OR IGNORE INTO thence_meta VALUES (?, ?)", (key, value))

    def meta(self, key: str) -> str | None:
        """Return an entry about the whole journal, by its key."""
        rows = self.database.execute("SELECT value FROM thence_meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else None

    def settle(self, key: str, value: str) -> str:
        """Set an entry unless it is set already, and return its value."""
        self._meta(key, value)
        return self.meta(key) or ""

    # -- writing -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a group of rows."""
        if self.failed:
            raise JournalError(self.failed)
        self.database.begin()

    def append(self, row: InputRow) -> None:
        """Add an input to the group."""
        number, kind, time, version, data, digest = row
        self._rows.append((number, kind, time, version, data, _row_crc(row), digest))
        if len(self._rows) >= TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Write the inputs of the group to SQLite, still uncommitted."""
        if self._rows:
            rows, self._rows = self._rows, []
            self.database.execute_many("INSERT INTO thence_inputs VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def spill(self, peer: int, entry: OutboxItem) -> None:
        """Add an item that has no room in memory."""
        row = (peer, entry.number, entry.head, entry.ref)
        self.database.execute("INSERT OR REPLACE INTO thence_outbox VALUES (?, ?, ?, ?, ?)", (*row, _checksum(row)))

    def acknowledged(self, peer: int, name: str, number: int) -> None:
        """Record up to which item a peer has written its items to its journal."""
        self._know(name, self._known(name)[0], number)
        self.database.execute("DELETE FROM thence_outbox WHERE peer = ? AND number <= ?", (peer, number))

    def acquainted(self, name: str, identity: str) -> None:
        """Note the identity of a peer's journal at the first meeting."""
        self._know(name, identity, self._known(name)[1])

    def _known(self, name: str) -> tuple[str | None, int]:
        if self._peers is None:
            self._peers = self.peers()
        return self._peers.get(name, (None, 0))

    def _know(self, name: str, identity: str | None, acked: int) -> None:
        row = (name, identity, acked)
        if self._peers is not None:
            self._peers[name] = (identity, acked)
        self.database.execute("INSERT OR REPLACE INTO thence_peers VALUES (?, ?, ?, ?)", (*row, _checksum(row)))

    def snapshot(self, taken: Snapshot) -> int | None:
        """Add a snapshot and forget all but the last two; return the number of the older, None if there is but one."""
        digest = blake2b(taken.data, digest_size=16).digest()
        execute = self.database.execute
        execute(
            "INSERT OR REPLACE INTO thence_snapshots VALUES (?, ?, ?, ?, ?)",
            (taken.number, taken.position, taken.version, taken.data, digest),
        )
        numbers = [_int(row[0]) for row in execute("SELECT number FROM thence_snapshots ORDER BY number DESC")]
        if len(numbers) < SNAPSHOTS_KEPT:
            return None
        older = numbers[SNAPSHOTS_KEPT - 1]
        execute("DELETE FROM thence_snapshots WHERE number < ?", (older,))
        execute("DELETE FROM thence_inbox WHERE until <= ?", (older,))
        return older

    def keep_inbox(self, snapshot: int, fresh: Iterable[InboxEntry], done: Iterable[InboxEntry]) -> None:
        """Add deliveries to the inbox of snapshots from this one on, and end others with it."""
        rows: list[SqlRow] = [(number, *key, ref, None) for number, key, ref, _ in fresh]
        rows += [(number, *key, ref, snapshot) for number, key, ref, _ in done]
        self.database.execute_many(
            "INSERT OR REPLACE INTO thence_inbox VALUES (?, ?, ?, ?, ?, ?, ?)", [(*row, _checksum(row)) for row in rows]
        )

    def tried(self, delivery: int, attempts: int) -> None:
        """Note how often a delivery was tried; 0 forgets it."""
        if attempts:
            self.database.execute("INSERT OR REPLACE INTO thence_attempts VALUES (?, ?)", (delivery, attempts))
        else:
            self.database.execute("DELETE FROM thence_attempts WHERE number = ?", (delivery,))

    def prune(self, numbers: Sequence[int]) -> None:
        """Forget these inputs, apart from those whose payload an item in the journal needs."""
        if numbers:
            self.database.execute(
                "DELETE FROM thence_inputs WHERE number IN (SELECT value FROM json_each(?)) "
                "AND NOT EXISTS (SELECT 1 FROM thence_outbox WHERE ref = thence_inputs.number)",
                (json.dumps(list(numbers)),),
            )

    def commit(self, number: int) -> None:
        """Put the group on disk; `number` is its last input. If that fails, nothing more is taken."""
        self.flush()
        self._or_never(self.database.commit)
        if self.mark is not None:
            self.mark.write(number)

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database. If that fails, nothing more is taken."""
        self._or_never(self.database.checkpoint)

    def _or_never(self, write: Callable[[], None]) -> None:
        try:
            write()
        except JournalError as error:
            self.failed = f"the journal could not be written and takes nothing more: {error}"
            raise JournalError(self.failed) from error

    def rollback(self) -> None:
        """Discard the group of inputs that was being written."""
        self._peers, self._rows = None, []
        self.database.rollback()

    def close(self) -> None:
        """Close the database and release the lock."""
        self.database.close()
        if self.mark is not None:
            self.mark.close()

    # -- reading -----------------------------------------------------------------------------------------------------

    def last(self) -> int:
        """Return the number of the last input."""
        row = self.database.execute(
            "SELECT max(coalesce((SELECT max(number) FROM thence_inputs), 0), "
            "coalesce((SELECT max(number) FROM thence_snapshots), 0))"
        )[0]
        return _int(row[0])

    def snapshots(self) -> list[Snapshot]:
        """Return the snapshots, the latest first; a damaged one is refused."""
        found = []
        for number, position, version, data, digest in self.database.execute(
            "SELECT number, position, version, data, digest FROM thence_snapshots ORDER BY number DESC"
        ):
            content = _bytes(data)
            if blake2b(content, digest_size=16).digest() != digest:
                raise JournalError(f"the snapshot after input {number!r} is damaged; {RESTORE}")
            found.append(Snapshot(_int(number), _int(position), str(version), content))
        return found

    def inbox(self, snapshot: int | None = None, deliveries: int | None = None) -> list[InboxEntry]:
        """Return the inbox after this number of deliveries; without a number, the latest."""
        found = []
        for row in self.database.execute(
            "SELECT number, label, sender, count, ref, until, crc FROM thence_inbox "
            "WHERE number <= coalesce(?, number) AND (until IS NULL OR until > ?) ORDER BY number",
            (deliveries, snapshot),
        ):
            number, label, sender, count, ref, _, crc = row
            if _checksum(row[:-1]) != crc:
                raise JournalError(f"delivery {number!r} is damaged in the journal; {RESTORE}")
            key = (None if label is None else str(label), _int(sender), _int(count))
            found.append(InboxEntry(_int(number), key, _int(ref)))
        return found

    def attempts(self) -> dict[int, int]:
        """Return how often deliveries were tried, of those that are known to have been."""
        rows = self.database.execute("SELECT number, attempts FROM thence_attempts")
        return {_int(number): _int(attempts) for number, attempts in rows}

    def numbers(self, after: int, upto: int, limit: int = -1) -> list[int]:
        """Return the numbers of the inputs that are here, in order."""
        rows = self.database.execute(
            "SELECT number FROM thence_inputs WHERE number > ? AND number <= ? ORDER BY number LIMIT ?",
            (after, upto, limit),
        )
        return [_int(row[0]) for row in rows]

    def inputs(self, after: int) -> Iterator[InputRow]:
        """Yield the inputs behind a number, in order; a gap or a damaged row is refused."""
        expected = after + 1
        for row in self.database.execute(
            "SELECT number, kind, time, version, data, crc, digest FROM thence_inputs WHERE number > ? ORDER BY number",
            (after,),
        ):
            found = _input(row)
            if found.number != expected:
                raise JournalError(f"input {expected} is missing from the journal; {RESTORE}")
            expected += 1
            yield found

    def payload(self, ref: int) -> bytes:
        """Return the payload that an input brought."""
        rows = self.database.execute(
            "SELECT number, kind, time, version, data, crc, digest FROM thence_inputs WHERE number = ?", (ref,)
        )
        if not rows:
            raise JournalError(f"input {ref}, whose payload is needed, is missing from the journal; {RESTORE}")
        row = _input(rows[0])
        return payload_in(row.kind, row.data)

    def time(self, number: int) -> float | None:
        """Return when an input was taken; None if it is not here any more."""
        rows = self.database.execute("SELECT time FROM thence_inputs WHERE number = ?", (number,))
        return float(str(rows[0][0])) if rows else None

    def spilled(self, peer: int, first: int, limit: int) -> list[OutboxItem]:
        """Return items for a peer that are not in memory, in order."""
        rows = self.database.execute(
            "SELECT peer, number, head, ref, crc FROM thence_outbox WHERE peer = ? AND number >= ? "
            "ORDER BY number LIMIT ?",
            (peer, first, limit),
        )
        found = []
        for row in rows:
            if _checksum(row[:-1]) != row[-1]:
                raise JournalError(f"item {row[1]!r} for a peer is damaged in the journal; {RESTORE}")
            found.append(OutboxItem(_int(row[1]), _bytes(row[2]), _int(row[3]), None if row[3] else b""))
        return found

    def peers(self) -> dict[str, tuple[str | None, int]]:
        """Return for each peer met the identity of its journal and how far it has acknowledged."""
        found = {}
        for row in self.database.execute("SELECT name, identity, acked, crc FROM thence_peers"):
            if _checksum(row[:-1]) != row[-1]:
                raise JournalError(f"what is known of peer {row[0]!r} is damaged in the journal; {RESTORE}")
            found[str(row[0])] = (None if row[1] is None else str(row[1]), _int(row[2]))
        return found

    def bytes(self) -> int:
        """Return the size of the database, without its write-ahead log."""
        pages, size = self.database.execute("PRAGMA page_count")[0][0], self.database.execute("PRAGMA page_size")[0][0]
        return _int(pages) * _int(size)


RESTORE = (
    "this endpoint must not continue with it: give the process up at its peers and start it under another name, "
    "with a journal of its own"
)


def _checksum(row: SqlRow) -> int:
    return zlib.crc32(repr(row).encode())


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise JournalError(f"the journal holds {value!r} where a whole number belongs; {RESTORE}")
    return value


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise JournalError(f"the journal holds {value!r:.40} where bytes belong; {RESTORE}")
    return value


def _input(row: SqlRow) -> InputRow:
    number, kind, time, version, data, crc, digest = row
    if not isinstance(time, float):
        raise JournalError(f"input {number!r} is damaged in the journal; {RESTORE}")
    found = InputRow(_int(number), _int(kind), time, str(version), _bytes(data), _bytes(digest))
    if _row_crc(found) != crc:
        raise JournalError(f"input {number!r} is damaged in the journal; {RESTORE}")
    return found


def _row_crc(row: InputRow) -> int:
    head = f"{row.number} {row.kind} {row.time!r} {row.version} {row.digest.hex()} ".encode()
    return zlib.crc32(row.data, zlib.crc32(head))


RELEASE = __version__
"""the release that wrote rows and snapshots"""
