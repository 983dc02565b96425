"""Arrivals in files: JSON lines and Parquet as DataFrames, batch or stream, with the rosters they carry.

Invariant: columns that are not the contract's are payload and keep their types. In JSON a stamp is base64,
a clock is an object; the first line may say the `roster`. Parquet that thence wrote carries its rosters as metadata. A
line that is not a JSON object is a row with nothing but its text, in a column that a table has if there is such a line,
and a stream always, for one may come.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DoubleType, LongType, StringType, StructField, StructType

from thence.core.model.roster import Roster
from thence.errors import MisuseError
from thence.tables.contract.columns import CAUSE_COLUMNS, By
from thence.tables.delivery.columns import Columns
from thence.tables.delivery.delivery_terms import check_known
from thence.tables.engines.spark.arrow_to_spark_types import spark_type
from thence.tables.files.arrival_reader import (
    NO_OBJECT,
    ROSTER,
    arrival_files,
    check_first_types,
    column_of_lines,
    refusal_of_all,
)

_LINES = "__thence_line"
"""Spark's column for lines without an object, until the names of the table's columns are known."""
_WHERE = "columnNameOfCorruptRecord"
_STRICT = {"allowSingleQuotes": "false"}
"""Texts that Spark accepts as JSON and this process does not."""


class ArrivalFrame(NamedTuple):
    """A table of arrivals, the rosters it carries, and the column for lines that hold no object, if it has one."""

    table: DataFrame
    rosters: list[Roster] | None
    lines: str | None


def read_arrivals(
    session: SparkSession,
    path: str,
    by: By,
    columns: Columns,
    *,
    stream: bool = False,
    files_per_batch: int | None = None,
) -> ArrivalFrame:
    """Return the table at a file, folder or glob, and the rosters it carries, if any."""
    found = arrival_files(path)
    found.check_for_spark()
    names = [spark_name(file) for file in found.files]
    if found.kind == "parquet":
        schema, lines, options = session.read.parquet(*names).schema, None, dict[str, str]()
    else:
        schema = session.read.options(**_STRICT, **{_WHERE: _LINES}).json(names).schema
        if schema.names == [_LINES]:
            raise refusal_of_all(found.files)
        if by == "depends_on":
            check_first_types(found.files, columns)
        lines = column_of_lines(schema.names) if stream or _LINES in schema.names else None
        inferred, schema = schema, _json_schema(schema, by, columns, lines)
        options = _STRICT | {_WHERE: lines or _LINES}
    if stream:
        reader = session.readStream.schema(schema).options(**options)
        reader = reader.option("recursiveFileLookup", "true")  # as in a batch
        if files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", files_per_batch)
        table = reader.format("parquet" if found.kind == "parquet" else "json").load(_watched(path))
    elif found.kind == "parquet":
        table = session.read.parquet(*names)
    else:
        table = session.read.schema(schema).options(**options).json(names)
    if found.kind != "parquet":
        arrays = stream or _has_arrays(inferred, columns.cause)  # later files may have arrays
        if by == "depends_on" and _are_numbers(inferred, columns):
            # 2.0 is the whole number 2: pandas writes whole numbers so where values of a column are missing
            for name in (columns.message, columns.cause):
                whole = F.regexp_replace(F.col(f"`{name}`"), r"(?<![\w.-])(-?\d+)\.0(?![\w.])", "$1")
                table = table.withColumn(name, F.nullif(whole, F.lit("NaN")))
        table = _from_json(table, by, columns, lines, arrays=arrays)
    return ArrivalFrame(table, found.rosters(), lines)


def read_known(session: SparkSession, path: str, by: By, columns: Columns) -> DataFrame:
    """Return the table at a file or folder whose ids count as delivered."""
    check_known(by)
    return read_arrivals(session, path, by, columns).table


def with_lines_named(ordered: DataFrame, lines: str) -> DataFrame:
    """Give rows that are lines without an object (their text is in the column `lines`) that reason."""
    return ordered.withColumn("reason", F.when(F.col(lines).isNotNull(), NO_OBJECT).otherwise(F.col("reason")))


def spark_name(path: Path) -> str:
    """Return the path of a file or folder, escaped so that Spark takes no character of it for a glob."""
    return re.sub(r"([][{}*?\\])", r"\\\1", str(path.absolute()))


def _watched(path: str) -> str:
    """Return what a stream watches; one that watches an escaped name reads files twice, so such names are refused."""
    if not Path(path).exists():
        return path
    if spark_name(Path(path)) != str(Path(path).absolute()):
        raise MisuseError(f"a stream cannot watch {path}: Spark takes [ ] {{ }} * ? and \\ for a glob; rename it")
    return str(Path(path).absolute())


def _json_schema(inferred: StructType, by: By, columns: Columns, lines: str | None) -> StructType:
    """Give the contract's columns their types, and lines without an object a column; the rest is as Spark found it.

    Stamps are base64, and causes are read as JSON text: one row has an id, the next an array of them.
    """
    cause = CAUSE_COLUMNS[by].type if by == "clock" else "string"
    kinds = {columns.arrival: "long", columns.message: "string", columns.cause: cause}
    types = {name: spark_type(kind) for name, kind in kinds.items()}
    fields = [StructField(f.name, types.get(f.name, f.dataType)) for f in inferred.fields if f.name != _LINES]
    return StructType([*fields, *([] if lines is None else [StructField(lines, StringType())])])


def _has_arrays(inferred: StructType, cause: str) -> bool:
    return any(field.name == cause and isinstance(field.dataType, ArrayType) for field in inferred.fields)


def _are_numbers(inferred: StructType, columns: Columns) -> bool:
    """Return whether ids and causes are numbers, of which some are written with a point."""
    kinds = {field.name: field.dataType for field in inferred.fields}
    cause = kinds.get(columns.cause)
    both = (kinds.get(columns.message), cause.elementType if isinstance(cause, ArrayType) else cause)
    return all(isinstance(kind, LongType | DoubleType) for kind in both) and DoubleType() in both


def _from_json(table: DataFrame, by: By, columns: Columns, lines: str | None, *, arrays: bool) -> DataFrame:
    if ROSTER in table.columns:
        table = table.drop(ROSTER)
    cause = F.col(f"`{columns.cause}`")
    if by == "stamp" and columns.cause in table.columns:
        table = table.withColumn(columns.cause, F.unbase64(cause))
    if by == "depends_on" and arrays:
        listed, one = F.from_json(cause, "array<string>"), F.when(cause.isNotNull(), F.array(cause))
        listed = F.when(cause.startswith("["), F.coalesce(listed, one)).otherwise(one)
        table = table.withColumn(columns.cause, listed)
    if lines is not None:  # Spark also puts objects there of which some value has another type
        is_object = F.from_json(F.col(lines), "map<string,string>", _STRICT).isNotNull()
        table = table.withColumn(lines, F.when(~is_object, F.col(lines)))
    return table
