"""`thence explain`: one violation as a sentence and a text diagram."""

from __future__ import annotations

from typing import Annotated

import typer

from thence.cli._common import Engine, JsonFile, console, finish, write_json
from thence.cli.audit import CoresOption, TraceArgument, audited

EXAMPLE = "thence explain trace.jsonl --violation 2"


def explain(
    trace: TraceArgument,
    violation: Annotated[
        int,
        typer.Option(metavar="K", help="Which one, from 1, by run, destination, missing message.", min=1),
    ] = 1,
    engine: Engine = "auto",
    cores: CoresOption = 2,
    json_file: JsonFile = None,
) -> None:
    """Say why a delivery came too early: the causal path as a sentence, and drawn, its decisive end always shown.

    Exit code 1 if there is such a violation, 0 if the execution has none, 2 if there are fewer than asked for.
    """
    from thence.auditing.explanation import explanation
    from thence.auditing.result import path_rows
    from thence.trace.read import open_trace

    with audited(open_trace(trace), engine, cores) as (result, _):
        out = console(json_file)
        if not any(run["violations"] for run in result.runs):
            out.print(f"verdict: {result.verdict}; there is no violation to explain")
            write_json(json_file, None)
            finish(0)
        out.print(explanation(result, violation))
        found = result.nth_violation(violation)
        assert found is not None
        row, path = found
        write_json(json_file, {**row, "path": path_rows(path)})
        finish(1)
