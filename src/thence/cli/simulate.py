"""`thence simulate`: one run of one protocol, recorded and measured."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thence.cli._common import JsonFile, console, finish, options_of, progress, write_json
from thence.cli._console import Console, table
from thence.cli._packages import require_packages
from thence.errors import MisuseError

if TYPE_CHECKING:
    from thence.lab.simulator import Result
    from thence.tables.result_table import ResultTable

EXAMPLE = "thence simulate --protocol ks --processes 8 --messages 1000 --fanout uniform --seed 1 --trace trace.jsonl"
SHOWN_REASONS = 10


def command(
    protocol: Annotated[str, typer.Option(help="Protocol to run; see `thence protocols`.")] = "ks",
    processes: Annotated[
        int, typer.Option("--processes", "-n", help="Number of processes, which are named a, b, c, ...")
    ] = 8,
    messages: Annotated[int, typer.Option(help="Number of messages, over all processes.")] = 1000,
    fanout: Annotated[
        str | None,
        typer.Option(
            metavar="FANOUT",
            help="Destinations of a message: uniform (mean n/2), unicast, broadcast or a number.",
            show_default="uniform",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed; the same seed gives the same run, to the byte.")] = 1,
    fifo: Annotated[bool, typer.Option("--fifo", help="Copies of one link arrive in the order of sending.")] = False,
    to_self: Annotated[bool, typer.Option("--self", help="A process may send to itself, too.")] = False,
    delay: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            help="Delay of a copy: constant:T, uniform:LOW,HIGH, exponential:MEAN, pareto:MEAN,SHAPE, "
            "lognormal:MEDIAN,SIGMA, adversarial:MEAN; exceptions follow, as in exponential:0.05;a>b=constant:1",
        ),
    ] = "exponential:0.05",
    workload: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            help="Pattern of the requests: poisson, hotspot:HOT,SHARE, bursts:TALK,SILENCE, groups:4x3 or "
            "groups:abc/cd, request-reply:SERVERS,THINK, replicated:ITEMS,COPIES",
        ),
    ] = "poisson",
    rate: Annotated[float, typer.Option(help="Requests per second of each process.")] = 10.0,
    labels: Annotated[int, typer.Option(help="Number of independent causal orders.")] = 0,
    bound: Annotated[
        int | None, typer.Option(metavar="B", help="Number of sends in an epoch, for the protocol bounded.")
    ] = None,
    crashes: Annotated[int, typer.Option(help="Number of processes that stop at a random time.")] = 0,
    links: Annotated[int, typer.Option(help="Number of overlay links that are opened at random times.")] = 0,
    loss: Annotated[float, typer.Option(help="Share of copies lost; only for protocols that tolerate it.")] = 0.0,
    duplicates: Annotated[float, typer.Option(help="Share of copies that arrive twice.")] = 0.0,
    partition: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="Cut the network, as in 1.5-4:abc|de: no copies between abc and de from second 1.5 to 4; repeatable.",
        ),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the protocol; repeatable.")
    ] = None,
    run: Annotated[str, typer.Option(help="Name of the run in the trace.", show_default="from the scenario")] = "",
    warmup: Annotated[float, typer.Option(help="Share of the messages that is not measured.")] = 0.2,
    stamps: Annotated[bool, typer.Option("--stamps", help="Record the dependencies of each stamp.")] = False,
    cpu: Annotated[bool, typer.Option("--cpu", help="Also measure the CPU time of every operation.")] = False,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the events to .jsonl, .jsonl.gz or .parquet.")
    ] = None,
    arrivals: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the arrivals with their stamps to .jsonl or .parquet.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Simulate one run of a protocol under a workload and a network; record and measure it.

    Exit code 1 means a deadlock: a message waits forever although nothing was lost.
    """
    from thence.lab.simulator import Scenario
    from thence.lab.simulator import simulate as simulate_run
    from thence.lab.simulator.record import format_of

    if stamps and trace is None:
        raise MisuseError("--stamps puts dependencies into a trace; give --trace FILE, too")
    for path in (trace, arrivals):
        if path is not None and format_of(path) == "parquet":
            require_packages("pyarrow")
    if not 0.0 <= warmup < 1.0:
        raise MisuseError(f"warm-up {warmup} is not a share; from 0 up to, but not, 1 is accepted")
    scenario = Scenario(
        protocol, processes, messages, fanout, workload, rate, delay, fifo=fifo, to_self=to_self, labels=labels,
        bound=bound, crashes=crashes, links=links, loss=loss, duplicates=duplicates, partitions=tuple(partition or ()),
        options=tuple(options_of(option).items()), seed=seed, run=run,
    )  # fmt: skip
    result = simulate_run(
        scenario,
        trace=trace is not None,
        stamps=stamps,
        arrivals=arrivals is not None,
        cpu=cpu,
        warmup=warmup,
        through=lambda requests: progress(requests, f"Simulating {protocol}", messages),
    )
    written = _write(result, trace, arrivals)
    _tell(result, written, console(json_file))
    write_json(json_file, result.row() | {"written": written})
    if result.outcome.deadlock:
        finish(1)


def _write(result: Result, trace: Path | None, arrivals: Path | None) -> dict[str, int]:
    written = {}
    if trace is not None and result.recorder is not None:
        written[str(trace)] = result.recorder.write(trace)
    if arrivals is not None and result.arrivals is not None:
        written[str(arrivals)] = result.arrivals.write(arrivals)
    return written


def _tell(result: Result, written: dict[str, int], out: Console) -> None:
    from thence.lab.simulator import explain
    from thence.show.simulation import cpu_table, measures_table, outcome_table

    print_table(outcome_table(result.outcome), out)
    if result.measures is not None and result.measures.copies:
        print_table(measures_table(result.measures), out)
    if result.cpu is not None:
        print_table(cpu_table(result.cpu), out)
    stuck = result.outcome.stuck
    if stuck:
        out.print("Deadlock." if result.outcome.deadlock else "Some messages wait forever for lost ones.")
        alike = Counter(explain(process, pending) for process, pending in stuck)
        for text, count in list(alike.items())[:SHOWN_REASONS]:
            out.print(f"  {text}" + (f" (and {count - 1} more like it)" if count > 1 else ""))
        if len(alike) > SHOWN_REASONS:
            out.print(f"  ... and {sum(list(alike.values())[SHOWN_REASONS:])} more")
    for path, rows in written.items():
        out.print(f"{rows:,} rows written to {path}")
    recorder = result.recorder
    if recorder is not None and recorder.stamps and not any(event.dependencies is not None for event in recorder.rows):
        out.print(f"No dependencies are recorded: stamps of {result.scenario.protocol} name no messages.")


def print_table(made: ResultTable, out: Console) -> None:
    """Print a table and its note."""
    from thence.tables.result_table import text

    cells = [[text(cell) if isinstance(cell, float) else cell for cell in row] for row in made.rows]
    out.print(table(*made.columns, rows=cells, title=made.title))
    if made.note:
        out.print(made.note)
        out.print()
