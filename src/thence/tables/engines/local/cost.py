"""Costs of each protocol on recorded traffic, in this process; JSON lines and events need no Arrow.

    from thence import cost
    report = cost("run.jsonl")                      # or paths, a table, events
    report.recommendation.protocol, report.protocols

Invariant: the report is the one that Spark gives for the same rows (`thence.spark.cost`): both prepare and replay each
run and label by the same functions, and put the same rows together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from thence.core.model.events import Event
from thence.core.model.message_names import HOPS
from thence.core.model.order import by_run
from thence.core.model.plain import Fields, Row
from thence.core.protocols.registry import Need
from thence.errors import MisuseError
from thence.tables.contract.columns import REPLAYED_COLUMNS, renamed
from thence.tables.costing.prepare import ProcessTotals, head_of, prepare, replayed
from thence.tables.costing.recommend import asked_for, together, total_cost
from thence.tables.costing.replay import Cost, prefix
from thence.tables.costing.report import CostReport, means, report_of
from thence.tables.costing.traffic import NeedFinding
from thence.tables.files.event_input import input_events
from thence.tables.files.inputs import FileNames, InputTable, TraceInput, trace_input
from thence.tables.files.read import Trace, open_trace
from thence.tables.files.source import Quarantined

SAMPLED = 200_000
"""Deliveries of a run and label that are replayed, unless said otherwise."""
RunLabel = tuple[str, str | None]
"""a run and a label"""


def cost(
    events: TraceInput,
    protocols: Sequence[str] | None = None,
    *,
    sample: int = SAMPLED,
    options: Mapping[str, Fields] | None = None,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> CostReport:
    """Replay a trace through protocols and report what each would have cost, with a recommendation.

    Args:
        events: what `thence.audit` takes: files, a table of any kind, or events.
        protocols: the names of those to compare; by default those that can be recommended or are quick to rule out.
        sample: replay at most this many deliveries of a run and label.
        options: the options of each protocol, by its name, as in `{"bounded": {"bound": 3}}`.
        columns: the trace's own names for the columns of the contract, as in `{"process": "pid"}`.
        kinds: the trace's own values of `kind`, as in `{"PRODUCED": "send"}`.
    """
    names = asked_for(protocols, options or {}, sample)
    rows_read, quarantine = _events(events, columns, kinds)
    runs: list[Row] = []
    costs: list[Row] = []
    measured: dict[str, list[Cost]] = {name: [] for name in names}
    findings: list[Mapping[Need, NeedFinding]] = []
    for (run, label), rows, totals in _by_label(rows_read):
        head = head_of(totals, label)
        found, kept = prepare(_sampled(rows, sample), head, sample)
        whose: Row = {"run": run, "label": label}
        runs.append(whose | found.row() | {"recorded": head.deliveries})
        replays = {name: replayed(kept, name, head.roster, (options or {}).get(name, {})) for name in names}
        costs.extend(whose | {"verdict": found.verdict} | each.row() for each in replays.values())
        if found.verdict == "causal":
            findings.append(found.findings)
            for name, each in replays.items():
                measured[name].append(each)
    summary = [total_cost(each).row() for each in measured.values() if each]
    needs: list[Row] = [
        {"need": need, "met": finding.met, "why": finding.why} for need, finding in together(findings).items()
    ]
    report = report_of(runs, costs, [row | means(row) for row in summary], needs)
    report.quarantine = [{"file": each.file, "line": each.line, "reason": each.reason} for each in quarantine]
    return report


def _events(
    trace: TraceInput, columns: Mapping[str, str] | None, kinds: Mapping[str, str] | None
) -> tuple[list[Event], list[Quarantined]]:
    """Return the events of a trace, and what could not be read."""
    given = trace_input(trace, columns, kinds)
    if isinstance(given, InputTable):
        return input_events(given, renamed(REPLAYED_COLUMNS, columns, kinds))
    if isinstance(given, FileNames):
        opened = open_trace(given.names, columns=columns, kinds=kinds)
        refuse_logs(opened)
        return list(opened.events(REPLAYED_COLUMNS)), opened.quarantine
    return given, []


def refuse_logs(trace: Trace) -> None:
    """Refuse logs with clocks: they have no messages, so nothing can be replayed."""
    log = next((str(path) for path, kind in trace.files.items() if kind == "shiviz"), None)
    if log is not None:
        raise MisuseError(f"{log} is a log with clocks: it has no messages, so there is nothing to replay")


def _by_label(events: Iterable[Event]) -> Iterator[tuple[RunLabel, list[Event], list[ProcessTotals]]]:
    """Yield each run and label, in order, with its rows and what the whole run adds to its head."""
    for run, rows in sorted(by_run(event for event in events if not event.run.endswith(HOPS)).items()):
        labels = {event.label: None for event in rows if event.kind != "crash"}
        totals = _process_totals(rows)
        for label in sorted(labels, key=lambda name: name or ""):
            yield (run, label), [e for e in rows if e.kind != "crash" and e.label == label], totals


def _process_totals(rows: Sequence[Event]) -> list[ProcessTotals]:
    found: dict[tuple[str | None, str], ProcessTotals] = {}
    gaps = _first_gaps(rows)
    for event in rows:
        one = found.setdefault((event.label, event.process), ProcessTotals(label=event.label, name=event.process))
        one["rows"] = one.get("rows", 0) + 1
        one["gap"] = gaps.get(event.process)
        one["crashes"] = one.get("crashes", 0) + (event.kind == "crash")
        one["deliveries"] = one.get("deliveries", 0) + (event.kind == "deliver")
    addressed = {name for event in rows for name in event.destinations or ()}
    return [*found.values(), *(ProcessTotals(label=None, name=name) for name in sorted(addressed))]


def _first_gaps(rows: Iterable[Event]) -> dict[str, int]:
    """Return, for each process that leaves out an index, the first."""
    gaps: dict[str, int] = {}
    last: dict[str, int] = {}
    for process, index in sorted((event.process, event.index) for event in rows):
        before = last.get(process, 0)
        if index > before + 1:
            gaps.setdefault(process, before + 1)
        last[process] = index
    return gaps


def _sampled(rows: Sequence[Event], sample: int) -> list[Event]:
    """Leave out what follows the sample, by `order`; rows that say none are cut later, causes first."""
    ordered = sorted((event for event in rows if event.order is not None), key=lambda event: event.order or 0)
    return [*prefix(ordered, sample)[0], *(event for event in rows if event.order is None)]
