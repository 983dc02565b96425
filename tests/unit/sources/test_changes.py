"""Records of transactions, shuffled, delivered: whole, in the order of commits, or behind the rows they refer to."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from thence import Orderer
from thence.errors import MisuseError
from thence.sources import Record, from_change, from_changes

GTID = "24da8b40-1c1b-11ee-be56-0242ac120002"
IDS = {
    "mysql": [f"{GTID}:{n}" for n in (9, 10, 11, 100)],
    "mysql tagged": [f"{GTID}:tag:{n}" for n in (9, 10, 11, 100)],
    "mariadb": [f"0-1-{n}" for n in (9, 10, 11, 100)],
    "sqlserver": [f"00000027:0000{n}:0005" for n in ("0758", "0a01", "1000", "1001")],
    "postgresql": ["31:900", "12:1000", "33:1100", "34:1200"],
}


def transaction(database: str, told: str, previous: str | None, number: int) -> list[Record]:
    source: dict[str, Any] = {"connector": database.split()[0], "name": "shop", "snapshot": "false", "db": "d"}
    if "mysql" in database or database == "mariadb":
        source |= {"file": f"bin.{9 + number:06d}", "pos": 4, "gtid": told}
    if database == "sqlserver":
        source |= {"commit_lsn": told, "schema": "dbo"}
    if database == "postgresql":
        lsn = int(told.split(":")[1])
        before = None if previous is None else previous.split(":")[1]
        source |= {"lsn": lsn - 5, "schema": "public", "sequence": json.dumps([before, str(lsn - 5)])}
    change = [
        {"op": "c", "source": source | {"table": table, "row": n}, "after": {"id": number},
         "transaction": {"id": told, "total_order": n, "data_collection_order": 1}}
        for n, table in enumerate(("customer", "orders"), 1)
    ]  # fmt: skip
    begin = {"status": "BEGIN", "id": told, "event_count": None}
    end = {"status": "END", "id": told, "event_count": 2}
    return [
        Record(json.dumps(begin), None, "shop.transaction", 0, 2 * number),
        *(Record(json.dumps(each), None, f"shop.d.{each['source']['table']}", 0, number) for each in change),
        Record(json.dumps(end), None, "shop.transaction", 0, 2 * number + 1),
    ]


def topic(database: str, *, offsets: bool) -> tuple[list[Record], list[str]]:
    records, wanted, previous = [], [], None
    for number, told in enumerate(IDS[database]):
        records += transaction(database, told, previous, number)
        name = told.split(":")[0] if database == "postgresql" else told
        wanted += [f"tx{name}/1", f"tx{name}/2"]
        previous = told
    return records if offsets else [each._replace(offset=None) for each in records], wanted


def delivered(rows: list[Any], seed: int) -> list[dict[str, Any]]:
    shuffled = list(rows)
    Random(seed).shuffle(shuffled)
    return list(Orderer("depends_on", key=["destination"]).deliver(shuffled))


def changes(out: list[dict[str, Any]]) -> list[str]:
    return [row["message"] for row in out if row["kind"] == "create"]


@pytest.mark.parametrize("database", IDS)
@pytest.mark.parametrize("offsets", [True, False])
def test_transactions_seen_together_come_in_the_order_of_commits(database: str, offsets: bool) -> None:
    records, wanted = topic(database, offsets=offsets)
    for seed in range(10):
        out = delivered(from_changes(records), seed)
        assert {row["outcome"] for row in out} == {"delivered"}, seed
        assert changes(out) == wanted, seed


@pytest.mark.parametrize("database", IDS)
def test_one_record_at_a_time_with_offsets_is_enough(database: str) -> None:
    records, wanted = topic(database, offsets=True)
    out = delivered([from_change(each) for each in records], 3)
    assert {row["outcome"] for row in out} == {"delivered"}
    assert changes(out) == wanted


def test_two_gtids_are_two_transactions() -> None:
    records, _ = topic("mysql", offsets=True)
    rows = from_changes(records, order="transaction")
    assert len({row["message"] for row in rows}) == len(rows)
    assert {row["outcome"] for row in delivered(rows, 1)} == {"delivered"}


@pytest.mark.parametrize(("database", "since"), [
    ("mysql", f"{GTID}:10"), ("mariadb", "0-1-10"), ("sqlserver", "00000027:00000a01:0005"),
    ("postgresql", 1000), ("postgresql", "0/3E8"),
])  # fmt: skip
@pytest.mark.parametrize("together", [True, False])
def test_what_lies_before_since_counts_as_delivered(database: str, since: int | str, together: bool) -> None:
    records, wanted = topic(database, offsets=True)
    late = records[2:]  # the middle of a transaction that is over at `since`
    rows = from_changes(late, since=since) if together else [from_change(each, since=since) for each in late]
    out = delivered(rows, 5)
    assert changes(out) == wanted[4:]
    aside = [row for row in out if row["outcome"] == "quarantined"]
    assert {row["kind"] for row in aside} == {"before"}
    assert all(row["note"] for row in aside)
    assert len(out) == len(late)
    assert {row["outcome"] for row in out} == {"delivered", "quarantined"}


def test_a_topic_read_from_an_offset() -> None:
    records, wanted = topic("sqlserver", offsets=True)
    rows = [from_change(each, since="offset 3") for each in records[8:]]
    assert changes(delivered(rows, 1)) == wanted[4:]
    blocked = delivered([from_change(each) for each in records[8:]], 1)
    assert {row["blocker"] for row in blocked if row["outcome"] == "blocked"} == {"boundary/shop.transaction/0/3"}


@pytest.mark.parametrize("since", ["yesterday", True, "", "uuid:10"])
def test_since_that_is_no_place(since: Any) -> None:
    with pytest.raises(MisuseError, match="offset N"):
        from_change(None, since=since)


def test_a_row_of_a_snapshot_that_nothing_names_is_set_aside_alone() -> None:
    row = {"op": "r", "source": {"name": "shop", "table": "log", "snapshot": "true"}, "after": {"x": 1}}
    alone = from_change(row)
    assert (alone["kind"], alone["message"]) == ("snapshot", None)
    assert "without key and offset" in str(alone["note"])
    first, second = (from_change(Record(row, None, "shop.log", 0, offset))["message"] for offset in (1, 2))
    assert first != second
    assert None not in (first, second)


def test_two_equal_rows_of_a_snapshot_are_two_rows() -> None:
    source = {"name": "shop", "schema": "public", "table": "log", "snapshot": "true"}
    row = {"op": "r", "source": source, "after": {"text": "same"}, "transaction": None}
    told = from_changes([row, row, row | {"source": source | {"snapshot": "last"}}])
    out = delivered(told, 1)
    assert [each["outcome"] for each in out] == ["delivered"] * 3
    assert out[-1]["message"] == "snapshot/last"
    placed = [from_change(Record(json.dumps(row), None, "shop.public.log", 0, n)) for n in (4, 5, 5)]
    assert len({each["message"] for each in placed}) == 2  # the same offset is the same record once more


KEYS = {"orders.customer": "customer.id", "line.orders": "orders.id"}


def row_change(op: str, table: str, n: int, tx: int, **fields: Any) -> dict[str, Any]:
    before, after = (fields, None) if op == "d" else (None, fields)
    source = {"name": "shop", "db": "d", "table": table, "file": "bin.000001", "pos": 100 * tx, "row": n}
    told = {"id": f"0-1-{tx}", "total_order": n, "data_collection_order": 1}
    return {"op": op, "source": source, "before": before, "after": after, "transaction": told}


def test_keys_let_rows_wait_for_their_parents_alone() -> None:
    records = [
        row_change("c", "customer", 1, 1, id=1), row_change("c", "customer", 1, 2, id=2),
        row_change("c", "orders", 1, 3, id=7, customer=1), row_change("c", "line", 1, 4, id=70, orders=7),
        row_change("u", "customer", 1, 5, id=1, name="x"), row_change("d", "line", 1, 6, id=70, orders=7),
        row_change("d", "orders", 1, 7, id=7, customer=1), row_change("d", "customer", 1, 8, id=1),
        row_change("c", "customer", 1, 9, id=1), row_change("c", "orders", 1, 10, id=8, customer=1),
    ]  # fmt: skip
    rows = from_changes(records, order="keys", foreign_keys=KEYS)
    causes = {row["message"]: set(row["depends_on"]) for row in rows}
    assert causes["tx0-1-2/1"] == set()  # nothing connects it with anything
    assert causes["tx0-1-3/1"] == {"tx0-1-1/1"}
    assert causes["tx0-1-7/1"] >= {"tx0-1-3/1", "tx0-1-6/1"}  # its lines go first
    assert causes["tx0-1-8/1"] >= {"tx0-1-5/1", "tx0-1-7/1"}
    assert causes["tx0-1-10/1"] == {"tx0-1-9/1"}  # the row that was created again
    for seed in range(20):
        seen: set[tuple[str, int]] = set()
        for row in delivered(rows, seed):
            assert row["outcome"] == "delivered"
            record = records[[each["message"] for each in rows].index(row["message"])]
            image, table = record["after"] or record["before"], record["source"]["table"]
            for child, parent in KEYS.items():
                if child.startswith(f"{table}.") and record["op"] == "c":
                    assert (parent.split(".")[0], image[child.split(".")[1]]) in seen, seed
            (seen.discard if record["op"] == "d" else seen.add)((table, image["id"]))


def test_a_parent_that_is_not_there_is_named_or_lies_before_since() -> None:
    record = row_change("c", "orders", 1, 3, id=7, customer=1)
    (row,) = from_changes([record], order="keys", foreign_keys=KEYS)
    assert row["depends_on"] == ["row/customer[1]"]
    (row,) = from_changes([record], order="keys", foreign_keys=KEYS, since="0-1-2")
    assert row["depends_on"] == []
    deferred = [row_change("c", "orders", 1, 3, id=7, customer=1), row_change("c", "customer", 2, 3, id=1)]
    told = from_changes(deferred, order="keys", foreign_keys=KEYS)
    assert [each["depends_on"] for each in told] == [["tx0-1-3/2"], []]
    untold = {**record, "transaction": None}
    assert from_changes([untold], order="keys", foreign_keys=KEYS)[0]["message"] is not None
    with pytest.raises(MisuseError, match="columns"):
        from_changes([record], order="keys", foreign_keys={"orders.a,b": "customer.id"})


def test_names_in_foreign_keys_that_the_records_do_not_have_are_told(caplog: pytest.LogCaptureFixture) -> None:
    records = [row_change("c", "customer", 1, 1, id=1), row_change("c", "orders", 1, 2, id=7, customer=1)]
    for keys, told in (
        ({"orders.custmer": "customer.id"}, "orders has no column 'custmer'; found: customer, id"),
        ({"orders.customer": "d.customer.number"}, "d.customer has no column 'number'; found: id"),
    ):
        with pytest.raises(MisuseError, match=told):
            from_changes(records, order="keys", foreign_keys=keys)
    assert not caplog.records
    from_changes(records, order="keys", foreign_keys={"oders.customer": "customer.id"})
    assert caplog.messages == ["foreign_keys: the records hold no rows of a table oders; found: customer, orders"]


@pytest.mark.parametrize("whole", [True, False])
def test_keys_take_the_order_of_commits_from_the_transaction_topic_where_changes_do_not_name_it(whole: bool) -> None:
    stripped = []
    for record in topic("postgresql", offsets=True)[0]:
        body = json.loads(record.value)
        if "op" in body:
            body["source"] = {key: body["source"][key] for key in ("connector", "name", "snapshot", "schema", "table")}
            body["after"] = {"id": 1}
        stripped.append(record._replace(value=json.dumps(body)))
    expected = {f"tx{a}/1": [f"tx{b}/1"] for a, b in (("12", "31"), ("33", "12"), ("34", "33"))}
    keys = {"orders.id": "customer.id"}
    for seed in range(10):
        mixed = Random(seed).sample(stripped, len(stripped))
        rows = from_changes(mixed, order="keys", foreign_keys=keys, whole=whole)
        assert all(row["outcome"] == "delivered" for row in delivered(rows, seed))
        if not whole:
            causes = {row["message"]: row["depends_on"] for row in rows}
            assert {name: causes[name] for name in expected} == expected


def test_what_a_change_waits_for_by_keys_is_not_known_before_all_earlier_ones_have_come() -> None:
    """Why a stream has no such order: an earlier transaction that is still on its way changes the answer."""
    anew = row_change("c", "customer", 1, 3, id=1)
    first, gone = row_change("c", "customer", 1, 1, id=1), row_change("d", "customer", 1, 2, id=1)
    child = row_change("c", "orders", 1, 4, id=7, customer=1)
    waits = [
        from_changes([*known, child], order="keys", foreign_keys=KEYS)[-1]["depends_on"]
        for known in ([], [first], [first, gone], [first, gone, anew])
    ]
    assert waits == [["row/customer[1]"], ["tx0-1-1/1"], ["tx0-1-2/1"], ["tx0-1-3/1"]]


def test_an_order_that_does_not_exist() -> None:
    with pytest.raises(MisuseError, match="transaction, commit, keys"):
        from_change(None, order="time")  # type: ignore[arg-type]
    with pytest.raises(MisuseError, match="transaction, commit, keys"):
        from_changes([], order="time")  # type: ignore[arg-type]


@pytest.mark.parametrize("database", IDS)
def test_changes_without_the_transaction_topic_say_what_is_not_read(database: str) -> None:
    records, _ = topic(database, offsets=True)
    assert {row["note"] for row in from_changes(records)} == {None}
    rows = from_changes([each for each in records if each.topic != "shop.transaction"])
    assert [row["note"] is None for row in rows] == [False, True] * 4
    assert rows[0]["note"] == (
        f"{rows[0]['transaction']}/begin is not among the records: is the topic shop.transaction read too?"
    )


def test_changes_of_one_commit_of_sql_server_go_by_their_serial_number() -> None:
    """Without a topic of transactions, the change says its commit and its place there."""

    def changed(number: int) -> dict[str, Any]:
        source = {"name": "shop", "db": "d", "schema": "dbo", "table": "customer"}
        source |= {"commit_lsn": "00000027:00000ac0:0002", "event_serial_no": number}  # type: ignore[dict-item]
        return {"op": "u", "source": source, "before": {"id": 1}, "after": {"id": 1, "name": f"n{number}"}}

    for order in ([1, 2, 3], [3, 1, 2], [2, 3, 1]):
        rows = from_changes([changed(number) for number in order], order="keys", foreign_keys=KEYS)
        named = {number: row["message"] for number, row in zip(order, rows, strict=True)}
        causes = {number: row["depends_on"] for number, row in zip(order, rows, strict=True)}
        assert causes == {1: [], 2: [named[1]], 3: [named[2]]}, order
