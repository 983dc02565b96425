"""`thence deliver`: arrivals in any order in, causal order out, as a batch or as a stream."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from thence.cli._common import Engine as EngineOption
from thence.cli._common import JsonFile, console, detail, finish, table, working, write_json
from thence.errors import MisuseError, TraceError
from thence.model.plain import Row
from thence.trace.engine import Choice, Engine, choose

EXAMPLE = "thence deliver arrivals.parquet --by stamp --out ordered"
SHOWN = 20


def command(
    arrivals: Annotated[str, typer.Argument(help="A file, a folder or a glob: .parquet, .jsonl or .jsonl.gz.")],
    by: Annotated[str, typer.Option(help="What rows say of their causes: stamp, clock or depends_on.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the ordered rows go, as Parquet.")],
    roster: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="The processes, for stamps; default: as the files say.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="OURS=YOURS,...", help="Other names for the contract's columns.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="What parts independent orders; default: run,destination.")
    ] = None,
    policy: Annotated[str, typer.Option(help="For a cause that does not come: wait, release or fail.")] = "wait",
    after_rows: Annotated[int | None, typer.Option(help="Release or fail after so many later rows.")] = None,
    after_seconds: Annotated[float | None, typer.Option(help="... or after so much event time.")] = None,
    remember: Annotated[int | None, typer.Option(help="How many delivered ids are kept.")] = None,
    held_limit: Annotated[int | None, typer.Option(help="How many rows a key may hold.")] = None,
    when_full: Annotated[str, typer.Option(help="What then: fail or release.")] = "fail",
    max_jump: Annotated[float | None, typer.Option(help="How far ahead one row may move event time, seconds.")] = None,
    filter_limit: Annotated[int | None, typer.Option(help="How many ids beyond --remember may come.")] = None,
    wait_seconds: Annotated[float | None, typer.Option(help="With --stream: release a row held for so long.")] = None,
    ttl_seconds: Annotated[float | None, typer.Option(help="With --stream: forget a key idle for so long.")] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Go on as files arrive; needs --checkpoint.")] = False,
    once: Annotated[bool, typer.Option("--once", help="With --stream: take what is there, then stop.")] = False,
    checkpoint: Annotated[Path | None, typer.Option(metavar="DIR", help="Where a stream keeps its state.")] = None,
    files_per_batch: Annotated[int | None, typer.Option(help="With --stream: files in one micro-batch.")] = None,
    engine: EngineOption = "auto",
    cores: Annotated[int, typer.Option(help="Cores of the embedded Spark session.", min=1)] = 2,
    json_file: JsonFile = None,
) -> None:
    """Put each destination's rows into causal order and say what the rest waits for.

    Every row comes out once, with outcome, position, waited_for, held_for, held_seconds, reason, missing and blocker.
    Exit code 0, also if rows are blocked; 1 if policy fail or a full key stopped it; 2 if the input can not be read.
    """
    if stream != (checkpoint is not None):
        raise MisuseError("--stream and --checkpoint DIR go together")
    if not stream and out.exists() and any(out.iterdir()):
        raise MisuseError(f"{out} is not empty; name a new folder")
    options: Row = {"policy": policy, "after_rows": after_rows, "after_seconds": after_seconds}
    options |= {"remember": remember, "held_limit": held_limit, "when_full": when_full, "max_jump": max_jump}
    options |= {"filter_limit": filter_limit, "wait_seconds": wait_seconds, "ttl_seconds": ttl_seconds}
    if checkpoint is not None:
        options["give_up"] = checkpoint / "give-up"
    names = _pairs(columns)
    keys = None if key is None else [name.strip() for name in key.split(",")]
    choice = _choice(engine, arrivals, stream)
    if choice.engine is Engine.LOCAL:
        result = _local(arrivals, out, by, roster, names, keys, options)
    else:
        result = _on_spark(arrivals, out, by, roster, names, keys, options, checkpoint, once, files_per_batch, cores)
    _show(result, json_file)
    detail(f"delivered {choice}")
    write_json(json_file, result | {"engine": choice.engine})


def _choice(engine: str, arrivals: str, stream: bool) -> Choice:
    from thence.trace.arrival_reader import arrival_files

    if stream:
        if engine == Engine.LOCAL:
            raise MisuseError("--stream runs on Spark; --engine local is for batches")
        return Choice(Engine.SPARK, "a stream")
    return choose(engine, arrival_files(arrivals).files)


def _local(
    arrivals: str, out: Path, by: str, roster: str | None, columns: dict[str, str], key: list[str] | None, options: Row
) -> Row:
    """Deliver in this process; what comes out is one Parquet file in the folder."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from thence.delivery.local import deliver_table, setup_of
    from thence.delivery.outcome import WAITING_COLUMNS
    from thence.trace.arrival_reader import arrival_files, read_arrivals

    for name in ("wait_seconds", "ttl_seconds"):
        if options.pop(name) is not None:
            raise MisuseError(f"{name} is for streams; a batch has an end")
    files = arrival_files(arrivals)
    told = roster.split(",") if roster is not None else files.rosters() if by == "stamp" else None
    setup = setup_of(by, told, columns, key, options)
    names = setup.columns
    table = read_arrivals(files, setup.by, names.cause, names.message, names.arrival)
    if key is None and names.run not in table.column_names:
        setup = replace(setup, columns=names.with_key((names.destination,)))
    with working("Delivering"):
        try:
            ordered = deliver_table(table, setup)
        except TraceError as error:
            console("-").print(f"thence: {error}")
            finish(1)
    out.mkdir(parents=True, exist_ok=True)
    pq.write_table(ordered, out / "part-00000.parquet")
    counts = Counter(ordered.column("outcome").to_pylist())
    blocked = ordered.filter(pc.equal(ordered.column("outcome"), "blocked"))
    shown = [*setup.columns.key, *([names.message] if names.message in table.column_names else []), *WAITING_COLUMNS]
    waits = blocked.select(shown).rename_columns(["message" if n == names.message else n for n in shown])
    return _result(out, dict(sorted(counts.items())), waits.to_pylist())


def _on_spark(
    arrivals: str, out: Path, by: str, roster: str | None, names: dict[str, str], keys: list[str] | None,
    options: Row, checkpoint: Path | None, once: bool, files_per_batch: int | None, cores: int,
) -> Row:  # fmt: skip
    stream = checkpoint is not None
    with working("Starting Spark"):
        session = _session(cores)
    ordered = _ordered(session, arrivals, by, roster, names, keys, options, stream, files_per_batch)
    with working("Delivering"):
        try:
            if checkpoint is not None:
                _run_stream(ordered, out, checkpoint, once)
            else:
                ordered.write.parquet(str(out))
        except Exception as error:
            _failed(error)
    return _result(out, _outcomes(session, out), _waiting(session, out, checkpoint, keys))


def _result(out: Path, outcomes: dict[str, int], waiting: list[Row]) -> Row:
    return {"out": str(out), "outcomes": outcomes, "rows": sum(outcomes.values()), "waiting": waiting}


def _session(cores: int) -> Any:
    from thence.spark.session import local_session

    return local_session(cores=cores)


def _ordered(
    session: Any, path: str, by: str, roster: str | None, names: dict[str, str], key: list[str] | None,
    options: Row, stream: bool, files: int | None,
) -> Any:  # fmt: skip
    from thence.delivery.columns import Columns
    from thence.delivery.reading import BYS, By
    from thence.spark import deliver as on_spark
    from thence.spark.arrivals import read_arrivals

    if by not in BYS:
        raise MisuseError(f"--by {by}: one of {', '.join(BYS)} is accepted")
    how: By = by
    table, carried = read_arrivals(session, path, how, Columns(how, names, key), stream=stream, files_per_batch=files)
    told: Any = roster.split(",") if roster is not None else carried if how == "stamp" else None
    return on_spark(table, how, roster=told, key=key, columns=names, **options)


def _pairs(columns: str | None) -> dict[str, str]:
    if columns is None:
        return {}
    pairs = [part.partition("=") for part in columns.split(",")]
    for ours, sign, yours in pairs:
        if not (ours and sign and yours):
            raise MisuseError(f"--columns {columns}: OURS=YOURS,... is accepted, as in message=event_id")
    return {ours.strip(): yours.strip() for ours, _, yours in pairs}


def _run_stream(ordered: Any, out: Path, checkpoint: Path, once: bool) -> None:
    writer = ordered.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    writer = writer.option("path", str(out))
    query = (writer.trigger(availableNow=True) if once else writer).start()
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()


def _failed(error: Exception) -> None:
    """End with 1 where a policy stopped the work, and say what it said."""
    for line in str(error).splitlines():
        where = line.find("thence.errors.TraceError: ")
        if where >= 0:
            console("-").print(f"thence: {line[where + len('thence.errors.TraceError: ') :]}")
            finish(1)
    raise error


def _outcomes(session: Any, out: Path) -> dict[str, int]:
    rows = session.read.parquet(str(out)).groupBy("outcome").count().collect()
    return {row["outcome"]: row["count"] for row in sorted(rows)}


def _waiting(session: Any, out: Path, checkpoint: Path | None, key: list[str] | None) -> list[Row]:
    from thence.spark import waiting

    if checkpoint is not None:
        found = waiting(session, checkpoint)
    else:
        found = waiting(session.read.parquet(str(out)), key=None if key is None else tuple(key))
    return [row.asDict() for row in found.collect()]


def _show(result: Row, json_file: str | None) -> None:
    to = console(json_file)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in result["outcomes"].items())
    to.print(f"{result['rows']} rows in {result['out']}: {counts or 'none'}")
    show_waiting(result["waiting"], json_file)


def show_waiting(rows: list[Row], json_file: str | None) -> None:
    """Show what waits: all in JSON, the first for people."""
    to = console(json_file)
    to.print(f"{len(rows)} rows wait")
    if rows:
        shown = [[_text(value) for value in row.values()] for row in rows[:SHOWN]]
        to.print(table(*rows[0], rows=shown))
    if len(rows) > SHOWN:
        to.print(f"... and {len(rows) - SHOWN} more; --json FILE names them all")


def _text(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value
