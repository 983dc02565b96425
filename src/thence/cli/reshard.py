"""`thence reshard`: a checkpoint for another number of shards, made from that of a stopped stream."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thence.cli._checkpoint import sole_stream
from thence.cli._common import CORES, JsonFile, SparkCores, console, working, write_json
from thence.cli.waiting import session_for

EXAMPLE = "thence reshard checkpoint checkpoint-16 --shards 16"


def command(
    checkpoint: Annotated[Path, typer.Argument(help="The checkpoint folder of a stopped stream.")],
    new: Annotated[Path, typer.Argument(help="The new checkpoint folder, which must not exist.")],
    shards: Annotated[int | None, typer.Option(help="Number of shards; default: the number of cores.")] = None,
    cores: SparkCores = CORES,
    json_file: JsonFile = None,
) -> None:
    """Copy the checkpoint of a stopped stream into a new one with another number of shards.

    The stream continues from the new checkpoint, with every held row. The old one is only read: keep it until the
    stream runs.
    """
    session = session_for(checkpoint, cores)
    from thence.tables.engines.spark.reshard import reshard as on_spark

    with sole_stream(checkpoint), working("Dividing the state"):
        made = on_spark(session, checkpoint, new, shards)
    console(json_file).print(f"{new}: {made} shard{'' if made == 1 else 's'}; start the stream with this checkpoint")
    write_json(json_file, {"checkpoint": str(checkpoint), "new": str(new), "shards": made})
