"""Transactions leave whole or not at all: with every record missing in turn, in every order, alone and together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from tempfile import gettempdir
from typing import Any

import pytest
from support.some import some

from thence import Orderer
from thence.errors import MisuseError, TraceError
from thence.sources import Record, WholeTransaction, WholeTransactions, from_changes, whole_transactions

SERVER = "shop"


def log(sizes: list[int]) -> list[Record]:
    """Return transactions of these sizes as a PostgreSQL connector writes them, in three topics with offsets."""
    records: list[Record] = []
    offsets: dict[str, int] = {}

    def add(topic: str, body: dict[str, Any], key: str | None = None) -> None:
        offsets[topic] = offsets.get(topic, -1) + 1
        records.append(Record(json.dumps(body), key, topic, 0, offsets[topic]))

    for n, size in enumerate(sizes):
        told = f"{500 + n}:{1000 * (n + 1)}"
        add("shop.transaction", {"status": "BEGIN", "id": told, "event_count": None})
        for k in range(1, size + 1):
            table = ("customer", "orders")[k % 2]
            source = {"name": SERVER, "schema": "public", "table": table, "snapshot": "false", "lsn": 1000 * n + k}
            source["sequence"] = json.dumps([str(1000 * n) if n else None, str(1000 * n + k)])
            within = {"id": told, "total_order": k, "data_collection_order": k}
            after = {"id": 100 * n + k}
            add(f"shop.{table}", {"op": "c", "source": source, "after": after, "transaction": within})
        add("shop.transaction", {"status": "END", "id": told, "event_count": size})
    return records


def together(records: list[Record], seed: int, **options: Any) -> list[WholeTransaction]:
    rows = from_changes(records, whole=True, **options)
    arrivals = [{**row, **record._asdict()} for row, record in zip(rows, records, strict=True)]
    Random(seed).shuffle(arrivals)
    ordered = Orderer("depends_on", key=["destination"]).deliver(arrivals)
    return list(whole_transactions(ordered, order=options.get("order", "commit")))


def alone(records: list[Record], seed: int, **options: Any) -> tuple[list[WholeTransaction], WholeTransactions]:
    shuffled = list(records)
    Random(seed).shuffle(shuffled)
    transactions = WholeTransactions(**options)
    return [each for record in shuffled for each in transactions.push(record)], transactions


def numbers(unit: WholeTransaction) -> list[int]:
    return [change["transaction"]["total_order"] for change in unit]


SIZES = [2, 0, 3, 1]
NAMES = ["tx500", "tx501", "tx502", "tx503"]


@pytest.mark.parametrize("order", ["commit", "transaction", "keys"])
@pytest.mark.parametrize("missing", [None, *range(len(log(SIZES)))])
def test_a_transaction_leaves_whole_or_not_at_all(order: Any, missing: int | None) -> None:
    records = log(SIZES)
    lost = None if missing is None else from_changes(records, order="transaction")[missing]["transaction"]
    left = [each for place, each in enumerate(records) if place != missing]
    wanted = NAMES
    if lost is not None:
        wanted = NAMES[: NAMES.index(lost)] if order != "transaction" else [name for name in NAMES if name != lost]
    for seed in range(3):
        ways = [together(left, seed, order=order)]
        if order != "keys":
            ways.append(alone(left, seed, order=order)[0])
        for found in some(ways):
            assert sorted(each.name for each in found) == wanted, (order, missing, seed)
            if order == "commit":
                assert [each.name for each in found] == wanted
            for each in found:
                assert numbers(each) == list(range(1, SIZES[NAMES.index(each.name)] + 1))
                assert each.id is not None
                assert each.place is not None


def test_waiting_names_transactions_that_are_not_whole() -> None:
    records = log([3, 1])
    end_of_first, second_change = records[4], records[2]
    _, transactions = alone([each for each in records if each is not end_of_first], 1)
    told = {each["transaction"]: each for each in transactions.waiting()}
    assert told["tx500"]["reason"] == "tx500: END has not arrived; 3 changes are there"
    assert told["tx501"]["expected"] == 1
    _, transactions = alone([each for each in records if each is not second_change], 2)
    told = {each["transaction"]: each for each in transactions.waiting()}
    assert told["tx500"]["reason"] == "tx500: 2 of 3 changes are there"
    assert told["tx501"]["reason"] == "tx501: whole, but tx500/2 has not arrived"
    rows = from_changes([each for each in records if each is not second_change], whole=True)
    assert next(row for row in rows if row["message"] == "tx500/begin")["depends_on"] == ["tx500/2"]
    found = alone(records, 3)[1]
    assert found.waiting() == []


def test_a_large_transaction_spills_to_disk_and_has_a_limit() -> None:
    records = log([2500])
    (unit,), _ = alone(records, 1, in_memory=100)
    assert unit.changes.spilled > 2000
    assert numbers(unit) == list(range(1, 2501)) == numbers(unit)  # it can be read twice
    with pytest.raises(TraceError, match="tx500 of shop has more than 2000 changes; pass a larger limit="):
        alone(records, 1, limit=2000)
    with pytest.raises(MisuseError, match="in_memory is 0"):
        WholeTransactions(in_memory=0)


def test_rows_of_another_order_are_not_taken_for_commits() -> None:
    records = log([1, 1])
    rows = from_changes(records, order="transaction", whole=True)
    arrivals = [{**row, **record._asdict()} for row, record in zip(rows, records, strict=True)]
    ordered = list(Orderer("depends_on", key=["destination"]).deliver(arrivals[3:] + arrivals[:3]))
    assert [each.name for each in whole_transactions(ordered, order="transaction")] == ["tx501", "tx500"]
    with pytest.raises(TraceError, match=r"tx500 \(500:1000\) comes after tx501 \(501:2000\), and lies before it"):
        list(whole_transactions(ordered, order="commit"))


def snapshot(*rows: tuple[str, str]) -> list[Record]:
    return [
        Record({"op": "r", "source": {"name": SERVER, "table": table, "snapshot": mark}, "after": {"id": n}},
               f'{{"id": {n}}}', f"shop.{table}", 0, n)
        for n, (table, mark) in enumerate(rows, 100)
    ]  # fmt: skip


@pytest.mark.parametrize("order", ["commit", "transaction", "keys"])
def test_a_snapshot_is_one_unit_before_all_transactions(order: Any) -> None:
    rows = snapshot(("customer", "first"), ("orders", "true"), ("orders", "last"))
    for records in (log([2, 1]) + rows, log([2, 1]) + rows[:2]):  # also without the row that is marked as the last
        for seed in range(5):
            found = together(records, seed, order=order)
            assert [found[0].kind, found[0].name, len(found[0])] == ["snapshot", "snapshot", len(records) - 7]
            assert sorted(each.name for each in found[1:]) == ["tx500", "tx501"]


def test_alone_a_snapshot_ends_when_its_reader_says_so() -> None:
    rows, records = snapshot(("customer", "first"), ("orders", "last")), log([2, 1])
    with pytest.raises(MisuseError, match="snapshot=True"):
        alone(rows, 1)
    transactions = WholeTransactions(snapshot=True)
    assert [each for record in [*records, *rows] for each in transactions.push(record)] == []
    found = transactions.end_snapshot()
    assert [each.name for each in found] == ["snapshot", "tx500", "tx501"]
    assert [change["after"] for change in found[0]] == [{"id": 100}, {"id": 101}]
    assert [each.name for record in log([1, 1, 1])[6:] for each in transactions.push(record)] == ["tx502"]
    with pytest.raises(MisuseError, match="has ended"):
        transactions.push(rows[0])
    empty = WholeTransactions(snapshot=True)
    assert empty.end_snapshot() == []
    assert [each.name for record in records for each in empty.push(record)] == ["tx500", "tx501"]


@pytest.mark.parametrize("since", ["offset 1", 1000])
def test_what_lies_before_since_does_not_come_again(since: int | str) -> None:
    for seed in range(5):
        assert [each.name for each in alone(log([2, 1, 1]), seed, since=since)[0]] == ["tx501", "tx502"]


@pytest.mark.parametrize("order", ["commit", "transaction", "keys"])
@pytest.mark.parametrize("since", ["offset 1", 1000])
@pytest.mark.parametrize("lost", [None, 1])
def test_together_nothing_waits_for_what_lies_before_since(order: str, since: int | str, lost: int | None) -> None:
    records = [each for place, each in enumerate(log([2, 1, 1])) if place != lost]
    for seed in range(5):
        found = together(records, seed, order=order, since=since)
        assert sorted(each.name for each in found) == ["tx501", "tx502"]


def test_a_policy_that_goes_on_without_a_change_releases_no_half_transaction() -> None:
    records = log([2, 1])
    left = [each for place, each in enumerate(records) if place != 1]
    rows = from_changes(left, whole=True)
    arrivals = [{**row, **record._asdict()} for row, record in zip(rows, left, strict=True)]
    orderer = Orderer("depends_on", key=["destination"], policy="release", after_rows=1)
    assert [each.name for each in whole_transactions(orderer.deliver(arrivals), order="commit")] == ["tx501"]


def test_keys_put_transactions_behind_whole_transactions() -> None:
    def change(tx: int, n: int, table: str, **after: Any) -> Record:
        source = {"name": SERVER, "db": "d", "table": table, "file": "bin.000001", "pos": 100 * tx, "row": n}
        within = {"id": f"0-1-{tx}", "total_order": n, "data_collection_order": 1}
        return Record({"op": "c", "source": source, "before": None, "after": after, "transaction": within})

    def ends(tx: int, count: int) -> list[Record]:
        told = f"0-1-{tx}"
        return [Record({"status": "BEGIN", "id": told}), Record({"status": "END", "id": told, "event_count": count})]

    first = [change(1, 1, "customer", id=1), change(1, 2, "customer", id=2), *ends(1, 2)]
    second = [change(2, 1, "orders", id=7, customer=1), *ends(2, 1)]
    third = [change(3, 1, "customer", id=3), *ends(3, 1)]
    keys = {"orders.customer": "customer.id"}
    for seed in range(10):
        found = together(first + second + third, seed, order="keys", foreign_keys=keys, server=SERVER)
        names = [each.name for each in found]
        assert names.index("tx0-1-1") < names.index("tx0-1-2")
        assert {"tx0-1-1", "tx0-1-2", "tx0-1-3"} == set(names)
        lost = together(first + second[:2] + third, seed, order="keys", foreign_keys=keys, server=SERVER)
        assert [each.name for each in lost] == ["tx0-1-1"]  # what is missing may be a cause of the third
    truncate = Record({**change(3, 1, "customer").value, "op": "t"})  # type: ignore[dict-item]
    with pytest.raises(MisuseError, match="truncate"):
        from_changes([*first, truncate, *ends(3, 1)], order="keys", foreign_keys=keys, whole=True)


def test_a_transaction_that_began_before_since_and_committed_behind_it_waits_for_the_one_before() -> None:
    """A BEGIN of PostgreSQL has the LSN of the first change, so it does not say which side of since its END is on."""

    def boundary(offset: int, status: str, id: str) -> Record:
        body = {"status": status, "id": id, "event_count": 1 if status == "END" else None}
        return Record(json.dumps(body), None, "shop.transaction", 0, offset)

    def change(offset: int, id: str, before: int) -> Record:
        source = {"name": "shop", "schema": "public", "table": "t", "sequence": json.dumps([str(before), "1"])}
        body = {"op": "c", "source": source, "after": {"id": offset}, "transaction": {"id": id, "total_order": 1}}
        return Record(json.dumps(body), None, "shop.public.t", 0, offset)

    passed = [boundary(0, "BEGIN", "1:80"), change(0, "1:85", 70), boundary(1, "END", "1:100")]
    first = [boundary(2, "BEGIN", "2:110"), change(1, "2:111", 100), boundary(3, "END", "2:120")]
    second = [boundary(4, "BEGIN", "3:90"), change(2, "3:95", 120), boundary(5, "END", "3:130")]
    transactions = WholeTransactions(since=100)
    found = [unit for record in [*passed, *second, *first] for unit in transactions.push(record)]
    assert [unit.name for unit in found] == ["tx2", "tx3"]
    assert [len(unit) for unit in found] == [1, 1]


def test_nothing_empty_transactions_and_records_that_come_three_times() -> None:
    assert alone([], 1)[0] == together([], 1) == []
    for sizes in ([0], [1], [0, 0, 0], [30, 0, 30]):
        names = [f"tx{500 + place}" for place in range(len(sizes))]
        for seed in range(3):
            thrice = [*log(sizes), *log(sizes), *log(sizes)]
            for units in (together(log(sizes), seed), alone(thrice, seed)[0]):
                assert [unit.name for unit in units] == names
                assert [numbers(unit) for unit in units] == [list(range(1, size + 1)) for size in sizes]


def test_a_reader_that_stops_anywhere_goes_on_where_its_target_is() -> None:
    records = log([2, 0, 3, 1])
    for stopped in range(len(records) + 1):
        before = alone(records[:stopped], 1)[0]
        since = f"offset {before[-1].place.number[0]}" if before and before[-1].place else None
        after = WholeTransactions(since=since)
        found = [unit for record in records for unit in after.push(record)]
        assert [unit.name for unit in (*before, *found)] == NAMES


def test_records_that_are_part_of_no_transaction_are_counted_and_a_log_of_nothing_else_is_told() -> None:
    transactions = WholeTransactions()
    for value in ('{"id": 1, "customer": 7}', '{"id": 2, "customer": 7}', "no JSON"):
        assert transactions.push(Record(value, None, "shop.orders", 0, 0)) == []
    assert transactions.aside == {"unreadable": 3}
    (told,) = transactions.waiting()
    assert told["transaction"] is None
    assert told["reason"].startswith("none of 3 records is part of a transaction; the first: no change event: it has ")
    for record in log([1]):
        transactions.push(record)
    assert transactions.aside == {"unreadable": 3}
    assert transactions.waiting() == []


@pytest.mark.parametrize("options", [{"limit": 3}, {"in_memory": 3}])
def test_no_transaction_overtakes_one_that_did_not_fit(
    options: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: Path("/dev/full").open("wb"))  # noqa: SIM115
    transactions = WholeTransactions(**options)
    found, errors = list[str](), list[str]()
    for record in log([2, 5, 1]):
        try:
            found += [each.name for each in transactions.push(record)]
        except (TraceError, OSError) as error:
            errors.append(str(error))
    assert found == ["tx500"]
    reason = "has more than 3" if "limit" in options else f"beyond 3 do not fit into {gettempdir()}: No space left"
    assert re.search(f"transaction tx501 of shop.*{reason}", errors[0])
    assert len(errors) == 6
    assert all(each.startswith("stopped before: ") for each in errors[1:])
