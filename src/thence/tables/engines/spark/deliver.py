"""Causal delivery on Spark: the same call on a batch and on a streaming DataFrame.

    from thence.spark import deliver, split
    ordered = deliver(arrivals, by="stamp", roster=["a", "b", "c"])
    delivered, rest = split(ordered)

Invariant: every input row comes out exactly once with the columns of `thence.tables.delivery.OUTPUT_COLUMNS` added;
what a stream still holds back is shown by `waiting`. Outcomes are those of `thence.Orderer` on the same arrivals in the
same order, key by key. A key is never split and keys never wait for each other: no global sort, no single partition.

Batch: a partition has the rows of its keys one after the other, sorted by arrival; they go through in Arrow batches of
many keys, and memory follows one batch and the held rows. Stream: `stream.py`. Rows are processed in the order of
`arrival`, null first, then `message`, within what arrives together;
a table without that column is taken in the order it is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    DoubleType,
    FloatType,
    FractionalType,
    IntegralType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VarcharType,
    VariantType,
)

from thence.core.model.roster import Roster
from thence.errors import Argument, MisuseError
from thence.tables.contract.columns import By
from thence.tables.delivery.columns import Columns, Family, named_once
from thence.tables.delivery.delivery_terms import DeliveryTerms, check_known
from thence.tables.delivery.many_keys import KNOWN, delivered
from thence.tables.delivery.outcome import OUTPUT_COLUMNS, UNPLACED
from thence.tables.delivery.policy import Policy, PolicyName, policy_of
from thence.tables.delivery.reading import Rosters, rosters_of
from thence.tables.engines.spark.arrow_to_spark_types import spark_type
from thence.tables.engines.spark.stream_options import READ_ORDER, StreamOptions
from thence.tables.engines.spark.workers import check_frame, check_workers

ROSTERS = "thence.rosters"
"""Metadata of the stamp column that says its rosters; `with_rosters` puts it there."""
MADE = "thence.tables.delivery"
"""Metadata of the column `blocker`: the key and the name of the message column, for `waiting`, and `is_timed`."""


def deliver(
    data: DataFrame,
    by: By = "depends_on",
    *,
    id: str | None = None,
    causes: str | None = None,
    roster: Rosters = None,
    key: str | Iterable[str] | None = None,
    columns: Mapping[str, str] | None = None,
    policy: PolicyName | Policy = "wait",
    after_rows: int | None = None,
    after_seconds: float | None = None,
    remember: int | None = None,
    held_limit: int | None = None,
    when_full: Literal["fail", "release"] | None = None,
    max_jump: float | None = None,
    filter_limit: int | None = None,
    idle_seconds: float | None = None,
    wait_seconds: float | None = None,
    ttl_seconds: float | None = None,
    commands: str | os.PathLike[str] | None = None,
    separator: str | None = None,
    known: DataFrame | None = None,
    shards: int | None = None,
) -> DataFrame:
    """Put the rows of a batch or a stream into causal order, key by key, and add each row's outcome.

        thence.spark.deliver(orders, id="event_id", causes="parent_id", key="customer")

    Args:
        data: a DataFrame, of a batch or of a stream.
        by: how rows name their causes: `depends_on` (explicit ids), `clock` (vector clocks) or `stamp` (thence's
            stamps).
        id: the column of the row's id, short for `columns={"message": ...}`.
        causes: the column of the causes, short for `columns={"depends_on": ...}`.
        roster: the processes in order of position, for stamps; not needed where the stamp column carries them
            (`with_rosters`, or files written by thence).
        key: the columns whose values separate independent orders; by default run and destination, where the table has
            them. A batch with explicit causes and neither is one order, in one task; a stream needs a key.
        columns: your names for columns of the contract, as in `{"message": "event_id"}`.
        policy: `wait` (forever), `release` or `fail` when a limit is reached, or a `thence.Policy`, which has its own
            limits.
        after_rows: with `release` and `fail`: how many later rows of the key may arrive while a row is held.
        after_seconds: with `release` and `fail`: how far the event time of the key may advance while a row is held.
        remember: how many delivered ids of a key are kept in full; of older ones only a fingerprint of 8 bytes is kept.
        held_limit: how many rows of a key may be held at a time.
        when_full: what happens beyond `held_limit`: `fail`, or `release` the oldest row.
        max_jump: ignore a row's time if it is more than this many seconds ahead, until a second row confirms it.
        filter_limit: with `remember`: how many fingerprints of a key are kept before it is an error.
        idle_seconds: streams only, processing time: a key without a new row for this long releases what it holds, with
            `policy="release"`.
        wait_seconds: streams only, processing time: a row that was held for this long is released, under any policy.
        ttl_seconds: streams only, processing time: a key that holds nothing and gets no row for this long is forgotten.
        commands: streams only: the folder in which `give_up` and `thence give-up` write their commands.
        separator: the separator of the ids where one text names several causes.
        known: ids that count as delivered before the first row: a batch DataFrame with the columns of the key and of
            the ids. Of the result of an earlier delivery only rows with a position count. A stream takes it in its
            first micro-batch and keeps it in its state.
        shards: streams only: into how many shards the keys are divided; `spark.sql.shuffle.partitions` if not given. A
            checkpoint keeps the number of its first start; `reshard` changes it.
    """
    check_frame(data, "deliver")
    columns = named_once(columns or {}, {"message": id, by: causes})
    names = _names(data, by, columns, key)
    if roster is None and by == "stamp":
        roster = rosters_in(data, names.cause)
    chosen = policy_of(
        policy, after_rows=after_rows, after_seconds=after_seconds, remember=remember, held_limit=held_limit,
        when_full=when_full, max_jump=max_jump, filter_limit=filter_limit,
    )  # fmt: skip
    terms = DeliveryTerms(by, rosters_of(by, roster), names, chosen.of(by), separator)
    folder = None if commands is None else os.fspath(commands)
    return _delivered(data, terms, StreamOptions(idle_seconds, wait_seconds, ttl_seconds, folder, shards), known)


def _delivered(data: DataFrame, terms: DeliveryTerms, options: StreamOptions, known: DataFrame | None) -> DataFrame:
    terms.reading()  # refuses a separator that has no meaning
    _check(data, terms)
    known = None if known is None else _known_ids(data, known, terms)
    check_workers(data.sparkSession)
    if data.isStreaming:
        if not terms.columns.key:
            raise MisuseError(Argument("key"), " is empty; a stream needs at least one column")
        from thence.tables.engines.spark.stream import deliver_stream

        return deliver_stream(data, terms, options, known)
    options.refuse_in_a_batch()
    return _batch(data, terms, known)


def split(ordered: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the rows that have a position (delivered, released, late), and the others with their reasons.

    Args:
        ordered: what `deliver` returned.
    """
    placed = F.col("position").isNotNull()
    return ordered.where(placed), ordered.where(~placed)


def with_rosters(arrivals: DataFrame, roster: Rosters, stamp: str = "stamp") -> DataFrame:
    """Return the table with its rosters written into the metadata of the stamp column; Parquet keeps them.

    Args:
        arrivals: a DataFrame with a column of stamps.
        roster: the processes in order of position, or several such lists.
        stamp: the name of that column.
    """
    names = json.dumps([list(each.names) for each in rosters_of("stamp", roster)])
    return arrivals.withMetadata(stamp, {ROSTERS: names})


def rosters_in(arrivals: DataFrame, stamp: str) -> list[Roster] | None:
    """Return the rosters that the stamp column carries."""
    fields = {field.name: field for field in arrivals.schema.fields}
    names = fields[stamp].metadata.get(ROSTERS) if stamp in fields else None
    return None if names is None else [Roster(each) for each in json.loads(names)]


# -- names and types -------------------------------------------------------------------------------------------------


def _names(arrivals: DataFrame, by: By, columns: Mapping[str, str] | None, key: Iterable[str] | None) -> Columns:
    """Return the columns as the table spells them."""
    names = Columns(by, columns, key, lambda name: resolved(arrivals, name))
    Columns.check_given({ours: resolved(arrivals, name) for ours, name in (columns or {}).items()}, arrivals.columns)
    if key is not None:
        return names
    # A stream needs a key, because one order would be one shard.
    return names.with_default_key(arrivals.columns, one_order=by == "depends_on" and not arrivals.isStreaming)


def resolved(table: DataFrame, name: str) -> str:
    """Return a column's name as the table spells it: Spark ignores case by default."""
    if name in table.columns:
        return name
    alike = [each for each in table.columns if each.lower() == name.lower()]
    if not alike or table.sparkSession.conf.get("spark.sql.caseSensitive") == "true":
        return name
    if len(alike) > 1:
        raise MisuseError(f"{name!r} may be {' or '.join(map(repr, alike))}: ", Argument("columns"), " must say which")
    return alike[0]


def _check(arrivals: DataFrame, terms: DeliveryTerms) -> None:
    """Reject a table that cannot be delivered, with an error that names what is accepted."""
    names, fields = terms.columns, {field.name: field for field in arrivals.schema.fields}
    sensitive = arrivals.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    terms.check_columns(fields, str if sensitive else str.lower)
    if not sensitive:
        _refuse_alike(arrivals.columns)
    if names.message in fields and _family(fields[names.message].dataType) is None:
        raise MisuseError(f"column {names.message!r} is {fields[names.message].dataType.simpleString()}; an id is text")
    if terms.by == "depends_on":
        _check_ids(fields[names.message].dataType, fields[names.cause].dataType, names)
    _check_causes(fields[names.cause].dataType, names.cause, terms.by)


def _refuse_alike(names: Iterable[str]) -> None:
    """Refuse columns that Spark cannot distinguish."""
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(name.lower(), name)
        if other != name:
            raise MisuseError(
                f"columns {other!r} and {name!r} differ in case only, which are one to Spark: rename one, or set "
                "spark.sql.caseSensitive to true"
            )


def _check_causes(kind: DataType, name: str, by: By) -> None:
    if by == "stamp" and not isinstance(kind, BinaryType):
        raise MisuseError(f"column {name!r} is {kind.simpleString()}; binary is accepted for stamps")
    if by == "clock" and not (isinstance(kind, MapType) and isinstance(kind.keyType, StringType)):
        raise MisuseError(f"column {name!r} is {kind.simpleString()}; map<string,long> is accepted for clocks")


def _check_ids(message: DataType, cause: DataType, names: Columns) -> None:
    each = cause.elementType if isinstance(cause, ArrayType) else cause
    names.check_ids(message.simpleString(), _family(message), cause.simpleString(), _family(each))


def _family(kind: DataType) -> Family | None:
    if isinstance(kind, NullType):
        return "null"
    if isinstance(kind, IntegralType | FractionalType):  # decimals are fractional to Spark
        return "number"
    if isinstance(kind, StringType | CharType | VarcharType):
        return "text"
    return None if isinstance(kind, StructType | ArrayType | MapType | VariantType) else "value of another type"


def output_schema(arrivals: StructType, names: Columns, *, timed: bool = False) -> StructType:
    """Return the schema of what comes out; a row's metadata stays, nullability is given up.

    `timed`: it is a stream with timers, which `is_timed` says of it later.
    """
    fields = [StructField(field.name, field.dataType, True, field.metadata) for field in arrivals.fields]
    about = {"key": list(names.key), "message": names.message} | ({"timed": True} if timed else {})
    made = {MADE: json.dumps(about)}
    added = [
        StructField(name, spark_type(kind), True, made if name == "blocker" else {})
        for name, kind in OUTPUT_COLUMNS.items()
    ]
    return StructType(fields + added)


def is_timed(ordered: DataFrame) -> bool:
    """Return whether a frame of `deliver` is a stream with timers: Spark then never ends it under `availableNow`.

    Spark asks for another micro-batch as long as a stateful step reads the clock.
    """
    made = ordered.schema["blocker"].metadata.get(MADE, "{}") if "blocker" in ordered.columns else "{}"
    return bool(json.loads(made).get("timed", False))


def column(name: str) -> Column:
    """Return a column by its name, which may have any characters."""
    return F.col("`" + name.replace("`", "``") + "`")


# -- a batch -----------------------------------------------------------------------------------------------------------


def with_key(table: DataFrame, names: Columns) -> tuple[DataFrame, list[str], list[str]]:
    """Return the table with columns that say its key, their names, and those of them that it did not have.

    Structs, lists and maps are compared by their JSON; zero has one sign.
    """
    kinds = {field.name: field.dataType for field in table.schema.fields}
    keys, added = [], []
    for place, name in enumerate(names.key):
        made, value = f"__thence_key_{place}", column(name)
        if isinstance(kinds[name], StructType | ArrayType | MapType | VariantType):
            value = F.to_json(value)
        elif isinstance(kinds[name], FloatType | DoubleType):
            value = (value + F.lit(0.0)).cast(kinds[name])
        else:
            keys.append(name)
            continue
        keys.append(made)
        added.append(made)
        table = table.withColumn(made, value)
    return table, keys, added


def _known_ids(arrivals: DataFrame, known: DataFrame, terms: DeliveryTerms) -> DataFrame:
    """Return the known ids under the names and in the types of the arrivals."""
    names = terms.columns
    check_known(terms.by)
    check_frame(known, "deliver(known=)")
    if known.isStreaming:
        raise MisuseError(Argument("known"), " is a stream; a batch DataFrame is accepted")
    chosen = []
    for name in dict.fromkeys([*names.key, names.message]):
        spelled = resolved(known, name)
        if spelled not in known.columns:
            raise names.lacks_known(name, known.columns)
        ours, theirs = arrivals.schema[name].dataType, known.schema[spelled].dataType
        names.check_known(name, ours.simpleString(), _family(ours), theirs.simpleString(), _family(theirs))
        chosen.append(column(spelled).cast(ours).alias(name))
    outcome = resolved(known, "outcome")
    if outcome in known.columns and _family(known.schema[outcome].dataType) == "text":
        known = known.where(F.coalesce(~column(outcome).isin(sorted(UNPLACED)), F.lit(True)))
    return known.select(*chosen).where(column(names.message).isNotNull())


def _batch(arrivals: DataFrame, terms: DeliveryTerms, known: DataFrame | None) -> DataFrame:
    names = terms.columns
    schema = output_schema(arrivals.schema, names)
    table, keys, drop = with_key(arrivals, names)
    arrival = names.arrival
    if arrival not in arrivals.columns:
        arrival = READ_ORDER
        drop = [*drop, READ_ORDER]
        table = table.withColumn(READ_ORDER, F.monotonically_increasing_id())
    order = [column(name).asc_nulls_first() for name in (arrival, names.message) if name in table.columns]
    if known is not None:
        before, _, _ = with_key(known.withColumn(KNOWN, F.lit(0)), names)
        table = table.withColumn(KNOWN, F.lit(1)).unionByName(before, allowMissingColumns=True)
        order = [F.col(KNOWN), *order]
    key = [column(name) for name in keys]
    placed = table.repartition(*key) if key else table.repartition(1)  # no key: all rows are one order
    ordered = placed.sortWithinPartitions(*key, *order)
    return ordered.mapInArrow(lambda batches: delivered(batches, terms, keys, drop), schema)
