"""Live endpoints beside `nats-py` with JetStream, synced, on the same multicasts, all in turn.

    python benchmarks/live/beside_nats.py [--processes 8] [--rounds 2] [--seconds 3] [--rates 40,160,640]

Three ways to carry the same multicasts of 100 bytes to three others each, at the same random moments, everything on
disk before it counts: endpoints over TCP (journal `full`), endpoints over JetStream (journal `full`, `sync_interval:
always`), and `nats-py` alone, which publishes the same copies and waits for the same acknowledgements of the same
server, without causal order and without a journal. A way that cannot keep up delivers fewer copies a second than the
others. CPU of the server stands apart. Writes results/nats.json after every round.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import run

from thence.live.init import SERVER, initialise

HERE = Path(__file__).parent
RESULT = HERE / "results" / "nats.json"
WAYS = ("endpoints over TCP", "endpoints over JetStream", "nats-py alone")


class NatsFleet(run.Fleet):
    """Processes around a server of their own; a phase says what the server has used as well."""

    def __init__(self, folder: Path, count: int, program: str) -> None:
        names = [f"p{i}" for i in range(count)]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.files = initialise(folder, names, nats="bench", ports=[port], plain=True)
        for file in self.files:
            kept = [line for line in file.read_text().splitlines() if not line.startswith(("admin", "record"))]
            file.write_text("\n".join(kept))
        binary = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or "nats-server"
        with (folder / "server.log").open("w") as log:
            self.server = subprocess.Popen([binary, "-c", str(folder / SERVER)], stdout=log, stderr=log)
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        commands = [[sys.executable, str(HERE / program), str(file), "uvloop"] for file in self.files]
        self.begin(commands)

    def phase(self, seconds: float, **asked: float) -> dict[str, Any]:
        spent: list[float] = []

        def watch() -> None:
            time.sleep(2.0)
            before = self._server_seconds()
            time.sleep(seconds)
            spent.append(self._server_seconds() - before)

        watcher = threading.Thread(target=watch)
        watcher.start()
        found = super().phase(seconds, **asked)
        watcher.join()
        copies = max(1, round(found["copies a second"] * seconds))
        return {**found, "cpu us a copy at the server": round(1e6 * spent[0] / copies)}

    def _server_seconds(self) -> float:
        fields = Path(f"/proc/{self.server.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        super().close()
        self.server.kill()
        self.server.wait()


def measured(way: str, count: int, seconds: float, rates: list[int]) -> dict[str, dict[str, Any]]:
    """Return the figures of one way at every rate of multicasts a second, of all processes together."""
    with tempfile.TemporaryDirectory() as name:
        if way == WAYS[0]:
            fleet = run.Fleet(Path(name), count, ("ks", "full", "plain", "uvloop"), None)
        else:
            fleet = NatsFleet(Path(name), count, "process.py" if way == WAYS[1] else "bare_nats.py")
        try:
            return {str(rate): fleet.phase(seconds, rate=rate / count) for rate in rates}
        finally:
            fleet.close()


def medians(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the median of every figure over the rounds."""
    return {name: median(row[name] for row in rows) for name in rows[0]}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--processes", type=int, default=8)
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--seconds", type=float, default=3.0)
    arguments.add_argument("--rates", default="40,160,640", help="multicasts a second of all processes, ascending")
    asked = arguments.parse_args()
    rates = [int(rate) for rate in asked.rates.split(",")]
    rounds: list[dict[str, dict[str, dict[str, Any]]]] = []
    loads = []
    for _ in range(asked.rounds):
        loads.append(round(os.getloadavg()[0], 1))
        rounds.append({})
        for way in WAYS:
            rounds[-1][way] = measured(way, asked.processes, asked.seconds, rates)
            print(way, rounds[-1][way], flush=True)
        result = {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
            "processes": asked.processes,
            "fan-out": 3,
            "rounds": len(rounds),
            "load of others": loads,
            "rows": {
                str(rate): {way: medians([each[way][str(rate)] for each in rounds]) for way in WAYS} for rate in rates
            },
        }
        RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
