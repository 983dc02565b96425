"""A checkpoint for another number of shards, made from the one of a stopped stream.

*Invariant.* The new checkpoint stands where the old one stood: the same offsets, commits and query id, and the state
after the last committed micro-batch, every key of it in its new shard. So the stream goes on without a row lost, read
twice or written twice, and the sink sees the next number of a micro-batch. The old checkpoint is only read. The new one
is made beside its place and renamed at the end, so that one that is there is complete.

Spark itself writes the state: a query with the same state variables takes the divided shards as its rows. Its state has
version 1, and is renamed to the version that the next micro-batch of the stream reads; nothing inside a state says its
version.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from thence.errors import Argument, MisuseError
from thence.tables.delivery.shard_memory import key_schema
from thence.tables.delivery.shard_rewrite import WrittenShard, rewritten, widest
from thence.tables.engines.spark.shard_visit import ALWAYS_VISITED, SHARD
from thence.tables.engines.spark.stream import shard_of
from thence.tables.engines.spark.stream_options import MOST_SHARDS
from thence.tables.engines.spark.stream_step import Rewriter
from thence.tables.engines.spark.versions import as_arrow, values_by_partition
from thence.tables.engines.spark.waiting import refuse_unreadable, state_of_shards

PARTITIONS = "spark.sql.shuffle.partitions"
STATE = Path("state") / "0"
NOT_COPIED = ("state", "give-up", ".thence-lock")
DIVIDED, REWRITTEN = "to int, timer long, data binary", f"{SHARD} int, name string, data binary"


def reshard(
    session: SparkSession,
    checkpoint: str | os.PathLike[str],
    new: str | os.PathLike[str],
    shards: int | None = None,
) -> int:
    """Copy the checkpoint of a stopped stream into a new one with another number of shards, and return that number.

    The stream continues with `new` as its checkpoint, in as many partitions as `spark.sql.shuffle.partitions` of this
    session says. Both folders must be on a file system that this process sees.

        reshard(session, "checkpoints/orders", "checkpoints/orders-16", shards=16)

    Raises `MisuseError` if the folder is not the checkpoint of a stream of `deliver`, or if `new` exists.

    Args:
        session: a session of the Spark version that runs the stream.
        checkpoint: the checkpoint folder of the stopped stream.
        new: the folder to create.
        shards: into how many shards the keys are divided; `spark.sql.shuffle.partitions` if not given.
    """
    old, target = _folder(checkpoint), _folder(new)
    shards = int(session.conf.get(PARTITIONS) or 1) if shards is None else shards
    if isinstance(shards, bool) or not 1 <= shards <= MOST_SHARDS:
        raise MisuseError(Argument("shards"), f" is {shards!r}; 1 to {MOST_SHARDS} are accepted")
    if target.exists():
        raise MisuseError(f"{target} exists; name a folder that is not there yet")
    committed = _last_committed(old)
    made = target.with_name(f"{target.name}.{uuid.uuid4().hex}")
    try:
        _write_rows(session, old, shards, made / "rows")
        _write_state(session, made, timed=_timed(old))
        _put_in_place(made / "checkpoint" / STATE, committed + 1, str(made / "checkpoint"), str(target))
        _copy_the_rest(old, made / "checkpoint", target, str(session.conf.get(PARTITIONS)))
        (made / "checkpoint").rename(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return shards


# -- what is there -----------------------------------------------------------------------------------------------------


def _folder(path: str | os.PathLike[str]) -> Path:
    text = os.fspath(path).removeprefix("file://")
    if "://" in text:
        raise MisuseError(f"{text} is not a folder of this machine; copy the checkpoint of the stopped stream to one")
    folder = Path(text).absolute()
    refuse_unreadable(str(folder))
    return folder


def _last_committed(checkpoint: Path) -> int:
    commits = checkpoint / "commits"
    if not commits.is_dir():
        raise MisuseError(f"{checkpoint} is not the checkpoint of a stream: it has no folder commits")
    found = [int(file.name) for file in commits.iterdir() if file.name.isdigit()]
    if not found:
        raise MisuseError(f"{checkpoint} has no micro-batch that is committed: start its stream with a new checkpoint")
    if sorted(each.name for each in (checkpoint / "state").glob("*")) != [STATE.name]:
        raise MisuseError(f"{checkpoint} is of a query with other stateful steps beside deliver's; give it its own")
    return max(found)


def _timed(checkpoint: Path) -> bool:
    """Return whether the stream keeps timers, as Spark noted it."""
    texts = [file.read_text() for file in (checkpoint / STATE / "_metadata").rglob("*") if file.name.isdigit()]
    return any('timeMode\\":\\"ProcessingTime' in text for text in texts)


# -- keys into their new shards ----------------------------------------------------------------------------------------


def _write_rows(session: SparkSession, checkpoint: Path, shards: int, folder: Path) -> None:
    """Write the state of the new shards as files: the shard, a name and the bytes under it."""
    parts = state_of_shards(session, str(checkpoint))
    heads = [bytes(row[0]) for row in parts.where(F.col("name") == "").select("data").collect()]
    if not heads:
        raise MisuseError(f"{checkpoint} has no state yet: start its stream with a new checkpoint")
    head = widest(heads)
    kinds = key_schema(head).types
    keys = pa.schema([(f"key {place}", kind) for place, kind in enumerate(kinds)])
    about = StructType([parts.schema["shard"], StructField("number", LongType()), *from_arrow_schema(keys).fields])
    numbers = parts.groupBy("shard").applyInArrow(_numbered(as_arrow(about)), about)
    moves = numbers.select("shard", "number", shard_of(keys.names, shards).alias("to"))
    divided = parts.groupBy("shard").cogroup(moves.groupBy("shard")).applyInArrow(_divided, DIVIDED)
    # every shard has a head that says the number of shards, also the one that each micro-batch visits
    every = sorted({ALWAYS_VISITED, *values_by_partition(shards)})
    empty = session.createDataFrame([(shard, None, None) for shard in every], DIVIDED)
    whole = divided.unionByName(empty).groupBy("to").applyInArrow(_joined(head, shards), REWRITTEN)
    whole.write.parquet(str(folder))


def _stored(table: pa.Table) -> dict[str, bytes]:
    return dict(zip(table.column("name").to_pylist(), table.column("data").to_pylist(), strict=True))


def _numbered(schema: pa.Schema) -> Callable[[pa.Table], pa.Table]:
    def numbered(table: pa.Table) -> pa.Table:
        found = _stored(table)
        keys = WrittenShard(found).keys() if found.get("") else None
        if keys is None:
            return schema.empty_table()
        shard = pa.repeat(table.column("shard")[0], len(keys))
        return pa.Table.from_arrays([shard, *keys.columns], schema=schema)

    return numbered


def _divided(state: pa.Table, moves: pa.Table) -> pa.Table:
    rows: list[tuple[int, int | None, bytes]] = []
    if len(moves):
        shard = WrittenShard(_stored(state))
        numbers, to = moves.column("number").to_numpy(), moves.column("to").to_numpy()
        timer = shard.about["timer"]
        rows = [(int(each), timer, shard.part(numbers[to == each])) for each in np.unique(to)]
    columns = [list(each) for each in zip(*rows, strict=True)] or [[], [], []]
    kinds = {"to": pa.int32(), "timer": pa.int64(), "data": pa.binary()}
    return pa.table({name: pa.array(values, kinds[name]) for name, values in zip(kinds, columns, strict=True)})


def _joined(head: bytes, shards: int) -> Callable[[pa.Table], pa.Table]:
    def joined(table: pa.Table) -> pa.Table:
        parts = [part for part in table.column("data").to_pylist() if part is not None]
        found = rewritten(parts, table.column("timer").to_pylist(), head, shards)
        columns = {
            SHARD: pa.repeat(table.column("to")[0], len(found)),
            "name": pa.array(found.keys(), pa.string()),
            "data": pa.array(found.values(), pa.binary()),
        }
        return pa.table(columns)

    return joined


# -- Spark's state store -----------------------------------------------------------------------------------------------


def _write_state(session: SparkSession, made: Path, *, timed: bool) -> None:
    """Have Spark write the shards as the state of a query, in one micro-batch."""
    rows: DataFrame = session.readStream.schema(REWRITTEN).parquet(str(made / "rows"))
    written = rows.groupBy(SHARD).transformWithStateInPandas(
        statefulProcessor=Rewriter(timed),
        outputStructType="nothing boolean",
        outputMode="Append",
        timeMode="ProcessingTime" if timed else "None",
    )
    query = (
        written.writeStream.format("noop")
        .option("checkpointLocation", str(made / "checkpoint"))
        .trigger(once=True)  # one micro-batch: a second one would fire timers
        .start()
    )
    query.awaitTermination()


def _put_in_place(state: Path, version: int, before: str, now: str) -> None:
    """Give the state its version, and its notes the folder in which it will be."""
    snapshots = list(state.glob("*/1.zip"))
    if len(snapshots) != len([each for each in state.iterdir() if each.name.isdigit()]):
        raise MisuseError(
            "Spark wrote the state as changes alone; set "
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled to false for this command"
        )
    for snapshot in snapshots:
        snapshot.rename(snapshot.with_name(f"{version}.zip"))
        for other in (".1.zip.crc", "1.changelog", ".1.changelog.crc"):
            snapshot.with_name(other).unlink(missing_ok=True)
    for note in (state / "_metadata").rglob("*"):
        if note.name.isdigit():
            note.write_text(note.read_text().replace(before, now))
            note.with_name(f".{note.name}.crc").unlink(missing_ok=True)


def _copy_the_rest(old: Path, made: Path, target: Path, partitions: str) -> None:
    """Copy offsets, commits, sources and the query's id; a micro-batch runs in the partitions of the new state."""
    for name in os.listdir(made):
        if name != "state":
            path = made / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in os.listdir(old):
        if name not in NOT_COPIED:
            path = old / name
            shutil.copytree(path, made / name) if path.is_dir() else shutil.copy2(path, made / name)
    for file in (made / "offsets").iterdir():
        if file.name.isdigit():
            version, metadata, *sources = file.read_text().split("\n")
            about = json.loads(metadata)
            about["conf"][PARTITIONS] = partitions
            file.write_text("\n".join([version, json.dumps(about, separators=(",", ":")), *sources]))
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    # Spark notes commands by their paths when it plans a micro-batch, and reads them again if that was not committed.
    if (old / "give-up").is_dir():
        shutil.copytree(old / "give-up", made / "give-up")
        for note in (made / "sources").rglob("*"):
            if note.is_file() and not note.name.startswith("."):
                text = note.read_text()
                moved = text.replace(f"{old}/give-up/", f"{target}/give-up/")
                if moved != text:
                    note.write_text(moved)
                    note.with_name(f".{note.name}.crc").unlink(missing_ok=True)
