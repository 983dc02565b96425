"""Debezium's records as a DataFrame of arrivals.

Law. A stream reads record by record (`thence.sources.from_change`): it needs Kafka's offsets for `order="commit"`,
and can not have `order="keys"`, for which the records must be seen together. A batch sees them together
(`thence.sources.from_changes`), the records of a connector in one task, as delivery will have them anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DoubleType, StringType, StructField, StructType

from thence.errors import MisuseError
from thence.model.plain import Fields, Row
from thence.sources import Record, from_change
from thence.sources import from_changes as plain
from thence.sources.avro import Schemas
from thence.sources.commits import since_mark
from thence.sources.debezium import Order
from thence.sources.keyed import foreign_keys_of
from thence.spark.sources.kafka import arrival

if TYPE_CHECKING:
    import pyarrow as pa

ADDED = StructType(
    [
        StructField("run", StringType()),
        StructField("destination", StringType()),
        StructField("message", StringType()),
        StructField("sender", StringType()),
        StructField("time", DoubleType()),
        StructField("depends_on", ArrayType(StringType())),
        StructField("kind", StringType()),
        StructField("note", StringType()),
        StructField("transaction", StringType()),
    ]
)
_READ = ("value", "key", "topic", "partition", "offset")
_SERVER = "__thence_server"


def from_changes(
    records: DataFrame,
    *,
    order: Order = "commit",
    since: int | str | None = None,
    server: str | None = None,
    schemas: Schemas | None = None,
    foreign_keys: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the records with the columns of arrivals beside their own; the parameters are those of the plain form.

    `value` is needed (text or binary); `key`, `topic`, `partition` and `offset`, as Kafka's connector gives them, are
    used where they are.
    """
    _refuse(records, order)
    if since is not None:
        since_mark(since)  # a mistake is told here, not in a worker
    foreign_keys_of(foreign_keys or {})
    told = {"order": order, "since": since, "server": server, "schemas": None if schemas is None else dict(schemas)}
    if records.isStreaming or order == "transaction":
        rows = _one_by_one(records, told)
    else:
        rows = _together(records, told | {"foreign_keys": foreign_keys})
    return rows.withColumn("arrival", arrival()) if {"topic", "partition", "offset"} <= set(records.columns) else rows


def _refuse(records: DataFrame, order: str) -> None:
    if "value" not in records.columns:
        raise MisuseError(f"no column 'value'; the table has {', '.join(records.columns)}")
    taken = [name for name in (*ADDED.names, "arrival") if name in records.columns]
    if taken:
        raise MisuseError(f"column {', '.join(taken)} is one that this adds; rename or drop it first")
    if not records.isStreaming:
        return
    if order == "keys":
        raise MisuseError("order='keys' needs the records together; in a stream use 'commit' or 'transaction'")
    if order == "commit" and not {"topic", "partition", "offset"} <= set(records.columns):
        raise MisuseError("order='commit' in a stream needs the columns topic, partition and offset of the records")


def _one_by_one(records: DataFrame, told: Fields) -> DataFrame:
    given = [name for name in _READ if name in records.columns]
    options = dict(told)

    def read(*values: Any) -> Any:
        row = from_change(Record(**dict(zip(given, map(_plain, values), strict=True))), **options)
        return tuple(row[name] for name in ADDED.names)  # type: ignore[literal-required]

    row = F.udf(read, ADDED)(*given)
    return records.withColumn("__thence", row).select(*records.columns, "__thence.*")


def _together(records: DataFrame, told: Fields) -> DataFrame:
    given = [name for name in _READ if name in records.columns]
    schema = StructType([*records.schema.fields, *ADDED.fields])
    if told["server"] is not None:
        keyed = records.withColumn(_SERVER, F.lit(told["server"]))
    else:
        keyed = records.withColumn(_SERVER, F.udf(_server(given, told["schemas"]), StringType())(*given))
    return keyed.groupBy(_SERVER).applyInArrow(_grouped(given, dict(told)), schema)


def _server(given: list[str], schemas: Schemas | None) -> Callable[..., str | None]:
    def server(*values: Any) -> str | None:
        record = Record(**dict(zip(given, map(_plain, values), strict=True)))
        return from_change(record, order="transaction", schemas=schemas)["destination"]

    return server


def _grouped(given: list[str], told: Row) -> Any:
    """Return what each connector runs; it travels to the workers."""

    def together(table: pa.Table) -> pa.Table:
        from pyspark.sql.pandas.types import to_arrow_schema

        server = table.column(_SERVER)[0].as_py()
        table = table.drop_columns([_SERVER])
        columns = [table.column(name).to_pylist() for name in given]
        records = (Record(**dict(zip(given, values, strict=True))) for values in zip(*columns, strict=True))
        rows = plain(records, **{**told, "server": told["server"] or server})
        for field in to_arrow_schema(ADDED):
            values = [row[field.name] for row in rows]  # type: ignore[literal-required]
            table = table.append_column(field, pyarrow.array(values, field.type))
        return table

    import pyarrow

    together.__annotations__ = {"table": pyarrow.Table, "return": pyarrow.Table}
    return together


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value
