"""`thence deliver`: puts arrivals into causal order, as a batch or as a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from thence.cli._checkpoint import sole_stream
from thence.cli._common import (
    CORES,
    SHOWN,
    ColumnsOption,
    EngineOption,
    JsonFile,
    SparkCores,
    console,
    detail,
    finish,
    standard_input,
    start_spark,
    tell,
    working,
    write_json,
)
from thence.cli._console import table
from thence.cli._packages import require_packages
from thence.cli._targets import check_out, refuse_own_input
from thence.core.model.plain import Field, Row
from thence.errors import Argument, MisuseError, TraceError
from thence.tables.engines.choice import Engine, EngineChoice, choose_engine
from thence.tables.files.formats import RECORDS, WHOLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from thence.tables.files.arrival_reader import ArrivalFiles

EXAMPLE = "thence deliver events.parquet --id event_id --causes parent_id --key account --out ordered"


class DeliveryRequest(NamedTuple):
    """One delivery: its input, how causes are read, and its policy."""

    files: ArrivalFiles
    arrivals: str
    out: Path
    by: str
    roster: list[str] | None
    columns: dict[str, str]
    key: list[str] | None
    separator: str | None
    known: str | None
    options: Row


class Streaming(NamedTuple):
    """Options of a stream; without a checkpoint the delivery is a batch."""

    checkpoint: Path | None
    once: bool
    files_per_batch: int | None


def command(
    arrivals: Annotated[
        str,
        typer.Argument(
            help="A file, folder or glob (Parquet, JSON lines, CSV, TSV, Arrow, Delta, Iceberg); - is standard input."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE|DIR",
            help="Where to write the rows: a folder (Parquet), a file (.parquet, .csv, .jsonl), or - for JSON lines.",
        ),
    ],
    by: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="Kind of causes: depends_on, clock or stamp; --causes implies depends_on."),
    ] = None,
    id: Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="Column of the row's id.")] = None,
    causes: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of the causes: one id or an array of ids.")
    ] = None,
    separator: Annotated[
        str | None, typer.Option(metavar="SIGN", help="Separator of several causes in one text, as in a;b.")
    ] = None,
    roster: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="With --by stamp: the processes; default: those in the files.")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--from", "--format", metavar="FORMAT", help="otlp, cloudevents, debezium, csv, ...; default: recognised."
        ),
    ] = None,
    columns: ColumnsOption = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Columns that separate independent orders; default: run,destination."),
    ] = None,
    known: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|DIR", help="Table of ids that count as delivered, with the columns of --id and --key."
        ),
    ] = None,
    policy: Annotated[
        str, typer.Option(metavar="POLICY", help="What to do about a missing cause: wait, release or fail.")
    ] = "wait",
    after_rows: Annotated[
        int | None, typer.Option(help="Release or fail after this many later rows of the key.")
    ] = None,
    after_seconds: Annotated[
        float | None, typer.Option(help="Release or fail after this much event time, in seconds.")
    ] = None,
    remember: Annotated[int | None, typer.Option(help="Number of delivered ids to keep in full, per key.")] = None,
    held_limit: Annotated[int | None, typer.Option(help="Maximum number of held rows, per key.")] = None,
    when_full: Annotated[str, typer.Option(metavar="fail|release", help="What to do beyond --held-limit.")] = "fail",
    max_jump: Annotated[
        float | None, typer.Option(help="Maximum by which one row may advance event time, in seconds.")
    ] = None,
    filter_limit: Annotated[
        int | None, typer.Option(help="Maximum number of older ids to keep as fingerprints.")
    ] = None,
    wait_seconds: Annotated[
        float | None, typer.Option(help="With --stream: release a row held for this many seconds.")
    ] = None,
    idle_seconds: Annotated[
        float | None,
        typer.Option(
            help="With --stream and --policy release: release the rows of a key that is idle for this many seconds."
        ),
    ] = None,
    ttl_seconds: Annotated[
        float | None, typer.Option(help="With --stream: forget a key that is idle for this many seconds.")
    ] = None,
    shards: Annotated[
        int | None, typer.Option(help="With --stream: number of shards, fixed at the first start.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing file or folder at --out.")
    ] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Process files as they arrive; needs --checkpoint.")] = False,
    once: Annotated[
        bool, typer.Option("--once", help="With --stream: process the files that are there, then stop.")
    ] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder in which a stream keeps its state.")
    ] = None,
    files_per_batch: Annotated[
        int | None, typer.Option(help="With --stream: maximum number of files in a micro-batch.")
    ] = None,
    engine: EngineOption = "auto",
    cores: SparkCores = CORES,
    json_file: JsonFile = None,
) -> None:
    """Put the rows of a table into causal order, and list what the held rows wait for.

    Every row comes out once, with outcome, position, waited_for, held_for, held_seconds, reason, missing and blocker.

    Exit code 0, even if rows are blocked; 1 if policy fail or a full key stopped it, if no row was delivered, or if
    more rows were quarantined than delivered; 2 if the input cannot be read.
    """
    named = columns or {}
    records = by in (None, "depends_on") and not (named or id or causes)
    if stream != (checkpoint is not None):
        raise MisuseError("--stream and --checkpoint DIR go together")
    for name, given in (("--once", once), ("--files-per-batch", files_per_batch is not None)):
        if given and not stream:
            raise MisuseError(f"{name} is for streams; it goes with --stream")
    timed = {"--wait-seconds": wait_seconds, "--idle-seconds": idle_seconds, "--ttl-seconds": ttl_seconds}
    for name, seconds in timed.items():
        if once and files_per_batch is not None and seconds is not None:
            raise MisuseError(f"--once with {name} takes all files in one micro-batch; leave --files-per-batch out")
    if str(out) == json_file == "-":
        raise MisuseError("--out and --json both name standard output; one of them is accepted")
    kind = check_out(out, stream=stream, overwrite=overwrite)
    options: Row = {"policy": policy, "after_rows": after_rows, "after_seconds": after_seconds}
    options |= {"remember": remember, "held_limit": held_limit, "when_full": when_full, "max_jump": max_jump}
    options |= {"filter_limit": filter_limit, "wait_seconds": wait_seconds}
    options |= {"idle_seconds": idle_seconds, "ttl_seconds": ttl_seconds, "shards": shards}
    if checkpoint is not None:
        options["commands"] = checkpoint / "give-up"
    names = roster.split(",") if roster is not None else None
    keys = None if key is None else [name.strip() for name in key.split(",")] if key.strip() else []
    if stream and arrivals == "-" and not Path("-").exists():
        raise MisuseError("--stream watches a folder; standard input cannot be watched. Leave --stream out")
    with standard_input([arrivals]) as (file,):
        if stream and engine == Engine.LOCAL:
            raise MisuseError("--stream runs on Spark; --engine local is for batches")
        found = _found(file, form, stream, records=records)
        if found.kind in RECORDS:
            by = "depends_on"
        by, named = _named(by, id, causes, named)
        asked = DeliveryRequest(found, file, out, by, names, named, keys, separator, known, options)
        choice = _choice(engine, found, stream, one_file=kind is not None)
        refuse_own_input(found.files if known is None else [*found.files, *_found(known, None, False).files], out)
        with sole_stream(checkpoint):
            result = _delivered(asked, choice, Streaming(checkpoint, once, files_per_batch), cores)
    _show(result, "-" if str(out) == "-" else json_file, asked.key)
    detail(f"delivered {choice}")
    write_json(json_file, result | {"engine": choice.engine})
    if (failure := _failure(result)) is not None and not stream:
        console("-").print(f"thence: {failure}")
        finish(1)


def _named(by: str | None, id: str | None, causes: str | None, columns: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Return the kind of causes and the names of the columns, from the options that state them."""
    if by is None and causes is None:
        raise MisuseError("name the column of the causes with --causes COLUMN, or the kind of causes with --by")
    if causes is not None and by not in (None, "depends_on"):
        raise MisuseError(f"--causes goes with --by depends_on, not with --by {by}")
    for option, ours, theirs in (("--id", "message", id), ("--causes", "depends_on", causes)):
        if theirs is not None and ours in columns:
            raise MisuseError(f"{option} and --columns both say which column is {ours}; one of them is accepted")
    given = {"message": id, "depends_on": causes}
    return by or "depends_on", columns | {ours: theirs for ours, theirs in given.items() if theirs is not None}


def _failure(result: Row) -> str | None:
    """Explain why a finished delivery counts as failed: no row has a position, or most are unusable."""
    from thence.tables.delivery.outcome import PLACED

    outcomes, rows = result["outcomes"], result["rows"]
    placed = sum(outcomes.get(kind, 0) for kind in PLACED)
    unusable = outcomes.get("quarantined", 0)
    if not rows or (placed and unusable <= placed):
        return None
    shown = "; ".join(f"{count} of them: {reason}" for reason, count in list(result["quarantined"].items())[:3])
    waits = f"; {outcomes['blocked']} wait for causes that are not in the input" if outcomes.get("blocked") else ""
    of_all = f"{placed or 'none'} of {rows} row{'s' * (rows != 1)} could be delivered"
    return of_all + (f", {unusable} quarantined ({shown})" if unusable else "") + waits


def _delivered(asked: DeliveryRequest, choice: EngineChoice, streaming: Streaming, cores: int) -> Row:
    return _local(asked) if choice.engine is Engine.LOCAL else _on_spark(asked, streaming, cores)


def _found(arrivals: str, form: str | None, stream: bool, *, records: bool = False) -> ArrivalFiles:
    """Find the files; paths that a stream cannot watch are rejected before Spark starts."""
    from thence.tables.files.arrival_reader import arrival_files

    if stream and Path(arrivals).is_file():
        raise MisuseError(
            f"--stream watches a folder, and {arrivals} is a file; name its folder, or deliver it as a batch"
        )
    return arrival_files(arrivals, form, records=records and not stream)


def _choice(engine: str, found: ArrivalFiles, stream: bool, *, one_file: bool) -> EngineChoice:
    if stream or engine == Engine.SPARK:
        found.check_for_spark()
    if found.kind in (*WHOLE, *RECORDS):
        return EngineChoice(Engine.LOCAL, f"{found.kind.upper()} is read in this process only")
    if one_file and engine == Engine.SPARK:
        raise MisuseError("Spark writes a folder; give --out the name of one, or leave --engine spark out")
    if one_file:
        return EngineChoice(Engine.LOCAL, "a single file is written in this process only")
    return EngineChoice(Engine.SPARK, "a stream") if stream else choose_engine(engine, found.files)


def _local(asked: DeliveryRequest) -> Row:
    """Deliver in this process, into one file; in a folder the file is Parquet."""
    require_packages("pyarrow", "numpy")
    from thence.tables.files.without_pandas import without_pandas

    without_pandas()  # before the import of modules that make Arrow arrays, which would load pandas
    from thence.tables.engines.local.deliver import counts_in, terms_of, waiting_in
    from thence.tables.engines.local.deliver_input import deliver_arrivals
    from thence.tables.files.arrival_reader import read_arrivals, read_known
    from thence.tables.files.write_table import output_format, write_table

    options = dict(asked.options)
    for name in ("wait_seconds", "idle_seconds", "ttl_seconds", "shards"):
        if options.pop(name) is not None:
            raise MisuseError(Argument(name), " is for streams; a batch has an end")
    files = asked.files
    roster = files.rosters() if asked.roster is None and asked.by == "stamp" else asked.roster
    terms = terms_of(asked.by, roster, asked.columns, asked.key, options)
    terms = replace(terms, separator=asked.separator)
    terms.reading()  # rejects an invalid separator
    arrivals = read_arrivals(files, terms.by, terms.columns)
    with working("Delivering"), _policy_may_stop():
        known = None if asked.known is None else read_known(asked.known, terms.by, terms.columns)
        ordered, terms = deliver_arrivals(arrivals, terms, asked.columns, default_key=asked.key is None, known=known)
    _tell_default_key(asked, terms.columns.key)
    kind = None if asked.out.is_dir() else output_format(asked.out)
    if kind is None:
        _emptied(asked.out)
    write_table(ordered, asked.out if kind else asked.out / "part-00000.parquet", kind or "parquet")
    lines: list[Row] = [{"file": each.file, "line": each.line, "reason": each.reason} for each in arrivals.unread]
    return _result(asked.out, counts_in(ordered), waiting_in(ordered, terms)) | ({"unread": lines} if lines else {})


def _tell_default_key(asked: DeliveryRequest, key: tuple[str, ...]) -> None:
    """Print the columns that separate the orders, if the caller named the causes and no key."""
    if asked.key is None and "depends_on" in asked.columns and key:
        tell(f"key: {', '.join(key)} (--key names other columns)")


def _emptied(folder: Path) -> None:
    """Make a folder, or remove the delivery that it holds."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        file.unlink()


def _on_spark(asked: DeliveryRequest, streaming: Streaming, cores: int) -> Row:
    from thence.tables.engines.spark.workers import errors_of_workers

    session = start_spark(cores)
    ordered = _ordered(session, asked, streaming)
    with working("Delivering"), _policy_may_stop(), errors_of_workers():
        if streaming.checkpoint is not None:
            _run_stream(ordered, asked.out, streaming.checkpoint, streaming.once)
        else:
            ordered.write.mode("overwrite" if asked.out.exists() else "error").parquet(str(asked.out))
    waits = _waiting(session, asked.out, streaming.checkpoint, asked.key)
    return _result(asked.out, _counts(session, asked.out), waits)


@contextmanager
def _policy_may_stop() -> Iterator[None]:
    """Exit with 1 and the policy's message where a policy or a full key stopped the delivery."""
    try:
        yield
    except TraceError as error:
        console("-").print(f"thence: {error}")
        finish(1)


def _result(out: Path, counts: dict[tuple[str, str | None], int], waiting: list[Row]) -> Row:
    """Return the lines to print from the counts of outcomes and reasons, the most frequent first."""
    outcomes, unusable = Counter[str](), dict[str | None, int]()
    for (outcome, reason), count in counts.items():
        outcomes[outcome] += count
        if outcome == "quarantined" and len(unusable) < SHOWN:
            unusable[reason] = count
    report: Row = {"out": str(out), "outcomes": dict(sorted(outcomes.items())), "rows": outcomes.total()}
    return report | {"quarantined": unusable, "waiting": waiting}


def _ordered(session: SparkSession, asked: DeliveryRequest, streaming: Streaming) -> DataFrame:
    from thence.tables.contract.columns import By
    from thence.tables.delivery.columns import Columns
    from thence.tables.delivery.reading import BYS
    from thence.tables.engines.spark.deliver import deliver as on_spark
    from thence.tables.engines.spark.read_arrivals import read_arrivals, read_known, with_lines_named

    if asked.by not in BYS:
        raise MisuseError(f"--by {asked.by}: one of {', '.join(BYS)} is accepted")
    how: By = asked.by
    names = Columns(how, asked.columns, asked.key)
    known = None if asked.known is None else read_known(session, asked.known, how, names)
    table, carried, lines = read_arrivals(
        session, asked.arrivals, how, names,
        stream=streaming.checkpoint is not None, files_per_batch=streaming.files_per_batch,
    )  # fmt: skip
    roster = carried if asked.roster is None and how == "stamp" else asked.roster
    ordered = on_spark(
        table, how, roster=roster, key=asked.key, columns=asked.columns, separator=asked.separator,
        known=known, **asked.options,
    )  # fmt: skip
    if streaming.checkpoint is None:
        _tell_default_key(asked, names.with_default_key(table.columns, one_order=how == "depends_on").key)
    return ordered if lines is None else with_lines_named(ordered, lines)


def _run_stream(ordered: DataFrame, out: Path, checkpoint: Path, once: bool) -> None:
    from thence.tables.engines.spark.deliver import is_timed

    writer = ordered.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    writer = writer.option("path", str(out))
    if once:  # with availableNow Spark never ends a stream that has timers
        writer = writer.trigger(once=True) if is_timed(ordered) else writer.trigger(availableNow=True)
    query = writer.start()
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()


def _counts(session: SparkSession, out: Path) -> dict[tuple[str, str | None], int]:
    """Count outcomes and reasons like `counts_in`, through Spark, which knows the committed files of a stream."""
    rows = session.read.parquet(str(out)).selectExpr("outcome", "if(outcome = 'quarantined', reason, null) reason")
    found = rows.groupBy("outcome", "reason").count().collect()
    ranked = sorted(found, key=lambda row: (-row["count"], row["reason"] or ""))
    return {(row["outcome"], row["reason"]): row["count"] for row in ranked}


def _waiting(session: SparkSession, out: Path, checkpoint: Path | None, key: list[str] | None) -> list[Row]:
    from thence.tables.engines.spark.waiting import waiting, waiting_in_stream

    if checkpoint is not None:
        found = waiting_in_stream(session, checkpoint)
    else:
        found = waiting(session.read.parquet(str(out)), key=None if key is None else tuple(key))
    return [row.asDict() for row in found.collect()]


def _show(result: Row, json_file: str | None, key: list[str] | None) -> None:
    to = console(json_file)
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in result["outcomes"].items())
    to.print(f"{result['rows']:,} row{'s' * (result['rows'] != 1)} in {result['out']}{': ' * bool(counts)}{counts}")
    for reason, count in result["quarantined"].items():
        to.print(f"quarantined, {count:,} row{'s' * (count != 1)}: {reason}")
    unread = result.get("unread", ())
    for line in unread[:SHOWN]:
        to.print(f"{line['file']}:{line['line']}: {line['reason']}")
    if len(unread) > SHOWN:
        to.print(f"... and {len(unread) - SHOWN} more such lines; --json FILE lists all")
    show_waiting(result["waiting"], json_file)
    if result["waiting"] and key:
        to.print(f"--key {','.join(key)}: a cause is looked for only among the rows of the same key")


def show_waiting(rows: list[Row], json_file: str | None) -> None:
    """Print the held rows: one line for each root cause, the one that holds most rows first."""
    to = console(json_file)
    if not rows:
        to.print("no row waits")
        return
    roots: dict[Field, list[Row]] = {}
    for row in rows:
        roots.setdefault(row.get("blocker"), []).append(row)
    ranked = sorted(roots.items(), key=lambda root: -len(root[1]))
    to.print(f"{len(rows):,} row{'s wait' if len(rows) != 1 else ' waits'}:")
    shown = [(root, len(held), held[0].get("message"), _why(held[0]), _longest(held)) for root, held in ranked[:SHOWN]]
    to.print(table("waits for", "rows", "the first", "because it", "held for, rows", rows=shown))
    if len(ranked) > SHOWN:
        to.print(f"... and {len(ranked) - SHOWN:,} more causes")
    to.print("--json FILE names every row and what it lacks")


def _why(row: Row) -> str:
    """Return the end of the row's reason, which describes the root cause."""
    end = str(row.get("reason") or "").partition("; ")[2]
    return end.removeprefix(f"{row.get('blocker')} ")


def _longest(held: list[Row]) -> int | None:
    return max((row["held_for"] for row in held if row.get("held_for") is not None), default=None)
