"""Multicasts a second, latency, and CPU a copy of live endpoints, beside `unordered` and a bare socket.

    nice -n -10 python benchmarks/live/run.py [--processes 2,8,32] [--only ks/normal/plain] [--seconds 5]

Every process runs by itself on this machine; each multicast goes to three others; payloads of 100 bytes. Two phases on
the same processes: `IN_FLIGHT` sends kept under way by everybody (multicasts a second, CPU a copy), and sends at random
moments at a quarter of that rate (p50, p99 from the call of `send` to the hand-over). CPU is that of all processes over
all copies delivered, senders' and receivers' work together. Writes results/live.json after every setting; rows of
other settings stay. `cores used` says how much of the machine the processes got: on a machine that does other things, a
row takes the place of an earlier one only if it got no less.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from thence.live.init import initialise

HERE = Path(__file__).parent
RESULT = HERE / "results" / "live.json"
IN_FLIGHT = 8
FRAME = 200
SETTINGS = [
    ("ks", "normal", "plain", "uvloop"),
    ("unordered", "normal", "plain", "uvloop"),
    ("ks", "normal", "tls", "uvloop"),
    ("ks", "full", "plain", "uvloop"),
    ("ks", "full", "tls", "uvloop"),
    ("unordered", "full", "plain", "uvloop"),
    ("ks", "normal", "plain", "asyncio"),
    ("ks", "normal", "recorded", "uvloop"),
]
"""protocol, journal, connection (recorded: plain, and a trace is written), event loop"""


class Fleet:
    def __init__(self, folder: Path, count: int, setting: tuple[str, str, str, str], profile: str | None) -> None:
        protocol, synchronous, connection, loop = setting
        names = [f"p{i}" for i in range(count)]
        self.files = initialise(folder, names, protocol=protocol, plain=connection != "tls")
        left_out = ("admin",) if connection == "recorded" else ("admin", "record")
        for file in self.files:
            text = file.read_text().replace('"full"', f'"{synchronous}"')
            file.write_text("\n".join(line for line in text.splitlines() if not line.startswith(left_out)))
        commands = [[sys.executable, str(HERE / "process.py"), str(file), loop] for file in self.files]
        if profile:
            commands[0].append(profile)
        self.begin(commands)

    def begin(self, commands: list[list[str]]) -> None:
        """Start the processes and wait until each is ready."""
        self.running = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            for command in commands
        ]
        assert [process.stdout.readline() for process in self.running] == ["ready\n"] * len(commands)

    def phase(self, seconds: float, **asked: float) -> dict:
        start = time.monotonic() + 2.0
        for process in self.running:
            process.stdin.write(json.dumps({"start": start, "seconds": seconds, **asked}) + "\n")
        rows = [json.loads(process.stdout.readline()) for process in self.running]
        delays = sorted(delay for row in rows for delay in row["latencies"]) or [0.0]
        copies = sum(row["delivered"] for row in rows)
        return {
            "multicasts a second": round(sum(row["sent"] for row in rows) / seconds),
            "copies a second": round(copies / seconds),
            "p50 ms": round(1000 * delays[len(delays) // 2], 2),
            "p99 ms": round(1000 * delays[int(len(delays) * 0.99)], 2),
            "cpu us a copy": round(1e6 * sum(row["cpu"] for row in rows) / max(1, copies)),
            "cores used": round(sum(row["cpu"] for row in rows) / seconds, 2),
        }

    def close(self) -> None:
        for process in self.running:
            process.stdin.close()
        for process in self.running:
            process.wait(60)


def measure(count: int, setting: tuple[str, str, str, str], seconds: float, profile: str | None) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), count, setting, profile)
        load = os.getloadavg()[0]
        try:
            busy = fleet.phase(seconds, in_flight=IN_FLIGHT)
            calm = fleet.phase(seconds, rate=max(1.0, busy["multicasts a second"] / 4) / count)
        finally:
            fleet.close()
    named = dict(zip(("protocol", "journal", "connection", "loop"), setting, strict=True))
    return {"processes": count, **named, "busy": busy, "calm": calm, "load of others before": round(load, 1)}


class Frames(asyncio.Protocol):
    """One end of a bare socket: handles every frame by itself; the client stops after so many."""

    def __init__(self, left: int | None = None) -> None:
        self.left, self.kept = left, b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        for _ in range(64 if self.left else 0):
            transport.write(b"x" * FRAME)

    def data_received(self, data: bytes) -> None:
        data = self.kept + data
        whole = len(data) // FRAME * FRAME
        for start in range(0, whole, FRAME):
            self.frame(data[start : start + FRAME])
        self.kept = data[whole:]

    def frame(self, frame: bytes) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                if not self.done.done():
                    self.done.set_result(None)
                return
        self.transport.write(frame)


async def floor(frames: int = 50_000) -> float:
    """Return microseconds of CPU for one frame of 200 bytes over a bare loopback socket, there and back."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Frames, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    cpu = time.process_time()
    _, client = await loop.create_connection(lambda: Frames(frames), "127.0.0.1", port)
    await client.done
    server.close()
    return 1e6 * (time.process_time() - cpu) / frames


def key(row: dict) -> tuple:
    return row["processes"], row["journal"], row["connection"], row["protocol"], row["loop"]


def _got(row: dict | None) -> float:
    return row["busy"]["cores used"] if row else 0.0


def keep(rows: dict, bare: float) -> None:
    result = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "bare socket, us CPU a frame there and back": round(bare, 1),
        "in flight": IN_FLIGHT,
        "fan-out": 3,
        "rows": [rows[each] for each in sorted(rows)],
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--processes", default="2,8,32")
    arguments.add_argument("--seconds", type=float, default=5.0)
    arguments.add_argument("--only", help="settings that contain this text, as protocol/journal/connection/loop")
    arguments.add_argument("--profile", help="where the first process leaves its profile")
    asked = arguments.parse_args()
    kept = json.loads(RESULT.read_text())["rows"] if RESULT.exists() else []
    rows = {key(row): row for row in kept}
    bare = asyncio.run(floor())
    for count in map(int, asked.processes.split(",")):
        for setting in SETTINGS:
            if asked.only is None or asked.only in "/".join(setting):
                row = measure(count, setting, asked.seconds, asked.profile)
                print(row, flush=True)
                if _got(row) >= _got(rows.get(key(row))):
                    rows[key(row)] = row
                if asked.profile is None:
                    keep(rows, bare)


if __name__ == "__main__":
    main()
