"""A working set of endpoints on this machine: a configuration file for each, an authority, certificates."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from thence.core.protocols.registry import lookup
from thence.errors import MisuseError
from thence.live.config import load
from thence.live.core import Core

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
[addresses]
{addresses}
"""
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
) -> list[Path]:
    """Write configurations, and certificates unless `plain`, into a folder; return the files, one for each process."""
    lookup(protocol)
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{safe(name)}.toml" for name in processes]
    for file in sorted(folder.glob("*.toml")):
        raise MisuseError(f"{file} exists already; a new folder is expected")
    if len({str(file) for file in files}) != len(processes):
        raise MisuseError(f"processes {', '.join(processes)}: two of these names give the same file name")
    chosen = list(ports) if ports is not None else free_ports(len(processes))
    addresses = "\n".join(f'{json.dumps(n)} = "127.0.0.1:{p}"' for n, p in zip(processes, chosen, strict=True))
    chosen_options = "".join(f"{key} = {json.dumps(value)}\n" for key, value in (options or {}).items())
    for name, file in zip(processes, files, strict=True):
        text = CONFIG.format(
            name=json.dumps(name),
            run=json.dumps(run),
            protocol=json.dumps(protocol),
            processes=json.dumps(list(processes)),
            file=file.stem,
            tls="plain = true" if plain else TLS.format(file=file.stem),
            options=f"[options]\n{chosen_options}" if options else "",
            addresses=addresses,
        )
        file.write_text(text, encoding="utf-8")
    try:
        for file in files:
            load(file)
        Core.fresh(protocol, processes, processes[0], options=options)
        if not plain:
            _certify(folder, processes)
    except (MisuseError, ImportError):
        for file in files:
            file.unlink()
        if new:
            folder.rmdir()
        raise
    return files


def _certify(folder: Path, processes: Sequence[str]) -> None:
    from thence.live.certificates import authority, issue

    root = authority()
    root.write(folder / "authority.crt")
    for name in processes:
        issue(root, [name], folder / f"{safe(name)}.crt", folder / f"{safe(name)}.key")


def safe(name: str) -> str:
    """Return a file name for a process."""
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)


def free_ports(count: int) -> list[int]:
    """Return ports on loopback that nobody listens on now, and that no connection gets while an endpoint is away."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as each, suppress(OSError):
            each.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise MisuseError(f"{count} ports are needed; of {PORTS.start} to {PORTS.stop - 1} only {len(found)} are free")
