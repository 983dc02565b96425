"""A process that a test starts with `start_new_session=True`, and whatever it has started itself."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path


def kill_family(leader: subprocess.Popen[bytes]) -> None:
    """Kill all processes of the leader's session, as a crash of the machine would, and wait until all are gone.

    A worker of Spark has a group of its own, and would go on for a moment once its driver is gone.
    """
    while alive := _alive(leader.pid):
        for each in alive:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        time.sleep(0.02)
    leader.wait()


def _alive(session: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state not in "ZX":
                found.append(int(stat.parent.name))
    return found
