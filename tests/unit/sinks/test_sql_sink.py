"""One promise of docs/reference/transactions.md at a time, on SQLite; tests/properties/test_sinks.py joins them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from support.long_names import check_long_names
from support.pages import run_page
from support.sinks_at_once import check_sinks_at_once

from thence.errors import MisuseError
from thence.sinks import RowRefused, SqlSink, sql
from thence.sources import WholeTransaction
from thence.tables.sinks.positions import Positions
from thence.tables.sources.commits import LogPosition, since_mark
from thence.tables.sources.whole import Changes

ROOT = Path(__file__).parents[3]
DDL = [
    "create table customer(id integer primary key, email text unique, boss integer references customer)",
    "create table orders(id integer primary key, customer integer not null references customer on update cascade)",
    "create table line(id integer primary key, orders integer references orders on delete cascade, note text)",
]


@pytest.fixture
def engine(tmp_path: Path) -> sa.Engine:
    made = sa.create_engine(f"sqlite:///{tmp_path / 'target.db'}")
    with made.begin() as connection:
        for each in DDL:
            connection.exec_driver_sql(each)
    return made


@pytest.fixture
def sink(engine: sa.Engine) -> Any:
    with sql(engine, ["customer", "orders", "line"]) as made:
        yield made


def change(op: str, table: str, after: Any = None, before: Any = None, **more: Any) -> dict[str, Any]:
    return {"op": op, "source": {"schema": "public", "table": table}, "before": before, "after": after, **more}


def unit(number: int, *changes: dict[str, Any], kind: Any = "transaction", order: Any = "commit") -> WholeTransaction:
    made = Changes(2)  # spills, so that the file is read too
    for each in changes:
        made.append(each)
    name = "snapshot" if kind == "snapshot" else f"tx{number}"
    place = LogPosition("lsn", (number,)) if kind == "transaction" else None
    return WholeTransaction("shop", name, made, kind, f"{number}:{number}", place, order)


def rows(engine: sa.Engine, table: str) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return sorted(map(tuple, connection.exec_driver_sql(f"select * from {table}")))


def filled(sink: SqlSink) -> None:
    sink.apply(
        unit(1, change("c", "customer", {"id": 1, "email": "a", "boss": None}),
             change("c", "orders", {"id": 10, "customer": 1}),
             change("c", "line", {"id": 100, "orders": 10, "note": "long"}))
    )  # fmt: skip


def test_creates_updates_and_deletes(engine: sa.Engine, sink: SqlSink) -> None:
    filled(sink)
    assert sink.apply(
        unit(2, change("u", "line", {"id": 100, "orders": 10, "note": "__debezium_unavailable_value"}),
             change("c", "customer", {"id": 2, "email": "b", "boss": 1}), change("m", "nowhere"),
             change("u", "customer", {"id": 3, "email": "c", "boss": 3}), change("d", "customer", before={"id": 2}))
    )  # fmt: skip
    assert rows(engine, "customer") == [(1, "a", None), (3, "c", 3)]  # an update of a missing row makes it
    assert rows(engine, "line") == [(100, 10, "long")]
    assert sink.apply(unit(3, change("d", "line", key={"id": 100})))
    assert rows(engine, "line") == []


def test_an_update_of_a_primary_key_keeps_the_children(engine: sa.Engine, sink: SqlSink) -> None:
    filled(sink)
    moved = change("d", "customer", before={"id": 1}), change("c", "customer", {"id": 9, "email": "a", "boss": None})
    sink.apply(unit(2, *moved, change("u", "orders", {"id": 10, "customer": 9})))
    assert rows(engine, "orders") == [(10, 9)]
    whole = change("u", "orders", {"id": 11, "customer": 9}, before={"id": 10})  # with REPLICA IDENTITY FULL
    sink.apply(unit(3, change("u", "line", {"id": 100, "orders": None, "note": ""}), whole))
    assert rows(engine, "orders") == [(11, 9)]


def test_a_delete_and_a_create_in_two_tables_are_no_update_of_a_key(engine: sa.Engine, sink: SqlSink) -> None:
    filled(sink)
    sink.apply(unit(2, change("d", "line", before={"id": 100}), change("c", "customer", {"id": 2, "email": "b"})))
    assert (rows(engine, "line"), rows(engine, "customer")) == ([], [(1, "a", None), (2, "b", None)])


def test_truncates_go_children_first(engine: sa.Engine, sink: SqlSink) -> None:
    filled(sink)
    sink.apply(unit(2, *[change("t", table) for table in ("customer", "orders", "line")]))
    assert [rows(engine, table) for table in ("customer", "orders", "line")] == [[], [], []]


def test_a_snapshot_goes_parents_first_and_once(engine: sa.Engine, sink: SqlSink) -> None:
    taken = [
        change("r", "line", {"id": 100, "orders": 10, "note": ""}), change("r", "orders", {"id": 10, "customer": 1}),
        change("r", "customer", {"id": 1, "email": "a", "boss": 2}),
        change("r", "customer", {"id": 2, "email": "b", "boss": 1}),
    ]  # fmt: skip
    assert sink.apply(unit(0, *taken, kind="snapshot"))
    assert not sink.apply(unit(0, *taken, kind="snapshot"))
    assert rows(engine, "customer") == [(1, "a", 2), (2, "b", 1)]
    assert sink.since("shop") is None


@pytest.mark.parametrize("order", ["commit", "keys", "transaction"])
def test_nothing_is_written_twice(engine: sa.Engine, sink: SqlSink, order: str) -> None:
    made = unit(5, change("c", "customer", {"id": 1, "email": "a"}), order=order)
    assert sink.apply(made)
    with sql(engine, ["customer"]) as again:
        assert not again.apply(made)
        assert again.repeated == 1
        assert again.apply(unit(4, order=order)) == (order != "commit")  # of other orders each counts by itself
        assert again.since("shop") == (5 if order == "commit" else None)


@pytest.mark.parametrize(
    "changed",
    [
        change("u", "customer", {"id": 1, "email": "b", "boss": None}),
        change("d", "customer", before={"id": 1}),
        change("t", "customer"),
    ],
)
def test_transactions_in_no_order_may_only_add_rows(engine: sa.Engine, sink: SqlSink, changed: dict[str, Any]) -> None:
    """Two updates of a row could come in the wrong order, and the older value would stay."""
    added = change("c", "customer", {"id": 1, "email": "a", "boss": None})
    assert sink.apply(unit(1, added, order="transaction"))
    more = change("c", "customer", {"id": 2, "email": "c", "boss": None})
    with pytest.raises(MisuseError, match=r"tx2 .* order='commit' or order='keys'"):
        sink.apply(unit(2, more, changed, order="transaction"))
    assert rows(engine, "customer") == [(1, "a", None)]
    assert sink.apply(unit(2, more, changed, order="keys"))  # nothing of the refused one was noted


def refusal(sink: SqlSink, *changes: dict[str, Any]) -> str:
    with pytest.raises(RowRefused) as caught:
        sink.apply(unit(7, *changes))
    assert caught.value.transaction.name == "tx7"
    return str(caught.value)


def test_a_refused_row_stops_the_sink_with_its_reason_and_leaves_nothing(engine: sa.Engine, sink: SqlSink) -> None:
    filled(sink)
    fine = change("c", "customer", {"id": 5, "email": "e"})
    said = refusal(sink, fine, change("c", "customer", {"id": 6, "email": "a"}))
    assert said == (
        "the target refuses change 2 of 2 of transaction tx7 of shop, op 'c' on customer, "
        '{"id": 6, "email": "a"}: UNIQUE constraint failed: customer.email. Nothing of the transaction was written'
    )
    assert "at its end: FOREIGN KEY constraint failed (a row of orders refers to a row of customer that is not" in (
        refusal(sink, fine, change("c", "orders", {"id": 11, "customer": 99}))
    )
    assert "table orders has no column buyer; it has id, customer" in (
        refusal(sink, fine, change("c", "orders", {"id": 11, "buyer": 1}))
    )
    assert "change 1 of 2" in refusal(sink, change("c", "orders", {"id": None, "customer": 1}), fine)
    assert rows(engine, "customer") == [(1, "a", None)]
    assert sink.apply(unit(7, fine))  # repaired, the transaction goes on


def test_dead_letters_take_whole_transactions(engine: sa.Engine) -> None:
    with sql(engine, ["customer", "orders"], refused="dead-letter") as sink:
        bad = unit(
            1, change("c", "customer", {"id": 1, "email": "a"}), change("c", "orders", {"id": 1, "customer": None})
        )
        assert not sink.apply(bad)
        assert sink.apply(unit(2, change("c", "customer", {"id": 2, "email": "b"})))
        assert not sink.apply(bad)
        assert (sink.applied, sink.repeated, sink.refused) == (1, 1, 1)
    assert rows(engine, "customer") == [(2, "b", None)]
    letters = rows(engine, "thence_dead_letters")
    assert [(each[1], each[2], each[4]) for each in letters] == [
        ("1:1", 1, None), ("1:1", 2, "NOT NULL constraint failed: orders.customer"),
    ]  # fmt: skip


def test_what_cannot_be_a_target_is_said_at_once(engine: sa.Engine, sink: SqlSink, tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="no table 'crew'; its tables: customer, line, orders, thence_positions"):
        sql(engine, ["crew"])
    with engine.begin() as connection:
        connection.exec_driver_sql("create table log(text text)")
    with pytest.raises(MisuseError, match="no primary key"):
        sql(engine, {"public.log": "log"})
    with pytest.raises(MisuseError, match="'stop' and 'dead-letter'"):
        sql(engine, [], refused="skip")  # type: ignore[arg-type]
    automatic = sa.create_engine(engine.url, isolation_level="AUTOCOMMIT")
    with pytest.raises(MisuseError, match="AUTOCOMMIT"):
        sql(automatic, ["customer"])
    with pytest.raises(
        MisuseError, match=r"public.stock, which tables= does not name \(it names customer, line, orders\)"
    ):
        sink.apply(unit(1, change("c", "stock", {"id": 1})))
    with sql(engine, {"customer": "customer", "stock": None}) as leaving_out:
        assert leaving_out.apply(unit(1, change("c", "stock", {"id": 1})))


@pytest.mark.parametrize(("ddl", "value", "wanted"), [
    ("date", 19000, "2022-01-08"), ("datetime", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05.000000"),
    ("blob", "aGk=", b"hi"), ("json", '{"a": 1}', '{"a": 1}'), ("boolean", True, 1), ("numeric(9,2)", "1.50", 1.5),
])  # fmt: skip
def test_values_as_debezium_writes_them(tmp_path: Path, ddl: str, value: Any, wanted: Any) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'values.db'}")
    with engine.begin() as connection:
        connection.exec_driver_sql(f"create table t(id integer primary key, v {ddl})")
    with sql(engine, ["t"]) as sink:
        sink.apply(unit(1, change("c", "t", {"id": 1, "v": value}), change("c", "t", {"id": 2, "v": None})))
        assert rows(engine, "t") == [(1, wanted), (2, None)]


@pytest.mark.parametrize(("ddl", "value", "hint"), [
    ("datetime", 1700000000000, "time.precision.mode=isostring"), ("numeric", "AJY=", "decimal.handling.mode=string"),
])  # fmt: skip
def test_values_that_could_mean_several_things(tmp_path: Path, ddl: str, value: Any, hint: str) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'values.db'}")
    with engine.begin() as connection:
        connection.exec_driver_sql(f"create table t(id integer primary key, v {ddl})")
    with sql(engine, ["t"]) as sink:
        assert hint in refusal(sink, change("c", "t", {"id": 1, "v": value}))


def test_the_page_is_run() -> None:
    assert run_page(ROOT / "docs" / "how-to" / "foreign-keys.md") == 3


def test_the_example_runs_with_one_command(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "foreign_keys" / "shop.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "row by row: the target refuses 4 rows" in done.stdout
    assert "whole transactions: 5 written, 0 refused; the target is at offset 9" in done.stdout
    assert "orders [(70, 8), (71, 8)]" in done.stdout


def test_names_longer_than_a_key_are_kept_apart(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'long.db'}")
    check_long_names(engine)


def at(offset: int, id: str, since: str | int | None = None, log: str = "offset shop.transaction/0") -> Any:
    """Return a transaction without changes whose END lies at an offset."""
    mark = None if since is None else since_mark(since)
    return WholeTransaction("shop", "tx" + id, Changes(), "transaction", id, LogPosition(log, (offset,)), since=mark)


@pytest.mark.parametrize("order", ["commit", "transaction"])
def test_sinks_that_run_at_once_write_each_transaction_once(tmp_path: Path, order: str) -> None:
    check_sinks_at_once(sa.create_engine(f"sqlite:///{tmp_path / 'target.db'}"), order)


def test_a_log_that_began_anew_is_refused_and_not_skipped(sink: SqlSink) -> None:
    assert sink.write([at(1, "600:1000"), at(3, "601:1010"), at(5, "602:1020")]) == 3
    assert sink.write([at(1, "600:1000"), at(3, "601:1010"), at(5, "602:1020")]) == 0  # read again
    for other, reason in ((at(1, "700:2000"), "committed later"), (at(5, "602:900"), "is another transaction")):
        with pytest.raises(MisuseError, match=f"counts as one that the target has.* but it {reason}: .* empty target"):
            sink.apply(other)
        with pytest.raises(MisuseError, match=reason):
            sink.has(other)
    assert sink.apply(at(7, "603:1030"))


def test_a_log_of_another_name_is_refused_if_the_target_has_its_transactions(sink: SqlSink) -> None:
    assert sink.apply(at(5, "602:1020"))
    for log in ("offset renamed.transaction/0", "lsn"):
        with pytest.raises(
            MisuseError, match=r"the target has it by the log offset shop.transaction/0, up to 602:1020"
        ):
            sink.apply(at(1020, "602:1020", log=log))
    assert sink.apply(at(1, "603:1030", log="offset renamed.transaction/0"))  # what is new comes by the new log


@pytest.mark.parametrize(("since", "reason"), [("offset 9", "since='offset 5'"), (1030, "lsn 1030")])
def test_a_start_behind_what_the_target_has_is_refused(sink: SqlSink, since: Any, reason: str) -> None:
    assert sink.apply(at(5, "602:1020"))
    with pytest.raises(MisuseError, match=f"{reason}.*lost|lost.*{reason}"):
        sink.apply(at(11, "605:1050", since))
    assert sink.apply(at(7, "603:1030", "offset 5"))
    assert sink.apply(at(9, "604:1040", 1030))
    assert sink.apply(at(11, "605:1050", since))  # it has been reached meanwhile


def test_a_url_is_taken_for_an_engine(engine: sa.Engine) -> None:
    for url in (engine.url, str(engine.url)):
        with sql(url, ["customer"]) as sink:
            assert sink.since("shop") is None
    for wrong, told in (
        ("secret", "not a URL of SQLAlchemy"),
        ("nosuch://x", "does not know"),
        (None, "engine is a NoneType; an engine of SQLAlchemy or its URL is expected"),
    ):
        with pytest.raises(MisuseError, match=told) as found:
            sql(wrong, ["customer"])  # type: ignore[arg-type]
        assert "secret" not in str(found.value)


def other_target(tmp_path: Path, *ddl: str) -> sa.Engine:
    made = sa.create_engine(f"sqlite:///{tmp_path / 'other.db'}")
    with made.begin() as connection:
        for each in ddl:
            connection.exec_driver_sql(each)
    return made


@pytest.mark.parametrize("other", ["key_id", "key_0", "value_0", "i d", "i.d", "i_d", "i%d", "i(d)", "select"])
def test_a_column_may_be_called_anything(tmp_path: Path, other: str) -> None:
    engine = other_target(
        tmp_path, f'create table t(id integer primary key, "{other}" integer, "i.d " text, i_d_ text)'
    )
    with sql(engine, ["t"]) as sink:
        sink.apply(
            unit(
                1, *[change("c", "t", {"id": n, other: 3 - n, "i.d ": f"dot {n}", "i_d_": f"line {n}"}) for n in (1, 2)]
            )
        )
        row = {"id": 1, other: 2, "i.d ": "dot", "i_d_": "line"}
        sink.apply(unit(2, change("u", "t", row), change("d", "t", before={"id": 2, other: 1})))
    assert rows(engine, "t") == [(1, 2, "dot", "line")]


def test_a_table_object_without_a_primary_key_is_refused(tmp_path: Path) -> None:
    engine = other_target(tmp_path, "create table t(id integer)")
    with pytest.raises(MisuseError, match="table 't' of the target has no primary key"):
        sql(engine, {"t": sa.Table("t", sa.MetaData(), sa.Column("id", sa.Integer))})


@pytest.mark.parametrize("value", [2**63, "\ud800", {"a": 1}, [1]])
def test_a_value_that_the_driver_does_not_take_is_a_refused_row(tmp_path: Path, value: Any) -> None:
    engine = other_target(tmp_path, "create table t(id integer primary key, v bigint)")
    made = unit(1, change("c", "t", {"id": 1, "v": 1}), change("c", "t", {"id": 2, "v": value}))
    with sql(engine, ["t"], refused="dead-letter") as sink:
        assert not sink.apply(made)
        assert sink.apply(unit(2, change("c", "t", {"id": 3, "v": 3})))
    assert rows(engine, "t") == [(3, 3)]
    with sql(engine, ["t"], positions="others") as sink, pytest.raises(RowRefused) as refused:
        sink.apply(made)
    assert refused.value.number == 2


@pytest.mark.parametrize(
    ("places", "left"),
    [
        (({}, {}), [(10, 9)]),
        (({"lsn": 7}, {"lsn": 7}), [(10, 9)]),
        (({"lsn": 7}, {"lsn": 8}), []),
        (({"file": "b.1", "pos": 4, "row": 0}, {"file": "b.1", "pos": 4, "row": 0}), [(10, 9)]),
        (({"file": "b.1", "pos": 4, "row": 0}, {"file": "b.1", "pos": 4, "row": 1}), []),
    ],
)
def test_a_delete_and_a_create_at_two_places_in_the_log_are_no_update_of_the_key(
    tmp_path: Path, places: tuple[dict[str, Any], ...], left: list[Any]
) -> None:
    cascades = "on delete cascade on update cascade"
    engine = other_target(
        tmp_path,
        "create table customer(id integer primary key)",
        f"create table orders(id integer primary key, customer integer references customer {cascades})",
    )
    with sql(engine, ["customer", "orders"]) as sink:
        sink.apply(unit(1, change("c", "customer", {"id": 1}), change("c", "orders", {"id": 10, "customer": 1})))
        gone, new = change("d", "customer", before={"id": 1}), change("c", "customer", {"id": 9})
        gone["source"] |= places[0]
        new["source"] |= places[1]
        sink.apply(unit(2, gone, new))
    assert rows(engine, "orders") == left


@pytest.mark.parametrize("before", ["commit", "keys", "transaction"])
@pytest.mark.parametrize("after", ["commit", "keys", "transaction"])
def test_another_order_repeats_nothing(engine: sa.Engine, sink: SqlSink, before: str, after: str) -> None:
    made = change("c", "customer", {"id": 1, "email": "old"}), change("c", "customer", {"id": 2, "email": "new"})
    assert sink.apply(unit(1, made[0], order=before))
    with engine.begin() as connection:
        connection.exec_driver_sql("update customer set email = 'newer'")
    assert sink.has(unit(1, made[0], order=after))
    assert not sink.apply(unit(1, made[0], order=after))
    assert sink.apply(unit(2, made[1], order=after))
    assert rows(engine, "customer") == [(1, "newer", None), (2, "new", None)]


def test_a_position_that_another_process_has_moved_meanwhile_is_read_again(
    sink: SqlSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the reading of a position and its update, another process commits the same transaction."""
    assert sink.apply(at(1, "600:1000"))
    found, moved = Positions._found, [False]

    def stale(self: Positions, connection: sa.Connection, source: str, log: str, lock: bool = False) -> Any:
        read = found(self, connection, source, log, lock)
        if read is not None and not moved[0]:
            moved[0] = True
            moves = "update thence_positions set place = '[3]', transaction_id = '601:1010', transactions = 2"
            connection.exec_driver_sql(moves)
        return read

    monkeypatch.setattr(Positions, "_found", stale)
    assert not sink.apply(at(3, "601:1010"))
    assert moved == [True]
