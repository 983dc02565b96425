"""Values of TLA+ as text: read what TLC prints, write what it is to read.

| TLA+ | Python |
|---|---|
| `<<1, 2>>` | tuple |
| `{1, 2}` | frozenset |
| `[s |-> 1]` | `TlaRecord`, a tuple of (name, value) pairs by name |
| `(1 :> 2 @@ 3 :> 4)` | `TlaRecord` with the values themselves as names |
| `"text"`, `12`, `TRUE` | str, int, bool |
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from thence.errors import ThenceError

TlaValue = Any
"""a hashable value, as in the table above"""


class TlaRecord(tuple[tuple[Hashable, TlaValue], ...]):
    """A record or function: pairs sorted by the text of their names."""

    __slots__ = ()

    @classmethod
    def of(cls, pairs: Iterable[tuple[Hashable, TlaValue]]) -> TlaRecord:
        """Make one of pairs in any order."""
        return cls(sorted(pairs, key=lambda pair: repr(pair[0])))

    def __getitem__(self, name: Any) -> Any:
        """Return the value of a name."""
        return dict(self)[name]


class UnreadableError(ThenceError):
    """Text that is not a value."""


_TOKEN = re.compile(r'\s*(<<|>>|\|->|:>|@@|[{}\[\](),]|"(?:[^"\\]|\\.)*"|-?\d+|\w+)')
_CLOSING = {"<<": ">>", "{": "}"}


def parse(text: str, at: int = 0) -> tuple[TlaValue, int]:
    """Read one value; return it and where it ends."""
    token, at = _next(text, at)
    if token in _CLOSING:
        items, at = _items(text, at, _CLOSING[token])
        return (tuple(items) if token == "<<" else frozenset(items)), at
    if token == "[":
        return _pairs(text, at, "|->", ",", "]")
    if token == "(":
        return _pairs(text, at, ":>", "@@", ")")
    if token[0] == '"':
        return re.sub(r"\\(.)", r"\1", token[1:-1]), at
    if token in ("TRUE", "FALSE"):
        return token == "TRUE", at
    return (int(token) if token.lstrip("-").isdigit() else token), at


def _next(text: str, at: int) -> tuple[str, int]:
    found = _TOKEN.match(text, at)
    if found is None:
        raise UnreadableError(f"no TLA+ value at {text[at : at + 40]!r}")
    return found[1], found.end()


def _items(text: str, at: int, closing: str) -> tuple[list[TlaValue], int]:
    items: list[TlaValue] = []
    while True:
        token, after = _next(text, at)
        if token == closing:
            return items, after
        if token == ",":
            at = after
        item, at = parse(text, at)
        items.append(item)


def _pairs(text: str, at: int, arrow: str, comma: str, closing: str) -> tuple[TlaRecord, int]:
    pairs: list[tuple[Hashable, TlaValue]] = []
    while True:
        token, after = _next(text, at)
        if token == closing:
            return TlaRecord.of(pairs), after
        name, at = parse(text, after if token == comma else at)
        found, at = _next(text, at)
        if found != arrow:
            raise UnreadableError(f"{found!r} where {arrow!r} is expected")
        value, at = parse(text, at)
        pairs.append((name, value))


def printed(output: str) -> Iterator[TlaValue]:
    """Yield the tuples that begin a line of TLC's output, however many lines they take."""
    for found in re.finditer(r"^<<", output, re.MULTILINE):
        yield parse(output, found.start())[0]


class Written(str):
    """TLA+ text that stands for a value."""


def value_text(value: TlaValue) -> str:
    """Write a value: tuples, sets, dicts (as records), texts and numbers."""
    if isinstance(value, Written):
        return value
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, dict):
        return "[" + ", ".join(f"{name} |-> {value_text(each)}" for name, each in value.items()) + "]"
    if isinstance(value, tuple | list):
        return "<<" + ", ".join(map(value_text, value)) + ">>"
    return "{" + ", ".join(sorted(map(value_text, value))) + "}"
