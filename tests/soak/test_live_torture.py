"""Live processes under large transactions, large payloads, random cancellations, black-holed links and kills; and a
cluster of three NATS servers of which one is killed again and again.

THENCE_TORTURES (20 seeds, 5 processes over TLS), THENCE_KILLS (50 each), THENCE_SENDS (300 of each process).
Rows in benchmarks/soak/results/live.json; a seed that is there is not run again.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.live import SHARED
from support.live_fleet import Fleet
from support.nats_server import Server
from support.ports import free_ports
from support.soak import keep

from thence.live.init import SERVER
from thence.live.nats_server import server_configuration

sys.path.insert(0, str(Path(__file__).parent))
from test_live import asked, done

LIMITS = "\n[limits]\nsilence_seconds = 2.0\nheartbeat_seconds = 0.25\n"


def test_torture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THENCE_TORTURE", "1")
    for seed in range(asked("FIRST", 1), asked("TORTURES", 20) + 1):
        sends, kills = asked("SENDS", 300), asked("KILLS", 50)
        key = f"torture of 5, ks, TLS, seed {seed}, {sends} sends each, {kills} kills"
        if done(key):
            continue
        print(f"seed {seed}")
        with TemporaryDirectory(dir=SHARED) as folder:
            fleet = Fleet(Path(folder), list("abcde"), sends, seed, proxied=True, run=f"torture {seed}")
            for file in fleet.files.values():
                file.write_text(file.read_text() + LIMITS)
            swallowed = 0

            def between(fleet: Fleet = fleet) -> None:
                nonlocal swallowed
                fleet.cut()
                if fleet.kills // 10 > swallowed:
                    assert fleet.proxies is not None
                    fleet.proxies.swallow()
                    swallowed += 1

            try:
                for name in fleet.names:
                    fleet.start(name)
                fleet.mischief(kills, 0.5, between, patience=10.0)
                took = fleet.rest(1200, within=max(120, asked("WITHIN", 30)))
                fleet.stop()
                totals = fleet.check(define=False)
            finally:
                fleet.end()
        keep("live", key, {**totals, "black holes": swallowed, "all delivered after (s)": round(took, 1)})


def test_a_cluster_of_three_servers_loses_one() -> None:
    """Streams with three replicas; one server at a time is killed and started again, the others go on."""
    key = "three NATS servers in a cluster, each killed"
    with TemporaryDirectory() as name:
        folder = Path(name)
        sends = asked("SENDS", 150)
        fleet = Fleet(folder, list("abc"), sends, 1, nats="orders")
        ports, routes = free_ports(3), free_ports(3)
        passwords = [(folder / f"{each}.password").read_text().strip() for each in fleet.names]
        servers = []
        for number in range(3):
            made = folder / f"n{number}"
            made.mkdir()
            others = [port for at, port in enumerate(routes) if at != number]
            text = server_configuration(
                "orders",
                fleet.names,
                passwords,
                port=ports[number],
                store=made / "store",
                cluster=(f"n{number}", routes[number], others),
            )
            (made / SERVER).write_text(text)
            servers.append(Server(made / SERVER))
        urls = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        for file in fleet.files.values():
            text = file.read_text()
            (one,) = [line for line in text.splitlines() if line.startswith("servers")]
            file.write_text(text.replace(one, f"servers = [{urls}]\nreplicas = 3"))
        try:
            for server in servers:
                server.start()
            for each in fleet.names:
                fleet.start(each)
            fleet.wait_for_life()
            for number in range(asked("SERVER_KILLS", 6)):
                time.sleep(1.0)
                servers[number % 3].kill()
                time.sleep(2.0)
                servers[number % 3].start()
            fleet.rest(300, within=120)
            fleet.stop()
            totals = fleet.check()
        finally:
            fleet.end()
            for server in servers:
                server.end()
    killed = sum(server.kills for server in servers)
    assert killed >= 3
    keep("live", key, {**totals, "kills of servers": killed})
