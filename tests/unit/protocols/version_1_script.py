"""Version 1 of stamps and snapshots: a fixed script for each protocol, its bytes kept as text.

`python -m unit.protocols.version_1_script` (from the folder tests) writes the file anew; a later version must still
read the old one, so that is done only when a protocol is added.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.walk import Walk, walk

from thence.protocols import REGISTRY

FILE = Path(__file__).parents[2] / "data" / "v1" / "protocols.json"


def run(name: str) -> Walk:
    """Run the script that the file records."""
    return walk(name, 4, 12, 2, wire=False)


def record(name: str) -> dict[str, Any]:
    """Return stamps and snapshots of a protocol as hex."""
    made = run(name)
    return {
        "roster": list(made.roster),
        "stamps": [made.members[c.source].encode(c).hex() for c in (*made.copies, *made.others)],
        "snapshots": [member.snapshot().hex() for member in made.members],
    }


if __name__ == "__main__":
    old = json.loads(FILE.read_text()) if FILE.exists() else {}
    new = {n: record(n) for n, e in sorted(REGISTRY.items()) if n not in old and "failure detector" not in e.needs}
    FILE.write_text(json.dumps(dict(sorted((old | new).items())), indent=1) + "\n")
    print(f"added {', '.join(new) or 'nothing'} to {FILE.name}")
