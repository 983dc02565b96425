"""The checkpoint of a stream of 0.1.0 is refused with what to do, wherever a checkpoint is named."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from thence.errors import MisuseError
from thence.spark import (
    deliver,
    give_up,
    into_database,
    into_lakehouse,
    into_table,
    reshard,
    waiting_in_stream,
)
from thence.spark.sources import from_changes

RECORDS = "value string, key string, topic string, partition int, offset long"
WAYS: dict[str, Callable[[Any, Any, Path], object]] = {
    "into_table": lambda spark, changes, old: into_table(changes, "never_made", format="delta", checkpoint=old),
    "into_database": lambda spark, changes, old: into_database(changes, "sqlite://", ["orders"], checkpoint=old),
    "into_lakehouse": lambda spark, changes, old: into_lakehouse(
        changes, {"orders": "never_made"}, positions="nor_this", columns={"orders": "id bigint"}, format="delta",
        checkpoint=old,
    ),
    "waiting_in_stream": lambda spark, changes, old: waiting_in_stream(spark, old),
    "give_up": lambda spark, changes, old: give_up(spark, old, "gone"),
    "reshard": lambda spark, changes, old: reshard(spark, old, old.with_name("new"), shards=3),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_it_is_refused_with_what_to_do(spark: Any, tmp_path: Path, way: str) -> None:
    """`tests/data/stream-0.1.0.tar.gz` is what a stream of 0.1.0 left, one row of it held."""
    with tarfile.open(Path(__file__).parents[2] / "data" / "stream-0.1.0.tar.gz") as kept:
        kept.extractall(tmp_path, filter="data")
    (tmp_path / "in").mkdir()
    records = spark.readStream.schema(RECORDS).json(str(tmp_path / "in"))
    changes = deliver(from_changes(records), "depends_on", key=["destination"])
    with pytest.raises(MisuseError, match=r"by key, as thence 0\.1\.0 wrote it.*begin with a new checkpoint"):
        WAYS[way](spark, changes, tmp_path / "checkpoint")
