"""An operator's word to a running stream: a cause that will not come, or a key that is to let go all it holds.

Invariant: the word is a file in the folder that `deliver(..., give_up=folder)` reads as a source, written whole and
then renamed, so that it is read once and Spark's log says in which micro-batch. It is addressed to keys one by one: to
those that are blocked by the cause when it is written, or to the one that is named.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from thence.core.model.plain import Fields, Row
from thence.errors import MisuseError
from thence.tables.engines.spark.deliver import column
from thence.tables.engines.spark.shard_visit import ACTION, CAUSE, DRAIN, GIVE_UP
from thence.tables.engines.spark.waiting import FIELDS, waiting

FOLDER = "give-up"


def give_up(
    session: SparkSession,
    checkpoint: str | os.PathLike[str],
    cause: str | None = None,
    key: Sequence[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> list[Row]:
    """Tell a stream that a cause will not come, or (without one) to drain a key; return the keys that are told.

    `key`: values of the key columns, as texts. `folder`: where the stream listens, CHECKPOINT/give-up if not said.
    """
    if cause is None and key is None:
        raise MisuseError("say a cause that will not come, or a key to drain, or both")
    where = Path(folder) if folder is not None else Path(checkpoint) / FOLDER
    if not where.is_dir():
        raise MisuseError(f"{where} is not there: the stream was not started with give_up= and does not listen")
    held = waiting(session, checkpoint)
    names = [name for name in held.columns if name not in {field.name for field in FIELDS}]
    if key is not None:
        if len(key) != len(names):
            raise MisuseError(f"the key has {len(names)} columns, {', '.join(names)}; {len(key)} values were given")
        for name, value in zip(names, key, strict=True):
            held = held.where(column(name).cast("string") == value)
    if cause is not None:
        held = held.where(F.col("blocker") == cause)
    keys = [row.asDict() for row in held.select(*map(column, names)).distinct().collect()]
    action = {ACTION: DRAIN if cause is None else GIVE_UP, CAUSE: cause}
    _write(where, [key_values | action for key_values in keys])
    return keys


def _write(folder: Path, lines: list[Fields]) -> None:
    if not lines:
        return
    name = f"{uuid.uuid4().hex}.json"
    hidden = folder / f".{name}"
    hidden.write_text("".join(json.dumps(line, default=str) + "\n" for line in lines), encoding="utf-8")
    hidden.rename(folder / name)
