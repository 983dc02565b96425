"""Records that a plain form must see together: its rows beside the records of a group, as columns of an Arrow table.

Invariant: a record gets the columns of its own arrival, and keeps its own; moments among them stay what they are,
whatever the zone of the session. Nothing here asks for a session: it is imported by workers too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, DoubleType, StringType, StructField, StructType

from thence.tables.sources.arrival import Arrival

if TYPE_CHECKING:
    import pyarrow as pa

ARRIVAL = StructType(
    [
        StructField("run", StringType()),
        StructField("destination", StringType()),
        StructField("message", StringType()),
        StructField("sender", StringType()),
        StructField("time", DoubleType()),
        StructField("depends_on", ArrayType(StringType())),
        StructField("kind", StringType()),
        StructField("note", StringType()),
    ]
)
"""The columns of `thence.tables.sources.arrival.Arrival`."""


def beside(records: pa.Table, rows: Sequence[Arrival], added: StructType) -> pa.Table:
    """Return the records with the columns `added` of their arrivals."""
    import pyarrow

    from thence.tables.delivery.arrow_rows import in_utc
    from thence.tables.engines.spark.versions import as_arrow

    records = pyarrow.Table.from_batches([in_utc(batch) for batch in records.to_batches()])
    for field in as_arrow(added):
        values = [row[field.name] for row in rows]  # type: ignore[literal-required]
        records = records.append_column(field, pyarrow.array(values, field.type))
    return records
