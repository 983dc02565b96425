"""How far Spark is with its work, reported while it works: tasks done of those that are known.

Invariant: Watching changes nothing: it asks the session's status tracker twice a second, from a thread that ends with
the block. A session that has none (Spark Connect) is not watched.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

EVERY = 0.5
"""Seconds between two looks."""


@contextmanager
def watched(spark: SparkSession, progress: Callable[[str, int, int | None], None]) -> Iterator[None]:
    """Tell `progress` of tasks of the session's active stages while the block runs."""
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, progress, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(spark: SparkSession, progress: Callable[[str, int, int | None], None], ended: threading.Event) -> None:
    try:
        tracker = spark.sparkContext.statusTracker()
    except Exception:  # Spark Connect has no context, and says so in ways that differ by version
        return
    while not ended.wait(EVERY):
        stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
        if stages:
            stage = f"Spark, tasks of stage {max(s.stageId for s in stages)}"
            progress(stage, sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages))
