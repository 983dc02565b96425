"""Values in Avro: of a change event's schema, of every type, cut off, of another schema, and schemas of no use."""

from __future__ import annotations

import io
import json
import struct
import sys
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.errors import MisuseError, PeerError
from thence.sources import from_change
from thence.tables.sources.avro import decode, decode_confluent

ROW = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}]}
SCHEMA: Any = {
    "type": "record", "name": "Envelope", "namespace": "shop.public.customer",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": [
            {"name": "name", "type": "string"}, {"name": "table", "type": "string"},
            {"name": "snapshot", "type": [{"type": "string", "connect.default": "false"}, "null"]},
            {"name": "sequence", "type": ["null", "string"]}]}},
        {"name": "op", "type": "string"},
        {"name": "transaction", "type": ["null", {"type": "record", "name": "block", "namespace": "event", "fields": [
            {"name": "id", "type": "string"}, {"name": "total_order", "type": "long"}]}]},
    ],
}  # fmt: skip
EVERYTHING: Any = {
    "type": "record", "name": "All", "fields": [
        {"name": "l", "type": "long"}, {"name": "f", "type": "float"}, {"name": "d", "type": "double"},
        {"name": "b", "type": "bytes"}, {"name": "t", "type": "boolean"}, {"name": "s", "type": "string"},
        {"name": "x", "type": {"type": "fixed", "name": "F", "size": 3}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "a", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "m", "type": {"type": "map", "values": "string"}},
    ],
}  # fmt: skip
VALUES = st.fixed_dictionaries({
    "l": st.integers(-(2**63), 2**63 - 1), "f": st.floats(width=32, allow_nan=False), "d": st.floats(allow_nan=False),
    "b": st.binary(max_size=9), "t": st.booleans(), "s": st.text(max_size=9),
    "x": st.binary(min_size=3, max_size=3), "e": st.sampled_from(["A", "B"]),
    "a": st.lists(st.none() | st.integers(-99, 99), max_size=5),
    "m": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
})  # fmt: skip


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@given(VALUES)
def test_every_type_comes_back(value: dict[str, Any]) -> None:
    assert decode(written(EVERYTHING, value), EVERYTHING) == value


@given(VALUES, st.data())
def test_bytes_that_are_not_of_the_schema_are_the_peers_fault(value: dict[str, Any], data: st.DataObject) -> None:
    whole = written(EVERYTHING, value)
    with pytest.raises(PeerError):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))], EVERYTHING)
    with pytest.raises(PeerError):
        decode(whole + b"\0", EVERYTHING)


def test_a_change_in_avro_is_the_change_in_json() -> None:
    value = {
        "before": None, "after": {"id": 3}, "op": "c",
        "source": {"name": "shop", "table": "customer", "snapshot": "false", "sequence": '["40","55"]'},
        "transaction": {"id": "7:55", "total_order": 1},
    }  # fmt: skip
    data = struct.pack(">bI", 0, 17) + written(SCHEMA, value)
    assert decode_confluent(data, {17: SCHEMA}) == value
    for schema in (SCHEMA, json.dumps(SCHEMA)):
        assert from_change(data, schemas={17: schema}) == from_change(json.dumps(value))
    row = from_change(data, schemas={16: SCHEMA})
    assert (row["kind"], row["message"]) == ("unreadable", None)
    assert row["note"] == "Avro of schema 17, which is not among the schemas given: 16"
    assert from_change(data[:-3], schemas={17: SCHEMA})["kind"] == "unreadable"


def test_logical_types_are_left_as_they_are_written() -> None:
    schema = {"type": "record", "name": "T", "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ]}  # fmt: skip
    plain = {
        "type": "record",
        "name": "T",
        "fields": [{"name": "at", "type": "long"}, {"name": "price", "type": "bytes"}],
    }
    value = {"at": 1_700_000_000_000, "price": b"\x01\x02"}
    assert decode(written(plain, value), schema) == value


@pytest.mark.parametrize(
    ("data", "schema"),
    [
        (b"\x09", "string"),  # a length below zero
        (b"\xfe\xff\xff\xff\x0f", "string"),  # a length beyond the end
        (b"\x04\xff\xfe", "string"),  # no UTF-8
        (b"\x08", ["null", "long"]),  # no such branch
        (b"\x09", ["null", "long"]),
        (b"\x08", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        (b"", "long"),
        (b"\x80", "long"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(data: bytes, schema: Any) -> None:
    with pytest.raises(PeerError, match=r"^Avro value of"):
        decode(data, schema)


@pytest.mark.parametrize("schema", [{"type": "record", "name": "R", "fields": [{"name": "x", "type": "Y"}]}, "{", {}])
def test_a_schema_that_cannot_be_used(schema: Any) -> None:
    with pytest.raises(MisuseError, match="an Avro schema cannot be used"):
        decode(b"", schema)


def test_without_fastavro_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(MisuseError, match=r'pip install "thence\[avro\]"'):
        decode(b"\x02", "long ")
