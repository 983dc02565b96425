"""A working set of endpoints on this machine: a configuration file for each, an authority, certificates."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from thence.core.protocols.registry import lookup
from thence.errors import MisuseError
from thence.live.config import Config, Tls, load
from thence.live.core import Core
from thence.live.private import make_private

PORTS = range(20_000, 30_000)
"""below those that systems give to connections by themselves"""
CONFIG = """\
name = {name}
run = {run}
protocol = {protocol}
processes = {processes}
journal = "{file}.journal"
synchronous = "full"
record = "{file}.jsonl"
admin = "{file}.sock"
{tls}
{options}
{places}
"""
NATS = """\
[nats]
servers = [{servers}]
user = {name}
password = "{file}.password"
stream = "{stream}"
sync_interval = "always"
"""
SERVER, USERS = "nats-server.conf", "nats-users.conf"
HOSTS = ("127.0.0.1", "localhost")
AUTHORITY_KEY = "authority.key"
TLS = """
[tls]
certificate = "{file}.crt"
key = "{file}.key"
authority = "authority.crt"
"""


def initialise(
    folder: Path,
    processes: Sequence[str],
    *,
    protocol: str = "ks",
    run: str = "run",
    plain: bool = False,
    ports: Sequence[int] | None = None,
    options: dict[str, int | str | bool] | None = None,
    nats: str | None = None,
    keep_authority: bool = False,
) -> list[Path]:
    """Write configurations, and certificates unless `plain`, into a folder; return the files, one for each process.

    `nats` names a stream: the set talks through a NATS server on this machine, whose configuration is written too.
    `keep_authority` writes the authority's key too, with which `add_member` certifies further processes.
    """
    lookup(protocol)
    if not processes:
        raise MisuseError("--processes names no process; names separated by commas are expected, as a,b,c")
    new = not folder.exists()
    files = [folder / f"{safe(name)}.toml" for name in processes]
    for file in sorted(folder.glob("*.toml")):
        raise MisuseError(f"{file} exists already; a new folder is expected")
    if len({str(file) for file in files}) != len(processes):
        raise MisuseError(f"processes {', '.join(processes)}: two of these names give the same file name")
    folder.mkdir(parents=True, exist_ok=True)
    chosen = list(ports) if ports is not None else free_ports(1 if nats else len(processes))
    for name, file in zip(processes, files, strict=True):
        url = f"{'nats' if plain else 'tls'}://127.0.0.1:{chosen[0]}"
        places = _addresses(processes, chosen) if nats is None else _through(name, file, nats, [url])
        text = _configuration(name, file, processes, protocol, run, options or {}, plain, places)
        file.write_text(text, encoding="utf-8")
    try:
        for file in files:
            load(file)
        Core.fresh(protocol, processes, processes[0], options=options)
        if not plain:
            _certify(folder, processes, keep_authority, nats is not None)
    except (MisuseError, ImportError):
        for file in files:
            file.unlink()
        if new:
            folder.rmdir()
        raise
    if nats is not None:
        _server(folder, processes, files, nats, chosen[0], plain)
    return files


def _configuration(
    name: str,
    file: Path,
    processes: Sequence[str],
    protocol: str,
    run: str,
    options: Mapping[str, int | str | bool],
    plain: bool,
    places: str,
) -> str:
    """Return the text of one process's configuration; `places` is where it finds the others."""
    chosen = "".join(f"{key} = {json.dumps(value)}\n" for key, value in options.items())
    return CONFIG.format(
        name=json.dumps(name),
        run=json.dumps(run),
        protocol=json.dumps(protocol),
        processes=json.dumps(list(processes)),
        file=file.stem,
        tls="plain = true" if plain else TLS.format(file=file.stem),
        options=f"[options]\n{chosen}" if options else "",
        places=places,
    )


def _addresses(processes: Sequence[str], ports: Sequence[int]) -> str:
    lines = [f'{json.dumps(name)} = "127.0.0.1:{port}"' for name, port in zip(processes, ports, strict=True)]
    return "[addresses]\n" + "\n".join(lines)


def _through(name: str, file: Path, stream: str, servers: Sequence[str]) -> str:
    listed = ", ".join(map(json.dumps, servers))
    return NATS.format(servers=listed, name=json.dumps(name), file=file.stem, stream=stream)


def _server(folder: Path, processes: Sequence[str], files: Sequence[Path], stream: str, port: int, plain: bool) -> None:
    """Write the configuration of a NATS server and its users, and a password for each process."""
    from thence.live.nats_server import new_password, server_configuration, users_configuration

    at = folder.resolve()
    tls = None if plain else Tls(at / "nats.server.crt", at / "nats.server.key", at / "authority.crt")
    text = server_configuration(port=port, store=at / "jetstream", users=USERS, tls=tls)
    (folder / SERVER).write_text(text, encoding="utf-8")
    passwords = {name: new_password() for name in processes}
    _private(folder / USERS, users_configuration(stream, passwords))
    for file, password in zip(files, passwords.values(), strict=True):
        _private(file.with_suffix(".password"), password + "\n")


def _private(path: Path, text: str) -> None:
    make_private(path)
    path.write_text(text, encoding="utf-8")


def add_member(folder: Path, name: str, *, port: int | None = None) -> Path:
    """Write the configuration, and the certificate, of one more process of a set; it joins at run time."""
    known = sorted(folder.glob("*.toml"))
    if not known:
        raise MisuseError(f"{folder} holds no configuration; --init makes a set first")
    first = max((load(file) for file in known), key=lambda each: len(each.processes))
    file = folder / f"{safe(name)}.toml"
    if name in first.processes or file.exists():
        raise MisuseError(f"{name} is in {folder} already; a new name is expected")
    processes = [*first.processes, name]
    if first.nats is None:
        at = {**first.addresses, name: f"127.0.0.1:{port or free_ports(1)[0]}"}
        places = "[addresses]\n" + "\n".join(f'{json.dumps(each)} = "{place}"' for each, place in at.items())
    else:
        places = _through(name, file, first.nats.stream, first.nats.servers)
    plain = first.tls is None
    text = _configuration(name, file, processes, first.protocol, first.run, first.options, plain, places)
    if first.tls is not None:
        from thence.live.certificates import issue, load_authority

        root = load_authority(folder / "authority.crt", folder / AUTHORITY_KEY)
        issue(root, [name], folder / f"{file.stem}.crt", folder / f"{file.stem}.key")
    if first.nats is not None:
        _add_user(folder, [load(each) for each in known], name, file)
    file.write_text(text, encoding="utf-8")
    return file


def _add_user(folder: Path, members: Sequence[Config], name: str, file: Path) -> None:
    """Write a password for one more process, and the users of the NATS servers with it."""
    from thence.live.nats_server import new_password, users_configuration

    passwords = {each.name: each.nats.password.read_text(encoding="utf-8").strip() for each in members if each.nats}
    passwords[name] = new_password()
    stream = next(each.nats.stream for each in members if each.nats)
    _private(file.with_suffix(".password"), passwords[name] + "\n")
    _private(folder / USERS, users_configuration(stream, passwords))


def _certify(folder: Path, processes: Sequence[str], keep_authority: bool, server: bool) -> None:
    from thence.live.certificates import authority, issue

    root = authority()
    root.write(folder / "authority.crt")
    if keep_authority:
        root.write_key(folder / AUTHORITY_KEY)
    for name in processes:
        issue(root, [name], folder / f"{safe(name)}.crt", folder / f"{safe(name)}.key")
    if server:
        issue(root, [], folder / "nats.server.crt", folder / "nats.server.key", hosts=HOSTS)


def safe(name: str) -> str:
    """Return a file name for a process."""
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)


def free_ports(count: int) -> list[int]:
    """Return ports on loopback that are free now, and that no connection gets while an endpoint is away."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as each, suppress(OSError):
            each.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise MisuseError(f"{count} ports are needed; of {PORTS.start} to {PORTS.stop - 1} only {len(found)} are free")
