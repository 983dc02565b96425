"""`thence protocols`: the registry as a table and as JSON, and all of them measured on the same traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from thence.cli._common import JsonFile, console, finish, progress, write_json

if TYPE_CHECKING:
    from thence.core.model.order import Judgement
    from thence.lab.simulator import Result, Scenario

EXAMPLE = "thence protocols --json protocols.json"


def command(
    measure: Annotated[
        bool, typer.Option("--measure", help="Simulate and judge every protocol on the same traffic.")
    ] = False,
    seed: Annotated[int, typer.Option(help="With --measure: the seed of the traffic.")] = 1,
    json_file: JsonFile = None,
) -> None:
    """List the protocols, those for use first, with what each needs, promises and costs.

    With --measure, exit code 1 means that a protocol broke its promise.
    """
    from thence.cli.simulate import print_table
    from thence.core.protocols.registry import REGISTRY
    from thence.show.simulation import comparison_table, protocols_tables

    if not measure:
        for table in protocols_tables(list(REGISTRY.values())):
            print_table(table, console(json_file))
        write_json(json_file, [entry.row() for entry in REGISTRY.values()])
        return
    runs, broken = measured(seed)
    print_table(comparison_table(list(runs.values())), console(json_file))
    rows = {
        name: result.row() | {"verdict": judgement.verdict, "violations": len(judgement.violations)}
        for name, (result, judgement) in runs.items()
    }
    write_json(json_file, {"runs": rows, "broken": broken})
    for sentence in broken:
        console(json_file).print(f"FAILED: {sentence}")
    finish(1 if broken else 0)


def measured(seed: int) -> tuple[dict[str, tuple[Result, Judgement]], list[str]]:
    """Run every protocol that a simulated network can serve; return the runs, and the promises that were broken."""
    from thence.core.model.order import judge
    from thence.core.protocols.registry import REGISTRY
    from thence.lab.simulator import simulate

    runs, broken = {}, []
    for name in progress(REGISTRY, "Simulating"):
        scenario = scenario_for(name, seed)
        if scenario is None:
            continue
        result = simulate(scenario, trace=True)
        runs[name] = (result, judge(result.events))
        kept = result.judge()
        if kept.violations or kept.undelivered or kept.duplicates or kept.misdelivered or result.outcome.stuck:
            broken.append(f"{name} broke its promise ({scenario.entry.guarantee}) with seed {seed}")
    return runs, broken


def scenario_for(protocol: str, seed: int) -> Scenario | None:
    """Return a small run that meets the needs of a protocol; None if no simulated scenario does."""
    from thence.core.protocols.registry import lookup
    from thence.errors import MisuseError
    from thence.lab.simulator import Scenario

    needs = lookup(protocol).needs
    fanout = "broadcast" if "broadcast only" in needs else "unicast" if "unicast only" in needs else "uniform"
    bound = 100 if protocol == "bounded" else None
    scenario = Scenario(protocol, 6, 150, fanout, fifo="fifo" in needs, bound=bound, seed=seed, run=protocol)
    try:
        scenario.check()
    except MisuseError:
        return None
    return scenario
