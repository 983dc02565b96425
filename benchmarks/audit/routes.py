"""Does every route earn its lines? And is the audit as fast as it was? Warm sessions, in turn; results as JSON.

    python benchmarks/audit/routes.py DATA [--events 2000000] [--rounds 3] [--before SRC PACKAGE]

Each route is measured with it, and without it: the same rows by the route that would be taken if it were not there.
`--before` is the `src` folder of an older version and what its package is called: the same audits by both, in turn.
Servers, one for each version, hold a Spark session each; the first round does not count. DATA is a folder for traces,
filled if it is empty.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from measuring import add, run

HERE = Path(__file__).parent
RESULT = HERE / "results" / "routes.json"
WARM = 1

CASES = {
    "row groups": ("files", "order"),
}
"""The routes of Spark that could be left out, and rows that take each: as files or as a frame, and their layout."""
BEFORE = {
    "files": ("files", "order"),
    "files by process": ("files", "hosts"),
    "a DataFrame": ("frame", "order"),
    "a DataFrame, scattered": ("frame", "random"),
    "no order": ("frame", "plain"),
}
OWN = {
    "scratch": ["auditing.scratch:*", "auditing.arrays:_audit_scratch"],
    "row groups": [
        "auditing.row_groups:chunks_of", "auditing.row_groups:plan_of_chunks", "auditing.row_groups:_filled",
        "auditing.row_groups:Chunk", "auditing.transport:pointer", "spark.auditing:pointers",
        "auditing.event_rows:RowGroupRows",
    ],
    "packed": [
        "spark.transport:pack_frame", "spark.transport:_packer", "auditing.transport:packed_rows_of",
        "auditing.row_groups:plan_of_overlapping", "spark.files:_split",
    ],
}  # fmt: skip
"""What is there for one route alone."""


def lines(route: str) -> int:
    """Return how many lines are there for one route alone."""
    count = 0
    for place in OWN[route]:
        module, name = place.split(":")
        found = importlib.import_module(f"thence.{module}")
        source = inspect.getsource(found if name == "*" else getattr(found, name))
        count += sum(bool(line.strip()) for line in source.splitlines())
    return count


# -- a server: one version, one session --------------------------------------------------------------------------------


def serve(package: str) -> None:
    """Answer questions on stdin, one JSON a line, until it ends."""
    import psutil

    spark_room = importlib.import_module(f"{package}.spark")
    session = importlib.import_module(f"{package}.spark.session").local_session(
        cores=2, conf={"spark.driver.memory": "3g"}
    )
    me = psutil.Process()

    def cpu() -> float:
        spent = 0.0
        for process in (me, *me.children(recursive=True)):
            try:
                spent += sum(process.cpu_times()[:2])
            except psutil.NoSuchProcess:
                continue
        return spent

    for line in sys.stdin:
        asked = json.loads(line)
        restore = leave_out(asked.get("without")) if asked.get("without") else None
        before, began = cpu(), time.perf_counter()
        given = asked["data"]
        if asked["how"] == "files":
            result = spark_room.audit_files(session, given)
        else:
            result = spark_room.audit(session.read.parquet(given))
        with result:
            verdict = result.runs.first().asDict()
            tagged = getattr(result, "tagged", None)
            (result.findings if tagged is None else tagged).write.format("noop").mode("overwrite").save()
            route = str(getattr(result, "route", ""))
        seconds, spent = time.perf_counter() - began, cpu() - before
        if restore is not None:
            restore()
        said = {"seconds": seconds, "cpu_seconds": spent, "violations": verdict["violations"], "route": route}
        print(json.dumps(said), flush=True)


def leave_out(route: str) -> Any:
    """Take a route away; return what puts it back."""
    from thence.tables.judge import route as choosing

    assert route == "row groups"
    kept = choosing.chunks_of
    choosing.chunks_of = lambda *given: None  # type: ignore[assignment]
    return lambda: setattr(choosing, "chunks_of", kept)


class Server:
    """A version of ours in a process of its own."""

    def __init__(self, package: str, src: str | None = None) -> None:
        """Start it."""
        env = os.environ | {"THENCE_ARCHIVE": "use"} | ({"PYTHONPATH": src} if src else {})
        command = [sys.executable, str(Path(__file__)), "--serve", package]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def ask(self, **asked: object) -> dict[str, Any]:
        """Ask for one audit."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def compared(one: list[dict[str, Any]], two: list[dict[str, Any]]) -> dict[str, object]:
    """Return the medians of what two ways took, and of their ratios."""
    assert {each["violations"] for each in one} == {each["violations"] for each in two}
    found: dict[str, object] = {}
    for what in ("seconds", "cpu_seconds"):
        pairs = [(a[what], b[what]) for a, b in zip(one, two, strict=True)]
        found[what] = [[round(a, 2), round(b, 2)] for a, b in pairs]
        found[f"{what} ratio"] = round(statistics.median(a / b for a, b in pairs), 2)
    return found


def data_of(folder: Path, layout: str, events: int) -> str:
    """Return a trace of one layout."""
    from generate import write

    out = folder / f"{layout}-{events}"
    if not out.exists():
        write(out, events, 64, files=8, ordered=layout != "plain", layout="order" if layout == "plain" else layout)
    return str(out)


def on_spark(folder: Path, events: int, rounds: int, before: list[str] | None) -> None:
    """Measure the routes of Spark, and both versions."""
    now = Server("thence")
    old = Server(before[1], before[0]) if before else None
    for case, (how, layout) in BEFORE.items():
        if old is None:
            break
        data = data_of(folder, layout, events)
        new_ones, old_ones = [], []
        for turn in range(WARM + rounds):
            pair = now.ask(how=how, data=data), old.ask(how=how, data=data)
            if turn >= WARM:
                new_ones.append(pair[0])
                old_ones.append(pair[1])
        add(RESULT, f"before and after: {case}", compared(new_ones, old_ones) | {"events": events})
        print(case, new_ones[-1]["route"], compared(new_ones, old_ones), flush=True)
    if old is not None:
        old.close()
    for route, (how, layout) in CASES.items():
        data = data_of(folder, layout, events)
        ways: list[list[dict[str, Any]]] = [[], []]
        for turn in range(WARM + rounds):
            for way, without in zip(ways, (None, route), strict=True):
                one = now.ask(how=how, data=data, without=without)
                assert one["route"].startswith(f"{route}:") == (without is None), one["route"]
                if turn >= WARM:
                    way.append(one)
        told = compared(*ways) | {"instead": ways[1][0]["route"].split(":")[0], "lines": lines(route), "events": events}
        add(RESULT, f"route: {route}", told)
        print(route, told, flush=True)
    now.close()


# -- routes of this process --------------------------------------------------------------------------------------------

PROGRAM = """
import json, sys
from thence.tables.files.read import open_trace
way, data = sys.argv[1:]
trace = open_trace(data)
if way == "local":
    from thence.tables.engines.local.audit import audit_trace
    result = audit_trace(trace, cores=2)
else:
    from thence.tables.engines.local import chunks as arrays
    from thence.tables.judge import route
    if way == "whole":
        route.chunks_of = lambda *given: None
    result = arrays.audit_files(trace, cores=2, held_rows=10**9 if way == "whole" else 0)
with result:
    print(json.dumps([result.route, sum(run["violations"] for run in result.run_rows)]))
"""


def jsonl(parquet: str, rows: int) -> str:
    """Return the first rows of a trace as JSONL."""
    out = Path(parquet).with_suffix(f".{rows}.jsonl")
    if not out.exists():
        import pyarrow.parquet as pq

        table = pq.read_table(sorted(Path(parquet).glob("*.parquet"))).slice(0, rows)
        with out.open("w") as stream:
            for batch in table.drop_columns(["order"]).to_batches():
                for row in batch.to_pylist():
                    stream.write(json.dumps({k: v for k, v in row.items() if v is not None}) + "\n")
    return str(out)


def in_process(folder: Path, events: int, rounds: int) -> None:
    """Measure the routes of this process."""
    parquet = data_of(folder, "order", events)
    cases = {
        "row groups": ("local", "whole", parquet),
        "scratch": ("scratch", "whole", jsonl(parquet, events)),
    }
    for name, (with_it, without_it, data) in cases.items():
        ways: list[list[dict[str, Any]]] = [[], []]
        for turn in range(WARM + rounds):
            for way, which in zip(ways, (with_it, without_it), strict=True):
                taken = dict(run([sys.executable, "-c", PROGRAM, which, data]))
                route, taken["violations"] = json.loads(str(taken["said"]))
                assert (route.split(":")[0] == name) == (which == with_it), route
                if turn >= WARM:
                    way.append(taken)
        peaks = [statistics.median(each["peak_mb"] for each in way) for way in ways]
        told = compared(*ways) | {"peak_mb": peaks, "instead": "whole", "lines": lines(name), "rows": Path(data).name}
        add(RESULT, f"route in this process: {name}", told)
        print(name, told, flush=True)


def main() -> None:
    """Measure, and write the results as they come."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", nargs=2, metavar=("SRC", "PACKAGE"))
    parser.add_argument("--serve")
    parser.add_argument("--only", choices=["spark", "local"])
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.serve)
        return
    if asked.only != "local":
        on_spark(asked.data, asked.events, asked.rounds, asked.before)
    if asked.only != "spark":
        in_process(asked.data, asked.events, asked.rounds)


if __name__ == "__main__":
    main()
