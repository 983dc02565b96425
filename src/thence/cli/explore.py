"""`thence explore`: tries every interleaving of a small system, and shows the smallest execution that fails."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from thence.cli._common import JsonFile, console, finish, options_of, write_json
from thence.cli._console import Console
from thence.core.model.plain import Row
from thence.errors import MisuseError

if TYPE_CHECKING:
    from thence.lab.explorer.coverage import Coverage
    from thence.lab.explorer.setting import Setting, Variant
    from thence.lab.explorer.shrink import Smallest
    from thence.lab.explorer.step_coverage import ProtocolStep
    from thence.lab.explorer.witness import Witness

EXAMPLE = "thence explore --protocol ks --processes 3 --messages 4"
UNUSED = {
    "--replay": ("--save", "--time-limit"),
    "--step": ("--page", "--time-limit"),
    "--graph": ("--save", "--page", "--time-limit"),
}
"""what each way to work makes no use of"""


def command(
    protocol: Annotated[str, typer.Option(help="Protocol to explore; see `thence protocols`.")] = "ks",
    processes: Annotated[int, typer.Option(help="Number of processes.")] = 3,
    messages: Annotated[int, typer.Option(help="Maximum number of messages.")] = 3,
    destinations: Annotated[
        str, typer.Option(metavar="unicast|any|broadcast", help="Destinations of a message.")
    ] = "unicast",
    fifo: Annotated[bool, typer.Option("--fifo", help="Copies of one link arrive in the order of sending.")] = False,
    to_self: Annotated[bool, typer.Option("--self", help="Processes may address themselves.")] = False,
    crashes: Annotated[int, typer.Option(help="Number of processes that may crash.")] = 0,
    loss: Annotated[int, typer.Option(help="Number of copies that may be lost.")] = 0,
    links: Annotated[int, typer.Option(help="Number of overlay links that may be opened.")] = 0,
    groups: Annotated[str, typer.Option(help="Groups of processes, for protocols that need them, as in 'ab|c'.")] = "",
    detector: Annotated[
        str, typer.Option(metavar="eager|falling|any", help="Behaviour of the failure detector.")
    ] = "eager",
    changes: Annotated[
        int, typer.Option(help="How often the detector `any` may change its output at each process.")
    ] = 1,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the protocol; repeatable.")
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            metavar="NAME",
            help="Judge this property instead of the promised ones, as in causal-order; repeatable.",
        ),
    ] = None,
    time_limit: Annotated[float | None, typer.Option(help="Stop after this many seconds.")] = None,
    variants: Annotated[bool, typer.Option("--variants", help="Allow the printed forms of the papers.")] = False,
    replay: Annotated[
        Path | None, typer.Option(metavar="EXECUTION", help="Replay an execution written by --save.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the smallest failing execution here.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the smallest failing execution as a page to step through."),
    ] = None,
    step: Annotated[bool, typer.Option("--step", help="Choose each step of one execution yourself.")] = False,
    graph: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the whole state graph: .dot or .json.")
    ] = None,
    cover: Annotated[bool, typer.Option("--cover", help="Count how often each step of the protocol was run.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Try all interleavings of a small system; report what was covered, and show the smallest failure."""
    from thence.lab.explorer.properties import properties_of
    from thence.lab.explorer.setting import Setting

    _only_one(replay=replay, step=step, graph=graph, cover=cover)
    _left_out("--replay" if replay else "--step" if step else "--graph" if graph else "",
              {"--save": save, "--page": page, "--time-limit": time_limit})  # fmt: skip
    if time_limit is not None and not time_limit >= 0:
        raise MisuseError(f"a time limit of {time_limit:g} seconds; 0 or more is accepted")
    if replay is not None:
        _replay(replay, page, json_file)
        return
    setting = Setting(
        protocol, processes, messages, destinations, to_self=to_self, fifo=fifo, loss=loss, crashes=crashes,
        links=links, detector=detector, changes=changes, groups=groups, options=options_of(option),
        variant=_variant(protocol, admitted=variants),
    )  # fmt: skip
    judged = properties_of(properties) if properties else None
    if step:
        from thence.cli.explore_step import by_hand

        by_hand(setting, judged, save, json_file)
        return
    if graph is not None:
        _draw(setting, judged, graph, json_file)
        return
    out = console(json_file)
    coverage, smallest, steps = _explored(setting, judged, time_limit, cover=cover)
    for line in [*coverage_lines(coverage), *step_lines(steps)]:
        out.print(line)
    if judged is None and setting.entry.guarantee in ("fifo", "two-hop"):
        out.print(f"{protocol} promises no causal order; --property causal-order judges it by that")
    if smallest is not None:
        out.print("")
        _show(smallest.witness, out)
        if save is not None:
            save.write_text(smallest.witness.dumps(), encoding="utf-8")
            out.print(f"replay it with: thence explore --replay {quote(str(save))}")
        _write_page(smallest.witness, page, out)
    elif page is not None:
        out.print(f"nothing fails, so there is no execution to draw: {page} is not written")
    covered = {"steps": [each.row() | {"file": Path(each.file).name} for each in steps]} if steps else {}
    write_json(json_file, result_row(coverage, smallest) | covered)
    finish(1 if coverage.failures else 0)


def _only_one(**asked: object) -> None:
    """Reject two modes given at once, since only one could run."""
    given = [f"--{name}" for name, value in asked.items() if value]
    if len(given) > 1:
        raise MisuseError(f"{' and '.join(given)} at once; one of them is accepted")


def _left_out(way: str, given: dict[str, object]) -> None:
    """Reject options that the chosen mode would ignore."""
    for name, value in given.items():
        if value is not None and name in UNUSED.get(way, ()):
            raise MisuseError(f"{name} does nothing with {way}; leave it out")


def _variant(protocol: str, *, admitted: bool) -> Variant | None:
    """Return the printed form of that name, if it exists and `--variants` admits such forms."""
    from thence.core.protocols.registry import REGISTRY
    from thence.lab.papers.variants import VARIANTS

    if protocol in REGISTRY:
        return None
    if protocol in VARIANTS and not admitted:
        raise MisuseError(f"{protocol!r} is a printed form that fails; admit those with --variants")
    if protocol not in VARIANTS:
        known = sorted([*REGISTRY, *(VARIANTS if admitted else ())])
        raise MisuseError(f"no protocol {protocol!r}; there are {', '.join(known)}")
    return VARIANTS[protocol]


def _explored(
    setting: Setting, judged: frozenset[str] | None, limit: float | None, *, cover: bool
) -> tuple[Coverage, Smallest | None, list[ProtocolStep]]:
    """Explore; with `cover`, count the runs of the marked lines in the protocol's source."""
    if not cover:
        return *_find(setting, judged, limit), []
    from thence.lab.explorer.step_coverage import count_steps

    with count_steps(setting.entry.protocol) as steps:
        return *_find(setting, judged, limit), steps


def step_lines(steps: list[ProtocolStep]) -> list[str]:
    """List the steps of the protocol that were run."""
    if not steps:
        return []
    run = sum(each.times > 0 for each in steps)
    lines = [f"  {each.times:>8}  {each.text} ({Path(each.file).name}:{each.line})" for each in steps]
    return [f"steps of the protocol: {run} of {len(steps)} run", *lines]


def _draw(setting: Setting, judged: frozenset[str] | None, target: Path, json_file: str | None) -> None:
    import json

    from thence.lab.explorer.graph import state_graph

    if target.suffix not in (".dot", ".json"):
        raise MisuseError(f"{target} ends in neither .dot nor .json")
    made = state_graph(setting, properties=judged)
    text = made.dot() if target.suffix == ".dot" else json.dumps(made.row(), indent=1) + "\n"
    target.write_text(text, encoding="utf-8")
    broken = sum(node["breaks"] is not None for node in made.nodes)
    console(json_file).print(
        f"{len(made.nodes)} states, {len(made.edges)} steps; states that break a property: {broken}"
    )
    write_json(json_file, made.row())
    finish(1 if broken else 0)


def _find(setting: Setting, properties: frozenset[str] | None, limit: float | None) -> tuple[Coverage, Smallest | None]:
    from thence.lab.explorer.shrink import find

    options: Row = {} if properties is None else {"properties": properties}
    if not sys.stderr.isatty():
        return find(setting, time_limit=limit, **options)
    from rich.console import Console as Terminal

    with Terminal(stderr=True).status(f"exploring {setting.protocol}") as status:

        def progress(coverage: Coverage) -> None:
            status.update(f"exploring {setting.protocol}: {coverage.states} states, depth {coverage.depth}")

        return find(setting, time_limit=limit, progress=progress, **options)


def coverage_lines(coverage: Coverage) -> list[str]:
    """Describe the coverage and the findings."""
    setting = coverage.setting
    network = ["FIFO channels" if setting.fifo else "any order"]
    network += [f"groups {setting.groups}"] if setting.groups else []
    if setting.crashes:
        network.append(f"up to {_count(setting.crashes, 'crash', 'crashes')}, detector {setting.detector}")
    network += [f"up to {_count(setting.loss, 'copy', 'copies')} lost"] if setting.loss else []
    network += [f"up to {_count(setting.links, 'link', 'links')} opened"] if setting.links else []
    covered = "all of it" if coverage.complete else f"a part of it: {coverage.stopped}"
    executions = "" if coverage.counted is None else f"{coverage.counted} executions, "
    rate = coverage.states / coverage.seconds if coverage.seconds else 0
    return [
        f"{setting.protocol}: {coverage.verdict}",
        f"system: {_count(setting.processes, 'process', 'processes')}, "
        f"up to {_count(setting.messages, 'message', 'messages')} ({setting.destinations}), {', '.join(network)}",
        f"judged: {', '.join(coverage.properties)}",
        f"covered: {covered}; {coverage.states} states, {executions}depth {coverage.depth}, "
        f"{coverage.seconds:.1f} s, {rate:.0f} states/s",
    ]


def _count(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def _show(witness: Witness, out: Console) -> None:
    out.print(witness.sentence())
    out.print(witness.notation())
    if witness.faults():
        out.print(witness.faults())
    out.print("")
    out.print(witness.diagram(out.width))


def result_row(coverage: Coverage, smallest: Smallest | None) -> Row:
    """Return the result as plain data."""
    failure = None
    if smallest is not None:
        failure = {**smallest.witness.row(), "fewest": smallest.fewest, "diagram": smallest.witness.diagram()}
    return {
        "verdict": coverage.verdict,
        "setting": coverage.setting.row(),
        "properties": list(coverage.properties),
        "complete": coverage.complete,
        "stopped": coverage.stopped,
        "states": coverage.states,
        "executions": coverage.counted,
        "depth": coverage.depth,
        "seconds": round(coverage.seconds, 3),
        "failure": failure,
    }


def _write_page(witness: Witness, page: Path | None, out: Console) -> None:
    from thence.show.spacetime import spacetime_page as drawn

    if page is None:
        return
    faults = f" {witness.faults()}." if witness.faults() else ""
    title = f"{witness.setting.protocol}: the smallest execution that fails"
    text = drawn([witness.scene()], title=title, lead=f"{witness.notation()}{faults}", start="finding=1")
    page.write_text(text, encoding="utf-8")
    out.print(f"step through it: {page}")


def _replay(path: Path, page: Path | None, json_file: str | None) -> None:
    from thence.errors import TraceError
    from thence.lab.explorer.witness import Impossible, loads
    from thence.lab.papers.variants import VARIANTS

    try:
        witness = loads(path.read_text(encoding="utf-8"), VARIANTS)
        result = witness.run()
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}; an execution written by --save is accepted") from None
    except UnicodeDecodeError:
        raise TraceError(f"{path} is not text; an execution written by --save is accepted") from None
    except TraceError as error:
        raise TraceError(
            f"{path}: {error}; an execution written by --save is accepted; "
            "`thence audit` and `thence show` take a trace"
        ) from None
    except Impossible as error:
        raise TraceError(f"{path} is not an execution of its setting any more: {error}") from None
    out = console(json_file)
    _show(witness, out)
    broken = result.problem.property if result.problem is not None else None
    out.print(f"breaks: {broken}" if broken else "breaks nothing")
    _write_page(witness, page, out)
    write_json(json_file, {**witness.row(), "breaks": broken})
    finish(1 if broken else 0)
