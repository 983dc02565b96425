"""`thence cost`: what each protocol would cost on recorded traffic, and which one to take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thence.cli._common import JsonFile, console, finish, table, working, write_json
from thence.errors import MisuseError, TraceError

if TYPE_CHECKING:
    from rich.console import Console

    from thence.spark.costs import CostResult

EXAMPLE = "thence cost trace.jsonl --protocols ks,rst,ech --plot cost.svg"
SHOWN = 20


def cost(
    trace: Annotated[list[str], typer.Argument(metavar="TRACE...", help="Files, folders or globs.")],
    protocols: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Separated by commas; default: those that can be recommended.")
    ] = None,
    sample: Annotated[
        int, typer.Option(metavar="N", min=1, help="Replay at most so many deliveries of a run and label.")
    ] = 200_000,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it: .png, .svg, or both if the name has no ending.")
    ] = None,
    format: Annotated[str, typer.Option(help="auto, jsonl or parquet.")] = "auto",
    cores: Annotated[int, typer.Option(help="Cores of the embedded Spark session.", min=1)] = 2,
    json_file: JsonFile = None,
) -> None:
    """Replay your traffic through each protocol: entries, facts, bytes, log size, waiting; and a recommendation.

    Exit code 1: a run is not causal, or cannot be judged; such runs are reported apart.
    """
    from thence.protocols.registry import lookup
    from thence.report.plots import SUFFIXES
    from thence.trace.read import open_trace

    names = None if protocols is None else [lookup(name.strip()).name for name in protocols.split(",") if name.strip()]
    if plot is not None and plot.suffix and plot.suffix not in SUFFIXES:
        raise MisuseError(f"{plot} ends in neither .png nor .svg; leave the ending out to get both")
    opened = open_trace(trace, format)
    from thence.spark.cost_files import read_events
    from thence.spark.costs import cost as cost_of
    from thence.spark.session import local_session

    with working("Starting Spark"):
        spark = local_session(cores=cores)
    read = read_events(spark, opened)
    if "jsonl" in opened.files.values():
        read.events.persist()  # or lines would be parsed once for each pass
    with working("Replaying"), cost_of(read.events.where("reason IS NULL"), names, sample=sample) as result:
        report = _collect(result)
    unread = read.events.where("reason IS NOT NULL").select("file", "line", "reason").limit(1000)
    report["quarantine"] = [each.row() for each in read.refused] + [row.asDict() for row in unread.collect()]
    if not report["runs"]:
        raise TraceError("nothing could be replayed: the trace has no run with a send")
    _show(report, console(json_file))
    write_json(json_file, report)
    if plot is not None:
        from thence.report.plots import cost_plot, save

        able = [each["protocol"] for each in report["recommendation"]["ranking"]]
        save(cost_plot(report["protocols"], able=able), plot)
    if report["quarantine"] or any(run["verdict"] != "causal" for run in report["runs"]):
        finish(1)


def _collect(result: CostResult) -> dict[str, Any]:
    """Bring totals to the driver: a row for each run, label and protocol at most, and no events."""
    from thence.spark.costs import chosen

    costs, runs, summary, needs = (
        [row.asDict(recursive=True) for row in frame.collect()]
        for frame in (result.costs, result.profiles, result.summary, result.findings)
    )
    choice = chosen(summary, needs)
    order = {name: place for place, (name, _) in enumerate(choice.ranking)}
    return {
        "recommendation": choice.row(),
        "protocols": sorted(summary, key=lambda row: (order.get(row["protocol"], len(order)), row["protocol"])),
        "needs": {
            row["need"]: {"met": row["met"], "why": row["why"]} for row in sorted(needs, key=lambda r: r["need"])
        },
        "runs": sorted(runs, key=_place),
        "costs": sorted(costs, key=lambda row: (_place(row), row["protocol"])),
    }


def _place(row: dict[str, Any]) -> tuple[str, str]:
    return row["run"] or "", row["label"] or ""


_COLUMNS = (
    ("entries/copy", "entries_per_copy"), ("facts/copy", "facts_per_copy"), ("bytes/copy", "bytes_per_copy"),
    ("bytes/message", "all_bytes_per_message"), ("paper bytes/message", "paper_bytes_per_message"),
    ("log size", "log_size"), ("log max", "log_max"), ("waiting", "held_share"), ("seconds/copy", "hold_per_copy"),
    ("deferred", "deferred"), ("hops", "hops"), ("stuck", "stuck"),
)  # fmt: skip


def _show(report: dict[str, Any], out: Console) -> None:
    runs = report["runs"]
    causal = [run for run in runs if run["verdict"] == "causal"]
    basis = " and ".join(sorted({run["basis"] for run in causal}))
    counted = f"{sum(r['messages'] for r in causal)} messages, {sum(r['deliveries'] for r in causal)} deliveries"
    out.print(f"{len(causal)} causal runs and labels, {counted}; copies arrive as recorded ({basis or 'none'})")
    for run in [run for run in runs if run["sampled"]][:SHOWN]:
        part = f"the first {run['deliveries']} of {run['recorded']} deliveries"
        out.print(f"{_named(run)}: only {part}, a causally closed prefix")
    measured = [row for row in report["protocols"] if row["status"] == "measured"]
    rows = [[row["protocol"], *(_number(row[name]) for _, name in _COLUMNS)] for row in measured]
    if rows:
        out.print(table("protocol", *(title for title, _ in _COLUMNS), rows=rows))
    held = sum(run["held"] for run in causal)
    if held:
        seconds = [run["held_seconds"] for run in causal]
        known = f", {sum(seconds):.3g} seconds in all" if None not in seconds else ""
        out.print(f"in the recording itself {held} copies waited{known}")
    out.print(f"recommended: {report['recommendation']['reason']}")
    for name, why in report["recommendation"]["passed_over"].items():
        out.print(f"  not {name}: {why}")
    apart = [run for run in runs if run["verdict"] != "causal"]
    for run in apart[:SHOWN]:
        out.print(f"apart: {_named(run)} is {run['verdict']}: {run['reason']}")
    for each in report["quarantine"][:SHOWN]:
        where = each["file"] if each["line"] is None else f"{each['file']}:{each['line']}"
        out.print(f"set aside: {where}: {each['reason']}")
    if max(len(apart), len(report["quarantine"])) > SHOWN:
        out.print("... --json names them all")


def _named(run: dict[str, Any]) -> str:
    return f"run {run['run']}" + (f", label {run['label']}" if run["label"] is not None else "")


def _number(value: float | None) -> float | int | None:
    return value if value is None or isinstance(value, int) else float(f"{value:.4g}")
