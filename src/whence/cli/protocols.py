"""`whence protocols`: the registry as a table and as JSON."""

from __future__ import annotations

from whence.cli._common import JsonFile, console, write_json

EXAMPLE = "whence protocols --json protocols.json"


def protocols(json_file: JsonFile = None) -> None:
    """Say of every protocol what it needs, what it promises and what it costs."""
    from whence.cli.simulate import show
    from whence.protocols.registry import REGISTRY
    from whence.report.simulation import protocols_table

    show(protocols_table(list(REGISTRY.values())), console(json_file))
    write_json(json_file, [entry.row() for entry in REGISTRY.values()])
