"""Escapes names for terminals: control characters and marks of writing direction become visible escapes.

Invariant: `visible` changes nothing in a text without such characters, and what it returns has none. Data keeps names
as they are; only what people read goes through here, and nothing else escapes for them.
"""

from __future__ import annotations

_TURNING = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Marks that turn the direction of text."""
_ENDING = (0x2028, 0x2029)
"""Characters that end a line."""
_HIDDEN = (0xFEFF,)
_ESCAPES: dict[int, str] = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*range(0x20), *range(0x7F, 0xA0), *_TURNING, *_ENDING, *_HIDDEN, *range(0xD800, 0xE000))
} | {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
_JSON = {code: f"\\u{code:04x}" for code in _ESCAPES if code >= 0x7F}
_ESCAPES_IN_LINES = {code: escape for code, escape in _ESCAPES.items() if code != 0x0A}


def visible(text: str) -> str:
    """Return a name or another piece of a line with every control character as an escape."""
    return text if text.isprintable() else text.translate(_ESCAPES)


def escaped_json(text: str) -> str:
    """Return equivalent JSON in which these characters are escaped."""
    return text if text.isascii() and "\x7f" not in text else text.translate(_JSON)


def visible_lines(text: str) -> str:
    """Return a text of several lines with every control character but the newline as an escape."""
    return text if text.isprintable() else text.translate(_ESCAPES_IN_LINES)
