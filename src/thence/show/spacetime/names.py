"""Names as a page shows them: every character visible (`core.model.escape`), and none longer than a lane has room for.

*Invariant.* A name without control characters, and short enough, is shown as it is. Processes without events are in
natural order: p2 before p10.
"""

from __future__ import annotations

import re

from thence.core.model.escape import visible as escaped

NAME_LIMIT = 120
LONG_TEXT = 2000


def legible(text: str, limit: int = NAME_LIMIT) -> str:
    """Return a text with what cannot be seen written as an escape, cut if it is long."""
    made = escaped(text)
    return made if len(made) <= limit else made[: limit - 1] + "…"


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a key that sorts p2 before p10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(not p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in (part[:18] for part in parts)]
