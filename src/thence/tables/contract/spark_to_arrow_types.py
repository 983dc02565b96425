"""Types of columns, as Spark SQL writes them, in Arrow: the one map of types. Spark's own are made from Arrow's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import pyarrow as pa

from thence.tables.contract.columns import EVENT_COLUMNS, Column

_PLAIN = {
    "string": pa.string(), "binary": pa.binary(), "boolean": pa.bool_(), "double": pa.float64(), "byte": pa.int8(),
    "int": pa.int32(), "long": pa.int64(), "bigint": pa.int64(),
}  # fmt: skip


@cache
def arrow_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a type that Spark SQL writes as `map<string,array<struct<name:int>>>`."""
    outer, _, inner = kind.strip().removesuffix(">").partition("<")
    if not inner:
        return _PLAIN[outer]
    parts = _parts(inner)
    if outer == "array":
        return pa.list_(arrow_type(inner))
    if outer == "map":
        return pa.map_(*map(arrow_type, parts))
    assert outer == "struct", kind
    return pa.struct([(name, arrow_type(own)) for name, _, own in (part.partition(":") for part in parts)])


def _parts(text: str) -> list[str]:
    """Cut a text at the commas that stand in no brackets."""
    found, depth = [""], 0
    for sign in text:
        depth += (sign == "<") - (sign == ">")
        if sign == "," and not depth:
            found.append("")
        else:
            found[-1] += sign
    return found


def arrow_schema(columns: Sequence[Column] = EVENT_COLUMNS, *, nullable: bool = False) -> pa.Schema:
    """Return the columns as an Arrow schema; `nullable`: required columns may be null."""
    return pa.schema([pa.field(c.name, arrow_type(c.type), nullable or not c.required) for c in columns])


def schema_of_types(columns: Mapping[str, str]) -> pa.Schema:
    """Return columns and their types as an Arrow schema."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in columns.items()])


def ddl_of_types(columns: Mapping[str, str]) -> str:
    """Return columns and their types as a Spark schema string."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
