"""`thence waiting`: lists the rows that a stream holds, the causes they wait for, and since when."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thence.cli._common import CORES, JsonFile, SparkCores, start_spark, working, write_json
from thence.cli.deliver import show_waiting
from thence.errors import MisuseError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = "thence waiting checkpoint"


def command(
    checkpoint: Annotated[Path, typer.Argument(help="The checkpoint folder of a delivering stream.")],
    cores: SparkCores = CORES,
    json_file: JsonFile = None,
) -> None:
    """List the rows that a stream holds, as of its last committed micro-batch, and the causes that they wait for.

    Each row has its missing causes, and the root cause, which has not arrived.
    """
    session = session_for(checkpoint, cores)
    from thence.tables.engines.spark.waiting import waiting_in_stream

    with working("Reading the state"):
        rows = [row.asDict() for row in waiting_in_stream(session, checkpoint).collect()]
    show_waiting(rows, json_file)
    write_json(json_file, {"checkpoint": str(checkpoint), "waiting": rows})


def session_for(checkpoint: Path, cores: int) -> SparkSession:
    """Start Spark to read the state of a stream; refuse a folder that is not a checkpoint before that."""
    if not (checkpoint / "commits").is_dir():
        raise MisuseError(f"{checkpoint} is not the checkpoint of a stream: it has no folder commits")
    return start_spark(cores, quick=True)
