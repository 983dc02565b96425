"""Types as Spark SQL writes them, in Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest

from thence.tables.contract.columns import DEPENDENCIES
from thence.tables.contract.spark_to_arrow_types import arrow_type


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("long", pa.int64()),
        ("bigint", pa.int64()),
        ("array<string>", pa.list_(pa.string())),
        ("map<string,long>", pa.map_(pa.string(), pa.int64())),
        ("map<string,struct<met:boolean,why:string>>",
         pa.map_(pa.string(), pa.struct([("met", pa.bool_()), ("why", pa.string())]))),
        ("struct<a:array<string>,b:long>", pa.struct([("a", pa.list_(pa.string())), ("b", pa.int64())])),
        (DEPENDENCIES, pa.list_(pa.struct([("message", pa.string()), ("destinations", pa.list_(pa.string()))]))),
    ],
)  # fmt: skip
def test_types_inside_types(kind: str, found: pa.DataType) -> None:
    assert arrow_type(kind) == found
