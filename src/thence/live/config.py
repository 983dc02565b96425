"""The configuration of one endpoint, read from TOML. Every error names its key.

Paths are relative to the file. The keys are in `CONFIG_KEYS`; docs/reference/live-configuration.md explains each.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, cast

from thence.core.protocols import ProtocolEntry, require
from thence.errors import MisuseError
from thence.live.core import GIVEN
from thence.live.database import SyncMode

Away = Literal["wait", "spill", "abandon"]
Toml = str | int | float | bool | list["Toml"] | dict[str, "Toml"]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a process listens: host and port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether the address is on this machine only (loopback)."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM: this endpoint's certificate and key, and the authority that vouches for the peers."""

    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True, slots=True)
class Nats:
    """Servers of NATS JetStream that carry the items instead of connections between the processes."""

    servers: tuple[str, ...]
    user: str
    password: Path
    stream: str
    sync_interval: str
    """the servers' own setting: how long an acknowledged item may be in memory only; "always": never"""
    replicas: int = 1
    monitor: str | None = None
    """address of a server's monitoring port (http://host:port), where `sync_interval` is compared"""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of an endpoint, and the behaviour at each limit."""

    payload_bytes: int = 1 << 20
    credit_bytes: int = 1 << 20
    outbox_items: int = 10_000
    attempts: int = 0
    journal_bytes: int = 1 << 34
    record_bytes: int = 1 << 30
    away: Away = "wait"
    transaction_seconds: float = 10.0
    transaction_sends: int = 100_000
    transaction_bytes: int = 1 << 28
    handshake_seconds: float = 10.0
    stop_seconds: float = 5.0
    heartbeat_seconds: float = 0.5
    silence_seconds: float = 10.0
    suspect_after: float = 8.0


@dataclass(frozen=True, slots=True)
class Config:
    """One endpoint: its name, its peers, and the files of its journal and trace."""

    name: str
    """this process, one of `processes`"""
    processes: tuple[str, ...]
    """every process, in the order of its position; the same everywhere"""
    addresses: dict[str, Address]
    """where each process listens; of two, the lower position dials"""
    journal: Path
    """the database that survives a restart"""
    protocol: str = "ks"
    """as `thence protocols` names it"""
    options: dict[str, int | str | bool] = field(default_factory=dict)
    """options of the protocol"""
    run: str = "run"
    """name of the run in the trace"""
    record: Path | None = None
    """file of the trace; None records nothing"""
    admin: Path | None = None
    """Unix socket that answers `thence why`"""
    metrics: Address | None = None
    """address at which Prometheus reads the counters"""
    health: Address | None = None
    """where `/healthz` and `/readyz` are answered"""
    bind: Address | None = None
    """address to listen at, if it differs from the address that the others dial"""
    dead_letter: str | None = None
    """process that gets messages after `limits.attempts`"""
    synchronous: SyncMode = "full"
    """`full`: a commit survives a power cut; `normal`: a killed process only"""
    tls: Tls | None = None
    """certificate, key and authority; None only on loopback"""
    nats: Nats | None = None
    """JetStream in place of `addresses`"""
    limits: Limits = field(default_factory=Limits)
    """sizes and what happens at them"""

    @property
    def listen(self) -> Address:
        """Where this endpoint listens: `bind`, or where the others find it."""
        return self.bind or self.addresses[self.name]


CONFIG_KEYS = {
    "": (
        "name", "processes", "protocol", "options", "run", "journal", "synchronous", "record", "admin", "metrics",
        "health", "bind", "dead_letter", "addresses", "tls", "plain", "nats", "limits",
    ),
    "tls": tuple(Tls.__dataclass_fields__),
    "nats": ("servers", "user", "password", "stream", "sync_interval", "replicas", "monitor"),
    "limits": tuple(Limits.__dataclass_fields__),
}  # fmt: skip
LEAST_LIMITS = {
    "payload_bytes": 1, "credit_bytes": 1024, "outbox_items": 1, "attempts": 0, "journal_bytes": 1 << 20,
    "record_bytes": 0, "transaction_seconds": 0.001, "transaction_sends": 1, "transaction_bytes": 1,
    "handshake_seconds": 0.1, "stop_seconds": 0.0, "heartbeat_seconds": 0.01, "silence_seconds": 0.05,
    "suspect_after": 1.0,
}  # fmt: skip
"""the least value of each limit that is a number"""
MOST_PAYLOAD_BYTES = 100_000_000
"""beyond this the copies in memory would stop the event loop for longer than peers wait"""


class _Table:
    """One table of the file, with its position for errors."""

    def __init__(self, values: Mapping[str, Toml], file: str, prefix: str = "") -> None:
        self.values, self.file, self.prefix = values, file, prefix
        known = CONFIG_KEYS.get(prefix.rstrip("."))
        for key in values:
            if known is not None and key not in known:
                raise MisuseError(f"{file}: {prefix}{key} is not a key; the keys are {', '.join(known)}")

    def wrong(self, key: str, expected: str) -> MisuseError:
        found = f"is {self.values[key]!r:.60}" if key in self.values else "is missing"
        return MisuseError(f"{self.file}: {self.prefix}{key} {found}; {expected} is expected")

    def text(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "a text")
        return value

    def choice(self, key: str, *among: str) -> str:
        value = self.values.get(key, among[0])
        if value not in among:
            raise self.wrong(key, " or ".join(repr(each) for each in among))
        return value

    def number(self, key: str, default: float, low: float) -> float:
        value = self.values.get(key, default)
        whole = isinstance(default, int)
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or value < low:
            raise self.wrong(key, f"a {'whole ' if whole else ''}number of at least {low:g}")
        return value if whole else float(value)

    def table(self, key: str) -> _Table:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "a table")
        return _Table(value, self.file, f"{self.prefix}{key}.")

    def path(self, key: str, folder: Path) -> Path:
        return folder / self.text(key)

    def optional_path(self, key: str, folder: Path) -> Path | None:
        return self.path(key, folder) if key in self.values else None


def load(path: Path | str, environment: Mapping[str, str] = os.environ) -> Config:
    """Read the configuration file of an endpoint.

    Args:
        path: the TOML file; relative paths in it start at its folder.
        environment: variables that override the file, `THENCE_...` (docs/reference/environment.md).
    """
    from thence.live.environment import overlay

    path = Path(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MisuseError(f"{path}: not TOML: {error}") from error
    except OSError as error:
        raise MisuseError(f"{path}: {error.strerror}; a configuration file is expected") from error
    return read(overlay(values, environment), path.parent, str(path))


def read(values: Mapping[str, Toml], folder: Path, file: str) -> Config:
    """Read a configuration from its parsed form."""
    top = _Table(values, file)
    name, processes = top.text("name"), _processes(top)
    if name not in processes:
        raise MisuseError(f"{file}: name is {name!r}, which is not among processes: {', '.join(processes)}")
    protocol = top.text("protocol", "ks")
    try:
        entry = require(protocol, GIVEN, driver="a live endpoint")
    except MisuseError as error:
        raise MisuseError(f"{file}: protocol: {error}") from error
    limits = _limits(top.table("limits"))
    if limits.away == "abandon" and (why := entry.protocol.cannot_abandon):
        accepted = f"protocol {protocol} cannot abandon a process ({why}); wait and spill are accepted"
        raise MisuseError(f'{file}: limits.away is "abandon"; {accepted}')
    synchronous = cast(SyncMode, top.choice("synchronous", "full", "normal"))
    nats = None if "nats" not in top.values else read_nats(top, folder, synchronous)
    addresses = _addresses(top, processes) if nats is None else {}
    metrics, health, bind = (_optional_address(top, key) for key in ("metrics", "health", "bind"))
    places = {f"addresses.{each}": at for each, at in addresses.items()}
    places |= {} if nats is None else {f"nats.servers ({url})": _of_url(top, url) for url in nats.servers}
    tls = _tls(top, folder, places, bind)
    return Config(
        name=name,
        processes=processes,
        addresses=addresses,
        journal=top.path("journal", folder),
        protocol=protocol,
        options=_options(top),
        run=top.text("run", "run"),
        record=top.optional_path("record", folder),
        admin=top.optional_path("admin", folder),
        metrics=metrics,
        health=health,
        bind=bind,
        dead_letter=_dead_letter(top, processes, entry, limits),
        synchronous=synchronous,
        tls=tls,
        nats=nats,
        limits=limits,
    )


def _processes(top: _Table) -> tuple[str, ...]:
    value = top.values.get("processes")
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each for each in value):
        raise top.wrong("processes", "a list of names")
    names = cast(list[str], value)
    if len(set(names)) != len(names):
        raise top.wrong("processes", "a list in which no name stands twice")
    for name in names:
        if not name.isprintable() or len(name) > 100 or any(c in name for c in ",|/\n"):
            raise MisuseError(
                f"{top.file}: processes: {name!r:.40} has a comma, bar, slash or more than 100 characters"
            )
    return tuple(names)


def _addresses(top: _Table, processes: tuple[str, ...]) -> dict[str, Address]:
    table = top.table("addresses")
    for key in table.values:
        if key not in processes:
            raise MisuseError(f"{top.file}: addresses.{key} is not one of processes: {', '.join(processes)}")
    return {name: _address(table, name) for name in processes}


def read_nats(top: _Table, folder: Path, synchronous: SyncMode) -> Nats:
    """Read the table `nats`; refuse to promise more than the servers do."""
    table = top.table("nats")
    servers = table.values.get("servers")
    if not isinstance(servers, list) or not servers or not all(isinstance(each, str) for each in servers):
        raise table.wrong("servers", 'a list of addresses, as ["nats://127.0.0.1:4222"],')
    for key in ("addresses", "bind"):
        if key in top.values:
            raise MisuseError(f"{top.file}: {key} beside a table nats; with NATS only the servers listen")
    stream = table.text("stream", "thence")
    if not stream.replace("-", "").replace("_", "").isalnum() or not stream.isascii():
        raise table.wrong("stream", "a name of letters, digits, - and _")
    interval = table.text("sync_interval")
    if interval != "always" and not SYNC_INTERVAL.fullmatch(interval):
        raise table.wrong("sync_interval", 'what the servers have, "always" or a duration like "2m" (their default),')
    if synchronous == "full" and interval != "always":
        raise MisuseError(
            f'{top.file}: synchronous is "full", but nats.sync_interval is "{interval}": a server may forget what it '
            'acknowledged in that time; set sync_interval: always in the servers, or synchronous = "normal" here'
        )
    return Nats(
        servers=tuple(cast(list[str], servers)),
        user=table.text("user", top.text("name")),
        password=table.path("password", folder),
        stream=stream,
        sync_interval=interval,
        replicas=int(table.number("replicas", 1, 1)),
        monitor=table.text("monitor") if "monitor" in table.values else None,
    )


SYNC_INTERVAL = re.compile(r"(\d+(\.\d+)?(ms|s|m|h))+")


def _of_url(top: _Table, url: str) -> Address:
    scheme, _, place = url.rpartition("://")
    host, colon, port = place.rpartition("@")[2].rpartition(":")
    if scheme not in ("nats", "tls") or not colon or not port.isdecimal() or int(port) > 65535:
        raise MisuseError(f"{top.file}: nats.servers: {url!r:.60}; nats://host:port or tls://host:port is expected")
    return Address(host.strip("[]"), int(port))


def _address(table: _Table, key: str) -> Address:
    try:
        return parse_address(table.text(key))
    except ValueError:
        raise table.wrong(key, "host:port") from None


def parse_address(text: str) -> Address:
    """Read host:port; ValueError for anything else."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r:.60} is not host:port")
    return Address(host.strip("[]"), int(port))


def _dead_letter(top: _Table, processes: tuple[str, ...], entry: ProtocolEntry, limits: Limits) -> str | None:
    if "dead_letter" not in top.values:
        if limits.attempts:
            raise MisuseError(f"{top.file}: limits.attempts is {limits.attempts}; dead_letter, a process, is expected")
        return None
    name = top.text("dead_letter")
    if name not in processes:
        raise top.wrong("dead_letter", f"one of processes ({', '.join(processes)})")
    bound = [need for need in ("broadcast only", "groups") if need in entry.needs]
    if bound:
        raise MisuseError(f"{top.file}: dead_letter: protocol {entry.name} ({bound[0]}) cannot send to one process")
    return name


def _optional_address(top: _Table, key: str) -> Address | None:
    return _address(top, key) if key in top.values else None


def _tls(top: _Table, folder: Path, addresses: dict[str, Address], bind: Address | None) -> Tls | None:
    plain = top.values.get("plain", False)
    if not isinstance(plain, bool):
        raise top.wrong("plain", "true or false")
    if plain == ("tls" in top.values):
        raise MisuseError(f"{top.file}: either a table tls or plain = true is expected, and not both")
    if not plain:
        table = top.table("tls")
        return Tls(*(table.path(key, folder) for key in CONFIG_KEYS["tls"]))
    for key, address in [*addresses.items(), *([("bind", bind)] if bind else [])]:
        if not address.loopback:
            raise MisuseError(
                f"{top.file}: plain = true, but {key} is {address}; without TLS only loopback is accepted"
            )
    return None


def _options(top: _Table) -> dict[str, int | str | bool]:
    table = top.table("options")
    for key, value in table.values.items():
        if not isinstance(value, int | str | bool):
            raise table.wrong(key, "a number, a text, true or false")
    return cast(dict[str, int | str | bool], dict(table.values))


def _limits(table: _Table) -> Limits:
    usual = Limits()
    numbers = {key: table.number(key, getattr(usual, key), least) for key, least in LEAST_LIMITS.items()}
    if numbers["payload_bytes"] > MOST_PAYLOAD_BYTES:
        raise table.wrong("payload_bytes", f"at most {MOST_PAYLOAD_BYTES}")
    if numbers["silence_seconds"] < (least := 3 * numbers["heartbeat_seconds"]):
        raise table.wrong("silence_seconds", f"at least three times heartbeat_seconds, {least:g},")
    return Limits(**numbers, away=cast(Away, table.choice("away", "wait", "spill", "abandon")))  # type: ignore[arg-type]
