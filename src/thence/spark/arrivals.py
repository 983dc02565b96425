"""Arrivals in files: JSON lines and Parquet as DataFrames, batch or stream, with the rosters they carry.

Law. Columns that are not the contract's are payload and keep whatever type they have. In JSON a stamp is base64, a
clock is an object; the first line may say the `roster`. Parquet that thence wrote carries its rosters as metadata.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StringType, StructField, StructType

from thence.delivery.columns import Columns
from thence.delivery.reading import By
from thence.errors import MisuseError, TraceError
from thence.model.roster import Roster

ROSTER = "roster"


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
    kind = _kind(path)
    if kind == "parquet":
        known = session.read.parquet(path)
        schema, rosters = known.schema, _parquet_rosters(path)
    else:
        known = session.read.json(path)
        schema, rosters = _json_schema(known.schema, by, columns), _json_roster(path)
    if not stream:
        table = known if kind == "parquet" else session.read.schema(schema).json(path)
    else:
        reader = session.readStream.schema(schema)
        if files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", files_per_batch)
        table = reader.parquet(path) if kind == "parquet" else reader.json(path)
    return (table if kind == "parquet" else _from_json(table, by, columns)), rosters


def _files(path: str) -> list[Path]:
    here = Path(path)
    if here.is_dir():
        found = [p for p in sorted(here.rglob("*")) if p.is_file() and not p.name.startswith(("_", "."))]
    elif any(sign in path for sign in "*?["):
        start = Path(here.anchor or ".")
        found = sorted(start.glob(str(here.relative_to(here.anchor) if here.anchor else here)))
    else:
        found = [here] if here.exists() else []
    if not found:
        raise TraceError(f"{path}: no such file, and no files in it")
    return found


def _kind(path: str) -> str:
    names = [file.name for file in _files(path)]
    if all(".parquet" in name for name in names):
        return "parquet"
    if all(".json" in name for name in names):
        return "json"
    raise MisuseError(f"{path}: {names[0]} is neither .parquet nor .json, .jsonl or .jsonl.gz; one kind at a time")


def _parquet_rosters(path: str) -> list[Roster] | None:
    from thence.trace.parquet import read_rosters

    found: dict[Roster, None] = {}
    for file in _files(path):
        found |= dict.fromkeys(read_rosters(file))
    return list(found) or None


def _json_roster(path: str) -> list[Roster] | None:
    import gzip

    found: dict[Roster, None] = {}
    for file in _files(path):
        with gzip.open(file, "rt") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
            try:
                first: Any = json.loads(next(iter(lines), "{}"))
            except ValueError:
                continue
        if isinstance(first, dict) and isinstance(first.get(ROSTER), list):
            found[Roster(first[ROSTER])] = None
    return list(found) or None


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
