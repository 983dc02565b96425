"""Causal delivery on Spark: the same call on a batch and on a streaming DataFrame.

    from thence.spark import deliver
    ordered = deliver(arrivals, by="stamp", roster=["a", "b", "c"])

Law. Every input row comes out exactly once with the columns of `thence.delivery.OUTPUT_COLUMNS` added; what a stream
still holds back is shown by `waiting`. Outcomes are those of `thence.Orderer` on the same arrivals in the same order,
key by key. A key is never split and keys never wait for each other: no global sort, no single partition.

Batch: the rows of a key come sorted by arrival in one iterator of Arrow batches; memory follows the held rows. Stream:
`streaming.py`. Rows are processed in the order of `arrival` within what arrives together; a table without that
column is taken in the order it is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from thence.delivery.columns import Columns
from thence.delivery.outcome import OUTPUT_COLUMNS
from thence.delivery.policy import Name, Policy
from thence.delivery.reading import By, Rosters, rosters_of
from thence.errors import MisuseError
from thence.model.roster import Roster
from thence.spark.desk import FAST_FROM, Desk, Setup

ROSTERS = "thence.rosters"
"""Metadata of the stamp column that says its rosters; `with_rosters` puts it there."""
READ_ORDER = "__thence_read_order"
_TYPES = {
    "string": StringType(),
    "long": LongType(),
    "double": DoubleType(),
    "array<string>": ArrayType(StringType()),
}


def deliver(
    arrivals: DataFrame,
    by: By = "stamp",
    *,
    roster: Rosters = None,
    key: Iterable[str] | None = None,
    columns: Mapping[str, str] | None = None,
    policy: Name | Policy = "wait",
    after_rows: int | None = None,
    after_seconds: float | None = None,
    remember: int | None = None,
    held_limit: int | None = None,
    when_full: Literal["fail", "release"] = "fail",
    idle_seconds: float | None = None,
    fast_from: int = FAST_FROM,
) -> DataFrame:
    """Put arrivals into causal order; the parameters are those of `thence.Orderer`.

    `roster` may be left out where the stamp column carries it (`with_rosters`, or files written by thence). A stream
    takes `idle_seconds` as well: a key that gets no row for so long (processing time) lets go what it holds, under
    policy='release'. `fast_from`: rows from which a batch of a key goes through the array twin.
    """
    setup = _setup(arrivals, by, roster, key, columns, fast_from)
    rule = (
        policy
        if isinstance(policy, Policy)
        else Policy(policy, after_rows, after_seconds, remember, held_limit, when_full)
    )
    setup = Setup(setup.by, setup.rosters, setup.columns, rule, fast_from)
    _check(arrivals, setup)
    if arrivals.isStreaming:
        from thence.spark.streaming import deliver_stream

        return deliver_stream(arrivals, setup, idle_seconds)
    if idle_seconds is not None:
        raise MisuseError("idle_seconds is for streams; a batch has an end")
    return _batch(arrivals, setup)


def _setup(
    arrivals: DataFrame,
    by: By,
    roster: Rosters,
    key: Iterable[str] | None,
    columns: Mapping[str, str] | None,
    fast: int,
) -> Setup:
    names = Columns(by, columns, key)
    if key is None and names.run not in arrivals.columns:
        names = Columns(by, columns, (names.destination,))
    if roster is None and by == "stamp":
        roster = rosters_in(arrivals, names.cause)
    return Setup(by, rosters_of(by, roster), names, Policy(), fast)


def with_rosters(arrivals: DataFrame, roster: Rosters, stamp: str = "stamp") -> DataFrame:
    """Return the table with its rosters written into the metadata of the stamp column; Parquet keeps them."""
    told = json.dumps([list(each.names) for each in rosters_of("stamp", roster)])
    return arrivals.withMetadata(stamp, {ROSTERS: told})


def rosters_in(arrivals: DataFrame, stamp: str) -> list[Roster] | None:
    """Return the rosters that the stamp column carries."""
    fields = {field.name: field for field in arrivals.schema.fields}
    told = fields[stamp].metadata.get(ROSTERS) if stamp in fields else None
    return None if told is None else [Roster(names) for names in json.loads(told)]


def _check(arrivals: DataFrame, setup: Setup) -> None:
    """Refuse what can not be delivered, naming what would be accepted."""
    names, fields = setup.columns, {field.name: field for field in arrivals.schema.fields}
    needed = [*names.key, names.cause, *([names.sender] if setup.by == "clock" else [])]
    if setup.by == "depends_on":
        needed.append(names.message)
    for name in needed:
        if name not in fields:
            raise MisuseError(f"no column {name!r}; the table has {', '.join(fields)}. columns= says other names")
    for name in OUTPUT_COLUMNS:
        if name in fields:
            raise MisuseError(f"column {name!r} is one that delivery adds; rename or drop it first")
    kind = fields[names.cause].dataType
    if setup.by == "stamp" and not isinstance(kind, BinaryType):
        raise MisuseError(f"column {names.cause!r} is {kind.simpleString()}; binary is accepted for stamps")
    if setup.by == "clock" and not (isinstance(kind, MapType) and isinstance(kind.keyType, StringType)):
        raise MisuseError(f"column {names.cause!r} is {kind.simpleString()}; map<string,long> is accepted for clocks")
    if setup.by == "depends_on" and not isinstance(kind, ArrayType):
        raise MisuseError(f"column {names.cause!r} is {kind.simpleString()}; an array of ids is accepted")
    if setup.policy.after_seconds is not None and names.time not in fields:
        raise MisuseError(f"after_seconds needs event time in column {names.time!r}; columns= says another name")


def output_schema(arrivals: StructType) -> StructType:
    """Return the schema of what comes out; a row's metadata stays, nullability is given up."""
    fields = [StructField(field.name, field.dataType, True, field.metadata) for field in arrivals.fields]
    return StructType(fields + [StructField(name, _TYPES[kind]) for name, kind in OUTPUT_COLUMNS.items()])


def ordered_by_reading(arrivals: DataFrame, names: Columns) -> tuple[DataFrame, str]:
    """Return the table with a column that says the order of arrival, and that column's name."""
    if names.arrival in arrivals.columns:
        return arrivals, names.arrival
    return arrivals.withColumn(READ_ORDER, F.monotonically_increasing_id()), READ_ORDER


def _batch(arrivals: DataFrame, setup: Setup) -> DataFrame:
    schema = output_schema(arrivals.schema)
    table, arrival = ordered_by_reading(arrivals, setup.columns)
    key = [F.col(f"`{name}`") for name in setup.columns.key]
    extra = [READ_ORDER] if arrival == READ_ORDER else []
    ties = [F.col(f"`{setup.columns.message}`")] if setup.columns.message in arrivals.columns else []
    ordered = table.repartition(*key).sortWithinPartitions(*key, F.col(f"`{arrival}`"), *ties)
    function = _KeyFunction(setup, extra)
    return ordered.groupBy(*key).applyInArrow(function.typed(), schema)


class _KeyFunction:
    """What each key runs; it travels to the workers."""

    def __init__(self, setup: Setup, extra: list[str]) -> None:
        self.setup, self.extra = setup, extra

    def typed(self) -> Any:
        """Return a plain function with the annotations that tell Spark to hand over an iterator of batches."""
        import pyarrow as pa

        setup, extra = self.setup, self.extra

        def in_causal_order(key: Any, batches: Any) -> Any:
            desk = Desk(setup, tuple(value.as_py() for value in key))
            for batch in batches:
                out = desk.take(batch.drop_columns(extra) if extra else batch)
                if len(out):
                    yield out
            rest = desk.end()
            if rest is not None:
                yield rest

        in_causal_order.__annotations__ = {
            "key": tuple[pa.Scalar, ...],
            "batches": Iterator[pa.RecordBatch],
            "return": Iterator[pa.RecordBatch],
        }
        return in_causal_order
