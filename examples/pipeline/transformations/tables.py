"""Two tables of a pipeline: the events behind their causes, and those of them that are payments.

A query function must not look at the schema of a frame, and `deliver` does: so it is called outside of the function,
which returns the result.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from thence.spark import deliver

spark = SparkSession.active()
arrivals = spark.readStream.schema("account string, event_id string, parent_id string, what string").json("incoming")
delivered = deliver(arrivals, id="event_id", causes="parent_id", key="account")


@dp.table
def ordered() -> DataFrame:
    return delivered


@dp.materialized_view
def payments() -> DataFrame:
    return spark.read.table("ordered").where("what = 'paid'").select("account", "event_id", "position")
