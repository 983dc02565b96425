"""Does Spark work here? One small job that shuffles and goes through the Python workers, and what they report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_ROWS = 100


def probe(spark: SparkSession) -> list[dict[str, str]]:
    """Run the job and return one row for each kind of worker seen: its Python, thence and pyarrow version.

    More than one row means that the workers differ among themselves. Raises what Spark raises if it does not work.
    """
    rows = spark.range(_ROWS).selectExpr("id", "id % 3 AS key").repartition(2, "key")
    reports = rows.mapInArrow(_report, "python string, thence string, pyarrow string").distinct()
    return [row.asDict() for row in reports.toLocalIterator()]


def _report(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Answer each batch with the versions of the worker that got it."""
    import platform

    import pyarrow

    import thence

    for _ in batches:
        versions = [platform.python_version(), thence.__version__, pyarrow.__version__]
        arrays = [pyarrow.array([version]) for version in versions]
        yield pyarrow.RecordBatch.from_arrays(arrays, names=["python", "thence", "pyarrow"])
