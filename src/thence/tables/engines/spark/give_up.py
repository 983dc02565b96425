"""Give-up commands to a running stream: a cause that will not come, or a key that is to release all it holds.

*Invariant.* A command is a file in the folder that `deliver(..., commands=folder)` reads as a source. It is written
whole and then renamed, so that it is read once and Spark's log says in which micro-batch. It is addressed to keys one
by one: to those that the cause blocks when it is written, or to the one that is named.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from thence.core.model.plain import Field, Fields, Row
from thence.errors import Argument, MisuseError
from thence.tables.delivery.checkpoint_terms import refuse_earlier
from thence.tables.delivery.orderer import check_given
from thence.tables.engines.spark.deliver import column
from thence.tables.engines.spark.shard_visit import ACTION, CAUSE, DRAIN, GIVE_UP
from thence.tables.engines.spark.waiting import FIELDS, waiting_in_stream

FOLDER = "give-up"


def give_up(
    session: SparkSession,
    checkpoint: str | os.PathLike[str],
    cause: str | None = None,
    key: Iterable[Field] | None = None,
    *,
    commands: str | os.PathLike[str] | None = None,
) -> list[Row]:
    """Give up a cause of a running stream, at one key or at every key; without a cause, release all that a key holds.

    Returns the keys that get a command; the rows leave in the next micro-batch. `Orderer.give_up` does the same in this
    process.

    Args:
        session: a session that can read the checkpoint; it need not be the stream's own.
        checkpoint: the checkpoint folder of the stream.
        cause: the blocker that `waiting_in_stream` names.
        key: the values of the key columns; every key that waits for the cause if not given.
        commands: the folder that the stream was started with; CHECKPOINT/give-up if not given.
    """
    check_given(cause, key)
    refuse_earlier(checkpoint)
    where = Path(commands) if commands is not None else Path(checkpoint) / FOLDER
    if not where.is_dir():
        raise MisuseError(
            f"{where} is not a folder, so the stream reads no commands: start a stream with deliver(..., "
            f"commands={str(where)!r}) from its first micro-batch on; ", Argument("commands"), " names another folder",
        )  # fmt: skip
    refuse_without_commands(Path(checkpoint))
    held = waiting_in_stream(session, checkpoint)
    names = [name for name in held.columns if name not in {field.name for field in FIELDS}]
    if key is not None:
        values = tuple(key)
        if len(values) != len(names):
            raise MisuseError(f"the key has {len(names)} columns, {', '.join(names)}; {len(values)} values were given")
        for name, value in zip(names, values, strict=True):
            held = held.where(column(name).cast("string").eqNullSafe(F.lit(value).cast("string")))
    if cause is not None:
        held = held.where(F.col("blocker") == cause)
    keys = [row.asDict() for row in held.select(*map(column, names)).distinct().collect()]
    action = {ACTION: DRAIN if cause is None else GIVE_UP, CAUSE: cause}
    _write(where, [key_values | action for key_values in keys])
    return keys


def refuse_without_commands(checkpoint: Path) -> None:
    """Refuse a checkpoint of one source, that of the rows: no stream would read the command."""
    offsets = [each for each in (checkpoint / "offsets").glob("[0-9]*") if each.name.isdigit()]
    if not offsets:
        return
    version, _, *sources = max(offsets, key=lambda each: int(each.name)).read_text(encoding="utf-8").splitlines()
    if version == "v1" and len(sources) == 1:  # one line for each source
        raise MisuseError(
            f"the stream of {checkpoint} was started without ", Argument("commands"), ", so it would never read this; "
            "it cannot be added later. Begin with a new checkpoint and deliver(..., commands=FOLDER)",
        )  # fmt: skip


def _write(folder: Path, lines: list[Fields]) -> None:
    if not lines:
        return
    name = f"{uuid.uuid4().hex}.json"
    hidden = folder / f".{name}"
    hidden.write_text("".join(json.dumps(line, default=str) + "\n" for line in lines), encoding="utf-8")
    hidden.rename(folder / name)
