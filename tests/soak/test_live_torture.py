"""Live processes under large transactions, large payloads, random cancellations, slow, cut and black-holed links and
kills; and a cluster of three NATS servers of which one is killed again and again.

THENCE_TORTURES (20 seeds, 5 processes over TLS), THENCE_KILLS (50 each), THENCE_SENDS (400 of each process),
THENCE_PACE (milliseconds between waves of sends, 1,500 at most by default: sends should last as long as the kills).
Rows in benchmarks/soak/results/live.json; a seed that is there is not run again.

The judges: an oracle over the applications' own notes, `thence.audit` over the traces, and both compared.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.live import SHARED
from support.live_app import BULK, HEAVY, PIECES
from support.live_fleet import Fleet
from support.processes import Server, free_ports
from support.soak import keep

from thence.live.config import Tls, load
from thence.live.init import SERVER, USERS
from thence.live.nats_server import server_configuration

sys.path.insert(0, str(Path(__file__).parent))
from test_live import asked, done, kept

LIMITS = f"\n[limits]\nsilence_seconds = 2.0\nheartbeat_seconds = 0.25\npayload_bytes = {32 << 20}\n"


def test_torture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THENCE_TORTURE", str(asked("PACE", 1500) / 1000))
    for seed in range(asked("FIRST", 1), asked("TORTURES", 20) + 1):
        sends, kills = asked("SENDS", 400), asked("KILLS", 50)
        key = f"torture of 5, ks, TLS, seed {seed}, {sends} sends each, {kills} kills"
        if done(key):
            continue
        print(f"seed {seed}")
        begun = time.monotonic()
        with TemporaryDirectory(dir=SHARED) as folder:
            fleet = Fleet(Path(folder), list("abcde"), sends, seed, proxied=True, run=f"torture {seed}")
            for file in fleet.files.values():
                file.write_text(file.read_text() + LIMITS)
            try:
                for name in fleet.names:
                    fleet.start(name)
                fleet.mischief(kills, 0.5, lambda fleet=fleet: faults(fleet), patience=10.0)
                tormented = time.monotonic() - begun
                took = fleet.rest(1200, within=max(120, asked("WITHIN", 30)))
                fleet.stop()
                totals = fleet.check(define=False)
                largest = largest_payloads(fleet)
            finally:
                fleet.end()
        seconds = {
            "all delivered after (s)": round(took, 1),
            "seconds of faults": round(tormented),
            "seconds": round(time.monotonic() - begun),
        }
        keep("live", key, {**totals, "delays": fleet.delays, "black holes": fleet.holes, **largest, **seconds})
        keep_torture_sums()


def faults(fleet: Fleet) -> None:
    """Between two kills: a link is cut or slowed down; after every fifth, links swallow everything."""
    fleet.cut()
    if fleet.cuts % 2:
        fleet.delay()
    if fleet.kills // 5 > fleet.holes:
        fleet.swallow()


def largest_payloads(fleet: Fleet) -> dict[str, int]:
    """Count the transactions and payloads that are meant by large: 2,000 sends, 10 MiB in all, 10 MB in one."""
    begun: Counter[str] = Counter()
    heavy = 0
    for name in fleet.names:
        begun.update(line.split()[2] for line in fleet.notes(name) if line.startswith("within "))
        sent = (line.split()[1].split(".")[1] for line in fleet.notes(name) if line.startswith("sent "))
        heavy += sum(int(number) % HEAVY[0] == HEAVY[1] for number in sent)
    committed = {key for rows in fleet.effects().values() for key in rows}
    sizes = Counter(count for key, count in begun.items() if key in committed)
    return {
        f"transactions of {BULK} sends": sizes[BULK],
        f"transactions of {PIECES} x 900 kB": sizes[PIECES],
        "payloads of 10 to 30 MB": heavy,
    }


def keep_torture_sums() -> None:
    rows = [row for key, row in kept().items() if key.startswith("torture of 5, ks, TLS, seed ")]
    counted = {what for row in rows for what, value in row.items() if type(value) is int}
    sums = {what: sum(row.get(what, 0) for row in rows) for what in sorted(counted)}
    keep("live", "torture of 5, all seeds", {"seeds": len(rows), **sums})


def test_a_cluster_of_three_servers_loses_one() -> None:
    """Streams with three replicas; one server at a time is killed and started again, the others go on."""
    key = "three NATS servers in a cluster, each killed"
    with TemporaryDirectory() as name:
        folder = Path(name)
        sends = asked("SENDS", 150)
        fleet = Fleet(folder, list("abc"), sends, 1, nats="orders")
        ports, routes = free_ports(3), free_ports(3)
        tls = load(fleet.files["a"]).tls
        assert tls is not None
        tls = Tls(folder / "nats.server.crt", folder / "nats.server.key", tls.authority)
        servers = []
        for number in range(3):
            made = folder / f"n{number}"
            made.mkdir()
            shutil.copy(folder / USERS, made)
            others = [port for at, port in enumerate(routes) if at != number]
            text = server_configuration(
                port=ports[number],
                store=made / "store",
                users=USERS,
                tls=tls,
                cluster=(f"n{number}", routes[number], others),
            )
            (made / SERVER).write_text(text)
            servers.append(Server(made / SERVER))
        urls = ", ".join(f'"tls://127.0.0.1:{port}"' for port in ports)
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
