"""Keys from the environment, where to listen, and health over HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from support.live_pair import configure, folder, run, take
from support.processes import free_ports

from thence.errors import MisuseError
from thence.live.config import CONFIG_KEYS, Address, Limits, Nats
from thence.live.init import initialise
from thence.runtime import Endpoint, load

assert folder is not None


def test_every_key_comes_from_the_environment_too(folder: Path) -> None:
    file = folder / "empty.toml"
    file.write_text("")
    said = {
        "NAME": "b",
        "PROCESSES": "a, b",
        "PROTOCOL": "ks",
        "OPTIONS": "{explicit = true}",
        "RUN": "7",
        "JOURNAL": "b.journal",
        "SYNCHRONOUS": "normal",
        "RECORD": "b.jsonl",
        "ADMIN": "b.sock",
        "METRICS": "127.0.0.1:1",
        "HEALTH": "127.0.0.1:2",
        "BIND": "0.0.0.0:3",
        "DEAD_LETTER": "a",
        "ADDRESSES": '{a = "10.0.0.1:4", b = "10.0.0.2:5"}',
        "TLS__CERTIFICATE": "b.crt",
        "TLS__KEY": "b.key",
        "TLS__AUTHORITY": "authority.crt",
        **{f"LIMITS__{key.upper()}": "5000" for key in Limits.__dataclass_fields__},
        "LIMITS__AWAY": "spill",
        "LIMITS__JOURNAL_BYTES": "2000000",
        "LIMITS__HEARTBEAT_SECONDS": "0.25",
    }
    keys = {key.upper() for key in CONFIG_KEYS[""] if key not in CONFIG_KEYS}
    keys |= {f"{table.upper()}__{key.upper()}" for table in ("tls", "limits") for key in CONFIG_KEYS[table]}
    assert said.keys() == keys - {"PLAIN"}
    found = load(file, {f"THENCE_LIVE_{key}": value for key, value in said.items()})
    assert (found.name, found.processes, found.run, found.options) == ("b", ("a", "b"), "7", {"explicit": True})
    assert (found.listen, found.addresses["b"]) == (Address("0.0.0.0", 3), Address("10.0.0.2", 5))
    assert (found.limits.away, found.limits.payload_bytes, found.limits.heartbeat_seconds) == ("spill", 5000, 0.25)
    assert found.tls is not None
    assert found.tls.key == folder / "b.key"


def test_the_keys_of_nats_come_from_the_environment_too(folder: Path) -> None:
    file = folder / "a.toml"
    file.write_text('name = "a"\nprocesses = ["a", "b"]\njournal = "j"\nplain = true\n')
    said = {
        "SERVERS": '["nats://127.0.0.1:1"]',
        "USER": "u",
        "PASSWORD": "p",
        "STREAM": "s",
        "SYNC_INTERVAL": "always",
        "REPLICAS": "3",
        "MONITOR": "http://127.0.0.1:2",
    }
    assert said.keys() == {key.upper() for key in CONFIG_KEYS["nats"]}
    found = load(file, {f"THENCE_LIVE_NATS__{key}": value for key, value in said.items()}).nats
    assert found == Nats(("nats://127.0.0.1:1",), "u", folder / "p", "s", "always", 3, "http://127.0.0.1:2")


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("SERVERS", '["nats://example.org:4222"]', "plain = true, but .*example.org:4222; without TLS only loopback"),
        ("SERVERS", "[]", r"nats\.servers is \[\]; a list of addresses"),
        ("SYNC_INTERVAL", "sometimes", r"nats\.sync_interval is 'sometimes'; what the servers have"),
        ("STREAM", "a.b", r"nats\.stream is 'a\.b'; a name of letters"),
        ("REPLICAS", "0", r"nats\.replicas is 0; a whole number of at least 1"),
    ],
)
def test_mistakes_in_the_table_nats_are_told(folder: Path, variable: str, value: str, told: str) -> None:
    file = folder / "a.toml"
    table = '[nats]\nservers = ["nats://127.0.0.1:1"]\npassword = "p"\nsync_interval = "always"\n'
    file.write_text('name = "a"\nprocesses = ["a", "b"]\njournal = "j"\nplain = true\n' + table)
    with pytest.raises(MisuseError, match=told):
        load(file, {f"THENCE_LIVE_NATS__{variable}": value})


def test_the_environment_takes_the_place_of_the_file(folder: Path) -> None:
    first, _ = configure(folder, limits={"payload_bytes": 10, "outbox_items": 5})
    found = load(first, {"THENCE_LIVE_LIMITS__PAYLOAD_BYTES": "20", "THENCE_LIVE_OPTIONS__EXPLICIT": "true"})
    assert (found.limits.payload_bytes, found.limits.outbox_items) == (20, 5)
    assert found.options == {"explicit": True}


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("THENCE_LIVE_NAMES", "a", "THENCE_LIVE_NAMES in the environment is not a key; .*NAME, PROCESSES"),
        ("THENCE_LIVE_LIMITS__PAYLOAD_BYTES", "many", "'many', which TOML cannot read"),
        ("THENCE_LIVE_LIMITS__PAYLOAD_BYTES", "0", r"limits\.payload_bytes is 0; a whole number of at least 1"),
        ("THENCE_LIVE_BIND", "here", "bind is 'here'; host:port is expected"),
        ("THENCE_LIVE_BIND", "0.0.0.0:9", r"plain = true, but bind is 0\.0\.0\.0:9; without TLS only loopback"),
    ],
)
def test_mistakes_in_the_environment_are_told(folder: Path, variable: str, value: str, told: str) -> None:
    with pytest.raises(MisuseError, match=told):
        load(configure(folder)[0], {variable: value})


def test_an_endpoint_listens_where_bind_says(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        (port,) = free_ports(1)
        there = load(second).listen.port
        second.write_text(f'bind = "127.0.0.1:{port}"\n' + second.read_text())
        first.write_text(first.read_text().replace(str(there), str(port)))
        async with Endpoint(first) as a, Endpoint(second) as b:
            assert (b.config.listen.port, b.config.addresses["b"].port) == (port, there)
            await a.send({"b"}, b"x")
            await take(b, 1)

    run(go())


async def get(address: Address, path: str) -> tuple[int, dict[str, object]]:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), json.loads(body)


def test_health_and_readiness(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        (port,) = free_ports(1)
        first.write_text(f'health = "127.0.0.1:{port}"\n' + first.read_text())
        async with Endpoint(first) as a:
            at = a.config.health
            assert at is not None
            assert await get(at, "/healthz") == (200, {"process": "a", "failure": None})
            status, body = await get(at, "/readyz")
            assert (status, body["away"]) == (200, ["b"])
            async with Endpoint(second) as b:
                await a.send({"b"}, b"x")
                await take(b, 1)
                assert (await get(at, "/readyz"))[1]["away"] == []
            a.process.full = True
            assert (await get(at, "/readyz"))[0] == 503
            assert (await get(at, "/healthz"))[0] == 200
            a.process.broken(RuntimeError("boom"))
            status, body = await get(at, "/healthz")
            assert status == 503
            assert "RuntimeError: boom" in str(body["failure"])
            assert (await get(at, "/else"))[0] == 404

    run(go())


def test_payloads_have_an_upper_limit(folder: Path) -> None:
    assert load(configure(folder, limits={"payload_bytes": 100_000_000})[0]).limits.payload_bytes == 100_000_000
    with pytest.raises(MisuseError, match=r"limits\.payload_bytes is 100000001; at most 100000000 is expected"):
        load(configure(folder / "more", limits={"payload_bytes": 100_000_001})[0])


@pytest.mark.parametrize("processes", [[], ["a", "a"], ["a", "b/c"]])
def test_a_set_that_cannot_be_made_leaves_no_folder(folder: Path, processes: list[str]) -> None:
    with pytest.raises(MisuseError, match="processes"):
        initialise(folder / "new", processes, plain=True)
    assert not (folder / "new").exists()
