"""Streams that are killed while they commit micro-batches, and what their sinks must hold in the end.

A stream is one kind of causes under one policy. Its process is killed at a stage of a micro-batch that is aimed at for
one of its streams, and falls where it may for the others; the checkpoint says afterwards what each stage was.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from spark.deliver import stream_job
from support.arrivals import PROTOCOLS, Row, arrivals
from support.deliveries import comparable, rows_of
from support.processes import kill_family
from unit.delivery.stored_states import Shelf

import thence
from thence.tables.delivery import Columns, Policy
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.many_keys import KNOWN
from thence.tables.delivery.reading import rosters_of
from thence.tables.delivery.shard_state import ipc
from thence.tables.engines.spark.shard_visit import ACTION, CAUSE, DRAIN, GIVE_UP, Visits
from thence.tables.engines.spark.stream_options import StreamOptions

IDS, NUMBERS, TEXT = pa.list_(pa.string()), pa.list_(pa.int64()), pa.string()


class Kind(NamedTuple):
    """How rows name their causes: the column's type, and that of ids."""

    by: str
    causes: Any = IDS
    ids: Any = TEXT
    options: dict[str, Any] = {}  # noqa: RUF012 - a tuple of constants


KINDS = {
    "ids": Kind("depends_on"),
    "parent": Kind("depends_on", TEXT),
    "text": Kind("depends_on", TEXT, options={"separator": ";"}),
    "numbers": Kind("depends_on", NUMBERS, pa.int64()),
    "clock": Kind("clock"),
    "stamp": Kind("stamp"),
}
EXPLICIT = ("ids", "parent", "text", "numbers")
POLICIES: dict[str, dict[str, Any]] = {
    "wait": {},
    "rows": {"policy": "release", "after_rows": 12},
    "seconds": {"policy": "release", "after_seconds": 3.0},
    "rows and seconds": {"policy": "release", "after_rows": 20, "after_seconds": 5.0},
    "held limit": {"held_limit": 3, "when_full": "release"},
    "max jump": {"policy": "release", "after_seconds": 3.0, "max_jump": 1.0},
    "remember": {"remember": 4},
    "known": {},
    "give up": {},
    "wait seconds": {"wait_seconds": 3.0},
    "idle seconds": {"policy": "release", "after_rows": 1000, "idle_seconds": 2.0},
    "ttl seconds": {"ttl_seconds": 3.0},
    "known, ttl seconds": {"ttl_seconds": 3.0},
}
CLOCKED = ("idle_seconds", "wait_seconds", "ttl_seconds")
BY_HAND = ("by hand", "p"), ("by hand", "q")
"""Two keys that wait for what does not come: of one the cause is given up, the other is drained."""
SPARK_TYPES = {TEXT: "string", pa.int64(): "long", IDS: "array<string>", NUMBERS: "array<long>"}


def pairs() -> list[tuple[str, str]]:
    """Return every kind with every policy that it can have."""
    plain = [(kind, policy) for kind in KINDS for policy in list(POLICIES)[:6]]
    explicit = [(kind, policy) for kind in EXPLICIT for policy in ("remember", "known", "give up")]
    clocked = [(kind, policy) for kind in ("ids", "clock", "stamp") for policy in list(POLICIES)[9:12]]
    return [*plain, *explicit, *clocked, ("ids", "known, ttl seconds"), ("numbers", "known, ttl seconds")]


class Stream:
    """One stream: its rows in files, its options, and what must come out."""

    def __init__(self, folder: Path, kind: str, policy: str, seed: int, files: int, sink: str) -> None:
        self.folder, self.policy, self.how = folder, policy, KINDS[kind]
        self.title = f"{kind}, {policy}, {sink}"
        by = self.how.by
        protocol = {"stamp": PROTOCOLS[seed % len(PROTOCOLS)], "clock": "rst"}.get(by, "ks")
        runs = [arrivals(protocol, seed + n, by=by, messages=80, lost=0.06) for n in range(3)]
        self.roster = list(runs[0].roster.names) if by == "stamp" else None
        rows = rows_of(runs)
        if "ttl" in policy:  # a run that ends early, and comes again when its keys are forgotten
            rows = [*rows_of(runs[:1]), *rows_of(runs[1:]), *rows_of(runs[:1])]
        if kind == "ids":
            spoil(rows)
        if policy == "max jump":  # a clock that is wrong now and then
            rows = [row | {"time": row["time"] + 1000 * (n % 17 == 16)} for n, row in enumerate(rows)]
        if policy == "give up":
            waits = {"arrival": 1, "message": "waits", "depends_on": ["gone"]}
            rows = [{**rows[0], **waits, "run": run, "destination": here} for run, here in BY_HAND] + rows
        self.numbers: dict[str, int] = {}
        rows = [self.written(row) for row in rows]
        self.gone = str(self.numbers.get("gone", "gone"))
        self.files = [rows[part * len(rows) // files : (part + 1) * len(rows) // files] for part in range(files)]
        self.known = self.known_ids(rows) if "known" in policy else []
        self.schema = pa.schema(
            [("run", TEXT), ("destination", TEXT), ("arrival", pa.int64()), ("message", self.how.ids), ("sender", TEXT),
             ("time", pa.float64()), ("payload", pa.struct([("text", TEXT), ("place", pa.int64())])),
             ("stamp", pa.binary()), ("clock", pa.map_(TEXT, pa.int64())), ("depends_on", self.how.causes)]
        )  # fmt: skip
        id_type, cause_type = SPARK_TYPES[self.how.ids], SPARK_TYPES[self.how.causes]
        self.options = POLICIES[policy] | self.how.options
        self.told = {
            "by": by, "roster": self.roster, "options": self.options, "sink": sink, "files": files, "shards": 2,
            "checkpoint": "checkpoint", "checkpoint before": "checkpoint", "listens": policy == "give up",
            "timed": any(name in self.options for name in CLOCKED),
            "known": self.known, "known schema": f"run string, destination string, message {id_type}",
            "schema": f"run string, destination string, arrival long, message {id_type}, sender string, time double, "
            f"payload struct<text:string,place:long>, stamp binary, clock map<string,long>, depends_on {cause_type}",
        }  # fmt: skip
        (folder / "in").mkdir(parents=True)
        (folder / "give-up").mkdir()
        for number in range(files):
            file = folder / "in" / f"{number:03}.parquet"
            pq.write_table(pa.Table.from_pylist(self.files[number], schema=self.schema), file)
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))

    # -- rows ------------------------------------------------------------------------------------------------------

    def written(self, row: Row) -> Row:
        """Return the row with its causes as this kind has them."""
        if self.how.by != "depends_on" or self.how == KINDS["ids"]:
            return row
        causes = row["depends_on"] or []
        if self.how == KINDS["numbers"]:
            ids = [self.numbers.setdefault(each, len(self.numbers)) for each in (row["message"], *causes)]
            return row | {"message": ids[0], "depends_on": ids[1:]}
        text = ";".join(causes) if self.how.options else next(iter(causes), None)
        return row | {"depends_on": text}

    def known_ids(self, rows: list[Row]) -> list[list[Any]]:
        """Return the first ids of each key as known: some of them come as rows too."""
        found: dict[tuple[str, str], list[Any]] = {}
        for row in rows:
            found.setdefault((row["run"], row["destination"]), []).append(row["message"])
        return [[*key, each] for key, ids in found.items() for each in sorted(set(ids))[:6]]

    @property
    def checkpoint(self) -> Path:
        """The checkpoint that is there: a process that is to change the number of shards may not have come to it."""
        asked = self.folder / self.told["checkpoint"]
        return asked if asked.exists() else self.folder / self.told["checkpoint before"]

    def reshard(self, shards: int) -> bool:
        """Have the next process begin with another number of shards, if one micro-batch at least is committed."""
        if self.told["shards"] == shards or not self.committed():
            return False
        here = self.checkpoint.name
        self.told |= {"checkpoint before": here, "checkpoint": f"{here}-{shards}", "shards": shards}
        return True

    def give_up(self) -> None:
        """Write the commands of an operator, once."""
        lines = [
            {"run": run, "destination": here, ACTION: action, CAUSE: cause}
            for (run, here), (action, cause) in zip(BY_HAND, ((GIVE_UP, self.gone), (DRAIN, None)), strict=True)
        ]
        file = self.folder / "give-up" / "commands.json"
        if self.told["listens"] and not file.exists():
            hidden = file.with_name(".commands.json")
            hidden.write_text("".join(json.dumps(line) + "\n" for line in lines))
            hidden.rename(file)

    # -- what the checkpoint says ----------------------------------------------------------------------------------

    def committed(self) -> int:
        """Return the number of committed micro-batches."""
        return 1 + max(_numbers(self.checkpoint / "commits"), default=-1)

    def begun(self) -> int:
        """Return the number of micro-batches whose offsets are written."""
        return 1 + max(_numbers(self.checkpoint / "offsets"), default=-1)

    def stage(self) -> str:
        """Say how far the last micro-batch went."""
        begun = self.begun()
        if begun == 0:
            return "before the first micro-batch"
        if begun == self.committed():
            return "between micro-batches"
        sink = {"parquet": f"_spark_metadata/{begun - 1}", "rows": f"{begun - 1:05}.parquet"}[self.told["sink"]]
        compacted = f"_spark_metadata/{begun - 1}.compact"
        if (self.folder / "out" / sink).exists() or (self.folder / "out" / compacted).exists():
            return "sink written, micro-batch not committed"
        partitions = [each for each in (self.checkpoint / "state" / "0").glob("[0-9]*") if each.is_dir()]
        written = sum((each / f"{begun}.zip").exists() for each in partitions)
        if not written:
            return "before state is written"
        return "state partly written" if written < len(partitions) else "state written, sink not"

    def micro_batches(self) -> Iterator[tuple[list[Row], bool, int]]:
        """Yield what each committed micro-batch took: its rows, whether it took the commands, and its clock."""
        files, listened = 0, False
        for number in range(self.committed()):
            lines = (self.checkpoint / "offsets" / str(number)).read_text().splitlines()
            clock = json.loads(lines[1])["batchTimestampMs"]
            read, *commands = (json.loads(each)["logOffset"] + 1 if each != "-" else 0 for each in lines[2:])
            rows = [row for file in self.files[files:read] for row in file]
            yield rows, commands == [1] and not listened, clock
            files, listened = max(files, read), listened or commands == [1]
        assert files == len(self.files), f"{self.title}: {files} of {len(self.files)} files were read"

    # -- what must come out ----------------------------------------------------------------------------------------

    def expected(self) -> list[Row]:
        """Return what an undisturbed run of the same rows gives."""
        if self.told["timed"]:
            return self._by_the_clock()
        if self.told["listens"]:
            return self._with_commands()
        rows = [row for file in self.files for row in file]
        known = [dict(zip(("run", "destination", "message"), each, strict=True)) for each in self.known]
        out = thence.deliver(
            rows, self.how.by, roster=self.roster, known=known or None, key=["run", "destination"], **self.options
        )
        return [row for row in out if row["outcome"] != "blocked"]

    def _with_commands(self) -> list[Row]:
        orderer, out = thence.Orderer(self.how.by, **self.options), list[Row]()
        for rows, listens, _ in self.micro_batches():
            out += [each for row in rows for each in orderer.push(row)]
            if listens:
                out += orderer.give_up(self.gone, BY_HAND[0])
                out += orderer.give_up(key=BY_HAND[1])
        assert sum("given up by hand" in (row["reason"] or "") for row in out) == 2
        return out

    def _by_the_clock(self) -> list[Row]:
        """Take the same micro-batches at the same moments, in one shard that is never killed."""
        limits = {("name" if n == "policy" else n): v for n, v in self.options.items() if n not in CLOCKED}
        separator = limits.pop("separator", None)
        by: Any = self.how.by
        terms = DeliveryTerms(by, rosters_of(by, self.roster), Columns(by), Policy(**limits), separator)
        keys = pa.schema([("run", TEXT), ("destination", TEXT)])
        times = StreamOptions(**{name: self.options.get(name) for name in CLOCKED})
        visits = Visits(terms, times, self.schema, keys, "arrival", 1)
        shelf, out = Shelf(), list[Row]()
        known = [dict(zip(("run", "destination", "message"), each, strict=True)) | {KNOWN: 0} for each in self.known]
        for number, (rows, _, clock) in enumerate(self.micro_batches()):
            tables = [pa.RecordBatch.from_pylist(rows, schema=self.schema)] if rows else []
            if known and not number:
                tables.append(pa.RecordBatch.from_pylist(known))
            shard, left, held = visits.take(shelf.head, shelf, [ipc(each) for each in tables], clock)
            visits.leave(shard, shelf, left, held)
            shelf.head = shard.head()
            out += [row for batch in left for row in batch.to_pylist()]
        return out

    def check(self) -> int:
        """Hold the sink against what must come out; return the number of rows."""
        if self.told["sink"] == "parquet":
            read = committed_rows(self.folder / "out")
        else:
            files = sorted((self.folder / "out").glob("[0-9]*.parquet"))
            read = [row for file in files for row in pq.read_table(file).to_pylist()]
            assert "differs" not in self.again(), f"{self.title}: a micro-batch that ran again gave other rows"
        assert comparable(read) == comparable(self.expected()), self.title
        return len(read)

    def again(self) -> str:
        """Return what the sink noted of micro-batches that it saw twice."""
        file = self.folder / "out" / "again"
        return file.read_text() if file.exists() else ""


def committed_rows(folder: Path) -> list[Row]:
    """Return the rows of the files that Spark's sink has committed, by the log of the sink."""
    log, found = folder / "_spark_metadata", dict[str, None]()
    compacted = max((int(each.stem) for each in log.glob("*.compact")), default=-1)
    names = [f"{compacted}.compact"] if compacted >= 0 else []
    names += [str(number) for number in sorted(_numbers(log)) if number > compacted]
    for name in names:
        for line in (log / name).read_text().splitlines()[1:]:
            found[json.loads(line)["path"].removeprefix("file://")] = None
    return [row for file in found for row in pq.ParquetFile(file).read().to_pylist()]


def _numbers(folder: Path) -> list[int]:
    return [int(each.name) for each in folder.glob("[0-9]*") if each.name.isdigit()]


def spoil(rows: list[Row]) -> None:
    """Let two rows name each other, and one nothing at all, in the key with the most rows."""
    ((key, _),) = Counter((row["run"], row["destination"]) for row in rows).most_common(1)
    here = [row for row in rows if (row["run"], row["destination"]) == key]
    one, two, three = here[5], here[9], here[len(here) // 2]
    for row in here:
        if row["message"] in (one["message"], two["message"]):
            row["depends_on"] = [two["message"] if row["message"] == one["message"] else one["message"]]
    three["depends_on"] = None


# -- processes ---------------------------------------------------------------------------------------------------------

AIMS = ("any moment", "offsets", "state", "sink", "commit")
PATIENCE = 300
"""Seconds within which a process must commit; Spark starts slowly where the machine does other things."""


class Job:
    """A process that starts Spark, and then waits to be asked for its work."""

    def __init__(self, folder: Path, command: Sequence[str | Path]) -> None:
        self.folder = folder
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )

    def go(self) -> None:
        """Ask for the work."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.close()

    def ended(self) -> bool:
        """Say whether the streams came to their end; raise if the process failed."""
        code = self.process.poll()
        assert not code, (self.folder / "log").read_text(errors="replace")[-6000:]
        return code == 0

    def kill(self) -> None:
        kill_family(self.process)


def stream_process(folder: Path) -> Job:
    """Start a process for the streams of a folder."""
    return Job(folder, [sys.executable, stream_job.__file__, folder])


def write_streams(folder: Path, streams: list[Stream]) -> None:
    """Say which streams a process is to run."""
    (folder / "streams.json").write_text(json.dumps({each.folder.name: each.told for each in streams}))


def kill_while_it_commits(job: Job, streams: list[Stream], random: Random, most: int = 1) -> Counter[str] | None:
    """Kill a job at a stage of a micro-batch; count the stages, or None if it came to its end.

    One of the streams has committed 1 to `most` micro-batches in this process by then.
    """
    before = [each.committed() for each in streams]
    target = random.choice([each for each in streams if each.committed() < len(each.files)] or streams)
    aim, enough = random.choice(AIMS), target.committed() + random.randint(1, most)
    deadline = time.monotonic() + PATIENCE
    aimed: Path | None = None
    while job.process.poll() is None:
        assert time.monotonic() < deadline, f"{target.title}: {target.committed()} micro-batches, {job.folder / 'log'}"
        if aimed is None and target.committed() >= enough:
            aimed = _aimed_at(target, aim)
        if aimed is not None and (aimed.exists() or aim == "any moment"):
            time.sleep(random.random() * (1.0 if aim == "any moment" else 0.05))
            break
        if aimed is not None and target.committed() >= enough + 1 and not aimed.exists():
            aimed, enough = None, enough + 1  # the sink's log has another name at every tenth micro-batch
        time.sleep(0.004)
    if job.process.poll() is not None:
        return None
    job.kill()
    counted = Counter(f"stage: {each.stage()}" for each in streams)
    new = [each.committed() - past for each, past in zip(streams, before, strict=True)]
    counted |= {"kills": 1, "micro-batches committed by killed processes": sum(new), f"aimed at: {aim}": 1}
    return counted


def _aimed_at(stream: Stream, aim: str) -> Path:
    """Return the file whose appearance begins a stage of the next micro-batch."""
    batch = stream.committed()
    sink = {"parquet": f"_spark_metadata/{batch}", "rows": f"{batch:05}.parquet"}[stream.told["sink"]]
    return {
        "any moment": stream.checkpoint,
        "offsets": stream.checkpoint / "offsets" / str(batch),
        "state": stream.checkpoint / "state" / "0" / "1" / f"{batch + 1}.zip",
        "sink": stream.folder / "out" / sink,
        "commit": stream.checkpoint / "commits" / str(batch),
    }[aim]
