"""A run with one send to very many destinations, judged in a process of its own: how much memory that takes.

    python -m unit.judge.wide_run ROWS DESTINATIONS CHUNK_ROWS ANSWERS

Prints the route's verdict, the number of events and the peak of memory in MB. With ANSWERS every destination sends too.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

Rows = list[tuple[str, str, str, list[str] | None]]


def run_of(rows: int, destinations: int, *, answers: bool) -> pa.Table:
    """Return a run of about so many rows: twenty processes talk while the wide message is delivered here and there."""
    wide = [f"d{number}" for number in range(destinations)]
    made: Rows = [("p0", "send", "wide", wide)]
    every = max(1, (rows - 2 * destinations) // (2 * destinations))
    talk = number = 0
    while len(made) < rows:
        one, two = f"p{talk % 20}", f"p{(talk + 1) % 20}"
        made += [(one, "send", f"m{talk}", [two]), (two, "deliver", f"m{talk}", None)]
        talk += 1
        if talk % every == 0 and number < destinations:
            made.append((wide[number], "deliver", "wide", None))
            if answers:
                made += [(wide[number], "send", f"a{number}", ["p0"]), ("p0", "deliver", f"a{number}", None)]
            number += 1
    index: dict[str, int] = {}
    places = []
    for process, *_ in made:
        index[process] = index.get(process, 0) + 1
        places.append(index[process])
    columns = [pa.array([row[place] for row in made]) for place in range(3)]
    return pa.table(
        {
            "run": pa.array(["run"] * len(made)), "process": columns[0], "index": pa.array(places), "kind": columns[1],
            "message": columns[2], "destinations": pa.array([row[3] for row in made], pa.list_(pa.string())),
            "order": pa.array(range(len(made))),
        }
    )  # fmt: skip


def main(rows: int, destinations: int, chunk_rows: int, answers: bool) -> None:
    from thence.tables.engines.local.chunks import audit_table
    from thence.tables.files.inputs import ArrowTable
    from thence.tables.judge.normal_table import of_input

    table = run_of(rows, destinations, answers=answers)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    result = audit_table(of_input(ArrowTable(table)), cores=2, chunk_rows=chunk_rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(json.dumps({"verdict": result.verdict, "events": result.events, "before": before, "peak": peak}))


def measured(rows: int, destinations: int, chunk_rows: int, *, answers: bool = False) -> dict[str, Any]:
    """Judge such a run in a process of its own; return its verdict, events, and peak of memory in MB."""
    command = [sys.executable, "-m", "unit.judge.wide_run", *map(str, (rows, destinations, chunk_rows, int(answers)))]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), answers=bool(int(sys.argv[4])))
