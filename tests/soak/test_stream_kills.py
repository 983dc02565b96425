"""Streams killed while they commit, under every kind of causes and every policy; sinks equal undisturbed runs.

Each round has four streams in one process, which is killed again and again until their input is exhausted; some go on
with another number of shards. THENCE_MINUTES (8) bounds a run. Rows in benchmarks/soak/results/stream_kills.json; a
round that is there is not run again.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from random import Random

from spark.deliver.kills import Stream, kill_while_it_commits, pairs, stream_process, write_streams
from support.soak import RESULTS, keep

A_ROUND, SEED = 4, 40
LONG, SHORT = 16, 8
"""Files of the first round, long enough for segments to be merged, and of the others: of both about four kills."""
MINUTES = float(os.environ.get("THENCE_MINUTES", "8"))


def rounds() -> list[list[tuple[str, str]]]:
    """Return the pairs of kind and policy of each round: neighbours in the list are in different rounds."""
    every = pairs()
    count = -(-len(every) // A_ROUND)
    return [every[number::count] for number in range(count)]


def test_streams_that_are_killed_while_they_commit(tmp_path: Path) -> None:
    file, end = RESULTS / "stream_kills.json", time.monotonic() + 60 * MINUTES
    done = json.loads(file.read_text()) if file.exists() else {}
    ran = 0
    for number, told in enumerate(rounds()):
        if f"round {number}" in done:
            continue
        if time.monotonic() > end:
            break
        folder = tmp_path / str(number)
        folder.mkdir()
        keep("stream_kills", f"round {number}", a_round(folder, told, number))
        ran += 1
    assert ran or len(done) >= len(rounds()), "no round fits into THENCE_MINUTES"
    check_the_whole(json.loads(file.read_text()))


def a_round(folder: Path, told: list[tuple[str, str]], number: int) -> dict[str, object]:
    """Kill and start again until all streams have read their files; hold the sinks against undisturbed runs."""
    seed = SEED + 10 * number
    random = Random(seed)
    files = SHORT if number else LONG
    streams = [
        Stream(folder / str(place), kind, policy, seed + place, files, ("parquet", "rows")[(place + number) % 2])
        for place, (kind, policy) in enumerate(told)
    ]
    counted: Counter[str] = Counter()
    jobs = [stream_process(folder)]
    try:
        while True:
            write_streams(folder, streams)
            jobs[-1].go()
            jobs.append(stream_process(folder))  # it starts Spark while the other one works
            killed = kill_while_it_commits(jobs[-2], streams, random, most=1 if number else 4)
            if killed is None:
                assert jobs[-2].ended()
                break
            counted.update(killed)
            for each in streams:
                each.give_up()
            counted["shards changed"] += random.choice(streams).reshard(random.choice([1, 3, 5]))
            print(f"round {number}: {dict(counted)}", flush=True)
    finally:
        for job in jobs:
            job.kill()
    counted["rows compared"] = sum(each.check() for each in streams)
    counted["micro-batches"] = sum(each.committed() for each in streams)
    counted["micro-batches the sink saw again, the same"] = sum(each.again().count("same") for each in streams)
    assert counted["micro-batches committed by killed processes"] > 0
    return {"streams": [each.title for each in streams], "seed": seed, "equal": True, **dict(sorted(counted.items()))}


def check_the_whole(kept: dict[str, dict[str, int]]) -> None:
    """Kills must have come at every stage, or the soak shows less than it says."""
    if len(kept) < len(rounds()):
        return
    for stage in ("between micro-batches", "before state is written", "state partly written", "state written, sink not",
                  "sink written, micro-batch not committed"):  # fmt: skip
        assert sum(row.get(f"stage: {stage}", 0) for row in kept.values()), f"no kill came {stage}"
