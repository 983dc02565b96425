"""A real MariaDB with a binary log, started and stopped by a test, where Debian's server is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.processes import free_ports


@dataclass(frozen=True)
class MariaDB:
    """A running server."""

    socket: Path
    port: int

    def sql(self, script: str) -> str:
        """Run a script and return what it prints."""
        done = self._run(script)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def answers(self) -> bool:
        """Return whether it runs scripts by now."""
        return self._run("select 1;").returncode == 0

    def _run(self, script: str) -> subprocess.CompletedProcess[str]:
        command = ["mariadb", f"--socket={self.socket}", "--user=root", "--batch", "--skip-column-names"]
        return subprocess.run(command, input=script, text=True, capture_output=True)


def install() -> None:
    """Bring Debian's server, on a machine that has none and lets us."""
    if shutil.which("mariadbd") is None:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], check=True, **quiet)  # type: ignore[call-overload]
        subprocess.run(["apt-get", "install", "-y", "-qq", "mariadb-server"], check=True, env=environment, **quiet)  # type: ignore[call-overload]


@contextmanager
def mariadb() -> Iterator[MariaDB]:
    """Start a server in a folder of its own, and stop it."""
    install()
    folder = Path(tempfile.mkdtemp(prefix="thence-maria"))
    data, (port,) = folder / "data", free_ports(1)
    me = "root" if os.geteuid() == 0 else os.environ.get("USER", "mysql")
    common = ["--no-defaults", f"--datadir={data}", f"--user={me}"]
    make = ["mariadb-install-db", *common, "--auth-root-authentication-method=normal", "--skip-test-db"]
    done = subprocess.run(make, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    server = MariaDB(folder / "socket", port)
    settings = [
        f"--socket={server.socket}", f"--port={port}", "--bind-address=127.0.0.1", f"--pid-file={folder}/pid",
        "--log-bin=bin", "--server-id=1", "--binlog-format=ROW", "--binlog-row-image=FULL",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["mariadbd", *common, *settings], stdout=log, stderr=log)
    try:
        while not server.answers():
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            time.sleep(0.1)
        server.sql("create user debezium@'127.0.0.1' identified by 'none'; grant all on *.* to debezium@'127.0.0.1';")
        yield server
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
