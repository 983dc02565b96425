"""A class-data archive for Spark's JVM: a faster start, for 200 MB in the user's cache directory.

Why it is here: an embedded session starts in about two thirds of the time with it, and nearly every command and test on
Spark is over soon after its start. Delete this module and its calls once that is no longer so.

`build` runs a small session once and lets the JVM write down the classes it loaded; every later `local_session` maps
that file instead of reading some 13,000 classes from jars. The first embedded session of a machine has it made when its
own process ends: in the background, by one process alone, at the lowest priority. `THENCE_ARCHIVE=off` turns all that
off, `THENCE_ARCHIVE=use` uses an archive and makes none; `thence doctor --warm` makes one at once.

Java 17 only. Spark's class path names one jar twice; the JVM of Java 21 then takes the archive for one of another
class path and quietly does without. Others were not tried.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

import pyspark

from thence.errors import MisuseError
from thence.tables.engines.spark.java import Java, cache_dir, feature_release, find_java

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


VARIABLE = "THENCE_ARCHIVE"
_SCRATCH = "making-"
STALE = 1800.0
"""Seconds after which no process is believed to be still making an archive."""


class Use(StrEnum):
    """The values that `THENCE_ARCHIVE` accepts."""

    AUTO = "auto"
    USE = "use"
    OFF = "off"


def asked() -> Use:
    """Return the value of `THENCE_ARCHIVE`."""
    setting = os.environ.get(VARIABLE) or Use.AUTO
    if setting not in tuple(Use):
        raise MisuseError(f"{VARIABLE} is {setting!r}; {', '.join(Use)} are accepted")
    return Use(setting)


def options(java: Java) -> list[str]:
    """Return the JVM options that make use of the archive, none if there is no archive that fits."""
    path = archive_path(java)
    usable = asked() is not Use.OFF and supported(java) and path.is_file()
    return [f'"-XX:SharedArchiveFile={path}"'] if usable else []


def make_later(java: Java) -> None:
    """Have the archive made when this process has ended, unless it is there, cannot be used or is not wanted."""
    if asked() is Use.AUTO and supported(java) and not archive_path(java).is_file():
        atexit.register(_make_apart, java)


def _make_apart(java: Java) -> None:
    """Start the process that makes the archive, unless there is one already."""
    try:
        if not _claim(archive_path(java)):
            return
        command = [sys.executable, "-m", "thence.tables.engines.spark.archive"]
        nothing = subprocess.DEVNULL
        subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
    except OSError:
        pass  # no writable cache directory or no space: sessions start without an archive


def _claim(path: Path) -> bool:
    """Return whether this process is the one that makes the archive."""
    mark = _mark(path)
    mark.parent.mkdir(parents=True, exist_ok=True)
    if mark.exists() and time() - mark.stat().st_mtime > STALE:
        for left in mark.parent.glob(f"{_SCRATCH}*"):
            shutil.rmtree(left, ignore_errors=True)
        mark.unlink(missing_ok=True)
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _mark(path: Path) -> Path:
    return path.with_suffix(".making")


def supported(java: Java) -> bool:
    """Return whether this Java can use an archive of Spark's classes."""
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
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=_SCRATCH) as scratch:
        unfinished = Path(scratch) / "classes.jsa"
        # The JVM writes as it ends, which is after Python has; it holds the pipe open until then.
        command = [sys.executable, "-m", "thence.tables.engines.spark.archive", str(unfinished), scratch]
        environment = os.environ | {VARIABLE: Use.OFF}
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
        if done.returncode != 0 or not unfinished.is_file():
            raise MisuseError(f"Spark did not write a class archive. It said: {done.stderr.strip()[-500:]}")
        os.replace(unfinished, path)  # in one step: other sessions see all of it or nothing
    return path


def _record(archive: str, scratch: str) -> None:
    """Run a session that uses the main operators, and have its JVM save its loaded classes as it ends."""
    from thence.tables.engines.spark.session import local_session

    conf = {"spark.driver.extraJavaOptions": f'"-XX:ArchiveClassesAtExit={archive}"'}
    spark = local_session(quick=True, conf=conf)
    _exercise(spark, Path(scratch))
    spark.stop()


def _exercise(spark: SparkSession, scratch: Path) -> None:
    """Run a shuffle, a sort, Arrow, Parquet and a stateful stream, as the operators do."""
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


def _build_quietly() -> None:
    """Make the archive for the process that started this one and has ended since."""
    if hasattr(os, "nice"):
        os.nice(19)
    java = find_java()
    try:
        build(java)
    finally:
        _mark(archive_path(java)).unlink(missing_ok=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        _record(*sys.argv[1:])
    else:
        _build_quietly()
