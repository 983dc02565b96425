"""Events as DataFrames, and what an audit on Spark found, run by run, as plain sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from support.tables import as_found

from whence.model.events import Event

SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("process", pa.string()),
        ("index", pa.int64()),
        ("kind", pa.string()),
        ("message", pa.string()),
        ("destinations", pa.list_(pa.string())),
        ("label", pa.string()),
        ("order", pa.int64()),
    ]
)


def frame(spark: Any, events: Sequence[Event], *, order: bool = True) -> Any:
    """Return events as a DataFrame in the trace table's columns."""
    names = [name for name in SCHEMA.names if order or name != "order"]
    columns = {name: [getattr(e, name) for e in events] for name in names}
    schema = pa.schema([SCHEMA.field(name) for name in names])
    return spark.createDataFrame(pa.table(columns, schema=schema))


def findings(result: Any) -> dict[str | None, dict[str, object]]:
    """Return what a result says of each run, in the form `support.tables.by_definition` has."""
    rows: dict[str | None, list[dict[str, object]]] = defaultdict(list)
    for row in result._tagged.toArrow().to_pylist():
        rows[row["run"]].append(row)
    return {run: as_found(some) for run, some in rows.items()}
