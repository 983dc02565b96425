"""Rows that go to Python unmeasured: for a while, Spark does not ask after each row how large a batch has become.

Spark 4.3 works out the size of the whole batch again for every row it hands to Python, so as to end the batch at
`maxBytesPerBatch`; for narrow rows that is a third of all that handing them over takes. With the largest value it does
not ask. Only for rows that are narrow by nature: a batch then holds `maxRecordsPerBatch` of them, however wide.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

KEY = "spark.sql.execution.arrow.maxBytesPerBatch"
NEVER = str(2**31 - 1)


@contextmanager
def unmeasured(spark: SparkSession) -> Iterator[None]:
    """Let what is planned and run inside send its rows unmeasured; the session then has the setting it had."""
    try:
        before = str(spark.conf.get(KEY))
    except PySparkException:  # a Spark that has no such setting
        before = NEVER
    if before.removesuffix("b") == NEVER:  # so already, by the user's or another audit's doing
        yield
        return
    spark.conf.set(KEY, NEVER)
    try:
        yield
    finally:
        spark.conf.set(KEY, before)
