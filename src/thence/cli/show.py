"""`thence show`: draws a run as a page: lanes, messages, waiting times, violations and their proofs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thence.cli._common import (
    CORES,
    ColumnsOption,
    EngineOption,
    JsonFile,
    KindsOption,
    console,
    detail,
    skipped_files,
    write_json,
)
from thence.cli._targets import check_target
from thence.cli.audit import CoresOption, FormatOption, TraceArgument, audited
from thence.errors import MisuseError, TraceError

if TYPE_CHECKING:
    from thence.tables.explain.excerpt import Excerpt
    from thence.tables.files.read import Trace

EXAMPLE = "thence show run.jsonl --violation 1 --out why.html"


def command(
    trace: TraceArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The page; default: named after the trace, in this folder."),
    ] = None,
    violation: Annotated[
        int | None,
        typer.Option(metavar="K", min=1, help="Only the surroundings of this violation, numbered as in the audit."),
    ] = None,
    message: Annotated[str | None, typer.Option(metavar="M", help="Only the surroundings of this message.")] = None,
    time: Annotated[str | None, typer.Option(metavar="FROM:TO", help="Only these recorded seconds.")] = None,
    order: Annotated[str | None, typer.Option(metavar="FROM:TO", help="Only this range of `order`.")] = None,
    processes: Annotated[str | None, typer.Option(metavar="a,b", help="Only these processes.")] = None,
    run: Annotated[str | None, typer.Option(metavar="NAME", help="Only this run.")] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    format: FormatOption = "auto",
    columns: ColumnsOption = None,
    kinds: KindsOption = None,
    engine: EngineOption = "auto",
    cores: CoresOption = CORES,
    json_file: JsonFile = None,
) -> None:
    """Write a run as one HTML page: lanes, messages, violations and their proofs. It needs no server and no network.

    A trace of more than 100,000 events becomes several pages with an index.
    """
    from thence.cli._pages import recorded, write_pages
    from thence.show.page import Wanted, recorded_log
    from thence.tables.files.read import open_trace

    excerpt = _excerpt(run, time, order, processes)
    if sum((violation is not None, message is not None, bool(excerpt) and run is None)) > 1:
        raise MisuseError("--violation, --message and other conditions were given together; one of them is accepted")
    opened = open_trace(trace, format, columns=columns, kinds=kinds)
    target = out or Path(_name(trace, opened)).with_suffix(".html")
    check_target("--out", target, folder=False)
    asked = Wanted(excerpt, violation, message)
    with audited(opened, engine, cores) as (result, choice):
        detail(f"judged {choice}")
        made = recorded_log(opened, target.stem) or recorded(opened, result, choice, asked, target.stem, cores=cores)
        unused = list(dict.fromkeys(map(str, opened.quarantine)))
        if unused and not made.events:
            raise TraceError(f"the trace has no event to draw; {unused[0]}")
        written = write_pages(made, asked, target, console(json_file))
        aside = [f"note: set aside: {unused[0]}; `thence audit` names all {len(unused):,}"] if unused else []
        for line in (*aside, *skipped_files(opened.skipped)):
            console(json_file).print(line)
        pages = [{"file": str(path), "bytes": size} for path, size in written]
        write_json(json_file, {"events": result.events, "engine": result.engine, "pages": pages})
    if open_page:
        import webbrowser

        webbrowser.open(written[0][0].resolve().as_uri())


def _name(given: list[str], opened: Trace) -> str:
    """Return the title of the page: the name of the only file, else the first name given."""
    name = next(iter(opened.files)).name if len(opened.files) == 1 else Path(given[0]).name
    return name.removesuffix(".gz").replace("*", "all") or "run"


def _excerpt(run: str | None, time: str | None, order: str | None, processes: str | None) -> Excerpt:
    from thence.tables.explain.excerpt import Excerpt, range_of

    orders = None if order is None else range_of(order, "--order")
    return Excerpt(
        run,
        times=None if time is None else range_of(time, "--time"),
        orders=None if orders is None else (_whole(orders[0]), _whole(orders[1])),
        processes=None if processes is None else frozenset(name for name in processes.split(",") if name),
    )


def _whole(number: float) -> int:
    return int(max(-(2.0**63), min(number, 2.0**62)))
