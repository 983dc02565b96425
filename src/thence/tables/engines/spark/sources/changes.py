"""Debezium's records as a DataFrame of arrivals.

Invariant: a stream reads record by record (`thence.sources.from_change`): it needs Kafka's offsets for
`order="commit"`. A batch sees the records together (`thence.sources.from_changes`), those of a connector in one task,
as delivery will have them anyway.

A stream has no `order="keys"`. What a change waits for by keys is the latest change before it of the rows it touches
and names, and as long as a transaction that committed before has not come whole, it may be the one that holds that
change: a row that was deleted and created again, say. So by keys nothing could leave before every earlier transaction
has come; and then, by commits, nothing waits any longer either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from thence.core.model.plain import Field, Fields, Row
from thence.errors import MisuseError
from thence.tables.engines.spark.arrow_to_spark_types import struct_of
from thence.tables.engines.spark.sources.kafka import arrival
from thence.tables.engines.spark.sources.together import ARRIVAL, beside, need_column, one_by_one, plain_value
from thence.tables.sources import Record, from_change
from thence.tables.sources import from_changes as plain
from thence.tables.sources.avro import Schemas
from thence.tables.sources.commits import since_mark
from thence.tables.sources.debezium import ChangeOrder, check_order
from thence.tables.sources.keyed import foreign_keys_of

if TYPE_CHECKING:
    import pyarrow as pa

ADDED = StructType([*ARRIVAL.fields, *struct_of({"transaction": "string"})])
_PLACE = ("topic", "partition", "offset")
_READ = ("value", "key", *_PLACE)
_SERVER = "__thence_server"
CHANGE_ORDER = "thence.sources.order"
"""Metadata of the column `transaction`: the order that the changes were read with, for what writes transactions."""

SINCE = "thence.sources.since"
"""Metadata of the same column: behind which place the changes were read."""


def from_changes(
    records: DataFrame,
    *,
    order: ChangeOrder = "commit",
    since: int | str | None = None,
    server: str | None = None,
    schemas: Schemas | None = None,
    foreign_keys: Mapping[str, str] | None = None,
    whole: bool = False,
) -> DataFrame:
    """Return Debezium's records as arrivals, with the columns of the records kept.

    Args:
        records: a DataFrame with the column `value` (text or binary); `key`, `topic`, `partition` and `offset`, as
            Kafka's connector gives them, are used where they are.
        order: how changes depend on each other: `commit` (in commit order), `transaction` (within one) or `keys` (by
            foreign keys).
        since: a position in the source's log; changes at or before it count as delivered.
        server: the connector's topic prefix, where neither a record nor its topic says it.
        schemas: Avro schemas by id, for values with the Confluent header.
        foreign_keys: for `order="keys"`: which columns refer to which, as in `{"orders.customer": "customer.id"}`,
            several columns separated by commas.
        whole: deliver a transaction only if its END and all its changes are there; for a batch, because a stream
            delivers row by row: `thence.spark.into_database` writes whole transactions of a stream.
    """
    _refuse(records, order, whole)
    if since is not None:
        since_mark(since)  # an error is raised here, not in a worker
    foreign_keys_of(foreign_keys or {})
    options = {"order": order, "since": since, "server": server, "schemas": None if schemas is None else dict(schemas)}
    placed = set(_PLACE) <= set(records.columns)
    if records.isStreaming or (order == "transaction" and placed and not whole):
        rows = _one_by_one(records, options)
    else:
        rows = _together(records, options | {"foreign_keys": foreign_keys, "whole": whole})
    read = {CHANGE_ORDER: order} | ({} if since is None else {SINCE: since})
    rows = rows.withMetadata("transaction", read)
    return rows.withColumn("arrival", arrival()) if placed else rows


def _refuse(records: DataFrame, order: str, whole: bool) -> None:
    check_order(order)
    need_column(records, "value")
    taken = [name for name in (*ADDED.names, "arrival") if name in records.columns]
    if taken:
        raise MisuseError(f"column {', '.join(taken)} is one that this adds; rename or drop it first")
    if not records.isStreaming:
        return
    if whole:
        raise MisuseError(
            "whole=True needs the records together, and a stream delivers them one by one; leave it out and write with "
            "thence.spark.into_database, which applies whole transactions only"
        )
    if order == "keys":
        raise MisuseError(
            "order='keys' needs the records together: until every earlier transaction has come, a stream cannot know "
            "which change of a row is the last before another. Use order='commit', which then holds nothing longer"
        )
    if order == "commit" and not set(_PLACE) <= set(records.columns):
        raise MisuseError("order='commit' in a stream needs the columns topic, partition and offset of the records")


def _one_by_one(records: DataFrame, options: Row) -> DataFrame:
    given = [name for name in _READ if name in records.columns]

    def read(*values: Field) -> list[Fields]:
        return [from_change(Record(**dict(zip(given, values, strict=True))), **options)]

    return one_by_one(records, given, read, ADDED, records.columns)


def _together(records: DataFrame, options: Fields) -> DataFrame:
    given = [name for name in _READ if name in records.columns]
    schema = StructType([*records.schema.fields, *ADDED.fields])
    if options["server"] is not None:
        keyed = records.withColumn(_SERVER, F.lit(options["server"]))
    else:
        keyed = records.withColumn(_SERVER, F.udf(_server(given, options["schemas"]), StringType())(*given))
    return keyed.groupBy(_SERVER).applyInArrow(_grouped(given, dict(options)), schema)


def _server(given: list[str], schemas: Schemas | None) -> Callable[..., str | None]:
    def server(*values: Field) -> str | None:
        record = Record(**dict(zip(given, map(plain_value, values), strict=True)))
        return from_change(record, order="transaction", schemas=schemas)["destination"]

    return server


def _grouped(given: list[str], options: Row) -> Callable[[pa.Table], pa.Table]:
    """Return what each connector runs; it travels to the workers."""

    def together(table: pa.Table) -> pa.Table:
        server = table.column(_SERVER)[0].as_py()
        table = table.drop_columns([_SERVER])
        columns = [table.column(name).to_pylist() for name in given]
        records = (Record(**dict(zip(given, values, strict=True))) for values in zip(*columns, strict=True))
        return beside(table, plain(records, **{**options, "server": options["server"] or server}), ADDED)

    import pyarrow

    together.__annotations__ = {"table": pyarrow.Table, "return": pyarrow.Table}
    return together


def check_commit_order(ordered: DataFrame, function: str) -> int | str | None:
    """Refuse another order: one position says how far the target is, so what lies before it counts as applied.

    Return `since`, behind which the changes were read.
    """
    order = ordered.schema["transaction"].metadata.get(CHANGE_ORDER)
    if order is None:
        raise MisuseError(
            "the column 'transaction' does not say in which order the changes were read: it was recomputed after "
            "from_changes. Pass on the column that from_changes(..., order='commit') made"
        )
    if order != "commit":
        raise MisuseError(
            f"the changes were read with order={order!r}, and {function} applies transactions in the order of "
            "commits: one that comes after a later one would be taken for one that the target has, and be lost. Use "
            "from_changes(..., order='commit')"
        )
    return cast("int | str | None", ordered.schema["transaction"].metadata.get(SINCE))
