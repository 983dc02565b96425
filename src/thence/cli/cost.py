"""`thence cost`: what each protocol would cost on recorded traffic, and a recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thence.cli._common import (
    CORES,
    SHOWN,
    ColumnsOption,
    EngineOption,
    JsonFile,
    KindsOption,
    SparkCores,
    by_reason,
    console,
    detail,
    finish,
    lines_by_reason,
    place_of_row,
    skipped_files,
    start_spark,
    verbose,
    working,
    write_json,
)
from thence.cli._console import Console, table
from thence.cli._packages import require_packages
from thence.cli.audit import FormatOption, TraceArgument
from thence.core.model.plain import Row
from thence.errors import MisuseError, TraceError

if TYPE_CHECKING:
    from thence.tables.costing.report import CostReport
    from thence.tables.files.read import Trace

EXAMPLE = "thence cost trace.jsonl --protocols ks,rst,ech --plot cost.svg"


def command(
    trace: TraceArgument,
    protocols: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Protocols, separated by commas; default: those that can be recommended."),
    ] = None,
    sample: Annotated[
        int, typer.Option(metavar="N", min=1, help="Replay at most N deliveries of a run and label.")
    ] = 200_000,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also draw a plot: .png, .svg, or both if the name has no ending."),
    ] = None,
    format: FormatOption = "auto",
    columns: ColumnsOption = None,
    kinds: KindsOption = None,
    engine: EngineOption = "auto",
    cores: SparkCores = CORES,
    json_file: JsonFile = None,
) -> None:
    """Replay your traffic through each protocol: entries, facts, bytes, log size, waiting; and a recommendation.

    Exit code 1 if a run is not causal or cannot be judged; such runs are reported separately.
    """
    from thence.core.protocols.registry import lookup
    from thence.show.plots import SUFFIXES
    from thence.tables.engines.choice import Engine, choose_engine
    from thence.tables.engines.local.cost import refuse_logs
    from thence.tables.files.read import open_trace

    names = None if protocols is None else [lookup(name.strip()).name for name in protocols.split(",") if name.strip()]
    if plot is not None and plot.suffix and plot.suffix not in SUFFIXES:
        raise MisuseError(f"{plot} ends in neither .png nor .svg; leave the ending out to get both")
    if plot is not None:
        require_packages("matplotlib")
    opened = open_trace(trace, format, columns=columns, kinds=kinds)
    choice = choose_engine(engine, opened.files)
    refuse_logs(opened)
    report = (_local if choice.engine is Engine.LOCAL else _on_spark)(opened, names, sample, cores)
    if not report.runs:
        unused = "".join(f"; set aside: {place_of_row(each)}: {each['reason']}" for each in report.quarantine[:1])
        raise TraceError(f"nothing could be replayed: the trace has no run with a send{unused}")
    _show(report, console(json_file))
    for line in skipped_files(opened.skipped):
        console(json_file).print(line)
    detail(f"replayed {choice}")
    write_json(json_file, report.json() | {"engine": choice.engine})
    if plot is not None:
        from thence.show.plots import cost_plot, save

        found = report.recommendation
        able = [name for name, _ in found.ranking]
        save(cost_plot(report.protocols, recommended=found.protocol, able=able), plot)
    if not report.causal:
        finish(1)


def _local(trace: Trace, protocols: Sequence[str] | None, sample: int, cores: int) -> CostReport:
    from thence.tables.contract.columns import REPLAYED_COLUMNS
    from thence.tables.engines.local.cost import cost

    with working("Replaying"):
        report = cost(trace.events(REPLAYED_COLUMNS), protocols, sample=sample)
    report.quarantine = [{"file": each.file, "line": each.line, "reason": each.reason} for each in trace.quarantine]
    return report


def _on_spark(trace: Trace, protocols: Sequence[str] | None, sample: int, cores: int) -> CostReport:
    from thence.tables.contract.columns import REPLAYED_COLUMNS
    from thence.tables.engines.spark.cost import cost
    from thence.tables.engines.spark.read_events import read_events

    spark = start_spark(cores)
    events = read_events(
        spark, trace.files, trace.called(REPLAYED_COLUMNS), whole=trace.whole
    ).persist()  # otherwise each pass would read the files again
    with working("Replaying"), cost(events.where("reason IS NULL"), protocols, sample=sample) as result:
        report = result.report()
    unread = events.where("reason IS NOT NULL").select("file", "line", "reason").limit(1000)
    refused = [{"file": each.file, "line": each.line, "reason": each.reason} for each in trace.quarantine]
    report.quarantine = refused + [row.asDict() for row in unread.collect()]
    events.unpersist()
    return report


_COLUMNS = (
    ("bytes/copy", "bytes_per_copy"), ("bytes/message", "all_bytes_per_message"),
    ("once warm", "warm_bytes_per_message"), ("log size", "log_size"), ("waiting", "held_share"),
)  # fmt: skip
"""what fits one table on 80 columns"""
_FURTHER = (
    ("entries/copy", "entries_per_copy"), ("facts/copy", "facts_per_copy"),
    ("paper bytes/message", "paper_bytes_per_message"), ("log max", "log_max"), ("seconds/copy", "hold_per_copy"),
    ("deferred", "deferred"), ("hops", "hops"), ("stuck", "stuck"),
)  # fmt: skip
"""what --verbose adds"""


def _show(report: CostReport, out: Console) -> None:
    runs = report.runs
    causal = [run for run in runs if run["verdict"] == "causal"]
    basis = " and ".join(sorted({run["basis"] for run in causal}))
    counted = f"{sum(r['messages'] for r in causal)} messages, {sum(r['deliveries'] for r in causal)} deliveries"
    what = "run and label" if len(causal) == 1 else "runs and labels"
    out.print(f"{len(causal)} causal {what}, {counted}" + (f"; copies arrive as recorded ({basis})" if basis else ""))
    for run in [run for run in runs if run["sampled"]][:SHOWN]:
        part = f"the first {run['deliveries']} of {run['recorded']} deliveries"
        out.print(f"{_named(run)}: only {part}, a causally closed prefix")
    measured = [row for row in report.protocols if row["status"] == "measured"]
    for columns in (_COLUMNS, _FURTHER) if verbose() else (_COLUMNS,):
        rows = [[row["protocol"], *(_number(row[name]) for _, name in columns)] for row in measured]
        if rows:
            out.print(table("protocol", *(title for title, _ in columns), rows=rows))
    held = sum(run["held"] for run in causal)
    if held:
        seconds = [run["held_seconds"] for run in causal]
        known = f", {sum(seconds):.3g} seconds in all" if None not in seconds else ""
        out.print(f"in the recording itself {held} copies waited{known}")
    out.print(f"recommended: {report.recommendation.advice}")
    for name, why in report.recommendation.passed_over:
        out.print(f"  not {name}: {why}")
    apart = [run for run in runs if run["verdict"] != "causal"]
    for run in apart[:SHOWN]:
        out.print(f"not counted: {_named(run)} is {run['verdict']}: {run['reason']}")
    for line in lines_by_reason(by_reason(report.quarantine), SHOWN):
        out.print(line)
    if len(apart) > SHOWN:
        out.print("... --json names them all")


def _named(run: Row) -> str:
    return f"run {run['run']}" + (f", label {run['label']}" if run["label"] is not None else "")


def _number(value: float | None) -> float | int | None:
    return value if value is None or isinstance(value, int) else float(f"{value:.4g}")
