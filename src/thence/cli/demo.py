"""`thence demo`: the main job end to end on an embedded default.

A demo is a list of steps over one `Demo`; each step prints what it found and adds to the result and to the page. A new
part is one function more in `DEMO_STEPS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thence.cli._common import CORES, JsonFile, SparkCores, console, finish, progress, write_json
from thence.cli._console import Console
from thence.cli._packages import require_packages
from thence.core.model.plain import Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from thence.core.model.order import Judgement
    from thence.lab.simulator import Result
    from thence.show.results_page import Section

EXAMPLE = "thence demo --out demo"
LIAR = "unordered"


@dataclass(slots=True)
class Demo:
    """What the steps share: where files go, what was run, what came of it, and whether all is as it should be."""

    out: Path
    console: Console
    seed: int
    cores: int = 2
    runs: dict[str, tuple[Result, Judgement]] = field(default_factory=dict)
    traces: dict[str, Path] = field(default_factory=dict)
    arrivals: dict[str, Path] = field(default_factory=dict)
    result: Row = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    spark: SparkSession | None = None

    def session(self) -> SparkSession:
        """Return the embedded Spark session, started when it is first asked for."""
        from thence.cli._common import start_spark

        if self.spark is None:
            self.spark = start_spark(self.cores, quick=True)
        return self.spark


def command(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where traces, arrivals and the page go.")] = Path(
        "demo"
    ),
    seed: Annotated[int, typer.Option(help="Of every run.")] = 1,
    cores: SparkCores = CORES,
    json_file: JsonFile = None,
) -> None:
    """Run the main job end to end: simulate, record, audit and deliver on Spark, cost, an HTML page.

    Exit code 1 means that a protocol broke its promise, that the liar was not caught, or that Spark and the
    definition disagree.
    """
    require_packages("pyspark", "pyarrow")
    out.mkdir(parents=True, exist_ok=True)
    made = Demo(out, console(json_file), seed, cores)
    try:
        for step in DEMO_STEPS:
            step(made)
    finally:
        if made.spark is not None:
            made.spark.stop()
    made.result["failures"] = made.failures
    write_json(json_file, made.result)
    if made.failures:
        for failure in made.failures:
            made.console.print(f"FAILED: {failure}")
        finish(1)


def simulate_and_judge(made: Demo) -> None:
    """Run every protocol on the same workload, record it, and judge the record by definition."""
    from thence.cli.protocols import scenario_for
    from thence.cli.simulate import print_table
    from thence.core.model.order import judge
    from thence.core.protocols.registry import REGISTRY
    from thence.lab.simulator import simulate
    from thence.show.results_page import Section
    from thence.show.simulation import comparison_table

    for name in progress(REGISTRY, "Simulating"):
        scenario = scenario_for(name, made.seed)
        if scenario is None:
            continue
        result = simulate(scenario, trace=True, arrivals=True)
        assert result.recorder is not None
        assert result.arrivals is not None
        made.traces[name], made.arrivals[name] = made.out / f"{name}.jsonl", made.out / f"{name}.arrivals.jsonl"
        result.recorder.write(made.traces[name])
        result.arrivals.write(made.arrivals[name])
        made.runs[name] = (result, judge(result.events))
        kept = result.judge()
        if kept.violations or kept.undelivered or kept.duplicates or kept.misdelivered or result.outcome.stuck:
            made.failures.append(f"{name} broke its promise ({scenario.entry.guarantee}) with seed {made.seed}")
    compared = comparison_table(list(made.runs.values()))
    print_table(compared, made.console)
    made.sections.append(Section("Every protocol on the same traffic", [compared]))
    made.console.print(f"Every process may send to any others; copies overtake each other. Traces are in {made.out}.\n")
    made.result["runs"] = {
        name: result.row() | {"verdict": judgement.verdict, "violations": len(judgement.violations)}
        for name, (result, judgement) in made.runs.items()
    }


def catch_the_liar(made: Demo) -> None:
    """Show that delivery on arrival is found out, and why it is wrong."""
    from thence.show.results_page import Paragraph, Section
    from thence.tables.explain.diagram import diagram
    from thence.tables.explain.scene import scene_of, violated
    from thence.tables.explain.sentence import path

    result, judgement = made.runs[LIAR]
    if not judgement.violations:
        made.failures.append(f"the liar {LIAR} was not caught with seed {made.seed}")
        return
    proofs = [(path(result.events, violation) or [], violation) for violation in judgement.violations]
    # the shortest chain that leads through another process; FIFO channels would not have helped
    proof, violation = min(proofs, key=lambda found: (len({step.process for step in found[0]}) < 2, len(found[0])))
    finding = violated(violation, proof)
    sentence = finding.sentence
    made.console.print(
        f"{LIAR} delivers on arrival: {len(judgement.violations)} deliveries came too late. One of them:"
    )
    made.console.print(f"  {sentence}.\n")
    drawn = diagram(scene_of(result.events).showing(finding))
    made.console.print(drawn)
    made.sections.append(Section("The liar", [Paragraph(f"{sentence}."), Paragraph(drawn, plain=True)]))
    made.result["liar"] = {"sentence": sentence, "path": [step.row() for step in proof]}


def audit_on_spark(made: Demo) -> None:
    """Audit every recorded trace on Spark in one go; the verdicts must be those of the definition."""
    from thence.cli._common import working
    from thence.cli.simulate import print_table
    from thence.show.results_page import Section
    from thence.tables.engines.spark.audit import audit
    from thence.tables.files.parquet import write_parquet
    from thence.tables.files.read import open_trace
    from thence.tables.result_table import Cell, ResultTable

    events = list(open_trace(list(made.traces.values())).events())
    recorded = made.out / "all.parquet"
    write_parquet([replace(event, order=place) for place, event in enumerate(events)], recorded)
    with working("Auditing on Spark"), audit(made.session().read.parquet(str(recorded))) as result:
        verdicts = {row["run"]: row.asDict() for row in result.runs.collect()}
    shown: list[tuple[Cell, ...]] = []
    for name, (_, judgement) in made.runs.items():
        found = verdicts.get(name, {})
        shown.append((name, found.get("verdict"), found.get("violations")))
        if found.get("verdict") != judgement.verdict or found.get("violations") != len(judgement.violations):
            made.failures.append(f"the audit on Spark says {found} of {name}, the definition {judgement.verdict}")
    title = f"The audit on Spark of {len(events)} events, the same verdicts as the definition"
    audited = ResultTable(title, ("run", "verdict", "violations"), tuple(shown))
    print_table(audited, made.console)
    made.sections.append(Section("Audit on Spark", [audited]))
    made.result["audit"] = {name: row["verdict"] for name, row in verdicts.items()}


def deliver_on_spark(made: Demo) -> None:
    """Deliver the recorded arrivals of ks on Spark: each destination gets what its process got, in that order."""
    from thence.cli._common import working
    from thence.show.results_page import Paragraph, Section
    from thence.tables.delivery.columns import Columns
    from thence.tables.engines.spark.deliver import deliver, with_rosters
    from thence.tables.engines.spark.read_arrivals import read_arrivals

    arrivals, rosters, _ = read_arrivals(
        made.session(), str(made.arrivals["ks"]), "stamp", Columns("stamp", None, None)
    )
    with working("Delivering on Spark"):
        ordered = deliver(with_rosters(arrivals, rosters), by="stamp")
        rows = ordered.select("destination", "position", "message", "outcome", "held_for").collect()
    order: dict[str, list[str]] = {}
    for row in sorted((row for row in rows if row["position"] is not None), key=lambda row: int(row["position"])):
        order.setdefault(row["destination"], []).append(row["message"])
    recorded: dict[str, list[str]] = {}
    for event in made.runs["ks"][0].events:
        if event.kind == "deliver":
            recorded.setdefault(event.process, []).append(event.message or "")
    held = sum(row["held_for"] is not None and row["held_for"] > 0 for row in rows)
    if order != recorded:
        made.failures.append("delivery on Spark gave another order than the run")
    sentence = (
        f"Delivery on Spark of {len(rows)} arrivals at {len(order)} destinations: {held} were held for a cause, "
        f"and every destination got the order of the run."
    )
    made.console.print(sentence)
    made.sections.append(Section("Delivery on Spark", [Paragraph(sentence)]))
    made.result["deliver"] = {"rows": len(rows), "held": held}


def cost_of_the_traffic(made: Demo) -> None:
    """Replay the traffic of ks through every protocol that could be recommended, and recommend one."""
    from thence.cli.simulate import print_table
    from thence.show.results_page import Paragraph, Section
    from thence.show.simulation import costs_table
    from thence.tables.costing import profile, recommend, replay_run
    from thence.tables.costing.recommend import recommendable

    run = made.runs["ks"][0]
    events, roster = run.events, run.scenario.roster
    costs = {name: replay_run(events, name, roster) for name in recommendable()}
    choice = recommend(profile(events, roster).findings, costs)
    priced = costs_table(list(costs.values()), choice)
    made.console.print()
    print_table(priced, made.console)
    made.console.print(f"Recommended for this traffic: {choice.advice}.")
    made.sections.append(
        Section("What each protocol would cost", [priced, Paragraph(f"Recommended: {choice.advice}.")])
    )
    made.result["cost"] = {"recommended": choice.row(), "protocols": {name: cost.row() for name, cost in costs.items()}}


def write_page(made: Demo) -> None:
    """Write what was shown as one HTML page."""
    from thence.show.results_page import Links, Section, results_page
    from thence.show.spacetime.simulated import side_by_side_page

    pictured = made.out / "space-time.html"
    pictured.write_text(side_by_side_page(("ks", LIAR), seed=made.seed), encoding="utf-8")
    made.sections.append(Section("See it", [Links([(f"ks beside {LIAR}, event by event", pictured.name)])]))
    target = made.out / "index.html"
    lead = f"Six processes, 150 messages, seed {made.seed}: thence demo, as one page."
    target.write_text(results_page("thence demo", made.sections, lead=lead), encoding="utf-8")
    made.console.print(f"The page is {target}.")


DEMO_STEPS: tuple[Callable[[Demo], None], ...] = (
    simulate_and_judge,
    catch_the_liar,
    audit_on_spark,
    deliver_on_spark,
    cost_of_the_traffic,
    write_page,
)
