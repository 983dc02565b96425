"""What a trace costs in which nearly every delivery is late: two million events, a million violations.

    python benchmarks/audit/violations.py [--events 2000000] [--group 1000]

Eight processes send to the next two; each of these delivers what came in groups, the last of a group first. Measured as
commands in this process's stead: the verdict alone (`--paths 0`), with a hundred proofs, and with all findings
as JSON and as Parquet. Seconds, CPU seconds, and the peak of memory of each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

RESULT = Path(__file__).parent / "results" / "violations.json"
PROCESSES, ROW_GROUP = 8, 250_000


def trace(events: int, group: int) -> pa.Table:
    """Return rounds in which everybody sends `group` messages to two others, who then deliver them backwards."""
    a_round = 3 * group * PROCESSES
    names = np.array([f"p{n}" for n in range(PROCESSES)])
    process, kind, message, to = [], [], [], []
    for number in range(events // a_round):
        for p in range(PROCESSES):
            process.append(np.full(group, p))
            kind.append(np.full(group, "send"))
            message.append(np.char.add(f"{p}.", np.arange(number * group, (number + 1) * group).astype(str)))
            to += [[f"p{(p + 1) % PROCESSES}", f"p{(p + 2) % PROCESSES}"]] * group
        sent = message[-PROCESSES:]
        for p in range(PROCESSES):
            for away in (1, 2):
                process.append(np.full(group, p))
                kind.append(np.full(group, "deliver"))
                message.append(sent[(p - away) % PROCESSES][::-1])
                to += [None] * group
    of = np.concatenate(process)
    index = np.empty(len(of), np.int64)
    for p in range(PROCESSES):
        index[of == p] = np.arange(1, np.count_nonzero(of == p) + 1)
    columns = {
        "run": np.full(len(of), "run"),
        "process": names[of],
        "index": index,
        "kind": np.concatenate(kind),
        "message": np.concatenate(message),
        "destinations": pa.array(to, pa.list_(pa.string())),
        "order": np.arange(len(of)),
    }
    return pa.table(columns)


def command(*given: str) -> dict[str, float]:
    """Run `thence audit`; return seconds, CPU seconds and the peak of its memory."""
    began = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-m", "thence.cli", "audit", *given, "--engine", "local", "--quiet"])
    _, status, used = os.wait4(child.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 1, "it is violated"
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": used.ru_maxrss // 1024,
    }


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--group", type=int, default=1000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file, said, out = (f"{folder}/{name}" for name in ("t.parquet", "said.json", "out"))
        table = trace(asked.events, asked.group)
        pq.write_table(table, file, row_group_size=ROW_GROUP)
        result: dict[str, object] = {"events": len(table)}
        command(file, "--paths", "0")  # compiles, if that has to be
        result["verdict alone"] = command(file, "--paths", "0")
        result["a hundred proofs"] = command(file, "--paths", "100")
        result["JSON"] = command(file, "--json", said)
        result["Parquet"] = command(file, "--out", out)
        result["violations"] = pq.read_metadata(f"{out}/violations.parquet").num_rows
        result["json_mb"] = Path(said).stat().st_size >> 20
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
