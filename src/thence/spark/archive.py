"""A class-data archive for Spark's JVM: half the start-up time, for 200 MB in the user's cache directory.

`build` runs a small session once and lets the JVM write down the classes it loaded; every later `local_session` maps
that file instead of reading some 13,000 classes from jars. It is made on request only (`thence doctor --warm`), because
making it takes longer than the few sessions of a first visit would save.

Java 17 only. Spark's class path names one jar twice; the JVM of Java 21 then takes the archive for one of another
class path and quietly does without. Others were not tried.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from thence.errors import MisuseError
from thence.java import Java, cache_dir, feature_release

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def options(java: Java) -> list[str]:
    """Return the JVM options that make use of the archive, none if there is no archive that fits."""
    path = archive_path(java)
    return [f'"-XX:SharedArchiveFile={path}"'] if supported(java) and path.is_file() else []


def supported(java: Java) -> bool:
    """Tell whether this Java can use an archive of Spark's classes."""
    # A configuration directory stands on the class path, and a JVM takes no archive then.
    return feature_release(java.version) == 17 and "SPARK_CONF_DIR" not in os.environ


def archive_path(java: Java) -> Path:
    """Return where the archive for this Java, this pyspark and this installation of both is kept."""
    jars = Path(pyspark.__file__).parent / "jars"
    changed = jars.stat().st_mtime_ns if jars.is_dir() else 0
    key = f"{java.home} {java.version} {jars} {changed} {platform.machine()}"
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    return cache_dir() / "spark" / f"pyspark-{pyspark.__version__}-java-{java.version}-{digest}.jsa"


def build(java: Java) -> Path:
    """Make the archive unless it is there, which takes a minute or less, and return its path."""
    path = archive_path(java)
    if not supported(java):
        raise MisuseError(
            f"a class archive needs Java 17 and no SPARK_CONF_DIR; found Java {java.version} ({java.origin})"
        )
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        unfinished = Path(scratch) / "classes.jsa"
        # The JVM writes as it ends, which is after Python has; it holds the pipe open until then.
        command = [sys.executable, "-m", "thence.spark.archive", str(unfinished), scratch]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode != 0 or not unfinished.is_file():
            raise MisuseError(f"Spark did not write a class archive. It said: {done.stderr.strip()[-500:]}")
        os.replace(unfinished, path)  # in one step: other sessions see all of it or nothing
    return path


def _record(archive: str, scratch: str) -> None:
    """Run a session that does a little of everything and have its JVM write down its classes as it ends."""
    from thence.spark.session import local_session

    conf = {"spark.driver.extraJavaOptions": f'"-XX:ArchiveClassesAtExit={archive}"'}
    spark = local_session(quick=True, conf=conf)
    _exercise(spark, Path(scratch))
    spark.stop()


def _exercise(spark: SparkSession, scratch: Path) -> None:
    """Shuffle, sort, Arrow, Parquet and a stateful stream: what our operators are made of."""
    numbers = spark.range(100).selectExpr("id", "id % 7 AS key", "array(cast(id AS string)) AS names")
    numbers.write.parquet(str(scratch / "in"))
    read = spark.read.parquet(str(scratch / "in"))
    read.groupBy("key").count().join(read, "key").orderBy("id").toPandas()
    ordered = read.select("id", "key").repartition(2, "key").sortWithinPartitions("key", "id")
    ordered.mapInArrow(_same, "id long, key long").groupBy("key").applyInArrow(_table, "id long, key long").count()
    stream = spark.readStream.schema(read.schema).parquet(str(scratch / "in")).groupBy("key").count()
    writer = stream.writeStream.outputMode("complete").format("memory").queryName("counts")
    checkpointed = writer.option("checkpointLocation", str(scratch / "checkpoint")).trigger(availableNow=True)
    checkpointed.start().awaitTermination()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _table(table: pa.Table) -> pa.Table:
    return table


if __name__ == "__main__":
    _record(*sys.argv[1:])
