"""Transactions of four databases: what Debezium calls them, and where their commits lie in the log.

Invariant: two ids name one transaction iff `transaction` gives the same text for both. Nothing is cut at a colon but an
id of the form `number:number`, which only the PostgreSQL connector writes (`txId:LSN`, and the LSN differs from record
to record). A mark is a place in a log; two marks can be compared iff they are of one log.

| connector | id of a transaction | its mark |
|---|---|---|
| PostgreSQL | `571:53195832`, txId:LSN | the LSN of the commit, in the id of the END event |
| MySQL with GTIDs | `24da...:10` or `24da...:tag:10` | the number, among transactions of the same source |
| MariaDB | `0-1-42`, domain-server-sequence | the sequence number, in its domain |
| SQL Server | `00000025:00000d08:0025`, the commit LSN | itself |

References: Debezium documentation, the section "Transaction metadata" of each connector; MySQL Reference Manual,
"GTID format and storage"; MariaDB Knowledge Base, "Global transaction ID".
"""

from __future__ import annotations

import re
from typing import NamedTuple

from thence.errors import MisuseError

_POSTGRES = re.compile(r"(\d+):(\d+)")
_SLASHED = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_SQL_SERVER = re.compile(r"([0-9A-Fa-f]{8}):([0-9A-Fa-f]{8}):([0-9A-Fa-f]{4})")
_MARIADB = re.compile(r"(\d+)-(\d+)-(\d+)")
_GTID = re.compile(r"([0-9A-Fa-f-]{36}(?::\w+)?):(\d+)")
_OFFSET = re.compile(r"offset (\d+)")
_FILE = re.compile(r"(.*?)(\d+)")


class LogPosition(NamedTuple):
    """A place in a log."""

    log: str
    number: tuple[int, ...]

    def reaches(self, other: LogPosition | None) -> bool:
        """Return whether `other` lies at or before this mark, in the same log."""
        return other is not None and other.log == self.log and other.number <= self.number


def transaction(transaction_id: str) -> str:
    """Return the name of a transaction: its whole id, or PostgreSQL's txId without the LSN."""
    found = _POSTGRES.fullmatch(transaction_id)
    return found[1] if found else transaction_id


def commit_mark(transaction_id: str) -> LogPosition | None:
    """Return where the transaction of this id lies, as far as the id tells; PostgreSQL's only in an END event."""
    if found := _POSTGRES.fullmatch(transaction_id):
        return LogPosition("lsn", (int(found[2]),))
    if found := _SQL_SERVER.fullmatch(transaction_id):
        return LogPosition("sql server", tuple(int(part, 16) for part in found.groups()))
    if found := _MARIADB.fullmatch(transaction_id):
        return LogPosition(f"domain {found[1]}", (int(found[3]),))
    if found := _GTID.fullmatch(transaction_id):
        return LogPosition(found[1].lower(), (int(found[2]),))
    return None


def since_mark(since: int | str) -> LogPosition:
    """Read what a caller says the start is: an LSN, a GTID, or `offset N` of the transaction topic."""
    if isinstance(since, int) and not isinstance(since, bool):
        return LogPosition("lsn", (since,))
    place = str(since).strip()
    if place.isdecimal():
        return LogPosition("lsn", (int(place),))
    if found := _SLASHED.fullmatch(place):
        return LogPosition("lsn", ((int(found[1], 16) << 32) + int(found[2], 16),))
    if found := _OFFSET.fullmatch(place):
        return LogPosition("offset", (int(found[1]),))
    mark = commit_mark(place)
    if mark is None:
        raise MisuseError(
            f"since is {since!r}; an LSN (number, 0/16B3748 or 00000025:00000d08:0025), a GTID "
            "(uuid:10 or 0-1-42) or 'offset N' of the transaction topic is accepted"
        )
    return mark


def binlog(file: object, position: object) -> tuple[int, ...] | None:
    """Return a place in the binary log as numbers: that of the file, then the position in it."""
    found = _FILE.fullmatch(str(file))
    try:
        return None if found is None else (int(found[2]), int(str(position)))
    except ValueError:
        return None
