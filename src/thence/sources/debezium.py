"""Debezium change events of PostgreSQL as arrivals: whole transactions, in the order of their commits.

Law. Within a transaction the k-th change (`transaction.total_order`) waits for the one before, the first for BEGIN. The
END event waits for the last of its `event_count` changes, so that it stands for the whole transaction. The first change
of a transaction also waits for the END of the transaction that committed before: `source.sequence` names its commit
LSN, and the END event's id carries its own. Changes of many tables thus have one order, and a child row never precedes
its parent. Snapshot rows come before changes: the row marked `last` waits for the other snapshot rows, the first
transaction for that row.

Needs `provide.transaction.metadata=true`, and the transaction topic beside the topics of the tables. A publication
should cover exactly the captured tables: a transaction of which nothing is captured has no END to wait for.

Record by record (`from_change`) nothing is remembered, so it suits a stream; only what follows a snapshot must be seen
together with it (`from_changes`), since no record says how many rows a snapshot has. With `between=False` transactions
are independent: make the transaction the key of delivery, and each is put in order alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

SNAPSHOT_END = "snapshot/last"
Row = dict[str, Any]


def from_change(
    value: Mapping[str, Any] | str, *, server: str | None = None, between: bool = True, snapshot: bool = False
) -> Row:
    """Return the arrival of one record: a change event, or a BEGIN or END of the transaction topic.

    `server`: the connector's topic prefix, which is the destination of all its records; only change events say it
    themselves. `snapshot`: whether a snapshot came first, so that the first transaction waits for its end.
    """
    record = json.loads(value) if isinstance(value, str) else dict(value)
    record = record.get("payload", record)
    if record.get("status") in ("BEGIN", "END"):
        return _boundary(record, server)
    source = record.get("source") or {}
    transaction = record.get("transaction")
    row: Row = {"run": None, "destination": server or source.get("name"), "sender": source.get("table")}
    row |= {"transaction": None, "time": (source.get("ts_ms") or 0) / 1000 or None}
    if str(source.get("snapshot", "false")) not in ("false", "incremental"):
        return row | {"message": _snapshot_id(record, source), "depends_on": []}
    if not transaction:
        return row | {"message": None, "depends_on": []}
    name = _transaction(transaction["id"])
    order = int(transaction["total_order"])
    causes = [f"{name}/{order - 1 if order > 1 else 'begin'}"]
    if order == 1 and between:
        causes += _before(source, snapshot)
    return row | {"transaction": name, "message": f"{name}/{order}", "depends_on": causes}


def from_changes(
    values: Iterable[Mapping[str, Any] | str], *, server: str | None = None, between: bool = True
) -> list[Row]:
    """Return the arrivals of records of one connector that hold a whole snapshot, if they hold one."""
    records = [json.loads(value) if isinstance(value, str) else dict(value) for value in values]
    bodies = [record.get("payload", record) for record in records]
    server = server or next((body["source"]["name"] for body in bodies if body.get("source")), None)
    rows = [from_change(record, server=server, between=between) for record in records]
    taken = [row["message"] for row in rows if str(row["message"]).startswith("snapshot/")]
    if not taken or not between:
        return rows
    rows = [from_change(record, server=server, snapshot=True) for record in records]
    for row in rows:
        if row["message"] == SNAPSHOT_END:
            row["depends_on"] = sorted({name for name in taken if name != SNAPSHOT_END})
    return rows


def _boundary(record: Mapping[str, Any], server: str | None) -> Row:
    name = _transaction(record["id"])
    row: Row = {"run": None, "destination": server, "sender": None, "transaction": name}
    row["time"] = (record.get("ts_ms") or 0) / 1000 or None
    if record["status"] == "BEGIN":
        return row | {"message": f"{name}/begin", "depends_on": []}
    count = int(record.get("event_count") or 0)
    return row | {
        "message": f"commit/{record['id'].rpartition(':')[2]}",
        "depends_on": [f"{name}/{count}"] if count else [],
    }


def _transaction(text: str) -> str:
    """Return the transaction's own id; Debezium adds an LSN that differs from record to record."""
    return f"tx{text.partition(':')[0]}"


def _before(source: Mapping[str, Any], snapshot: bool) -> list[str]:
    told = source.get("sequence")
    sequence = json.loads(told) if isinstance(told, str) else told
    if sequence and sequence[0] is not None:
        return [f"commit/{sequence[0]}"]
    return [SNAPSHOT_END] if snapshot else []


def _snapshot_id(record: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    if str(source["snapshot"]) == "last":
        return SNAPSHOT_END
    body = json.dumps(record.get("after"), sort_keys=True, default=str, separators=(",", ":"))
    return f"snapshot/{source.get('schema')}.{source.get('table')}/{body}"
