"""Debezium's records seen together: transactions in the order of their commits, or rows behind the rows they refer to.

Invariant: `order="commit"`: the transactions of one connector form one chain, in the order of their commits as far as
the records tell it (offsets of the transaction topic, else LSNs and places in the binary log); a snapshot comes before
the first. `order="keys"`: `keyed.py`. `order="transaction"`: each transaction alone. Two equal rows of a snapshot of a
table without key are two rows: the second is named with its number. `whole=True`: a transaction goes only if END and
all of its changes are among the records; else its BEGIN waits for what is missing, by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

from thence.core.model.plain import Fields
from thence.errors import PeerError
from thence.tables.delivery.without_collection import without_collection
from thence.tables.sources.arrival import Record
from thence.tables.sources.avro import Schemas
from thence.tables.sources.commits import LogPosition, binlog, commit_mark, since_mark
from thence.tables.sources.debezium import (
    SNAPSHOT_END,
    ChangeOrder,
    DebeziumArrival,
    ReadChange,
    check_order,
    from_change,
    named_before,
    read_change,
    value_of,
)
from thence.tables.sources.keyed import behind_keys
from thence.tables.sources.unit_causes import only_whole


def from_changes(
    records: Iterable[Record | Fields | str | bytes | None],
    *,
    order: ChangeOrder = "commit",
    since: int | str | None = None,
    server: str | None = None,
    schemas: Schemas | None = None,
    foreign_keys: Mapping[str, str] | None = None,
    whole: bool = False,
) -> list[DebeziumArrival]:
    """Return the arrivals of records of one Debezium connector, in the order they were given.

    Args:
        records: a `Record` each, or just its value.
        order: how changes depend on each other: `commit` (in commit order), `transaction` (within one) or `keys` (by
            foreign keys).
        since: a position in the source's log; changes at or before it count as delivered.
        server: the connector's topic prefix, where neither a record nor its topic says it.
        schemas: Avro schemas by id, for values with the Confluent header.
        foreign_keys: for `order="keys"`: which columns refer to which, as in `{"orders.customer": "customer.id"}`,
            several columns separated by commas. A column that no row of its table has is refused, a table without rows
            is logged.
        whole: deliver a transaction only if its END and all of its `event_count` changes are among the records, and
            after the whole snapshot; rows that wait name what is missing. `thence.sources.whole_transactions` groups
            what was delivered.
    """
    check_order(order)
    with without_collection():
        return _arrivals(records, order, since, server, schemas, foreign_keys or {}, whole)


def _arrivals(
    records: Iterable[Record | Fields | str | bytes | None],
    order: ChangeOrder,
    since: int | str | None,
    server: str | None,
    schemas: Schemas | None,
    foreign_keys: Mapping[str, str],
    whole: bool,
) -> list[DebeziumArrival]:
    mark = None if since is None else since_mark(since)
    reads = [_read(each, order, mark, server, schemas) for each in records]
    known = server or next((read.row["destination"] for read in reads if read.row["destination"]), None)
    for read in reads:
        read.row["destination"] = read.row["destination"] or known
    _number_equal_rows(reads)
    if order == "commit":
        _chain(reads, mark)
        _name_what_never_began(reads)
    elif order == "keys":
        behind_keys(reads, foreign_keys, mark is not None, _places(reads))
    if whole:
        only_whole(reads, _places(reads) if order == "keys" else None)
    return [read.row for read in reads]


def _read(
    each: Record | Fields | str | bytes | None,
    order: ChangeOrder,
    since: LogPosition | None,
    server: str | None,
    schemas: Schemas | None,
) -> ReadChange:
    record = each if isinstance(each, Record) else Record(each)
    try:
        body = value_of(record.value, schemas)
    except PeerError:
        return ReadChange(record, {}, from_change(record, order=order, server=server, schemas=schemas))
    alone: ChangeOrder = "transaction" if order == "commit" else order
    return ReadChange(record, body or {}, read_change(record, body, alone, since, server))


def _number_equal_rows(reads: list[ReadChange]) -> None:
    """Name equal rows of a snapshot apart; with a key or an offset the same name is the same record once more."""
    seen: Counter[str] = Counter()
    for record, _, row in reads:
        name = row["message"]
        if row["kind"] != "snapshot" or name is None or record.key is not None or record.place is not None:
            continue
        seen[name] += 1
        if seen[name] > 1 and name != SNAPSHOT_END:
            row["message"] = f"{name}#{seen[name]}"


def _chain(reads: list[ReadChange], since: LogPosition | None) -> None:
    """Let each transaction wait for the end of the one that committed before, the first for the snapshot."""
    snapshot = [row["message"] for _, _, row in reads if row["kind"] == "snapshot" and row["message"]]
    end_of_snapshot = _close_snapshot(reads, snapshot)
    places = _places(reads)
    order = sorted(places, key=lambda name: places[name])
    ends = {row["transaction"]: str(row["message"]) for _, _, row in reads if row["kind"] == "end"}
    before = {name: ends.get(earlier, f"commit/{earlier[2:]}") for earlier, name in pairwise(order)}
    for _, body, row in reads:
        name = row["transaction"]
        if row["message"] is None or not _opens(row):
            continue
        if name in before:
            row["depends_on"].append(before[name])
        elif name in places:
            row["depends_on"] += end_of_snapshot
        else:
            row["depends_on"] += named_before(body.get("source") or {}, since) or end_of_snapshot


def _name_what_never_began(reads: list[ReadChange]) -> None:
    """Return the reason for the first change of a transaction, which waits for a BEGIN that is not there."""
    began = {row["message"] for _, _, row in reads if row["kind"] == "begin"}
    for _, _, row in reads:
        begin = f"{row['transaction']}/begin"
        if begin in row["depends_on"] and begin not in began and row["kind"] != "end":
            topic = f"{row['destination'] or 'SERVER'}.transaction"
            row["note"] = f"{begin} is not among the records: is the topic {topic} read too?"


def _opens(row: DebeziumArrival) -> bool:
    return row["message"] in (f"{row['transaction']}/1", f"{row['transaction']}/begin") and not row["note"]


def _close_snapshot(reads: list[ReadChange], taken: list[str]) -> list[str]:
    """Let the last row of a snapshot wait for the others, and return what stands for the whole snapshot."""
    if not taken:
        return []
    others = sorted({name for name in taken if name != SNAPSHOT_END})
    if SNAPSHOT_END not in taken:
        return others
    for _, _, row in reads:
        if row["message"] == SNAPSHOT_END:
            row["depends_on"] = others
    return [SNAPSHOT_END]


def _places(reads: list[ReadChange]) -> dict[str, tuple[int, ...]]:
    """Return where each transaction committed, as far as the records tell; one measure for all of them."""
    offsets: dict[str, tuple[int, ...]] = {}
    marks: dict[str, tuple[int, ...]] = {}
    logs: dict[str, tuple[int, ...]] = {}
    for record, body, row in reads:
        name = row["transaction"]
        if name is None or row["message"] is None or row["note"]:
            continue
        if row["kind"] in ("begin", "end"):
            if record.offset is not None:
                offsets[name] = (record.offset,)
            mark = commit_mark(str(body["id"]))
            if mark is not None and (mark.log != "lsn" or row["kind"] == "end"):
                marks[name] = mark.number
        else:
            source: Fields = body.get("source") or {}
            place = binlog(source.get("file"), source.get("pos"))
            if place is not None:
                logs[name] = min(place, logs.get(name, place))
    if offsets.keys() >= logs.keys() and offsets.keys() >= marks.keys():
        return offsets
    return logs if logs else marks
