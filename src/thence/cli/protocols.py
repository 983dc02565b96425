"""`thence protocols`: the registry as a table and as JSON."""

from __future__ import annotations

from thence.cli._common import JsonFile, console, write_json

EXAMPLE = "thence protocols --json protocols.json"


def command(json_file: JsonFile = None) -> None:
    """Say of every protocol what it needs, what it promises and what it costs."""
    from thence.cli.simulate import print_table
    from thence.core.protocols.registry import REGISTRY
    from thence.show.simulation import protocols_table

    print_table(protocols_table(list(REGISTRY.values())), console(json_file))
    write_json(json_file, [entry.row() for entry in REGISTRY.values()])
