"""`thence conform`: checks with TLC whether a recorded execution is a behaviour of its protocol's specification."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thence.cli._common import ColumnsOption, JsonFile, console, finish, write_json
from thence.errors import MisuseError, TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from thence.core.model.events import Event

EXAMPLE = "thence conform trace.jsonl"


def command(
    trace: Annotated[
        list[str],
        typer.Argument(metavar="TRACE...", help="Files, folders or globs; or one execution written by explore --save."),
    ],
    protocol: Annotated[str, typer.Option(metavar="ks|ks-ft", help="Protocol of the trace.")] = "ks",
    groups: Annotated[str, typer.Option(help="Groups of ks-ft, as in 'ab|c'; default: each process is one.")] = "",
    time_limit: Annotated[float, typer.Option(help="Give up after this many seconds for each run.")] = 600.0,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the input and output of TLC in a new folder.")
    ] = None,
    columns: ColumnsOption = None,
    json_file: JsonFile = None,
) -> None:
    """Check that each row of a trace is a step of its protocol's specification in TLA+, with the stamp it recorded.

    Needs Java 17; TLC is fetched once. Stamps are compared entry by entry where the trace has them in the clear
    (`simulate --stamps`), else by their recorded sizes. Exit code 1 if a row cannot happen: the first one is named.
    """
    from thence.lab.formal.conform import conform

    if not time_limit > 0:
        raise MisuseError(f"a time limit of {time_limit:g} seconds; more than 0 is accepted")
    out = console(json_file)
    events = _events(trace, columns)
    found = conform(events, protocol=protocol, groups=groups, patience=time_limit, folder=keep)
    for each in found:
        label = "" if each.label is None else f", label {each.label}"
        verdict = "conforms" if each.conforms else "does not conform"
        out.print(f"{each.run}{label}: {verdict}: {each.sentence}")
    conforms = all(each.conforms for each in found)
    verdict = "conforms" if conforms else "refused"
    write_json(json_file, {"verdict": verdict, "runs": [each.row() for each in found]})
    finish(0 if conforms else 1)


def _events(paths: list[str], columns: dict[str, str] | None) -> Iterable[Event]:
    """Return the rows of traces, or of a saved execution of the explorer."""
    from thence.lab.formal.conform import is_execution, replayed_events
    from thence.tables.files.read import open_trace

    if len(paths) == 1 and is_execution(Path(paths[0])):
        return replayed_events(Path(paths[0]))
    opened = open_trace(paths, columns=columns)
    events = list(opened.events())
    if opened.quarantine:
        raise TraceError(f"{opened.quarantine[0]}; a whole trace is needed")
    return events
