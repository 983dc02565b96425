"""Whole transactions in tables of versions: what a reader sees, and what a writer refuses.

Writing needs a format with MERGE: tests/versions has it, with a writer that is cut off between its tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from thence.errors import MisuseError
from thence.spark import committed_tables, deliver, into_lakehouse
from thence.spark.sources import from_changes
from thence.tables.engines.spark.into_lakehouse import batch_writer

RECORDS = "value string, key string, topic string, partition int, offset long"
VERSIONS = (
    "id bigint, total bigint, thence_source string, thence_stream string, thence_position bigint, thence_key string, "
    "thence_op string"
)
POSITIONS = "thence_source string, thence_stream string, thence_begin bigint, thence_position bigint"


@contextmanager
def made_tables(spark: Any, folder: Path) -> Iterator[Any]:
    """Give what writes a table, and drop the tables in the end."""
    made = []

    def make(name: str, rows: list[Any], schema: str) -> str:
        made.append(name)
        path = str(folder / name)
        spark.createDataFrame(rows, schema).write.mode("overwrite").option("path", path).saveAsTable(name)
        return name

    yield make
    for name in made:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def tables(spark: Any, tmp_path: Path) -> Iterator[Any]:
    """Let a test write tables, which are dropped afterwards."""
    with made_tables(spark, tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def empty(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Tables of versions and of positions for tests that write nothing into them."""
    with made_tables(spark, tmp_path_factory.mktemp("empty")) as make:
        yield make("empty_versions", [], VERSIONS), make("empty_positions", [], POSITIONS)


def version(
    number: int, total: int | None, place: int, op: str, source: str = "shop", stream: str | None = "one"
) -> tuple[Any, ...]:
    return number, total, source, stream, place, None if op == "truncate" else json.dumps({"id": number}), op


def seen(spark: Any, tables: Any, versions: list[Any], positions: dict[str, int]) -> list[tuple[int, int]]:
    return seen_of_streams(spark, tables, versions, [(source, "one", 0, end) for source, end in positions.items()])


def seen_of_streams(spark: Any, tables: Any, versions: list[Any], positions: list[Any]) -> list[tuple[int, int]]:
    names = tables("versions", versions, VERSIONS), tables("positions", positions, POSITIONS)
    rows = committed_tables(spark, names[:1], positions=names[1])["versions"].collect()
    assert all(row.asDict().keys() == {"id", "total"} for row in rows)
    return sorted((row["id"], row["total"]) for row in rows)


def test_a_reader_sees_the_newest_versions_up_to_the_committed_position(spark: Any, tables: Any) -> None:
    history = [
        version(1, 10, 2, "create"), version(2, 20, 3, "create"), version(1, 11, 6, "update"),
        version(2, None, 9, "delete"), version(3, 30, 10, "create"),
    ]  # fmt: skip
    expected = {0: [], 4: [(1, 10), (2, 20)], 7: [(1, 11), (2, 20)], 11: [(1, 11), (3, 30)]}
    assert {position: seen(spark, tables, history, {"shop": position}) for position in expected} == expected


def test_a_truncate_hides_what_was_before_it_at_its_own_source(spark: Any, tables: Any) -> None:
    history = [
        version(1, 10, 2, "create"), version(1, 70, 2, "create", "other"), version(0, None, 5, "truncate"),
        version(4, 40, 6, "create"),
    ]  # fmt: skip
    assert seen(spark, tables, history, {"shop": 3, "other": 3}) == [(1, 10), (1, 70)]
    assert seen(spark, tables, history, {"shop": 7, "other": 3}) == [(1, 70), (4, 40)]
    assert seen(spark, tables, history, {"shop": 7}) == [(4, 40)]


def test_what_a_stream_left_behind_the_commit_at_which_another_follows_is_not_seen(spark: Any, tables: Any) -> None:
    history = [
        version(1, 10, 2, "create"), version(1, 99, 6, "update"), version(2, 98, 7, "create"),
        version(1, 11, 7, "update", stream="two"), version(3, 30, 8, "create", stream="two"),
        version(4, 40, 12, "create", stream="two"), version(5, 50, 3, "create", stream="two"),
        version(9, 90, 0, "create", stream=None),
    ]  # fmt: skip
    first, second = ("shop", "one", 0, 5), ("shop", "two", 5, 9)
    assert seen_of_streams(spark, tables, history, [first]) == [(1, 10), (9, 90)]
    assert seen_of_streams(spark, tables, history, [first, second]) == [(1, 11), (3, 30), (9, 90)]
    assert seen_of_streams(spark, tables, history, [("shop", "two", 0, 3)]) == [(5, 50), (9, 90)]


def test_before_the_first_transaction_is_whole_nothing_is_seen(spark: Any, tables: Any) -> None:
    assert seen(spark, tables, [version(1, 10, 2, "create")], {}) == []


def change(op: str, **more: Any) -> tuple[Any, ...]:
    """Return the first record of a topic of changes, of a transaction whose BEGIN is `begin`."""
    source = {"name": "shop", "schema": "public", "table": "orders", "snapshot": more.pop("snapshot", "false")}
    body = {"op": op, "before": None, "after": {"id": 1, "total": 10}, "source": source | more.pop("source", {}),
            "transaction": {"id": "600:1", "total_order": 1}}  # fmt: skip
    return json.dumps(body | more.pop("body", {})), more.pop("key", '{"id": 1}'), "shop.public.orders", 0, 0


LATER = [change("c", body={"transaction": {"id": f"{number}:1", "total_order": 1}}) for number in (601, 602)]
END = (json.dumps({"status": "END", "id": "600:1", "event_count": 0}), None, "shop.transaction", 0, 1)
BEGIN = (json.dumps({"status": "BEGIN", "id": "600:1", "event_count": None}), None, "shop.transaction", 0, 0)


@pytest.mark.parametrize(
    ("records", "policy", "reason"),
    [
        ([BEGIN, change("c", source={"table": "cart"})], {}, "public.cart: tables= does not name its table"),
        ([BEGIN, change("c", key=None)], {}, "its record has no key"),
        ([change("r", snapshot="true")], {}, "it is a row of a snapshot"),
        ([change("c"), *LATER], {"policy": "release", "after_rows": 1}, "a policy released it"),
        ([BEGIN, change("u", body={"after": {"id": 1, "total": "__debezium_unavailable_value"}})], {}, "large value"),
        ([BEGIN, (END[0], None, "shop.transaction", 1, 1)], {}, "the transaction topic has several partitions"),
    ],
)
def test_what_cannot_be_applied_stops_the_writer(
    spark: Any, empty: tuple[str, str], records: list[Any], policy: dict[str, Any], reason: str
) -> None:
    target, positions = empty
    arrivals = from_changes(spark.createDataFrame(records, RECORDS))
    ordered = deliver(arrivals, "depends_on", key=["destination"], **policy)
    with pytest.raises(Exception, match=reason):
        batch_writer({"orders": target}, positions, lambda _: "one")(ordered, 0)
    assert spark.table(target).count() == 0


def test_a_micro_batch_without_an_end_commits_nothing(spark: Any, empty: tuple[str, str]) -> None:
    """Without MERGE here, any statement of the writer would fail."""
    target, positions = empty
    for records, since in (([], None), ([BEGIN], None), ([BEGIN, END], 1)):  # an END up to since= ends nothing new
        arrivals = from_changes(spark.createDataFrame(records, RECORDS), since=since)
        batch_writer({"orders": target}, positions, lambda _: "one")(
            deliver(arrivals, "depends_on", key=["destination"]), 0
        )


def test_two_rows_of_a_source_count_as_the_later_one(spark: Any, tables: Any) -> None:
    versions = tables("versions", [version(1, 10, 2, "create"), version(1, 10, 2, "create")], VERSIONS)
    positions = tables("positions", [("shop", "one", 0, 3), ("shop", "one", 0, 1)], POSITIONS)
    assert committed_tables(spark, [versions], positions=positions)[versions].count() == 1


def test_misuse_is_refused(spark: Any, tables: Any, tmp_path: Path) -> None:
    rows = spark.createDataFrame([("a", ["b"], "x")], "message string, depends_on array<string>, destination string")
    with pytest.raises(MisuseError, match="it lacks value, key"):
        into_lakehouse(deliver(rows, "depends_on", key=["destination"]), {}, positions="p")
    batch = deliver(from_changes(spark.createDataFrame([], RECORDS)), "depends_on", key=["destination"])
    with pytest.raises(MisuseError, match="takes a stream, with checkpoint="):
        into_lakehouse(batch, {"orders": "nowhere"}, positions="p", checkpoint=tmp_path)
    records = spark.readStream.schema(RECORDS).json(str(tmp_path))
    ordered = deliver(from_changes(records), "depends_on", key=["destination"])
    with pytest.raises(MisuseError, match="takes a stream, with checkpoint="):
        into_lakehouse(ordered, {"orders": "nowhere"}, positions="p")
    with pytest.raises(MisuseError, match="table nowhere is missing; create it, or pass format= and columns="):
        into_lakehouse(ordered, {"orders": "nowhere"}, positions="p", checkpoint=tmp_path)
    with pytest.raises(MisuseError, match="tables= names a table twice"):
        into_lakehouse(ordered, {"a": "same", "b": "same"}, positions="p", checkpoint=tmp_path)
    within = deliver(from_changes(records, order="transaction"), "depends_on", key=["destination"])
    with pytest.raises(MisuseError, match="order='commit'"):
        into_lakehouse(within, {"orders": "nowhere"}, positions="p", checkpoint=tmp_path)
    from_an_offset = deliver(from_changes(records, since="offset 7"), "depends_on", key=["destination"])
    with pytest.raises(MisuseError, match=r"since='offset 7' is a place in the transaction topic.*an LSN or a GTID"):
        into_lakehouse(from_an_offset, {"orders": "nowhere"}, positions="p", checkpoint=tmp_path)
