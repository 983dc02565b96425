"""`thence protocols`: the registry as a table and as JSON."""

from __future__ import annotations

from thence.cli._common import JsonFile, console, write_json

EXAMPLE = "thence protocols --json protocols.json"


def command(json_file: JsonFile = None) -> None:
    """List the protocols: first those to use, then those to compare with; what each needs, promises and costs."""
    from thence.cli.simulate import print_table
    from thence.core.protocols.registry import REGISTRY
    from thence.show.simulation import protocols_tables

    for table in protocols_tables(list(REGISTRY.values())):
        print_table(table, console(json_file))
    write_json(json_file, [entry.row() for entry in REGISTRY.values()])
