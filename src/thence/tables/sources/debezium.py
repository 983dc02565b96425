"""Debezium's records, one at a time, as arrivals: PostgreSQL, MySQL, MariaDB, SQL Server.

Invariant: Within a transaction the k-th change (`transaction.total_order`) waits for the one before, the first for
BEGIN, and END waits for the last of its `event_count` changes, so that it stands for the whole transaction. With
`order="commit"` transactions also wait for each other, in the order of the transaction topic: BEGIN waits for the
boundary at the offset before its own, where offsets are known and the topic has one partition; without offsets, the
first change of a PostgreSQL transaction waits for the END that `source.sequence` names. Every record has an outcome:

| kind | what it is | outcome |
|---|---|---|
| create, update, delete, truncate, message | a change with transaction metadata | waits as above |
| begin, end | a record of the transaction topic | waits as above |
| snapshot | a row of the initial snapshot | waits for nothing; `from_changes` lets the first transaction wait for all |
| incremental | a row of an incremental or ad-hoc snapshot | waits for nothing: no transaction wrote it |
| untold | a change without transaction metadata | set aside, unless `order="keys"` |
| tombstone | no value, or a null payload | set aside: the delete before it says the same |
| heartbeat, schema change, signal | not a row of a table | set aside |
| unreadable | neither JSON nor Avro of a known schema, or another form | set aside |
| before | a change at or before `since` | set aside: it counts as delivered; its boundaries come, waiting for nothing |

A record that is set aside has no message id and a note that says why. So is, alone, a row of a snapshot that has
neither key nor offset; `from_changes` tells it from an equal one.

References: Debezium documentation 3.x, "Data change events" and "Transaction metadata" of each connector, "Heartbeat",
"Schema change topic", "Ad hoc snapshots"; Kafka Connect's JSON converter for the envelope of schema and payload.
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal, NamedTuple, get_args

from thence.core.model.plain import Fields, Json
from thence.errors import MisuseError, PeerError
from thence.tables.sources.arrival import Arrival, Record, seconds_of
from thence.tables.sources.avro import Schemas, decode_confluent, is_confluent
from thence.tables.sources.commits import LogPosition, commit_mark, since_mark, transaction

ChangeOrder = Literal["transaction", "commit", "keys"]
OPERATIONS = {"c": "create", "u": "update", "d": "delete", "t": "truncate", "m": "message", "r": "snapshot"}
SNAPSHOT_END = "snapshot/last"
NAMELESS = "a row of a snapshot without key and offset: alone, it cannot be distinguished from an equal one"
_TIMES = {"ts_ms", "ts_us", "ts_ns"}

MOST_CHANGES = 10_000_000
"""of one transaction: END may name them all"""
_OBJECTS = ("before", "after", "source", "transaction")
_TEXTS = ("name", "table", "schema", "db")
_NUMBERS = ("lsn", "row", "event_serial_no")


class DebeziumArrival(Arrival):
    """The arrival of a Debezium record."""

    transaction: str | None
    """its name, without what differs from record to record"""


class ReadChange(NamedTuple):
    """A record, its payload, and its arrival."""

    record: Record
    body: Fields
    row: DebeziumArrival


def from_change(
    record: Record | Fields | str | bytes | None,
    *,
    order: ChangeOrder = "commit",
    since: int | str | None = None,
    server: str | None = None,
    schemas: Schemas | None = None,
) -> DebeziumArrival:
    """Return the arrival of one record of a Debezium connector.

    Args:
        record: a `Record`, or just its value.
        order: how changes depend on each other: `commit` (in commit order), `transaction` (within one) or `keys` (by
            foreign keys).
        since: a position in the source's log; changes at or before it count as delivered.
        server: the connector's topic prefix, where neither a record nor its topic says it.
        schemas: Avro schemas by id, for values with the Confluent header.
    """
    check_order(order)
    whole = record if isinstance(record, Record) else Record(record)
    mark = None if since is None else since_mark(since)
    try:
        body = value_of(whole.value, schemas)
    except PeerError as error:
        return _aside("unreadable", str(error), server or _prefix(whole))
    row = read_change(whole, body, order, mark, server)
    if row["kind"] == "snapshot" and row["message"] != SNAPSHOT_END and whole.key is None and whole.place is None:
        return row | {"message": None, "note": NAMELESS}
    return row


def check_order(order: str) -> None:
    """Raise an error for an unknown order."""
    if order not in get_args(ChangeOrder):
        raise MisuseError(f"order is {order!r}; {', '.join(get_args(ChangeOrder))} are accepted")


def read_change(
    record: Record, body: Fields | None, order: ChangeOrder, since: LogPosition | None, server: str | None
) -> DebeziumArrival:
    """Return the arrival of a record whose value has been read."""
    server = server or _prefix(record)
    if body is None:
        return _aside("tombstone", "no value: a tombstone, for the compaction of a topic", server)
    wrong = misshapen(body)
    if wrong is not None:
        return _aside("unreadable", wrong, server)
    if body.get("status") in ("BEGIN", "END") and body.get("id") is not None:
        return _boundary(record, body, order, since, server)
    if "op" in body:
        return _change(record, body, order, since, server)
    if "ddl" in body or "tableChanges" in body:
        return _aside("schema change", "a change of a table's schema, which belongs to no transaction", server)
    if body and body.keys() <= _TIMES:
        return _aside("heartbeat", "a heartbeat of the connector", server)
    if body.keys() >= {"id", "type", "data"}:
        return _aside("signal", "a signal to the connector", server)
    fields = ", ".join(sorted(map(str, body))[:8]) or "nothing"
    return _aside(
        "unreadable", f"no change event: it has {fields}; op and source are needed (was it flattened?)", server
    )


def value_of(value: Fields | str | bytes | None, schemas: Schemas | None = None) -> Fields | None:
    """Return the payload of a value: JSON with or without its schema, Avro with the Confluent header, or a mapping."""
    payload: Json = value
    if isinstance(payload, bytes | bytearray | memoryview):
        payload = bytes(payload)
        if is_confluent(payload):
            return _mapping(decode_confluent(payload, schemas or {}))
    if isinstance(payload, str | bytes):
        try:
            payload = json.loads(payload) if payload else None
        except (ValueError, RecursionError) as error:
            raise PeerError(f"neither JSON nor Avro with a Confluent header: {error}") from None
    payload = _mapping(payload)
    enveloped = payload is not None and "payload" in payload and payload.keys() <= {"schema", "payload"}
    return _mapping(payload["payload"]) if payload is not None and enveloped else payload


def record_key(key: Fields | str | bytes) -> Fields | str | None:
    """Return the payload of a record's key, or the key itself where it is not an object (another converter's)."""
    if isinstance(key, bytes) and is_confluent(key):
        return key.hex()
    try:
        return value_of(key)
    except PeerError:
        return key.hex() if isinstance(key, bytes) else str(key)


def _mapping(value: Json) -> Fields | None:
    if value is None or isinstance(value, dict):
        return value
    if hasattr(value, "keys"):
        return dict(value)
    raise PeerError(f"a {type(value).__name__}; an object with op and source is accepted")


def digest(value: object) -> str:
    """Return a short name for any value of JSON."""
    body = json.dumps(value, sort_keys=True, default=str, separators=(",", ":"))
    return hashlib.blake2b(body.encode(), digest_size=12).hexdigest()


def table_of(source: Fields) -> str:
    """Return the name of a table, with its schema or database."""
    space = source.get("schema") or source.get("db")
    return f"{space}.{source.get('table')}" if space else str(source.get("table"))


def _aside(kind: str, note: str, server: str | None) -> DebeziumArrival:
    return {
        "run": None,
        "destination": server,
        "message": None,
        "sender": None,
        "time": None,
        "depends_on": [],
        "kind": kind,
        "note": note,
        "transaction": None,
    }


def _prefix(record: Record) -> str | None:
    """Return the topic prefix, which the name of a transaction topic tells."""
    topic = record.topic or ""
    return topic.removesuffix(".transaction") if topic.endswith(".transaction") else None


def _boundary(
    record: Record, body: Fields, order: ChangeOrder, since: LogPosition | None, server: str | None
) -> DebeziumArrival:
    transaction_id, ends = str(body["id"]), body["status"] == "END"
    name = f"tx{transaction(transaction_id)}"
    row = _aside("end" if ends else "begin", "", server)
    row |= {"transaction": name, "time": seconds_of(body.get("ts_ms")), "note": None}
    row["message"] = end_id(record, transaction_id) if ends else f"{name}/begin"
    if passed(transaction_id, record, since):
        row["note"] = "at or before since"
        # A BEGIN of PostgreSQL has the LSN of its first change: its transaction may have committed behind `since`.
        if ends or since is None or since.log != "lsn":
            return row
    if ends and (count := int(body.get("event_count") or 0)):
        row["depends_on"] = [f"{name}/{each}" for each in (range(1, count + 1) if order == "keys" else (count,))]
    elif ends:
        row["depends_on"] = [f"{name}/begin"]
    elif order == "commit" and record.place is not None and record.offset:
        before = record._replace(offset=record.offset - 1)
        if not (since is not None and since.log == "offset" and before.offset == since.number[0]):
            row["depends_on"] = [end_id(before, transaction_id)]
    return row


def end_id(record: Record, transaction_id: str) -> str:
    """Return the id of a boundary that another transaction can wait for: by its offset, else by its own id."""
    if record.place is not None:
        return f"boundary/{record.place}"
    mark = commit_mark(transaction_id)
    return f"commit/{mark.number[0]}" if mark is not None and mark.log == "lsn" else f"commit/{transaction_id}"


def passed(transaction_id: str, record: Record, since: LogPosition | None) -> bool:
    """Return whether a boundary lies at or before the start."""
    if since is None:
        return False
    if since.log == "offset":
        return record.offset is not None and record.offset <= since.number[0]
    return since.reaches(commit_mark(transaction_id))


def _change(
    record: Record, body: Fields, order: ChangeOrder, since: LogPosition | None, server: str | None
) -> DebeziumArrival:
    source: Fields = body.get("source") or {}
    within = body.get("transaction")
    row = _aside(OPERATIONS.get(str(body["op"]), "unreadable"), "", server or source.get("name"))
    row |= {"sender": source.get("table"), "time": seconds_of(source.get("ts_ms")), "note": None}
    if row["kind"] == "unreadable":
        return row | {"note": f"op is {body['op']!r}; {', '.join(OPERATIONS)} are accepted"}
    taken = str(source.get("snapshot") or "false").lower()
    if taken == "incremental":
        return row | {"kind": "incremental", "message": f"incremental/{place_id(record, body)}"}
    if taken != "false" or row["kind"] == "snapshot":
        if since is not None:
            return row | {"kind": "before", "note": "a snapshot, which lies before since"}
        last = taken == "last"
        return row | {"kind": "snapshot", "message": SNAPSHOT_END if last else f"snapshot/{place_id(record, body)}"}
    if not within or within.get("id") is None:
        return _untold(row, record, body, order)
    name, number = f"tx{transaction(str(within['id']))}", int(within["total_order"])
    row |= {"transaction": name, "message": f"{name}/{number}"}
    if since is not None and _change_passed(str(within["id"]), source, since):
        return row | {"kind": "before", "message": None, "note": f"{name}/{number} lies at or before since"}
    if order != "keys":
        row["depends_on"] = [f"{name}/{number - 1 if number > 1 else 'begin'}"]
    if order == "commit" and number == 1 and record.place is None:
        row["depends_on"] += named_before(source, since)
    return row


def _untold(row: DebeziumArrival, record: Record, body: Fields, order: ChangeOrder) -> DebeziumArrival:
    """Return the row of a change that names no transaction: its keys alone can put it in order."""
    if order == "keys":
        return row | {"message": f"change/{place_id(record, body)}"}
    note = "no transaction metadata; set provide.transaction.metadata=true, or use order='keys'"
    return row | {"kind": "untold", "note": note}


def _change_passed(transaction_id: str, source: Fields, since: LogPosition) -> bool:
    """Return whether the transaction of a change committed at or before the start.

    A PostgreSQL change says the commit before its own transaction's; those come in the order of commits, so it lies
    after the start iff that one does not lie before it.
    """
    mark = commit_mark(transaction_id)
    if mark is None or mark.log != "lsn":
        return since.reaches(mark)
    before = commit_before(source)
    return since.log == "lsn" and (before is None or before < since.number[0])


def commit_before(source: Fields) -> int | None:
    """Return the LSN of the commit before, as PostgreSQL's `source.sequence` says it."""
    sequence_text = source.get("sequence")
    sequence = json.loads(sequence_text) if isinstance(sequence_text, str) and sequence_text else sequence_text
    return None if not sequence or sequence[0] is None else int(sequence[0])


def named_before(source: Fields, since: LogPosition | None) -> list[str]:
    """Return the END that a change names as the commit before its own."""
    before = commit_before(source)
    if before is None or (since is not None and since.reaches(LogPosition("lsn", (before,)))):
        return []
    return [f"commit/{before}"]


def place_id(record: Record, body: Fields) -> str:
    """Name a row that no transaction numbers: by its offset, else by its key and place in the log, else by itself."""
    source: Fields = body.get("source") or {}
    if record.place is not None:
        return record.place
    if record.key is not None:
        where = [source.get(each) for each in ("lsn", "file", "pos", "row", "change_lsn", "event_serial_no", "ts_ns")]
        return f"{table_of(source)}/{digest([record_key(record.key), where])}"
    return f"{table_of(source)}/{digest([body.get('before'), body.get('after'), source])}"


# -- the form of a record ----------------------------------------------------------------------------------------------


def misshapen(body: Fields) -> str | None:
    """Name the first field whose value cannot be read, what was found and what would be accepted; None if all can be.

    It is asked before anything else looks into a record, so that a record of another form aborts nothing.
    """
    for name in _OBJECTS:
        if not isinstance(body.get(name) or {}, dict):
            return _wrong(name, body[name], "an object")
    source, transaction = body.get("source") or {}, body.get("transaction") or {}
    for name in _TEXTS:
        if not isinstance(source.get(name), str | None):
            return _wrong(f"source.{name}", source[name], "a text")
    for name in _NUMBERS:
        if source.get(name) is not None and not _whole(source[name]):
            return _wrong(f"source.{name}", source[name], "a whole number")
    if not _is_sequence(source.get("sequence")):
        return _wrong("source.sequence", source["sequence"], "a list of LSNs")
    if transaction.get("id") is not None and not _whole(transaction.get("total_order")):
        return _wrong("transaction.total_order", transaction.get("total_order"), "a whole number")
    return _wrong_count(body)


def _wrong_count(body: Fields) -> str | None:
    count = body.get("event_count")
    if body.get("status") != "END" or count is None:
        return None
    if _whole(count) and int(count) <= MOST_CHANGES:
        return None
    return _wrong("event_count", count, f"a whole number up to {MOST_CHANGES}")


def _wrong(name: str, found: object, accepted: str) -> str:
    shown = repr(found)
    return f"{name} is {shown if len(shown) < 60 else shown[:60] + '...'}; {accepted} is accepted"


def _whole(value: object) -> bool:
    """Return whether a value is a whole number from 0 up, or the text of one; none has more than twenty digits."""
    if isinstance(value, str):
        return value.isdecimal() and len(value) <= 20
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**20


def _is_sequence(value: object) -> bool:
    """Return whether PostgreSQL's `sequence` is a list of LSNs (null for one that is not known), or the JSON of one."""
    try:
        found = json.loads(value) if isinstance(value, str) and value else value
    except (ValueError, RecursionError):
        return False
    return not found or (isinstance(found, list) and all(each is None or _whole(each) for each in found))
