"""Simulated runs as tables: one run in full, several protocols side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from thence.core.model.order import Judgement
from thence.core.protocols.registry import ProtocolEntry
from thence.lab.simulator.metrics import Measures
from thence.lab.simulator.outcome import RunOutcome
from thence.lab.simulator.run import Result
from thence.tables.result_table import Cell, ResultTable

WORDS: tuple[tuple[str, str, str], ...] = (
    ("entries_per_copy", "entries", "elements of a copy's stamp, as its paper counts them"),
    ("facts_per_copy", "facts", "pairs (message, destination) on a copy"),
    ("bytes_per_copy", "bytes", "of a copy's stamp on the wire"),
    ("paper_bytes_per_copy", "bytes", "of a copy's stamp as the papers count: 4 a timestamp, 2 a process id"),
    ("bytes_per_message", "bytes", "of all copies of a message"),
    ("paper_bytes_per_message", "bytes", "of all copies of a message as the papers count"),
    ("copies_per_message", "copies", "of a message"),
    ("log_size", "entries", "in the sender's dependency log, right after a send"),
    ("held_per_copy", "share", "of the copies that had to wait"),
    ("hold_per_copy", "seconds", "from arrival to delivery"),
    ("needless_per_copy", "seconds", "of that, after every cause had been delivered"),
    ("latency_per_copy", "seconds", "from the request to send to the delivery"),
    ("deferred", "seconds", "from the request to the send"),
)


def outcome_table(outcome: RunOutcome) -> ResultTable:
    """Return what happened in a run."""
    rows: list[tuple[Cell, ...]] = [
        ("messages sent", outcome.messages),
        ("deliveries", outcome.deliveries),
        ("copies that waited", outcome.holds),
    ]
    optional = (
        ("sends that waited", outcome.deferred),
        ("duplicates put aside", outcome.duplicates),
        ("copies lost", outcome.lost),
        ("crashed", ", ".join(outcome.crashed)),
    )
    rows += [(what, value) for what, value in optional if value]
    rows += [(f"hops: {kind}", count) for kind, count in sorted(outcome.hops.items())]
    rows.append(("simulated seconds", outcome.seconds))
    return ResultTable(outcome.run, ("what", "number"), tuple(rows))


def measures_table(measures: Measures) -> ResultTable:
    """Return the measures of a run with their intervals."""
    rows: list[tuple[Cell, ...]] = []
    for name, unit, meaning in WORDS:
        found = measures[name]
        if found is not None:
            rows.append((name, found.mean, found.half, unit, meaning))
    rows.append(("held_at_once", measures.held_at_once, None, "copies", "held at one time over all processes"))
    rows.append(("early", measures.early, None, "deliveries", "before a cause, warm-up included"))
    note = f"{measures.messages} messages measured, {measures.copies} copies; ± is half a 95 % interval"
    if measures.early:
        note += "; an audit counts violations, each missing message once at a destination, not early deliveries"
    return ResultTable("steady state", ("measure", "mean", "±", "unit", "meaning"), tuple(rows), note)


def cpu_table(rows: Sequence[dict[str, Cell]]) -> ResultTable:
    """Return processor time per operation."""
    columns = ("operation", "calls", "mean_us", "median_us", "p99_us")
    return ResultTable("processor time", columns, tuple(tuple(row[column] for column in columns) for row in rows))


def comparison_table(results: Sequence[tuple[Result, Judgement]]) -> ResultTable:
    """Return several runs side by side, each judged by causal order."""
    rows = []
    for result, judgement in results:
        measures = result.measures
        assert measures is not None
        scenario = result.scenario
        rows.append(
            (
                scenario.protocol,
                scenario.fanout or "uniform",
                measures.mean("entries_per_copy"),
                measures.mean("facts_per_copy"),
                measures.mean("bytes_per_copy"),
                f"{100 * (measures.mean('held_per_copy') or 0.0):.0f} %",
                1000 * (measures.mean("latency_per_copy") or 0.0),
                scenario.entry.guarantee,
                judgement.verdict if not judgement.undelivered else f"{judgement.verdict}, undelivered",
            )
        )
    columns = ("protocol", "traffic", "entries", "facts", "bytes", "held", "latency ms", "promises", "verdict")
    return ResultTable("protocols", columns, tuple(rows), "entries, facts and bytes are means per copy")


def protocols_tables(entries: Sequence[ProtocolEntry]) -> tuple[ResultTable, ResultTable]:
    """Return the registry as two tables: protocols for use, and protocols for comparison."""
    used = [
        (entry.name, entry.use, ", ".join(entry.needs), entry.guarantee, entry.cost) for entry in entries if entry.use
    ]
    columns = ("protocol", "use it when", "needs", "promises", "cost")
    return ResultTable("protocols to use", columns, tuple(used)), _compared(entry for entry in entries if not entry.use)


def _compared(entries: Iterable[ProtocolEntry]) -> ResultTable:
    rows = tuple(
        (
            entry.name,
            entry.summary,
            ", ".join(entry.needs),
            entry.guarantee,
            entry.cost,
        )
        for entry in entries
    )
    columns = ("protocol", "what it is", "needs", "promises", "cost")
    note = "--json has what each waits for, its options and its source"
    return ResultTable("protocols to compare with", columns, rows, note)
