"""`thence explain`: one violation as a sentence and a text diagram."""

from __future__ import annotations

from typing import Annotated

import typer

from thence.cli._common import (
    CORES,
    SHOWN,
    ColumnsOption,
    EngineOption,
    JsonFile,
    KindsOption,
    console,
    finish,
    write_json,
)
from thence.cli.audit import CoresOption, FormatOption, TraceArgument, audited
from thence.errors import MisuseError

EXAMPLE = "thence explain trace.jsonl --violation 2"


def command(
    trace: TraceArgument,
    violation: Annotated[
        int,
        typer.Option(metavar="K", help="Number of the violation in the audit, from 1.", min=1),
    ] = 1,
    fact: Annotated[
        tuple[str, str, str, str] | None,
        typer.Option(
            metavar="M D COPY TO",
            help="Instead: explain why the copy of message COPY to process TO must, or need not, carry the fact that "
            "D is a destination of message M.",
        ),
    ] = None,
    run: Annotated[str | None, typer.Option(help="With --fact: the run, if there are several.")] = None,
    format: FormatOption = "auto",
    columns: ColumnsOption = None,
    kinds: KindsOption = None,
    engine: EngineOption = "auto",
    cores: CoresOption = CORES,
    json_file: JsonFile = None,
) -> None:
    """Explain why a delivery came too early: the causal path as a sentence, and drawn, its decisive end always shown.

    With --fact, explain instead why a copy must, or need not, carry a fact (KS98's fixed points, in this run), and
    whether its stamp has it, if the trace records stamps (`thence simulate --stamps`).

    Spans that start before their parents, where no difference of clocks explains it, are named one by one.

    Exit code 1 if there is such a violation, 0 if the execution has none, 2 if there are fewer than asked for.
    """
    from thence.tables.files.read import open_trace

    opened = open_trace(trace, format, columns=columns, kinds=kinds)
    if set(opened.files.values()) == {"shiviz"}:
        raise MisuseError("a log with clocks has no deliveries to explain; `thence audit` judges its clocks")
    if run is not None and fact is None:
        raise MisuseError(
            "--run goes with --fact M D COPY TO; violations are counted over all runs, with --violation K"
        )
    if fact is not None:
        from thence.cli.explain_fact import why_on_copy

        why_on_copy(opened, fact, run, json_file)
        return
    from thence.tables.judge.explain import explanation
    from thence.tables.judge.result import path_rows

    with audited(opened, engine, cores) as (result, _):
        out = console(json_file)
        early = result.records.early if result.records else []
        if early and not any(run["violations"] for run in result.run_rows):
            for each in early[:SHOWN]:
                out.print(f"run {each.run}: {each.sentence}")
            if len(early) > SHOWN:
                out.print(f"... and {len(early) - SHOWN:,} more; --json has them all")
            write_json(json_file, {"spans": [each._asdict() for each in early]})
            finish(1)
        if not any(run["violations"] for run in result.run_rows):
            why = "; `thence audit` says why it is unknown" if result.verdict == "unknown" else ""
            out.print(f"verdict: {result.verdict}; there is no violation to explain{why}")
            write_json(json_file, None)
            finish(0)
        out.print(explanation(result, violation, width=out.width))
        found = result.nth_violation(violation)
        assert found is not None
        row, path = found
        write_json(json_file, {**row, "path": path_rows(path)})
        finish(1)
