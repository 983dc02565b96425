"""A real NATS server for tests: started, killed, started again."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

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
