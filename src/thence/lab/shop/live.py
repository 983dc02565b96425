"""The shop as three live processes, one of which is killed and started again.

Each is a `thence endpoint` of its own, spoken to by JSON lines. `billing` answers each order with a payment to the
ledger. The ledger is killed with SIGKILL when it has received a third of its messages; its journal brings it back.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from time import monotonic

from thence.core.model.plain import Row
from thence.errors import PeerError
from thence.live.init import initialise

PATIENCE = 60.0
"""seconds without any line from a process, after which the run has failed"""
EndpointLine = tuple[str, Row]


@dataclass(slots=True)
class LiveShop:
    """The ledger's deliveries, in order, and the effect of the kill."""

    delivered: list[str] = field(default_factory=list)
    repeated: int = 0
    """deliveries that came again after the kill, marked as such"""
    killed_after: int = 0
    seconds: float = 0.0

    def early(self) -> list[str]:
        """Return the payments that came before their orders."""
        place = {payload: number for number, payload in enumerate(self.delivered)}
        payments = (each for each in self.delivered if each.startswith("payment-"))
        return [each for each in payments if place.get(f"order-{each.split('-')[1]}", len(place)) > place[each]]


class _Process:
    """One endpoint in a process of its own; its lines go to a queue that all share."""

    def __init__(self, config: Path, lines: Queue[EndpointLine]) -> None:
        """Start the process, and a thread that reads what it writes."""
        self.config, self.lines = config, lines
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "thence", "endpoint", str(self.config)]
        self.running = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.reader = Thread(target=self._read, args=(self.running,), daemon=True)
        self.reader.start()

    def _read(self, running: subprocess.Popen[str]) -> None:
        assert running.stdout is not None
        for line in running.stdout:
            with suppress(ValueError):  # the last line of a killed process may be cut
                self.lines.put((self.config.stem, json.loads(line)))

    def send(self, to: list[str], payload: str) -> None:
        assert self.running.stdin is not None
        self.running.stdin.write(json.dumps({"send": to, "payload": payload}) + "\n")
        self.running.stdin.flush()

    def end(self, *, at_once: bool) -> None:
        """End the process, with SIGKILL or with SIGTERM, and wait for it and for its last line."""
        if at_once:
            self.running.kill()
        else:
            self.running.terminate()
        self.running.wait(PATIENCE)
        self.reader.join(PATIENCE)  # its last lines come before those of the process that replaces it
        for pipe in (self.running.stdin, self.running.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not sent to a killed process is not flushed
                    pipe.close()


def live_shop(folder: Path, orders: int, progress: Callable[[str], None] = lambda _: None) -> LiveShop:
    """Send orders through three processes, kill the ledger on the way, and return what it delivered."""
    made, lines, seen = LiveShop(), Queue[EndpointLine](), set[str]()
    configs = initialise(folder, ["web", "billing", "ledger"], plain=True, run="live")
    began = monotonic()
    web, billing, ledger = processes = [_Process(config, lines) for config in configs]
    try:
        for number in range(1, orders + 1):
            web.send(["billing", "ledger"], f"order-{number}")
        while len(made.delivered) < 2 * orders:
            try:
                name, row = lines.get(timeout=PATIENCE)
            except Empty:
                raise PeerError(f"no line from any process for {PATIENCE:.0f} s; see {folder}") from None
            if "error" in row:
                raise PeerError(f"{name}: {row['error']}")
            if "delivered" not in row:
                continue
            if name == "billing":
                billing.send(["ledger"], row["payload"].replace("order", "payment"))
            elif row["delivered"] in seen:
                made.repeated += 1
            else:
                seen.add(row["delivered"])
                made.delivered.append(row["payload"])
                progress(f"Live: the ledger has {len(made.delivered)} of {2 * orders} messages")
                if not made.killed_after and len(made.delivered) > 2 * orders // 3:
                    made.killed_after = len(made.delivered)
                    ledger.end(at_once=True)
                    ledger.start()
    finally:
        for each in processes:
            each.end(at_once=False)
    made.seconds = monotonic() - began
    return made
