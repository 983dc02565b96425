"""Multicasts a second, latency, and CPU a copy of live endpoints, beside `unordered` and a bare socket.

    python benchmarks/live/run.py [--processes 2,8,32] [--seconds 5]

Every process runs by itself on this machine; each multicast goes to three others; payloads of 100 bytes; every process
keeps `IN_FLIGHT` sends under way. Writes results/live.json, one row for each setting; rows of other settings stay.
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

from thence.runtime.setup import initialise

HERE = Path(__file__).parent
RESULT = HERE / "results" / "live.json"
IN_FLIGHT = 8


def measure(count: int, protocol: str, synchronous: str, plain: bool, seconds: float, in_flight: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        files = initialise(Path(folder), [f"p{i}" for i in range(count)], protocol=protocol, plain=plain)
        for file in files:
            text = file.read_text().replace('"full"', f'"{synchronous}"')
            file.write_text("\n".join(line for line in text.splitlines() if not line.startswith(("record", "admin"))))
        start = time.monotonic() + 4 + count * 0.35
        command = [sys.executable, str(HERE / "process.py")]
        running = [
            subprocess.Popen([*command, str(f), str(start), str(seconds), str(in_flight)], stdout=subprocess.PIPE)
            for f in files
        ]
        rows = [json.loads(process.communicate(timeout=200)[0]) for process in running]
    delays = sorted(delay for row in rows for delay in row["latencies"]) or [0.0]
    copies = sum(row["delivered"] for row in rows)
    return {
        "processes": count,
        "protocol": protocol,
        "synchronous": synchronous,
        "tls": not plain,
        "in flight": in_flight,
        "multicasts a second": round(sum(row["sent"] for row in rows) / seconds),
        "p50 ms": round(1000 * delays[len(delays) // 2], 2),
        "p99 ms": round(1000 * delays[int(len(delays) * 0.99)], 2),
        "cpu us a copy": round(1e6 * sum(row["cpu"] for row in rows) / max(1, copies)),
    }


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Count(asyncio.Protocol):
    def __init__(self, frames: int) -> None:
        self.left, self.done = frames * 200, asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.left -= len(data)
        if self.left <= 0 and not self.done.done():
            self.done.set_result(None)
        elif not self.done.done():
            self.transport.write(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        transport.write(b"x" * 200 * 64)


async def floor(frames: int = 100_000) -> float:
    """Return microseconds of CPU for one frame of 200 bytes over a bare loopback socket, there and back."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    cpu = time.process_time()
    _, counter = await loop.create_connection(lambda: Count(frames), "127.0.0.1", port)
    await counter.done
    server.close()
    return 1e6 * (time.process_time() - cpu) / frames


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--processes", default="2,8,32")
    arguments.add_argument("--seconds", type=float, default=5.0)
    asked = arguments.parse_args()
    kept = json.loads(RESULT.read_text())["rows"] if RESULT.exists() else []
    rows = {(r["processes"], r["protocol"], r["synchronous"], r["tls"], r["in flight"]): r for r in kept}
    for count in map(int, asked.processes.split(",")):
        settings = [
            ("ks", "normal", True),
            ("unordered", "normal", True),
            ("ks", "normal", False),
            ("ks", "full", True),
        ]
        if count <= 8:
            settings += [("ks", "full", False), ("unordered", "full", True)]
        for protocol, synchronous, plain in settings:
            for in_flight in (IN_FLIGHT, 1) if (protocol, synchronous, plain) == settings[0] else (IN_FLIGHT,):
                row = measure(count, protocol, synchronous, plain, asked.seconds, in_flight)
                rows[count, protocol, synchronous, not plain, in_flight] = row
                print(row, flush=True)
    result = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "load": [round(x, 1) for x in os.getloadavg()],
        "bare socket, us CPU a frame there and back": round(asyncio.run(floor()), 1),
        "rows": [rows[key] for key in sorted(rows, key=str)],
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
