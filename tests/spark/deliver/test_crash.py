"""kill -9 in mid-batch, of several streams at once: the sinks show what undisturbed runs show, order included.

The test's own session begins each stream and ends it; between them a process of its own goes on, and is killed while
every stream is in a micro-batch that it has not committed. One stream hears an operator's word in that micro-batch.
After a kill the number of shards is changed, so that the micro-batch that was cut off runs again on the new state.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark.deliver import stream_job
from support.arrivals import Row, arrivals
from support.deliveries import comparable, rows_of
from support.processes import kill_family
from support.soak import keep

from thence import Orderer

FIRST = 2
"""Files that each stream has read before the first kill."""
ARROW = pa.schema(
    [
        ("run", pa.string()),
        ("destination", pa.string()),
        ("arrival", pa.int64()),
        ("message", pa.string()),
        ("sender", pa.string()),
        ("time", pa.float64()),
        ("payload", pa.struct([("text", pa.string()), ("place", pa.int64())])),
        ("stamp", pa.binary()),
        ("clock", pa.map_(pa.string(), pa.int64())),
        ("depends_on", pa.list_(pa.string())),
    ]
)
PROTOCOL = {"stamp": "ks", "clock": "rst", "depends_on": "ks"}
POLICIES: dict[str, dict[str, Any]] = {
    "wait": {},
    "rows": {"policy": "release", "after_rows": 40},
    "seconds": {"policy": "release", "after_seconds": 8.0},
    "full": {"held_limit": 5, "when_full": "release"},
}


class Stream:
    """One stream: its rows in files, what it is told, and the Orderer that says what must come out."""

    def __init__(self, folder: Path, by: Any, policy: dict[str, Any], seed: int, files: int, *, listens: bool) -> None:
        runs = [arrivals(PROTOCOL[by], n, by=by, messages=60, lost=0.08) for n in (seed, seed + 1)]
        rows = rows_of(runs)
        if by == "depends_on":
            spoil(rows)
        if listens:  # whatever the seed loses, an operator has two keys that wait for what does not come
            waits = {"run": "by hand", "arrival": 1, "message": "waits", "depends_on": ["gone"]}
            rows = [{**rows[0], **waits, "destination": place} for place in "pq"] + rows
        self.folder, self.listens = folder, listens
        self.files = [rows[part * len(rows) // files : (part + 1) * len(rows) // files] for part in range(files)]
        roster = runs[0].roster if by == "stamp" else None
        self.told = {
            "by": by,
            "roster": roster and list(roster.names),
            "policy": policy,
            "listens": listens,
            "shards": 2,
        }
        self.orderer = Orderer(by, roster=roster, **policy)
        self.expected: list[Row] = []
        (folder / "in").mkdir(parents=True)

    @property
    def checkpoint(self) -> Path:
        return self.folder / f"checkpoint-{self.told['shards']}"

    def reshard(self, spark: Any, shards: int) -> None:
        """Go on with another number of shards."""
        from thence.spark import reshard

        if shards != self.told["shards"]:
            before, self.told["shards"] = self.checkpoint, shards
            reshard(spark, before, self.checkpoint, shards)

    def add(self, number: int) -> None:
        """Let a file arrive, at the stream and at the Orderer."""
        file = self.folder / "in" / f"{number:03}.parquet"
        hidden = file.with_name(f".{file.name}")
        pq.write_table(pa.Table.from_pylist(self.files[number], schema=ARROW), hidden)
        os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
        hidden.rename(file)
        self.expected += [out for row in self.files[number] for out in self.orderer.push(row)]

    def tell(self, spark: Any, number: int) -> None:
        """Give up a cause, drain another key, and let a file arrive in the same micro-batch."""
        from thence.spark import give_up

        coming = {(row["run"], row["destination"], row["message"]) for part in self.files for row in part}
        held = [row for row in self.orderer.waiting() if (row["run"], row["destination"], row["blocker"]) not in coming]
        cause, key = held[0]["blocker"], (held[0]["run"], held[0]["destination"])
        other = next((row["run"], row["destination"]) for row in held if (row["run"], row["destination"]) != key)
        checkpoint = self.checkpoint
        assert give_up(spark, checkpoint, cause, key=key) == [{"run": key[0], "destination": key[1]}]
        assert give_up(spark, checkpoint, key=other) == [{"run": other[0], "destination": other[1]}]
        self.add(number)
        self.expected += self.orderer.give_up(cause, key)
        self.expected += self.orderer.give_up(key=other)

    def check(self, spark: Any) -> None:
        read = spark.read.parquet(str(self.folder / "out")).collect()
        assert comparable(row.asDict(recursive=True) for row in read) == comparable(self.expected), self.told
        by_hand = [row for row in read if "given up by hand" in (row["reason"] or "")]
        assert self.listens == bool(by_hand), f"{len(by_hand)} rows of {len(read)} left by an operator's word"


def spoil(rows: list[Row]) -> None:
    """Let two rows name each other, and one nothing at all, in the key with the most rows."""
    ((key, _),) = Counter((row["run"], row["destination"]) for row in rows).most_common(1)
    here = [row for row in rows if (row["run"], row["destination"]) == key]
    one, two, three = here[5], here[9], here[len(here) // 2]
    for row in here:
        if row["message"] in (one["message"], two["message"]):
            row["depends_on"] = [two["message"] if row["message"] == one["message"] else one["message"]]
    three["depends_on"] = None


class Told(NamedTuple):
    """How one of the streams is run."""

    by: str
    policy: str
    listens: bool = False


def kill_in_mid_batch(folder: Path, streams: list[Stream], moment: float) -> None:
    """Start the job, wait until every stream is in a new micro-batch, a moment longer, and kill the whole family."""
    (folder / "gate").touch()
    begun = [len(list((each.checkpoint / "offsets").glob("[0-9]*"))) for each in streams]
    logs = [each.checkpoint / "offsets" / str(batch) for each, batch in zip(streams, begun, strict=True)]
    with (folder / "log").open("ab") as log:
        command = [sys.executable, stream_job.__file__, str(folder)]
        job = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        while not all(log.exists() for log in logs):
            assert job.poll() is None, (folder / "log").read_text()[-3000:]
            time.sleep(0.02)
        time.sleep(moment)
    finally:
        kill_family(job)
    (folder / "gate").unlink()
    print(f"killed in micro-batches {begun}, {moment:.2f} s after the last began")
    for each, batch in zip(streams, begun, strict=True):
        assert not (each.checkpoint / "commits" / str(batch)).exists()


def crash(folder: Path, told: list[Told], kills: int, seed: int, spark: Any, changed: int) -> None:
    """Begin, then kill and go on, again and again; hold the sinks against the Orderer.

    The last `changed` streams go on with another number of shards after each kill.
    """
    print(f"seed {seed}")
    rng, files = Random(seed), FIRST + kills + 1
    streams = [
        Stream(folder / str(place), by, POLICIES[policy], seed, files, listens=listens)
        for place, (by, policy, listens) in enumerate(told)
    ]

    def run() -> None:
        (folder / "streams.json").write_text(json.dumps({each.folder.name: each.told for each in streams}))
        stream_job.run(spark, folder)

    for each in streams:
        for number in range(FIRST):
            each.add(number)
    run()
    for number in range(FIRST, FIRST + kills):
        for each in streams:
            each.tell(spark, number) if each.listens and number == FIRST else each.add(number)
        kill_in_mid_batch(folder, streams, 3 * rng.random())
        for each in streams[-changed:]:
            each.reshard(spark, rng.choice([1, 3, 5]))
        run()
    for each in streams:
        each.add(files - 1)
    run()
    for each in streams:
        each.check(spark)


def test_a_kill(tmp_path: Path, spark: Any) -> None:
    told = [Told("stamp", "wait"), Told("clock", "rows"), Told("depends_on", "wait", True)]
    crash(tmp_path, told, kills=1, seed=4, spark=spark, changed=1)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("policy", POLICIES)
def test_kills_under_every_kind_of_causes_and_policy(tmp_path: Path, spark: Any, policy: str) -> None:
    """Three kills of each of four streams; THENCE_SEED is the first seed (6 unless set)."""
    seed = int(os.environ.get("THENCE_SEED", "6"))
    told = [Told("stamp", policy), Told("clock", policy), Told("depends_on", policy)]
    if policy == "wait":
        told.append(Told("depends_on", policy, True))
    crash(tmp_path, told, kills=3, seed=seed, spark=spark, changed=len(told))
    keep("kills", policy, {"streams": len(told), "kills in mid-batch": 3 * len(told), "seed": seed, "equal": True})
