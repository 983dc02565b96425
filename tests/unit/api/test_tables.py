"""Tables of every kind through deliver, audit, cost, stamp and show: the same answers, and the same kind comes out."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import duckdb
import ibis
import narwhals
import narwhals.stable.v1
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thence
from thence.core.model.events import Event
from thence.errors import MisuseError, TraceError
from thence.tables.contract.row_validity import event_of
from thence.tables.files import inputs

Rows = list[dict[str, Any]]


class Capsule:
    """A table that only speaks Arrow's capsule interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def batch_of(rows: Rows) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows)


KINDS: dict[str, tuple[Callable[[Rows], Any], type, Callable[[Any], Rows]]] = {
    "dicts": (lambda rows: rows, list, lambda out: out),
    "pandas": (pd.DataFrame, pd.DataFrame, lambda out: pa.Table.from_pandas(out, preserve_index=False).to_pylist()),
    "polars": (pl.DataFrame, pl.DataFrame, lambda out: out.to_dicts()),
    "table": (pa.Table.from_pylist, pa.Table, lambda out: out.to_pylist()),
    "batch": (batch_of, pa.RecordBatch, lambda out: out.to_pylist()),
    "reader": (lambda rows: batch_of(rows) and pa.table(batch_of(rows)).to_reader(), pa.RecordBatchReader,
               lambda out: out.read_all().to_pylist()),
    "capsule": (lambda rows: Capsule(pa.Table.from_pylist(rows)), pa.Table, lambda out: out.to_pylist()),
    "duckdb": (lambda rows: duckdb.from_arrow(pa.Table.from_pylist(rows)), duckdb.DuckDBPyRelation,
               lambda out: pa.RecordBatchReader.from_stream(out).read_all().to_pylist()),
    "ibis": (lambda rows: ibis.memtable(pa.Table.from_pylist(rows)), ibis.Table,
             lambda out: out.to_pyarrow().to_pylist()),
    "narwhals": (lambda rows: narwhals.from_native(pl.DataFrame(rows)), narwhals.DataFrame,
                 lambda out: out.to_native().to_dicts()),
}  # fmt: skip


def test_every_kind_that_is_taken_is_tried() -> None:
    assert inputs.INPUT_READERS.keys() - {"arrow"} <= KINDS.keys()


each_kind = pytest.mark.parametrize("kind", KINDS)


def arrivals(seed: int, rows: int, keys: int = 3) -> Rows:
    """Return shuffled rows, some of whose causes are lost, doubled or later."""
    random, made = Random(seed), list[dict[str, Any]]()
    for place in range(rows):
        causes = [f"m{random.randrange(rows + 2)}" for _ in range(random.randrange(3))]
        made.append({"event": f"m{place}", "after": causes, "account": random.randrange(keys), "amount": place / 2})
    random.shuffle(made)
    return made + random.choices(made, k=rows // 10)


@each_kind
@pytest.mark.parametrize("rows", [1, 40, 400])
def test_deliver_gives_what_the_orderer_gives(kind: str, rows: int) -> None:
    make, out_type, listed = KINDS[kind]
    given = arrivals(rows, rows)
    orderer = thence.Orderer("depends_on", columns={"message": "event", "depends_on": "after"}, key=["account"])
    wanted = list(orderer.deliver(given))
    first = list(dict.fromkeys(row["account"] for row in given))
    wanted.sort(key=lambda row: first.index(row["account"]))
    found = thence.deliver(make(given), id="event", causes="after", key="account")
    assert isinstance(found, out_type)
    assert listed(found) == wanted, f"seed {rows}"


@each_kind
def test_a_table_without_run_and_destination_is_one_order(kind: str) -> None:
    make, _, listed = KINDS[kind]
    rows = [{"message": "b", "depends_on": ["a"]}, {"message": "a", "depends_on": []}]
    found = listed(thence.deliver(make(rows)))
    assert [(row["message"], row["position"]) for row in found] == [("a", 1), ("b", 2)]


@each_kind
def test_runs_and_destinations_separate_orders_where_a_table_has_them(kind: str) -> None:
    make, _, listed = KINDS[kind]
    rows = [
        {"message": "b", "depends_on": ["a"], "destination": "x"},
        {"message": "a", "depends_on": [], "destination": "y"},
    ]
    assert [row["outcome"] for row in listed(thence.deliver(make(rows)))] == ["blocked", "delivered"]


def test_an_error_names_no_key_where_there_is_none() -> None:
    with pytest.raises(TraceError) as error:
        thence.deliver([{"message": "b", "depends_on": ["a"]}], policy="fail")
    assert not str(error.value).startswith(":")


def test_pandas_keeps_index_objects_and_types() -> None:
    frame = pd.DataFrame(
        {
            "message": ["b", "a"],
            "depends_on": [["a"], []],
            "anything": [object(), {1, 2}],
            "when": pd.to_datetime(["2024-01-01", "2024-01-02"]).tz_localize("Europe/Berlin"),
            "kind": pd.Categorical(["x", "y"]),
            "price": [Decimal("1.10"), Decimal("2.20")],
        },
        index=pd.Index([7, 5], name="place"),
    )
    found = thence.deliver(frame)
    assert list(found.index) == [5, 7]
    assert found.index.name == "place"
    assert found["anything"].iloc[1] is frame["anything"].iloc[0]
    assert (found.dtypes[frame.columns] == frame.dtypes).all()
    assert found["position"].tolist() == [1, 2]
    assert list(frame.columns) == ["message", "depends_on", "anything", "when", "kind", "price"]


def test_arrow_keeps_types_and_views() -> None:
    zoned = pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)] * 2, pa.timestamp("ns", "Europe/Berlin"))
    table = pa.table(
        {
            "message": pa.array(["b", "a"], pa.string_view()),
            "depends_on": pa.array([["a"], []], pa.large_list(pa.large_string())),
            "when": zoned,
            "nested": pa.array([{"x": [1]}, None]),
            "price": pa.array([Decimal("1.10"), None]),
        }
    )
    found = thence.deliver(table)
    assert found.schema.field("message").type == pa.string_view()
    assert pa.schema(list(found.schema)[: len(table.schema)]).equals(table.schema)
    assert found.column("message").to_pylist() == ["a", "b"]


def test_arrow_keeps_types_that_it_cannot_take() -> None:
    runs = pa.RunEndEncodedArray.from_arrays([1, 2], pa.array(["b", "a"]))
    text = pa.string_view()
    columns = {
        "runs": runs,
        "map": pa.array([[("k", "b")], [("k", "a")]], pa.map_(pa.string(), text)),
        "json": pa.ExtensionArray.from_storage(pa.json_(text), pa.array(["1", "2"], text)),
        "categories": pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array(["a", "b"], text)),
    }
    table = pa.table({"id": runs, "parent": pa.RunEndEncodedArray.from_arrays([1, 2], pa.array(["a", None]))} | columns)
    found = thence.deliver(table, id="id", causes="parent")
    assert found.select(table.column_names).schema == table.schema
    for name, column in columns.items():
        assert found.column(name).to_pylist() == column.to_pylist()[::-1], name


def test_polars_keeps_types() -> None:
    frame = pl.DataFrame(
        {"message": ["b", "a"], "depends_on": [["a"], []], "c": pl.Series(["x", "y"], dtype=pl.Categorical)}
    )
    found = thence.deliver(frame)
    assert found.schema["c"] == frame.schema["c"]
    assert found["message"].to_list() == ["a", "b"]


def test_a_relation_keeps_its_types_and_its_connection() -> None:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/Sao_Paulo'; CREATE TYPE mood AS ENUM ('sad', 'ok')")
    relation = connection.sql(
        """SELECT * FROM (VALUES
        ('b', 'a', uuid(), 12345678901234567890::HUGEINT, 'ok'::mood, 1.10::DECIMAL(10, 2), '101'::BIT,
         TIMESTAMPTZ '2024-01-01 10:00:00+00', INTERVAL 3 MONTH, {'x': [1]}, MAP {'k': 1}, '{"a":1}'::JSON),
        ('a', NULL, uuid(), 1::HUGEINT, 'sad'::mood, 2.20::DECIMAL(10, 2), '1'::BIT,
         TIMESTAMPTZ '2024-01-02 10:00:00+00', INTERVAL 1 DAY, {'x': [2]}, MAP {'k': 2}, 'null'::JSON)
        ) AS t(id, parent, u, h, m, d, bits, "at ""z", i, s, mp, j)"""
    )
    found = thence.deliver(relation, id="id", causes="parent")
    assert found.columns[: len(relation.columns)] == relation.columns
    assert list(map(str, found.types))[: len(relation.types)] == list(map(str, relation.types))
    first = dict(zip(found.columns, found.fetchall()[0], strict=True))
    assert (first["id"], first["bits"], first["j"], first["position"]) == ("a", "1", "null", 1)
    connection.execute("CREATE TABLE other AS SELECT 'a' AS id, 7 AS v")
    assert found.join(connection.table("other"), "id").fetchall()[0][-1] == 7
    assert connection.sql("SELECT * FROM duckdb_views() WHERE NOT internal").fetchall() == []


def test_a_relation_is_read_once() -> None:
    relation = duckdb.sql("SELECT range AS id, range - 1 AS parent, random() AS r FROM range(100) ORDER BY r")
    found = thence.deliver(
        relation.filter("true").project("id, nullif(parent, -1) AS parent, r"), id="id", causes="parent"
    )
    assert [row[0] for row in found.fetchall()] == list(range(100))


def test_ibis_keeps_types() -> None:
    table = ibis.memtable(pa.table({"id": ["b", "a"], "parent": ["a", None], "n": pa.array([1, 2], pa.int8())}))
    table = table.mutate(u=ibis.uuid(), j=ibis.literal("1").cast("json"))
    found = thence.deliver(table, id="id", causes="parent")
    assert dict(list(found.schema().items())[:5]) == dict(table.schema().items())
    assert found.to_pyarrow().column("id").to_pylist() == ["a", "b"]


@pytest.mark.parametrize("wrap", [narwhals.from_native, narwhals.stable.v1.from_native])
def test_narwhals_is_wrapped_as_it_came(wrap: Any) -> None:
    frame = wrap(pd.DataFrame({"message": ["b", "a"], "depends_on": [["a"], []], "any": [object(), {1}]}))
    found = thence.deliver(frame)
    assert type(found) is type(frame)
    assert found.to_native()["any"].iloc[1] is frame.to_native()["any"].iloc[0]


def test_an_offset_of_a_zone_is_kept(tmp_path: Path) -> None:
    """Parquet in particular: Spark alone needs UTC."""
    table = pa.table({
        "message": ["b", "a"], "depends_on": [["a"], []],
        "at": pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)] * 2, pa.timestamp("us", "-03:00")),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "rows.parquet")
    for given in (table, tmp_path / "rows.parquet"):
        assert thence.deliver(given).schema.field("at").type == pa.timestamp("us", "-03:00")
    frame = table.to_pandas()
    assert thence.deliver(frame)["at"].dtype == frame["at"].dtype


@pytest.mark.parametrize("kind", [pa.uuid(), pa.int8(), pa.uint64(), pa.dictionary(pa.int8(), pa.string())])
def test_ids_of_many_types(kind: pa.DataType) -> None:
    values = [UUID(int=2).bytes, UUID(int=1).bytes] if kind == pa.uuid() else [2, 1]
    values = values if not pa.types.is_dictionary(kind) else ["b", "a"]
    table = pa.table({"id": pa.array(values, kind), "parent": pa.array([values[1], None], kind)})
    assert thence.deliver(table, id="id", causes="parent").column("position").to_pylist() == [1, 2]
    assert thence.deliver(table, id="id", causes="parent").column("id").to_pylist() == table["id"].to_pylist()[::-1]


def test_pandas_parents_are_floats_because_of_nulls(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": [3, 2, 1], "parent": [2, 1, None]})
    assert frame["parent"].dtype == float
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert "3,2.0\n" in (tmp_path / "t.csv").read_text()
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    assert '"parent":2.0' in (tmp_path / "t.jsonl").read_text()
    frame.to_parquet(tmp_path / "t.parquet")
    files = [tmp_path / name for name in ("t.csv", "t.jsonl", "t.parquet")]
    for each in (frame, frame.to_dict("records"), pl.from_pandas(frame), pa.Table.from_pandas(frame), *files):
        found = thence.deliver(each, id="id", causes="parent")
        listed = found if isinstance(found, list) else pa.table(found).to_pylist()
        assert [int(row["id"]) for row in listed] == [1, 2, 3]
        assert [row["waited_for"] for row in listed] == [[], ["1"], ["2"]]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.decimal128(22, 2)])
def test_a_whole_number_is_the_same_id_in_every_type(kind: pa.DataType) -> None:
    for ids, causes in (
        (kind, pa.int64()),
        (pa.int64(), kind),
        (kind, pa.list_(pa.int64())),
        (pa.int64(), pa.list_(kind)),
    ):
        parents = [[1], []] if pa.types.is_list(causes) else [1, None]
        table = pa.table({"id": pa.array([2, 1]).cast(ids), "parent": pa.array(parents).cast(causes)})
        found = thence.deliver(table, id="id", causes="parent")
        assert found.column("position").to_pylist() == [1, 2]
        assert found.column("waited_for").to_pylist() == [[], ["1"]]
        assert found.column("id").to_pylist() == [1, 2]


def test_half_floats_are_whole_numbers_too() -> None:
    half = pa.float16()
    for causes in (pa.array([1, None], half), pa.array([[1], []], pa.list_(half))):
        rows = pa.table({"id": pa.array([2, 1], half), "parent": causes})
        assert thence.deliver(rows, id="id", causes="parent").column("id").to_pylist() == [1, 2]


@pytest.mark.parametrize("large", [2**63, 2**64 - 1, -(10**30)])
def test_ids_of_dicts_may_be_beyond_64_bits(large: int) -> None:
    for rows in (
        [{"id": 2, "parent": large}, {"id": large, "parent": None}, {"id": None, "parent": None}],
        [{"id": 2, "parent": [3, large]}, {"id": large, "parent": [3]}, {"id": 3, "parent": []}],
    ):
        found = thence.deliver(rows, id="id", causes="parent")
        assert [row["id"] for row in found if row["position"]] == [*([3] if rows[2]["id"] else []), large, 2]
        assert list(thence.deliver(pd.DataFrame(rows, dtype=object), id="id", causes="parent")["id"]) == [
            row["id"] for row in found
        ]


def test_uuids_are_the_ids_that_their_texts_are() -> None:
    first, second = UUID(int=1), UUID(int=2)
    for causes in (
        pa.array([str(first), None]),
        pa.ListArray.from_arrays([0, 1, 1], pa.array([first.bytes], pa.uuid())),
    ):
        rows = pa.table({"id": pa.array([second.bytes, first.bytes], pa.uuid()), "parent": causes})
        assert thence.deliver(rows, id="id", causes="parent").column("id").to_pylist() == [first, second]


def test_numbers_that_are_no_ids_are_set_aside_with_their_reason() -> None:
    """Only the row is unusable: beside it, floats are read as before."""
    for parent, reason in (
        (1.5, "cause 1.5 is a fraction"),
        (float("inf"), "cause inf is a fraction"),
        (2.0**60, "has lost digits"),
    ):
        table = pa.table({"id": [3, 2, 1], "parent": pa.array([parent, 1.0, None])})
        rows = {row["id"]: row for row in thence.deliver(table, id="id", causes="parent").to_pylist()}
        assert [rows[each]["outcome"] for each in (1, 2, 3)] == ["delivered", "delivered", "quarantined"]
        assert reason in rows[3]["reason"]
    ids = pa.table({"id": [2.0**60, 2.0**60], "parent": pa.nulls(2)})
    assert {row["outcome"] for row in thence.deliver(ids, id="id", causes="parent").to_pylist()} == {"quarantined"}


def test_a_csv_of_texts_keeps_them(tmp_path: Path) -> None:
    """`2.0` is another text than `2` where ids are texts: versions, say."""
    (tmp_path / "t.csv").write_text("id,parent\n2.0,1.0\n1.0,\n3,2.0\n")
    found = thence.deliver(tmp_path / "t.csv", id="id", causes="parent")
    assert found.column("id").to_pylist() == ["1.0", "2.0", "3"]


def test_empty_tables_stay_empty() -> None:
    table = pa.schema([("message", pa.string()), ("depends_on", pa.list_(pa.string()))]).empty_table()
    assert thence.deliver(list[Any]()) == []
    for empty in (table, table.to_pandas(), pl.from_arrow(table)):
        found = thence.deliver(empty)
        assert len(found) == 0
        assert "position" in (found.column_names if isinstance(found, pa.Table) else found.columns)


def test_ids_may_be_uuids() -> None:
    one, two = UUID(int=1), UUID(int=2)
    found = thence.deliver([{"message": two, "depends_on": [one]}, {"message": one, "depends_on": []}])
    assert [row["message"] for row in found] == [one, two]


def test_clocks_come_as_dicts() -> None:
    rows = [
        {"destination": "d", "sender": "a", "clock": {"a": 2}},
        {"destination": "d", "sender": "a", "clock": {"a": 1}},
    ]
    found = thence.deliver(rows, "clock")
    assert [row["clock"] for row in found] == [{"a": 1}, {"a": 2}]


def test_paths_are_delivered_to_a_table(tmp_path: Path) -> None:
    rows = [{"message": "b", "depends_on": ["a"]}, {"message": "a", "depends_on": []}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    found = thence.deliver(tmp_path / "rows.parquet")
    assert found.column("message").to_pylist() == ["a", "b"]


REFUSED: list[tuple[Any, str]] = [
    (3, "found int; accepted: a path; a pandas, Polars or pyarrow table"),
    (None, "found NoneType"),
    (b"x", "found bytes"),
    ({"message": ["a"]}, "found dict"),
    ([1, "a"], "found a list that holds int, str"),
    (pl.LazyFrame({"a": [1]}), r"LazyFrame; collect\(\) it first"),
]


@pytest.mark.parametrize(("data", "says"), REFUSED)
@pytest.mark.parametrize("name", ["audit", "cost", "deliver", "stamp", "show"])
def test_other_types_are_refused_with_what_is_accepted(name: str, data: Any, says: str) -> None:
    with pytest.raises(MisuseError, match=says) as error:
        getattr(thence, name)(data)
    assert "a list of dicts" in str(error.value)


def test_wrong_names_are_refused() -> None:
    rows = [{"event": "a", "after": []}]
    with pytest.raises(MisuseError, match=r"no column 'id' for the ids \(message\); found: event, after"):
        thence.deliver(rows, id="id", causes="after")
    with pytest.raises(MisuseError, match=r"no column 'depends_on'; found: event, after\. causes= names"):
        thence.deliver(rows, id="event")
    with pytest.raises(MisuseError, match=r"no column 'message'; found: event, after\. id= names"):
        thence.deliver(rows, causes="after")
    with pytest.raises(MisuseError, match="id='event' and columns="):
        thence.deliver(rows, id="event", columns={"message": "event"})
    with pytest.raises(MisuseError, match="column 'Outcome' is one that delivery adds"):
        thence.deliver([{"message": "a", "depends_on": [], "Outcome": 1}])
    with pytest.raises(MisuseError, match="column 'arrival' is list<item: int64>; rows are sorted by it"):
        thence.deliver([{"message": each, "depends_on": [], "arrival": [1]} for each in "ab"])
    with pytest.raises(MisuseError, match=r"column .message. is Int128, .*; pyarrow does not read all of them"):
        thence.deliver(pl.DataFrame({"message": [1], "depends_on": [2]}, schema_overrides={"message": pl.Int128}))
    with pytest.raises(MisuseError, match="a value of another type is never equal to a text"):
        thence.deliver([{"message": "a", "depends_on": b"a"}])
    with pytest.raises(MisuseError, match="column 'message' holds int, str"):
        thence.deliver([{"message": "a", "depends_on": []}, {"message": 1, "depends_on": []}])


# -- traces -----------------------------------------------------------------------------------------------------------


EVENTS: Rows = [
    {"run": "r", "process": "shop", "index": 1, "kind": "send", "message": "o", "destinations": ["bank", "book"]},
    {"run": "r", "process": "bank", "index": 1, "kind": "deliver", "message": "o", "destinations": None},
    {"run": "r", "process": "bank", "index": 2, "kind": "send", "message": "p", "destinations": ["book"]},
    {"run": "r", "process": "book", "index": 1, "kind": "deliver", "message": "p", "destinations": None},
    {"run": "r", "process": "book", "index": 2, "kind": "deliver", "message": "o", "destinations": None},
]
CAUSAL = [*EVENTS[:3], {**EVENTS[4], "index": 1}, {**EVENTS[3], "index": 2}]


LIST_TYPES: dict[str, Callable[[pa.DataType], pa.DataType]] = {
    "list": pa.list_,
    "large_list": pa.large_list,
    "list_view": pa.list_view,
    "large_list_view": pa.large_list_view,
    "fixed_size_list": lambda each: pa.list_(each, 1),
}


def as_events(rows: Rows) -> list[Event]:
    found = [event_of(row) for row in rows]
    assert all(isinstance(each, Event) for each in found)
    return found  # type: ignore[return-value]


@each_kind
def test_audit_takes_every_kind(kind: str) -> None:
    make = KINDS[kind][0]
    for rows, verdict in ((EVENTS, "violated"), (CAUSAL, "causal")):
        with thence.audit(make(rows)) as found, thence.audit(as_events(rows)) as wanted:
            assert found.verdict == wanted.verdict == verdict
            assert found.violations == wanted.violations
            assert found.runs == wanted.runs


@each_kind
def test_cost_takes_every_kind(kind: str) -> None:
    make = KINDS[kind][0]
    with thence.cost(make(CAUSAL)) as found:
        assert found.json() == thence.cost(as_events(CAUSAL)).json()
        assert found.causal
        assert found.protocols
    assert not thence.cost(make(EVENTS)).causal


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("make", LIST_TYPES.values(), ids=LIST_TYPES)
def test_causes_and_destinations_are_any_list_of_arrow(make: Any, text: pa.DataType, tmp_path: Path) -> None:
    kind = make(text)
    arrivals = pa.table(
        {"id": ["b", "a"], "causes": pa.array([["a"], None], kind), "more": pa.array([["x"], ["y"]], kind)}
    )
    found = thence.deliver(arrivals, id="id", causes="causes")
    assert found.column("id").to_pylist() == ["a", "b"]
    assert found.schema.field("causes").type == found.schema.field("more").type == kind
    assert found.column("more").to_pylist() == [["y"], ["x"]]
    events = pa.Table.from_pylist(EVENTS)
    place = events.schema.get_field_index("destinations")
    ones = pa.array([None if each is None else each[:1] for each in events.column(place).to_pylist()], kind)
    events = events.set_column(place, "destinations", ones)
    plain = events.set_column(place, "destinations", pa.array(ones.to_pylist(), pa.list_(pa.string())))
    assert thence.audit(events).violations == thence.audit(plain).violations
    assert thence.audit(events).misdelivered == thence.audit(plain).misdelivered != []
    for name, table in (("arrivals", arrivals), ("events", events)):
        with pa.ipc.new_file(tmp_path / f"{name}.arrow", table.schema) as out:
            out.write_table(table)
        pq.write_table(table, tmp_path / f"{name}.parquet")
    for end in ("arrow", "parquet"):
        read = thence.deliver(tmp_path / f"arrivals.{end}", id="id", causes="causes")
        assert read.column("id").to_pylist() == ["a", "b"]
        assert thence.audit(tmp_path / f"events.{end}").misdelivered == thence.audit(plain).misdelivered


def test_dicts_may_have_one_cause_here_and_a_list_there() -> None:
    rows = [{"id": "c", "causes": "b"}, {"id": "b", "causes": ["a", "z"]}, {"id": "a", "causes": None}, {"id": "z"}]
    found = thence.deliver(rows, id="id", causes="causes")
    assert [(row["id"], row["outcome"]) for row in found] == [(each, "delivered") for each in "azbc"]
    assert found[-1]["causes"] == "b"


@pytest.mark.parametrize(
    "make", [pa.Table.to_pandas, pl.from_arrow, lambda table: table], ids=["pandas", "polars", "arrow"]
)
def test_a_table_without_rows_has_no_event_whatever_its_types(make: Any, tmp_path: Path) -> None:
    names = ["run", "process", "index", "kind", "message", "destinations", "order"]
    table = pa.table({name: pa.nulls(0) for name in names})
    assert thence.audit(make(table)).verdict == "unknown"
    floats = pa.table({name: pa.array([], pa.float64()) for name in names})
    assert thence.audit(make(floats)).verdict == "unknown"
    pq.write_table(table, tmp_path / "none.parquet")
    assert thence.audit(tmp_path / "none.parquet").verdict == "unknown"


@pytest.mark.parametrize("text", ["", "\n\n"])
@pytest.mark.parametrize("by", ["depends_on", "clock", "stamp"])
def test_empty_json_lines_are_a_table_without_rows(by: Any, text: str, tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    path.write_text(text)
    columns = {"arrival": "place", "time": "at"}
    roster = ["a", "b"] if by == "stamp" else None
    found = thence.deliver(path, by, roster=roster, columns=columns, policy="release", after_seconds=1)
    assert found.num_rows == 0
    assert {"place", "at", by, "outcome", "position"} < set(found.column_names)
    if by == "depends_on":
        assert thence.deliver(path, id="id", causes="parent", key="account").column_names[:3] == [
            "account",
            "parent",
            "id",
        ]


@pytest.mark.parametrize(
    "times",
    [
        pa.array([1577836800000000001, 1578528000000000001], pa.timestamp("ns")),
        pa.array([1577836800, 1578528000], pa.timestamp("s", "Asia/Kolkata")),
        pa.array([dt.date(2020, 1, 1), dt.date(2020, 1, 9)], pa.date32()),
        pa.array([dt.date(2020, 1, 1), dt.date(2020, 1, 9)], pa.date64()),
        pa.array(["2020-01-01", "2020-01-09"]).dictionary_encode(),
    ],
    ids=lambda times: str(times.type),
)
def test_event_times_in_every_form_that_tables_have(times: pa.Array) -> None:
    table = pa.table({"id": [2, 1], "causes": pa.array([5, None], pa.int64()), "time": times})
    for rows in (table, table.to_pandas(), table.to_pylist()):
        found = thence.deliver(rows, id="id", causes="causes", policy="release", after_seconds=8 * 86_400)
        outcomes = list(found["outcome"]) if isinstance(rows, pd.DataFrame) else None
        outcomes = outcomes or [row["outcome"] for row in (found.to_pylist() if rows is table else found)]
        assert outcomes == ["delivered", "released"]
    names = {"message": "id", "depends_on": "causes"}
    orderer = thence.Orderer(by="depends_on", columns=names, key=[], policy="release", after_seconds=8 * 86_400)
    assert [row["outcome"] for row in orderer.deliver(table.to_pylist())] == ["delivered", "released"]


def test_nothing_is_not_causal() -> None:
    assert not thence.cost([]).causal
    assert thence.audit([]).verdict == "unknown"


@each_kind
def test_columns_have_other_names(kind: str) -> None:
    make = KINDS[kind][0]
    rows = [{("host" if name == "process" else name): value for name, value in row.items()} for row in CAUSAL]
    assert thence.audit(make(rows), columns={"process": "host"}).verdict == "causal"
    assert thence.cost(make(rows), columns={"process": "host"}).causal
    for call in (thence.audit, thence.cost):
        with pytest.raises(MisuseError, match="column process is missing; the table has run, host"):
            call(make(rows))


WORDS = {"PRODUCED": "send", "CONSUMED": "deliver"}


@each_kind
def test_kinds_have_other_words(kind: str, tmp_path: Path) -> None:
    make, _, listed = KINDS[kind]
    theirs = {ours: word for word, ours in WORDS.items()}
    rows = [{**row, "kind": theirs[row["kind"]]} for row in EVENTS]
    assert thence.audit(make(rows), kinds=WORDS).violations == thence.audit(EVENTS).violations
    assert thence.cost(make(rows), kinds=WORDS).json() == thence.cost(EVENTS).json()
    assert listed(thence.stamp(make(rows), kinds=WORDS)) == thence.stamp(EVENTS)
    assert thence.show(make(rows), tmp_path / "x.html", kinds=WORDS).read_text() == (
        thence.show(EVENTS, tmp_path / "x.html").read_text()
    )
    with pytest.raises(MisuseError, match="kinds= maps 'PRODUCED' to 'sent'; one of crash"):
        thence.audit(make(rows), kinds={"PRODUCED": "sent"})


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_kinds_of_files_have_other_words(name: str, tmp_path: Path) -> None:
    theirs = {ours: word for word, ours in WORDS.items()}
    rows = [{**row, "kind": theirs.get(row["kind"], row["kind"]), "order": place} for place, row in enumerate(EVENTS)]
    if name.endswith("parquet"):
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    else:
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert thence.audit(tmp_path / name, kinds=WORDS).violations == thence.audit(EVENTS).violations
    assert thence.audit(tmp_path / name).verdict == "unknown"
    assert thence.stamp(tmp_path / name, kinds=WORDS).to_pylist() == thence.stamp(EVENTS)


@pytest.mark.parametrize("kind", ["dicts", "polars", "table", "pandas"])
def test_unusable_rows_have_one_reason(kind: str) -> None:
    make = KINDS[kind][0]
    rows = [*CAUSAL, {**CAUSAL[0], "kind": "sent", "index": 2}]
    (row,) = thence.audit(make(rows)).quarantine
    (line,) = thence.cost(make(rows)).quarantine
    assert row["reason"] == line["reason"] == event_of(rows[-1])
    assert line["line"] == len(rows)


def test_pandas_floats_that_are_whole_are_integers() -> None:
    """A column of integers with nulls is one of floats in pandas."""
    frame = pd.DataFrame([{**row, "order": place if place else None} for place, row in enumerate(CAUSAL)])
    assert frame["order"].dtype == float
    assert thence.audit(frame).verdict == thence.audit(as_events(CAUSAL)).verdict
    frame["order"] += 0.5
    with pytest.raises(MisuseError, match="column order is double; long is accepted"):
        thence.audit(frame)


def test_times_may_be_moments() -> None:
    frame = pd.DataFrame(CAUSAL).assign(time=pd.date_range("2024-01-01", periods=len(CAUSAL), freq="s"))
    assert thence.cost(frame).causal


@each_kind
def test_stamp_gives_the_kind_that_went_in(kind: str) -> None:
    make, out_type, listed = KINDS[kind]
    wanted = thence.stamp(as_events(CAUSAL), roster=["shop", "bank", "book"])
    found = thence.stamp(make(CAUSAL), roster=["shop", "bank", "book"])
    assert isinstance(found, out_type)
    assert listed(found) == wanted
    assert [(row["message"], row["destination"], row["depends_on"]) for row in wanted] == [
        ("o", "bank", []), ("o", "book", []), ("p", "book", ["o"]),
    ]  # fmt: skip


@each_kind
def test_what_was_stamped_is_delivered_in_causal_order(kind: str) -> None:
    make, _, listed = KINDS[kind]
    arrived = thence.stamp(make(EVENTS), roster=["shop", "bank", "book"])
    found = listed(thence.deliver(arrived, "stamp", roster=["shop", "bank", "book"]))
    assert [row["message"] for row in found if row["destination"] == "book"] == ["o", "p"]


@each_kind
def test_messages_with_causes_are_stamped(kind: str) -> None:
    make, _, listed = KINDS[kind]
    rows = [
        {"message": "a", "destinations": ["x", "y"], "depends_on": []},
        {"message": "b", "destinations": ["x"], "depends_on": ["a"]},
    ]
    found = listed(thence.stamp(make(rows)))
    assert [(row["message"], row["destination"], row["depends_on"]) for row in found] == [
        ("a", "x", []), ("a", "y", []), ("b", "x", ["a"]),
    ]  # fmt: skip
    with pytest.raises(MisuseError, match="roster= goes with a trace"):
        thence.stamp(make(rows), roster=["x"])
    with pytest.raises(MisuseError, match="columns message: neither a trace"):
        thence.stamp(make([{"message": "a"}]))


@each_kind
def test_show_writes_the_same_page(kind: str, tmp_path: Path) -> None:
    make = KINDS[kind][0]
    wanted = thence.show(as_events(EVENTS), out=tmp_path / "run.html").read_text()
    found = thence.show(make(EVENTS), out=tmp_path / "run.html")
    assert found == tmp_path / "run.html"
    assert found.read_text() == wanted


def test_show_names_the_page_after_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("monday.jsonl").write_text("".join(json.dumps(row) + "\n" for row in EVENTS))
    assert thence.show("monday.jsonl") == Path("monday.html")
    assert thence.show(EVENTS) == Path("run.html")
    assert thence.show("monday.jsonl", out="why.html", violation=1) == Path("why.html")
    with pytest.raises(MisuseError, match="there is no folder"):
        thence.show(EVENTS, out="nowhere/run.html")
    with pytest.raises(MisuseError, match="one is accepted"):
        thence.show(EVENTS, violation=1, message="o")


def test_paths_are_those_of_violations() -> None:
    with thence.audit(EVENTS) as result:
        (found,) = result.paths(result.violations[:1])
        assert result.paths() == [found]
        assert {name: found[name] for name in ("run", "destination", "early", "missing")} == result.violations[0]
        assert found["path"] == [
            {"process": "shop", "index": 1, "kind": "send", "message": "o"},
            {"process": "bank", "index": 1, "kind": "deliver", "message": "o"},
            {"process": "bank", "index": 2, "kind": "send", "message": "p"},
        ]
        assert result.paths([]) == []
        with pytest.raises(MisuseError, match=r"paths\(result.violations\[:100\]\)"):
            result.paths(100)  # type: ignore[arg-type]
