"""A Spark standalone cluster on loopback: a master and workers as processes of their own.

    python tools/standalone.py start FOLDER [--workers 2] [--cores 1] [--memory 1g]
    python tools/standalone.py stop FOLDER [NAME...]

`start` prints the address of the master, as spark://127.0.0.1:PORT, once all workers have registered. Logs and process
ids are kept in FOLDER. `stop` kills all processes, or those of these names (worker-1), with the executors they started.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PATIENCE = 120
"""Seconds for a process to say that it is ready."""


def start(folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> str:
    """Start a master and workers; return the address of the master."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "pids").exists():
        raise SystemExit(f"{folder} has a cluster already; stop it first: python tools/standalone.py stop {folder}")
    try:
        host = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = _launch(folder, "master", "org.apache.spark.deploy.master.Master", *host)
        found = _wait(folder / "master.log", r"Starting Spark master at (spark://\S+)", master)
        for number in range(1, workers + 1):
            given = ("--cores", str(cores), "--memory", memory, "--work-dir", str(folder / f"work-{number}"))
            name = f"worker-{number}"
            worker = _launch(folder, name, "org.apache.spark.deploy.worker.Worker", *host, *given, found)
            _wait(folder / f"{name}.log", r"Successfully registered with master (\S+)", worker)
    except BaseException:
        stop(folder)
        raise
    return found


def _launch(folder: Path, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
    import pyspark

    home = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    variables = {"SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1"}
    with open(folder / f"{name}.log", "wb") as log:
        process = subprocess.Popen(
            [str(Path(home) / "bin" / "spark-class"), main, *arguments],
            env=os.environ | variables, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    with open(folder / "pids", "a") as pids:
        pids.write(f"{name} {process.pid}\n")
    return process


def _wait(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.1)
    raise SystemExit(f"{log.stem} did not start; see {log}")


def stop(folder: Path, *names: str) -> None:
    """End processes of a cluster, with all they started: those of these names, or all of them."""
    if not (folder / "pids").exists():
        return
    running = dict(line.split() for line in (folder / "pids").read_text().splitlines())
    for name in names or list(running):
        with suppress(ProcessLookupError):
            os.killpg(int(running.pop(name)), signal.SIGKILL)
    if running:
        (folder / "pids").write_text("".join(f"{name} {pid}\n" for name, pid in running.items()))
    else:
        (folder / "pids").unlink()


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(description="A Spark standalone cluster on loopback.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("start", "stop"):
        commands.add_parser(name).add_argument("folder", type=Path)
    commands.choices["stop"].add_argument("names", nargs="*", help="master, worker-1, ...; default: all")
    more = commands.choices["start"]
    more.add_argument("--workers", type=int, default=2)
    more.add_argument("--cores", type=int, default=1, help="of each worker")
    more.add_argument("--memory", default="1g", help="of each worker")
    given = parser.parse_args()
    if given.command == "stop":
        stop(given.folder, *given.names)
    else:
        print(start(given.folder, workers=given.workers, cores=given.cores, memory=given.memory))


if __name__ == "__main__":
    sys.exit(main())
