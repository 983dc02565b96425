"""Run a function over rows that say which task each belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thence.tables.engines.spark.versions import repartition_by_id
from thence.tables.judge.tasks import BatchFunction


def run_placed(
    spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str, place: str, work: BatchFunction, result: str
) -> DataFrame:
    """Return the frame that `work` makes of the rows; computing it runs them.

    Column `place` numbers the task of each row, from 0; `schema` and `result` declare what goes in and comes out.
    """
    frame = spark.createDataFrame(list(rows), schema)
    tasks = 1 + max((row[frame.columns.index(place)] for row in rows), default=0)
    return repartition_by_id(frame, tasks, F.col(place)).mapInArrow(work, result)
