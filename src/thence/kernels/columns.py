"""The columns of `model.columns` as Arrow has them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from thence.model.columns import DEPENDENCIES, EVENT_COLUMNS, Column

_NAMES = pa.list_(pa.string())
ARROW_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "int": pa.int32(),
    "byte": pa.int8(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "array<string>": _NAMES,
    "map<string,long>": pa.map_(pa.string(), pa.int64()),
    DEPENDENCIES: pa.list_(pa.struct([("message", pa.string()), ("destinations", _NAMES)])),
}
"""The Arrow type of each type that a column states."""


def arrow_schema(columns: Sequence[Column] = EVENT_COLUMNS, *, nullable: bool = False) -> pa.Schema:
    """Return the columns as an Arrow schema; `nullable`: whatever is required may be null all the same."""
    return pa.schema([pa.field(c.name, ARROW_TYPES[c.type], nullable or not c.required) for c in columns])
