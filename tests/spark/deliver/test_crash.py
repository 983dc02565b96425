"""kill -9 of a process whose streams commit micro-batches: the sinks show what undisturbed runs show, order included.

The soak `tests/soak/test_stream_kills.py` does so under every kind of causes and every policy.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from spark.deliver import stream_job
from spark.deliver.kills import Stream, kill_while_it_commits, stream_process, write_streams


def test_a_kill(tmp_path: Path, spark: Any) -> None:
    """After the kill, one stream goes on with an operator's commands and another number of shards."""
    told = ("stamp", "wait", "parquet"), ("clock", "rows", "rows"), ("ids", "give up", "rows")
    streams = [Stream(tmp_path / str(n), *each[:2], 4 + n, 3, each[2]) for n, each in enumerate(told)]
    write_streams(tmp_path, streams)
    job = stream_process(tmp_path)
    try:
        job.go()
        counted = kill_while_it_commits(job, streams, Random(1))
    finally:
        job.kill()
    assert counted is not None, "the job came to its end before it was killed"
    print(counted)
    assert counted["micro-batches committed by killed processes"] >= 1
    streams[2].give_up()
    streams[2].reshard(3)
    write_streams(tmp_path, streams)
    stream_job.run(spark, tmp_path)
    assert [each.check() for each in streams] > [0, 0, 0]
