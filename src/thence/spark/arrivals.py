"""Arrivals in files: JSON lines and Parquet as DataFrames, batch or stream, with the rosters they carry.

Law. Columns that are not the contract's are payload and keep whatever type they have. In JSON a stamp is base64, a
clock is an object; the first line may say the `roster`. Parquet that thence wrote carries its rosters as metadata.
"""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StringType, StructField, StructType

from thence.delivery.columns import Columns
from thence.delivery.reading import By
from thence.errors import MisuseError
from thence.model.roster import Roster
from thence.trace.arrival_reader import CORRUPT, NO_OBJECT, ROSTER, arrival_files


def read_arrivals(
    session: SparkSession,
    path: str,
    by: By,
    columns: Columns,
    *,
    stream: bool = False,
    files_per_batch: int | None = None,
) -> tuple[DataFrame, list[Roster] | None]:
    """Return the table at a file, folder or glob, and the rosters it carries, if any."""
    found = arrival_files(path)
    kind, rosters = found.kind, found.rosters()
    names = [spark_name(file) for file in found.files]
    if kind == "parquet":
        known = session.read.parquet(*names)
        schema = known.schema
    else:
        known = session.read.json(names)
        schema = _json_schema(known.schema, by, columns)
    if not stream:
        table = known if kind == "parquet" else session.read.schema(schema).json(names)
    else:
        reader = session.readStream.schema(schema)
        if files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", files_per_batch)
        table = reader.parquet(_watched(path)) if kind == "parquet" else reader.json(_watched(path))
    return (table if kind == "parquet" else _from_json(table, by, columns)), rosters


def with_lines_named(ordered: DataFrame) -> DataFrame:
    """Say of rows that are lines without an object that they are, not which column they lack."""
    if CORRUPT not in ordered.columns:
        return ordered
    is_line = (F.col("outcome") == "quarantined") & F.col(CORRUPT).isNotNull()
    return ordered.withColumn("reason", F.when(is_line, NO_OBJECT).otherwise(F.col("reason")))


def spark_name(path: Path) -> str:
    """Return a file or folder as Spark has to be told it, so that it takes no character of the name for a glob."""
    return re.sub(r"([][{}*?\\])", r"\\\1", str(path.absolute()))


def _watched(path: str) -> str:
    """Return what a stream watches; one that watches an escaped name reads files twice, so such names are refused."""
    if not Path(path).exists():
        return path
    if spark_name(Path(path)) != str(Path(path).absolute()):
        raise MisuseError(f"a stream cannot watch {path}: Spark takes [ ] {{ }} * ? and \\ for a glob; rename it")
    return str(Path(path).absolute())


def _json_schema(told: StructType, by: By, columns: Columns) -> StructType:
    """Give the contract's columns their types; the rest is as Spark found it."""
    types: dict[str, DataType] = {columns.arrival: LongType(), columns.message: StringType()}
    types[columns.cause] = {
        "stamp": StringType(),
        "clock": MapType(StringType(), LongType()),
        "depends_on": ArrayType(StringType()),
    }[by]
    return StructType([StructField(f.name, types.get(f.name, f.dataType)) for f in told.fields])


def _from_json(table: DataFrame, by: By, columns: Columns) -> DataFrame:
    if ROSTER in table.columns:
        table = table.drop(ROSTER)
    if by == "stamp" and columns.cause in table.columns:
        table = table.withColumn(columns.cause, F.unbase64(F.col(f"`{columns.cause}`")))
    return table
