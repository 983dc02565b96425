"""Order arrivals and audit a trace on a cluster: spark-submit job.py ARRIVALS EVENTS OUT.

Nothing in it knows how the package came to the workers; docs/how-to/cluster.md ships it in two ways.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from thence.spark import audit, deliver


def main(arrivals: str, events: str, out: str) -> None:
    spark = SparkSession.builder.appName("thence on a cluster").getOrCreate()
    deliver(spark.read.parquet(arrivals), "stamp").write.parquet(f"{out}/ordered")
    with audit(spark.read.parquet(events), chunk_rows=20_000) as result:
        found = {"verdict": result.verdict, "violations": result.violations.count()}
        result.violations.write.parquet(f"{out}/violations")
    Path(out, "result.json").write_text(json.dumps(found))
    print(found)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
