"""`thence give-up`: stops a stream from waiting for a cause, or drains a key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thence.cli._common import CORES, JsonFile, SparkCores, console, working, write_json
from thence.cli.waiting import session_for

EXAMPLE = "thence give-up checkpoint a7"


def command(
    checkpoint: Annotated[Path, typer.Argument(help="The checkpoint folder of a delivering stream.")],
    cause: Annotated[str | None, typer.Argument(help="The cause, as `thence waiting` names it.")] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...", help="Values of one key; without a cause, everything that it holds is released."
        ),
    ] = None,
    commands: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The stream's folder of commands; default: CHECKPOINT/give-up.")
    ] = None,
    cores: SparkCores = CORES,
    json_file: JsonFile = None,
) -> None:
    """Give up a cause that a running stream waits for: the rows that it blocks are released.

    This takes effect in the next micro-batch; after a crash that micro-batch gives the same rows again.
    """
    session = session_for(checkpoint, cores)
    from thence.tables.engines.spark.give_up import give_up as on_spark

    with working("Reading the state"):
        keys = on_spark(session, checkpoint, cause, None if key is None else key.split(","), commands=commands)
    what = "release what is held" if cause is None else f"give up {cause}"
    sentence = f"{len(keys)} key{' is' if len(keys) == 1 else 's are'} asked to {what}"
    nothing = "nothing waits" + ("" if key is None else f" at {key}") + ("" if cause is None else f" for {cause}")
    console(json_file).print(sentence if keys else f"{nothing}; `thence waiting` says what does")
    write_json(json_file, {"checkpoint": str(checkpoint), "cause": cause, "keys": keys})
