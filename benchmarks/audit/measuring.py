"""Run a command and say what it took: seconds, CPU seconds, and the peak of memory, its children's too."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import statistics
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

import psutil


class Taken(TypedDict):
    """What a command took."""

    seconds: float
    cpu_seconds: float
    peak_mb: int
    """the sum over all its processes, at the worst moment that was looked at"""
    said: str


class _Watch(threading.Thread):
    """Looks at a process and its descendants a few times a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.peak, self.spent, self.ended = pid, 0, {}, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.1):
            self.look()

    def look(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            me = psutil.Process(self.pid)
            now = 0
            for process in (me, *me.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    now += process.memory_info().rss
                    times = process.cpu_times()
                    self.spent[process.pid] = times.user + times.system
            self.peak = max(self.peak, now)


def run(command: Sequence[str], *, cores: Sequence[int] | None = None, env: Mapping[str, str] | None = None) -> Taken:
    """Run a command, on some cores only if that is said."""
    began, before = time.perf_counter(), _spent()
    pinned = ["taskset", "-c", ",".join(map(str, cores))] if cores is not None else []
    child = subprocess.Popen(
        [*pinned, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ | dict(env or {})
    )
    watch = _Watch(child.pid)
    watch.start()
    said, _ = child.communicate()
    seconds = time.perf_counter() - began
    watch.ended.set()
    assert child.returncode in (0, 1), f"{command} ended with {child.returncode}"
    # The kernel's account of ended children is exact; Spark's Java may still run, and is in what was looked at.
    cpu = max(_spent() - before, sum(watch.spent.values()))
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "peak_mb": watch.peak >> 20,
        "said": said.decode().strip(),
    }


def _spent() -> float:
    """Return the CPU seconds of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def middle(taken: Sequence[Taken], what: str) -> float:
    """Return the median of one measure."""
    return float(statistics.median(each[what] for each in taken))  # type: ignore[literal-required]


def add(path: Path, name: str, value: object) -> None:
    """Put one result into a file of results, which a run that is cut off leaves behind with what it has."""
    path.parent.mkdir(exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {}
    known[name] = value
    path.write_text(json.dumps(known, indent=1) + "\n")
