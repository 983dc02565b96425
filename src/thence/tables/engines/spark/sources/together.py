"""The plain forms of sources in the workers: records one by one, or those of a group together.

Invariant: a record gets the columns of its own arrivals, and keeps its own; moments among them stay what they are,
in any time zone of the session. Nothing here asks for a session: it is imported by workers too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructType

from thence.core.model.plain import Field
from thence.errors import MisuseError
from thence.tables.engines.spark.arrow_to_spark_types import struct_of
from thence.tables.sources.arrival import Arrival

if TYPE_CHECKING:
    import pyarrow as pa

ARRIVAL = struct_of({
    "run": "string", "destination": "string", "message": "string", "sender": "string", "time": "double",
    "depends_on": "array<string>", "kind": "string", "note": "string",
})  # fmt: skip
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


def need_column(records: DataFrame, value: str) -> None:
    """Refuse records without the column that holds what is to be read."""
    if value not in records.columns:
        raise MisuseError(f"no column {value!r}; the table has {', '.join(records.columns)}")


def plain_value(value: Field) -> Field:
    """Return a value of a record in the form that the plain functions take."""
    return bytes(value) if isinstance(value, bytearray) else value


def one_by_one(
    records: DataFrame,
    given: Sequence[str],
    read: Callable[..., Iterable[Mapping[str, Any]]],
    added: StructType,
    kept: Sequence[str],
) -> DataFrame:
    """Return the columns `kept` of each record beside the columns `added` of every row that `read` makes of it.

    `read` gets the columns `given`. It runs in the workers, of a batch or a stream.
    """
    from thence.tables.engines.spark.deliver import column

    def rows(*values: Field) -> list[tuple[Any, ...]]:
        return [tuple(row[name] for name in added.names) for row in read(*map(plain_value, values))]

    made = F.udf(rows, ArrayType(added), useArrow=False)(*map(column, given))  # else Spark reads type hints, and warns
    found = records.select(*map(column, kept), F.explode(made).alias("__thence"))
    return found.select(*map(column, kept), "__thence.*")
