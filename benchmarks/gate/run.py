"""What a gate costs a row, and how close it comes to the critical path of a real dependency graph.

python benchmarks/gate/run.py [ROWS]

*Overhead*: handlers that do nothing, at concurrency 1, 32 and 1,000: processor microseconds a row, for tasks that take
turns, for `map` in asyncio and for `map` in threads. *Critical path*: handlers of 5 ms over the modules of `thence` in
the order of their imports (each waits for those it imports, as a build does), in asyncio, beside one row after another,
beside one queue for each package, and beside the longest chain alone. Best of three. Writes results/run.json.
"""

from __future__ import annotations

import ast
import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

from thence import Gate

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
Rows = list[dict[str, Any]]
HANDLER, ROUNDS = 0.005, 3


def chained(count: int) -> Rows:
    """Return rows that wait for up to three of the twenty before them, in an order that is a little off."""
    random = Random(1)
    rows = []
    for number in range(count):
        causes = random.sample(range(max(0, number - 20), number), min(number, random.randint(0, 3)))
        rows.append({"message": str(number), "depends_on": [str(cause) for cause in causes]})
    return sorted(rows, key=lambda row: int(row["message"]) + random.uniform(0, 15))


def imports() -> Rows:
    """Return the modules of the package with the modules that they import at their top, in alphabetical order."""
    names = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    rows = []
    for name, path in names.items():
        found = set()
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.module in names:
                whole = {f"{node.module}.{each.name}" for each in node.names} & names.keys()
                found |= whole or {node.module}
            elif isinstance(node, ast.Import):
                found |= {each.name for each in node.names} & names.keys()
        rows.append({"message": name, "depends_on": sorted(found - {name})})
    return acyclic(rows)


def acyclic(rows: Rows) -> Rows:
    """Drop the imports that close a circle: packages and their modules import each other."""
    causes = {row["message"]: row["depends_on"] for row in rows}
    kept: dict[str, list[str]] = {}

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name not in kept:
            kept[name] = [cause for cause in causes[name] if cause not in (*above, name)]
            for cause in kept[name]:
                visit(cause, (*above, name))

    for name in causes:
        visit(name, ())
    order: dict[str, int] = {}

    def place(name: str) -> None:
        if name not in order:
            order[name] = -1
            kept[name] = [cause for cause in kept[name] if order.get(cause) != -1]
            for cause in kept[name]:
                place(cause)
            order[name] = len(order)

    for name in kept:
        place(name)
    return [{"message": row["message"], "depends_on": kept[row["message"]]} for row in rows]


def longest(rows: Rows) -> int:
    causes = {row["message"]: row["depends_on"] for row in rows}
    depth: dict[str, int] = {}

    def of(name: str) -> int:
        if name not in depth:
            depth[name] = 1 + max((of(cause) for cause in causes[name]), default=0)
        return depth[name]

    return max(map(of, causes))


async def nothing(row: Any) -> None:
    pass


async def short(row: Any) -> None:
    await asyncio.sleep(HANDLER)


async def turns(rows: Rows, concurrency: int, handler: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    gate = Gate(concurrency=concurrency)

    async def one(row: Any) -> None:
        async with gate.turn(row):
            await handler(row)

    async with asyncio.TaskGroup() as group:
        for row in rows:
            group.create_task(one(row))


async def bare(rows: Rows) -> None:
    async with asyncio.TaskGroup() as group:
        for row in rows:
            group.create_task(nothing(row))


async def mapped(rows: Rows, concurrency: int, handler: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    count = 0
    async for each in Gate(concurrency=concurrency).map(rows, handler):
        count += each.outcome == "delivered"
    assert count == len(rows)


def threads(rows: Rows, concurrency: int) -> None:
    handled = Gate(concurrency=concurrency).map(rows, lambda row: None)
    assert sum(each.outcome == "delivered" for each in handled) == len(rows)


def best(what: Callable[[], None], clock: Callable[[], float]) -> float:
    found = []
    for _ in range(ROUNDS):
        start = clock()
        what()
        found.append(clock() - start)
    return min(found)


def overhead(count: int) -> dict[str, Any]:
    rows = chained(count)
    out: dict[str, Any] = {"tasks without a gate": best(lambda: asyncio.run(bare(rows)), time.process_time)}
    for many in (1, 32, 1000):
        out[f"turn, concurrency {many}"] = best(lambda m=many: asyncio.run(turns(rows, m, nothing)), time.process_time)  # type: ignore[misc]
        out[f"map, asyncio, concurrency {many}"] = best(
            lambda m=many: asyncio.run(mapped(rows, m, nothing)),
            time.process_time,  # type: ignore[misc]
        )
        out[f"map, threads, concurrency {many}"] = best(lambda m=many: threads(rows, m), time.process_time)  # type: ignore[misc]
    return {name: round(seconds / count * 1e6, 1) for name, seconds in out.items()}


async def one_by_one(rows: Rows) -> None:
    for row in rows:
        await short(row)


async def packages(rows: Rows) -> None:
    """Handle each package in a queue of its own: parallel, but causes in other packages are not waited for."""
    queues: dict[str, Rows] = {}
    for row in rows:
        queues.setdefault(row["message"].rpartition(".")[0], []).append(row)
    await asyncio.gather(*(one_by_one(each) for each in queues.values()))


def critical() -> dict[str, Any]:
    rows = imports()
    chain = longest(rows)
    out = {
        "gate": best(lambda: asyncio.run(turns(rows, 1000, short)), time.perf_counter),
        "critical path": best(lambda: asyncio.run(one_by_one(rows[:chain])), time.perf_counter),
        "one by one": best(lambda: asyncio.run(one_by_one(rows)), time.perf_counter),
        "one queue a package, causes elsewhere not kept": best(lambda: asyncio.run(packages(rows)), time.perf_counter),
    }
    told: dict[str, Any] = {name: round(seconds, 3) for name, seconds in out.items()}
    ratio = round(out["gate"] / out["critical path"], 2)
    return {"rows": len(rows), "longest chain": chain, "seconds": told, "gate / critical path": ratio}


def main(count: int = 20_000) -> None:
    told = {"rows": count, "processor microseconds a row": overhead(count), "handlers of 5 ms": critical()}
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "run.json").write_text(json.dumps(told, indent=2) + "\n")
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
