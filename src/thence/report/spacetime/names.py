"""Names as they are shown: every character visible, none of them an order to a terminal or a browser.

Law. What is shown of a name has no control character and nothing that turns the direction of writing. A name without
these, and short enough, is shown as it is.
"""

from __future__ import annotations

import re

NAME_LIMIT = 120
TEXT_LIMIT = 2000

_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def visible(text: str, limit: int = NAME_LIMIT) -> str:
    """Return a text with what cannot be seen written as an escape, cut if it is long."""
    made = _HIDDEN.sub(_escaped, text)
    return made if len(made) <= limit else made[: limit - 1] + "…"


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a key that sorts p2 before p10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(not p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in (part[:18] for part in parts)]
