"""A declarative pipeline: arrivals from JSON lines, and the same rows in causal order (pyspark 4.2 or newer).

spark-pipelines run --spec examples/pipeline/spark-pipeline.yml --conf spark.thence.arrivals=FOLDER
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from thence.spark import deliver

spark = SparkSession.active()
SCHEMA = "account string, message string, depends_on string"


@dp.table
def arrivals() -> DataFrame:
    folder = spark.conf.get("spark.thence.arrivals")
    return spark.readStream.schema(SCHEMA).json(folder)


@dp.table
def ordered() -> DataFrame:
    return deliver(spark.readStream.table("arrivals"), by="depends_on", key=["account"])
