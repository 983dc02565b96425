"""`known=`: ids that count as delivered before the first row."""

from __future__ import annotations

from collections import OrderedDict
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.naive_orderer import arrivals
from unit.delivery.stored_states import Shelf
from unit.delivery.test_shard import KEYS, SCHEMA, Worker, batch, terms

import thence
from thence.errors import MisuseError
from thence.tables.delivery import shard_memory
from thence.tables.delivery.shard import Shard

ROWS = [
    {"account": 1, "id": "b", "parent": "a"},
    {"account": 1, "id": "a", "parent": None},
    {"account": 2, "id": "b", "parent": "a"},
    {"account": 2, "id": "c", "parent": "b"},
    {"account": 3, "id": "c", "parent": "lost"},
]
ASKED: dict[str, Any] = {"id": "id", "causes": "parent"}


def seen(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["account"], row["id"], row["outcome"], row["position"], row["reason"]) for row in rows]


@pytest.mark.parametrize("arrival", [False, True])
@pytest.mark.parametrize("make", [list, pa.Table.from_pylist, pd.DataFrame])
def test_a_known_cause_is_met_and_a_known_row_is_a_duplicate(make: Any, arrival: bool) -> None:
    rows = [row | ({"arrival": place} if arrival else {}) for place, row in enumerate(ROWS)]
    known = [{"account": 1, "id": "a"}, {"account": 9, "id": "lost"}, {"account": 2, "id": None}]
    out = thence.deliver(rows, known=make(known), key="account", **ASKED)
    assert sorted(seen(out), key=lambda row: row[0]) == [
        (1, "b", "delivered", 1, None),
        (1, "a", "duplicate", None, "it was delivered before"),
        (2, "b", "blocked", None, "waits for a; a has not arrived"),
        (2, "c", "blocked", None, "waits for b; a has not arrived"),
        (3, "c", "blocked", None, "waits for lost; lost has not arrived"),
    ]


def test_ids_alone_where_there_is_no_key() -> None:
    rows = [{"id": 3, "parent": 2}, {"id": 5, "parent": 4}]
    out = thence.deliver(rows, known=(each for each in [1, 2]), **ASKED)
    assert [(row["id"], row["outcome"]) for row in out] == [(3, "delivered"), (5, "blocked")]
    assert [row["outcome"] for row in thence.deliver(rows, known=[], **ASKED)] == ["blocked", "blocked"]


@pytest.mark.parametrize("make", [pd.Series, pl.Series, pa.array, np.array, set])
def test_one_column_of_ids_is_known(make: Any) -> None:
    rows = [{"id": "b", "parent": "a"}, {"id": "d", "parent": "c"}]
    assert [row["outcome"] for row in thence.deliver(rows, known=make(["a", "z"]), **ASKED)] == ["delivered", "blocked"]
    with pytest.raises(MisuseError, match="known= has ids alone"):
        thence.deliver(ROWS, known=make(["a"]), key="account", **ASKED)


@pytest.mark.parametrize("make", [list, pa.Table.from_pylist, pd.DataFrame, pl.DataFrame])
def test_of_an_earlier_delivery_only_rows_with_a_position_are_known(make: Any) -> None:
    rows = [{"id": "b", "parent": "a"}, {"id": None, "parent": None}, {"id": "old", "parent": None}]
    earlier = thence.deliver(make(rows), **ASKED)
    again = [{"id": "b", "parent": "a"}, {"id": "c", "parent": "b"}, {"id": "a", "parent": "old"}]
    out = thence.deliver(again, known=earlier, **ASKED)
    assert [(row["id"], row["outcome"]) for row in out] == [("a", "delivered"), ("b", "delivered"), ("c", "delivered")]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.float32()])
def test_known_ids_may_be_larger_than_the_type_of_the_rows_holds(kind: pa.DataType) -> None:
    rows = pa.table({"id": pa.array([2, 4], kind), "parent": pa.array([1, 3], kind)})
    out = thence.deliver(rows, known=[1, 2**40 + 1], **ASKED)
    assert out.column("outcome").to_pylist() == ["delivered", "blocked"]
    assert out.schema.field("id").type == kind
    rows = rows.cast(pa.schema([("id", pa.int32()), ("parent", pa.int32())]))
    with pytest.raises(MisuseError, match=r"known=: column 'id' is uint64, here it is int32: Integer value"):
        thence.deliver(rows, known=pa.table({"id": pa.array([2**63], pa.uint64())}), **ASKED)


@pytest.mark.parametrize("make", [pd.Series, pl.Series])
def test_known_keys_may_be_more_categories_than_the_rows_have(make: Any) -> None:
    key = make(["a"]).astype("category") if make is pd.Series else make(["a"], dtype=pl.Categorical)
    frame = (pd if make is pd.Series else pl).DataFrame
    known = frame({"account": make(["a", *map(str, range(300))]), "id": make(["1"] * 301)})
    for each in (known, known.astype({"account": "category"}) if make is pd.Series else known.cast(pl.Categorical)):
        out = thence.deliver(frame({"account": key, "id": ["2"], "parent": ["1"]}), known=each, key="account", **ASKED)
        assert (list(out["outcome"]), out["account"].dtype) == (["delivered"], key.dtype)


@pytest.mark.parametrize("outcome", ["paid", 7, None])
def test_a_column_called_outcome_of_another_program_says_nothing(outcome: Any) -> None:
    out = thence.deliver([{"id": "b", "parent": "a"}], known=[{"id": "a", "outcome": outcome}], **ASKED)
    assert [row["outcome"] for row in out] == ["delivered"]


@pytest.mark.parametrize(
    ("known", "more", "sentence"),
    [
        (["a"], {"key": "account"}, "pass a table with the columns account, id"),
        ([{"account": 1}], {"key": "account"}, "known= has no column 'id'"),
        ([{"account": 1, "id": 7}], {"key": "account"}, "a number is never equal to a text"),
        (pd.DataFrame({"ID": [1]}), {}, "known= has no column 'id'; it has ID"),
        ("table.parquet", {"key": "account"}, "known= is the path 'table.parquet'; .* read the file first"),
        (lambda ids: ids, {}, "known= is a function; .* Gate and Orderer take a function"),
        ([1, "x"], {}, "known=: column 'id' holds int, str; values of one type"),
        ([("a", 1)], {}, "known=: column 'id' holds tuple; "),
        (7, {}, "known= is of type int; "),
        ({"id": ["a"]}, {}, "known= is of type dict; "),
    ],
)
def test_what_is_no_table_of_known_ids_is_refused(known: Any, more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MisuseError, match=sentence):
        thence.deliver(ROWS, known=known, **ASKED, **more)


def test_known_goes_with_explicit_causes() -> None:
    with pytest.raises(MisuseError, match="names its causes by number"):
        thence.deliver([{"destination": "d", "sender": "a", "clock": {"a": 1}}], by="clock", known=["a"])


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("remember", [None, 2])
def test_random_sets_after_known_ids_equal_the_orderer_that_delivered_them(seed: int, remember: int | None) -> None:
    """An orderer that got the known ids as rows gives the same outcomes, its positions further by their number."""
    random = Random(seed)
    sets = enumerate(arrivals("depends_on", random))
    rows = [{"n": place, "message": row["message"], "depends_on": row["depends_on"]} for place, row in sets]
    ids = sorted({each for row in rows for each in [row["message"], *(row["depends_on"] or ())] if each})
    known = random.sample(ids, len(ids) // 3)
    twin = thence.Orderer("depends_on", key=["destination"], remember=remember)
    for each in known:
        twin.push({"destination": "d", "message": each, "depends_on": []})
    wanted = [out for row in rows for out in twin.push(row | {"destination": "d"})]
    outcomes = [(out["n"], out["outcome"], out["position"] and out["position"] - len(known)) for out in wanted]
    table = pa.Table.from_pylist([{"message": each} for each in known], pa.schema([("message", pa.string())]))
    found = thence.deliver(rows, known=table, remember=remember)
    assert [(r["n"], r["outcome"], r["position"]) for r in found if r["outcome"] != "blocked"] == outcomes
    shelf, how = Shelf(), terms(remember=remember)
    shard_memory.KEPT = OrderedDict()
    fresh = Shard(how, SCHEMA, KEYS, 1)
    fresh.know_before(batch([{"message": each} for each in known]), 0)
    fresh.write(shelf)
    shelf.head = fresh.head()
    half = len(rows) // 2
    out = [each for part in (rows[:half], rows[half:]) for each in Worker().step(shelf, part, how)]
    assert [(r["n"], r["outcome"], r["position"]) for r in out] == outcomes


# -- one row after another


def test_an_orderer_asks_once_for_each_missing_cause_of_a_key() -> None:
    asked: list[list[str]] = []

    def known(ids: list[str]) -> list[str]:
        asked.append(ids)
        return [each for each in ids if each == "a"]

    orderer = thence.Orderer("depends_on", key=["account"], known=known)

    def push(account: int, message: str, *causes: str) -> list[tuple[Any, ...]]:
        out = orderer.push({"account": account, "message": message, "depends_on": list(causes)})
        return [(row["account"], row["message"], row["outcome"]) for row in out]

    assert push(1, "b", "a") == [(1, "b", "delivered")]
    assert push(1, "c", "a", "b") == [(1, "c", "delivered")]  # nothing is missed
    assert push(1, "d", "lost") == []
    assert push(1, "e", "lost", "d") == []  # asked for before, and arrived
    assert push(2, "b", "a") == [(2, "b", "delivered")]  # another key
    assert asked == [["a"], ["lost"], ["a"]]
    assert push(1, "lost") == [(1, "lost", "delivered"), (1, "d", "delivered"), (1, "e", "delivered")]
    assert push(1, "a") == [(1, "a", "duplicate")]
    with pytest.raises(MisuseError, match="names its causes by number"):
        thence.Orderer("clock", known=known)


def test_what_left_before_an_error_of_known_leaves_with_the_next_row() -> None:
    fails = True

    def known(ids: list[str]) -> list[str]:
        if fails:
            raise ConnectionError("the database is away")
        return ids

    orderer = thence.Orderer("depends_on", key=["account"], held_limit=1, when_full="release", known=known)
    with pytest.raises(ConnectionError):
        orderer.push({"account": 1, "message": "b", "depends_on": ["a"]})
    with pytest.raises(ConnectionError):
        orderer.push({"account": 1, "message": "c", "depends_on": ["x"]})  # b is released
    fails = False
    out = orderer.push({"account": 1, "message": "d", "depends_on": []})
    assert [(row["message"], row["outcome"]) for row in out] == [
        ("b", "released"), ("d", "delivered"), ("c", "delivered"),
    ]  # fmt: skip
    assert orderer.finish() == []


@pytest.mark.parametrize("seed", range(20))
def test_random_sets_with_a_function_of_known_ids_equal_those_with_a_table(seed: int) -> None:
    """The positions differ by nothing; a row that is known itself is a duplicate once its id was asked for."""
    random = Random(seed)
    sets = arrivals("depends_on", random)
    rows = [{"account": 1, "message": r["message"], "depends_on": r["depends_on"]} for r in sets]
    own = {row["message"] for row in rows}
    causes = sorted({each for row in rows for each in row["depends_on"] or () if each} - own)
    there = set(random.sample(causes, len(causes) // 2))
    orderer = thence.Orderer("depends_on", key=["account"], known=lambda ids: there.intersection(ids))
    table = pa.table({"account": [1] * len(there), "message": pa.array(sorted(there), pa.string())})
    wanted = [
        (r["message"], r["outcome"], r["position"], r["missing"])
        for r in thence.deliver(rows, key="account", known=table)
    ]
    found = [(r["message"], r["outcome"], r["position"], r["missing"]) for r in orderer.deliver(rows)]
    assert found == wanted


@pytest.mark.parametrize("failing", range(1, 6))
@pytest.mark.parametrize("size", [1, 4, 50])
def test_a_batch_of_which_known_raises_loses_no_row(failing: int, size: int) -> None:
    """Rows that left, rows that wait, and those behind the failing one; of one key or of others."""
    rows = [
        {"account": number % 3, "message": f"m{number}", "depends_on": [f"old{number}"] if number % 4 == 1 else []}
        for number in range(30)
    ]

    def delivered(fails: int) -> list[tuple[Any, ...]]:
        calls: list[list[str]] = []

        def known(ids: list[str]) -> list[str]:
            calls.append(ids)
            if len(calls) == fails:
                raise ConnectionError("the database is away")
            return ids

        orderer = thence.Orderer("depends_on", key=["account"], known=known)
        out: list[dict[str, Any]] = []
        for start in range(0, len(rows), size):
            try:
                out += orderer.push_all(rows[start : start + size])
            except ConnectionError:
                if size > 1:
                    with pytest.raises(MisuseError, match=r"call push_all\(\[\]\) before snapshot"):
                        orderer.snapshot()
                out += orderer.push_all([])
        assert orderer.held() == {}
        assert len(calls) > 3
        return sorted((row["account"], row["message"], row["outcome"]) for row in out)

    wanted = sorted((row["account"], row["message"], "delivered") for row in rows)
    assert delivered(0) == delivered(failing) == wanted


def test_rows_of_a_query_are_no_answer_of_known() -> None:
    orderer = thence.Orderer("depends_on", key=["account"], known=lambda ids: [(each,) for each in ids])  # type: ignore
    with pytest.raises(MisuseError, match=r"known returned \('a',\); a list of ids is expected"):
        orderer.push({"account": 1, "message": "b", "depends_on": ["a"]})
