"""`whence demo`: the main job end to end on an embedded default.

A demo is a list of steps over one `Demo`; each step prints what it found and adds to the result. A new part (audit on
Spark, delivery on Spark, cost, the HTML report) is one function more in `STEPS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.cli._common import JsonFile, console, finish, progress, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from whence.model.order import Judgement
    from whence.sim import Result, Scenario

EXAMPLE = "whence demo --out demo"
LIAR = "unordered"


@dataclass(slots=True)
class Demo:
    """What the steps share: where files go, what was run, what came of it, and whether all is as it should be."""

    out: Path
    console: Console
    seed: int
    runs: dict[str, tuple[Result, Judgement]] = field(default_factory=dict)
    traces: dict[str, Path] = field(default_factory=dict)
    arrivals: dict[str, Path] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where traces and arrivals go.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Of every run.")] = 1,
    json_file: JsonFile = None,
) -> None:
    """Simulate every protocol on a network that reorders, record the runs, judge them, and catch a liar.

    Exit code 1 means that a protocol broke its promise, or that the liar was not caught.
    """
    out.mkdir(parents=True, exist_ok=True)
    made = Demo(out, console(json_file), seed)
    for step in STEPS:
        step(made)
    made.result["failures"] = made.failures
    write_json(json_file, made.result)
    if made.failures:
        for failure in made.failures:
            made.console.print(f"FAILED: {failure}")
        finish(1)


def scenario_for(protocol: str, seed: int) -> Scenario | None:
    """Return a small run that meets the needs of a protocol; None if no simulated scenario does."""
    from whence.errors import MisuseError
    from whence.protocols.registry import lookup
    from whence.sim import Scenario

    needs = lookup(protocol).needs
    fanout = "broadcast" if "broadcast only" in needs else "unicast" if "unicast only" in needs else "uniform"
    scenario = Scenario(
        protocol=protocol,
        processes=6,
        messages=150,
        fanout=fanout,
        fifo="fifo" in needs,
        seed=seed,
        bound=100 if protocol == "bounded" else None,
    )
    try:
        scenario.check()
    except MisuseError:
        return None
    return scenario


def simulate_and_judge(made: Demo) -> None:
    """Run every protocol on the same workload, record it, and judge the record by definition."""
    from whence.cli.simulate import show
    from whence.model.order import judge
    from whence.protocols.registry import REGISTRY
    from whence.report.simulation import comparison_table
    from whence.sim import simulate

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
    show(comparison_table(list(made.runs.values())), made.console)
    made.console.print(f"Every process may send to any others; copies overtake each other. Traces are in {made.out}.\n")
    made.result["runs"] = {
        name: result.row() | {"verdict": judgement.verdict, "violations": len(judgement.violations)}
        for name, (result, judgement) in made.runs.items()
    }


def catch_the_liar(made: Demo) -> None:
    """Show that delivery on arrival is found out, and why it is wrong."""
    from whence.trace.explain import diagram, path, scene, sentence

    result, judgement = made.runs[LIAR]
    if not judgement.violations:
        made.failures.append(f"the liar {LIAR} was not caught with seed {made.seed}")
        return
    proofs = [(path(result.events, violation) or [], violation) for violation in judgement.violations]
    # the shortest chain that leads through another process; FIFO channels would not have helped
    proof, violation = min(proofs, key=lambda found: (len({step.process for step in found[0]}) < 2, len(found[0])))
    said = sentence(proof, violation)
    made.console.print(
        f"{LIAR} delivers on arrival: {len(judgement.violations)} deliveries came too late. One of them:"
    )
    made.console.print(f"  {said}.\n")
    made.console.print(diagram(scene(result.events, violation, proof), path=proof, violation=violation))
    made.result["liar"] = {"sentence": said, "path": [step.row() for step in proof]}


STEPS: tuple[Callable[[Demo], None], ...] = (simulate_and_judge, catch_the_liar)
