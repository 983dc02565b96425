"""A small standalone Spark cluster on loopback: a master and workers, each a process of its own.

    python examples/cluster/cluster.py start FOLDER [--workers 2] [--cores 1] [--memory 1g]
    python examples/cluster/cluster.py kill FOLDER 1        kill -9 worker 1, with its executors
    python examples/cluster/cluster.py stop FOLDER

Needs pyspark, and Java on the path or in JAVA_HOME. `start` waits until all workers are registered, and writes the
address of the master to FOLDER/address. FOLDER keeps the logs, process ids, shuffle files and work folders.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyspark

SECONDS = 120
"""How long a process may take to start."""
DEPLOY = "org.apache.spark.deploy"


def spawn(folder: Path, name: str, *arguments: str) -> int:
    """Start a process of Spark in a session of its own, so that its children end with it; return its id."""
    home = Path(pyspark.__file__).parent
    local = folder / name
    local.mkdir(parents=True)
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(local),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with (folder / f"{name}.log").open("w") as log:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), *arguments],
            env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        ).pid  # fmt: skip


def wait_for(folder: Path, name: str, pattern: str) -> str:
    """Wait for a line in the log of a process, and return what the pattern's group found."""
    log, deadline = folder / f"{name}.log", time.monotonic() + SECONDS
    while (found := re.search(pattern, log.read_text())) is None:
        if time.monotonic() > deadline:
            stop(folder)
            sys.exit(f"cluster: {name} did not start within {SECONDS} seconds; {log} may say why")
        time.sleep(0.1)
    return found[1]


def start(folder: Path, workers: int, cores: int, memory: str) -> None:
    """Start a master and workers, and wait until they know each other."""
    if folder.exists():
        sys.exit(f"cluster: {folder} exists already; name a new folder, or stop that cluster and remove it")
    folder.mkdir(parents=True)
    folder = folder.resolve()
    pids: dict[str, int] = {}

    def spawn_noted(name: str, *arguments: str) -> None:
        pids[name] = spawn(folder, name, *arguments)
        (folder / "pids.json").write_text(json.dumps(pids))

    anywhere = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    spawn_noted("master", f"{DEPLOY}.master.Master", *anywhere)
    master = wait_for(folder, "master", r"Starting Spark master at (spark://[\d.:]+)")
    size = ("--cores", str(cores), "--memory", memory)
    names = [f"worker-{number}" for number in range(1, workers + 1)]
    for name in names:
        spawn_noted(name, f"{DEPLOY}.worker.Worker", *anywhere, *size, "--work-dir", str(folder / name), master)
    for name in names:
        wait_for(folder, name, r"(Successfully registered with master)")
    (folder / "address").write_text(master + "\n")
    print(master)


def kill(folder: Path, names: list[str], how: signal.Signals) -> None:
    """End processes of a cluster and all of their children."""
    pids = json.loads((folder / "pids.json").read_text())
    for name in names:
        try:
            os.killpg(pids[name], how)
        except ProcessLookupError:  # it ended before
            pass


def stop(folder: Path) -> None:
    """End all processes of a cluster, workers first, and wait until they are gone."""
    pids = json.loads((folder / "pids.json").read_text())
    kill(folder, list(pids)[::-1], signal.SIGTERM)
    deadline = time.monotonic() + 10
    while any(map(is_alive, pids.values())) and time.monotonic() < deadline:
        time.sleep(0.1)
    kill(folder, list(pids), signal.SIGKILL)


def is_alive(group: int) -> bool:
    """Return whether a process group still has a process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    starting, killing, stopping = (commands.add_parser(name) for name in ("start", "kill", "stop"))
    for each in (starting, killing, stopping):
        each.add_argument("folder", type=Path)
    starting.add_argument("--workers", type=int, default=2)
    starting.add_argument("--cores", type=int, default=1, help="of each worker")
    starting.add_argument("--memory", default="1g", help="of each worker")
    killing.add_argument("worker", type=int)
    given = parser.parse_args()
    if given.command == "start":
        start(given.folder, given.workers, given.cores, given.memory)
    elif given.command == "kill":
        kill(given.folder, [f"worker-{given.worker}"], signal.SIGKILL)
    else:
        stop(given.folder)


if __name__ == "__main__":
    main()
