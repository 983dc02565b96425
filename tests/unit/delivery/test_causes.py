"""What a column of causes may hold: one id, several, none; and which types of ids are compared."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pyarrow as pa
import pytest

from thence import Orderer
from thence.errors import MisuseError
from thence.tables.engines.local.deliver import deliver_table, terms_of

NAMES = {"message": "event_id", "depends_on": "parent_id"}
A, B, C = (str(uuid.UUID(int=n)) for n in (1, 2, 3))


def rows_of(ids: list[Any], causes: list[Any]) -> list[dict[str, Any]]:
    return [{"account": "x", "event_id": i, "parent_id": c} for i, c in zip(ids, causes, strict=True)]


def from_orderer(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    out = Orderer("depends_on", columns=NAMES, key=["account"]).deliver(rows)
    return [(row["event_id"], row["outcome"], row["reason"]) for row in out]


def from_table(table: pa.Table) -> list[tuple[Any, ...]]:
    out = deliver_table(table, terms_of("depends_on", None, NAMES, ["account"], {})).to_pylist()
    return [(row["event_id"], row["outcome"], row["reason"]) for row in out]


FORMS: dict[str, tuple[list[Any], list[Any]]] = {
    "one text": (["c", "b", "a"], ["b", "a", None]),
    "an empty text": (["c", "b", "a"], ["b", "a", ""]),
    "an array": (["c", "b", "a"], [["b", "a", None, ""], ["a"], []]),
    "no array": (["c", "b", "a"], [["b"], ["a"], None]),
    "a number": ([3, 2, 1], [2, 1, None]),
    "numbers": ([3, 2, 1], [[2, 1], [1], None]),
    "a UUID": ([uuid.UUID(C), uuid.UUID(B), uuid.UUID(A)], [uuid.UUID(B), uuid.UUID(A), None]),
    "an array as text": (["c", "b", "a"], ['["b","a"]', '["a"]', "[]"]),
    "texts with brackets": (["c", "[b", "{a}"], ["[b", "{a}", None]),
}


@pytest.mark.parametrize("form", list(FORMS))
def test_a_row_waits_for_the_causes_it_names(form: str) -> None:
    ids, causes = FORMS[form]
    wanted = [(ids[2], "delivered", None), (ids[1], "delivered", None), (ids[0], "delivered", None)]
    assert from_orderer(rows_of(ids, causes)) == wanted
    columns = {"account": ["x"] * 3, "event_id": pa.array(ids), "parent_id": pa.array(causes)}
    assert from_table(pa.table(columns)) == wanted
    assert from_table(pa.concat_tables([pa.table(columns).slice(0, 1), pa.table(columns).slice(1)])) == wanted
    assert sorted(from_table(pa.table(columns).slice(1)), key=str) == sorted(wanted[:2], key=str)


@pytest.mark.parametrize("kind", ["int8", "int32", "uint64", "decimal128(20, 0)"])
def test_whole_numbers_of_any_width_are_compared_by_value(kind: str) -> None:
    other = pa.decimal128(20, 0) if kind.startswith("decimal") else pa.type_for_alias(kind)
    for causes in (pa.array([1, None], other), pa.array([[1], None], pa.list_(other))):
        table = pa.table({"account": ["x"] * 2, "event_id": pa.array([2, 1], pa.int64()), "parent_id": causes})
        assert from_table(table) == [(1, "delivered", None), (2, "delivered", None)]


@pytest.mark.parametrize("form", [pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_texts_of_any_form_are_one(form: pa.DataType) -> None:
    ids, causes = pa.array(["b", "a"]), pa.array(["a", ""]).cast(form)
    table = pa.table({"account": ["x"] * 2, "event_id": ids, "parent_id": causes})
    assert [row[:2] for row in from_table(table)] == [("a", "delivered"), ("b", "delivered")]


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (pa.int64(), pa.string()),
        (pa.string(), pa.int32()),
        (pa.int64(), pa.large_list(pa.string())),
        (pa.uuid(), pa.int64()),
    ],
)
def test_types_that_are_never_equal_are_refused_by_both_names(message: pa.DataType, cause: pa.DataType) -> None:
    """Before any row: the table has none."""
    table = pa.table({"account": pa.nulls(0), "event_id": pa.array([], message), "parent_id": pa.array([], cause)})
    with pytest.raises(MisuseError) as refused:
        from_table(table)
    assert f"column 'event_id' is {message} and column 'parent_id' {cause}: " in str(refused.value)
    table = table.set_column(2, "parent_id", pa.nulls(0))
    assert from_table(table) == []


@pytest.mark.parametrize("kind", [pa.struct([("x", pa.string())]), pa.map_(pa.string(), pa.string())])
def test_a_type_that_holds_no_ids_is_refused(kind: pa.DataType) -> None:
    table = pa.table({"account": pa.nulls(0), "event_id": pa.array([], pa.string()), "parent_id": pa.array([], kind)})
    with pytest.raises(MisuseError, match="one id or an array of ids is accepted"):
        from_table(table)
    table = pa.table({"account": pa.nulls(0), "event_id": pa.array([], kind), "parent_id": pa.nulls(0)})
    with pytest.raises(MisuseError, match="an id is a text, a whole number or a UUID"):
        from_table(table)


NEVER_EQUAL = ", and the message id 1 is a whole number: they are never equal"
ODD: dict[str, tuple[Any, Any, str]] = {
    "no id": (None, "a", "no message id"),
    "an empty id": ("", "a", "no message id"),
    "an id that is not a number": (float("nan"), "a", "no message id"),
    "itself": ("a", "a", "cycle: a depends on itself"),
    "itself among others": ("a", ["b", "a"], "cycle: a depends on itself"),
    "an object": ("a", {"id": 1}, 'a cause is {"id":1}; one id or an array of ids is accepted'),
    "an object in an array": ("a", [{"id": 1}], 'a cause is {"id":1}; one id or an array of ids is accepted'),
    "an array in an array": ("a", [["b"]], 'a cause is ["b"]; one id or an array of ids is accepted'),
    "an object for an id": ({"id": 1}, None, 'the message id is {"id":1}; one text or number is accepted'),
    "a fraction": (1, 2.5, f"cause 2.5 is a fraction{NEVER_EQUAL}"),
    "a long float": (1, 2.0**53, f"cause {2.0**53} has lost digits{NEVER_EQUAL}"),
    "an id that is a long float": (2.0**53, None, f"the message id {2.0**53} is a float that has lost digits"),
}


@pytest.mark.parametrize("odd", list(ODD))
def test_a_row_without_usable_ids_says_why(odd: str) -> None:
    message, cause, reason = ODD[odd]
    assert [row[1:] for row in from_orderer(rows_of([message], [cause]))] == [("quarantined", reason)]
    if isinstance(cause, dict | list) and not isinstance(message, dict):
        as_text = rows_of([message], [json.dumps(cause, separators=(",", ":"))])
        assert [row[1:] for row in from_orderer(as_text)] == [("quarantined", reason)]
