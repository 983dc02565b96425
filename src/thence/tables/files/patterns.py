"""Users' regular expressions, searched for in linear time, so that no pattern can hang the process.

Invariant: `finder(pattern, groups)` understands what JavaScript and Python have in common, with named groups written
`(?<name>...)` or `(?P<name>...)`. It runs on RE2 (`google-re2`), whose time grows with the text alone. What RE2 cannot
do in linear time (looking around, back references) is refused with a sentence. Our own layouts need no RE2 (`own`), nor
do the two patterns that stand in the logs we write, `EVENT` and `DELIMITER`: these are found line by line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from thence.errors import MisuseError

EVENT = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"
"""Host and clock on one line, the text on the next."""
DELIMITER = r"=== (?<trace>.*) ==="
"""A line between executions."""

Groups = dict[str, str | None]


class Hit(NamedTuple):
    """Where a pattern was found: from character `start` to `end`; `places` says where each group begins."""

    start: int
    end: int
    groups: Groups
    places: dict[str, int]


Finder = Callable[[str], Iterator[Hit]]
"""Finds a pattern in a text, from left to right; what it finds is never empty."""


def own(pattern: str) -> Finder:
    """Return the finder of a built-in pattern, by the standard library."""
    compiled = re.compile(pattern, re.MULTILINE)

    def find(text: str) -> Iterator[Hit]:
        for found in compiled.finditer(text):
            if found.end() > found.start():
                places = {name: found.start(name) for name in compiled.groupindex}
                yield Hit(found.start(), found.end(), found.groupdict(), places)

    return find


def finder(pattern: str, groups: Sequence[str] = ()) -> Finder:
    """Return the finder of a user's pattern, which must have these groups."""
    if pattern == EVENT:
        return _events
    if pattern == DELIMITER and not groups:
        return _delimiters
    try:
        import re2
    except ModuleNotFoundError as error:
        raise MisuseError('a pattern of your own needs google-re2: pip install "thence[tables]"') from error
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(f"(?m){pattern}".encode(), options=options)
    except (re2.error, UnicodeEncodeError) as error:
        raise MisuseError(f"{pattern!r} is not a regular expression that is read here: {_why(error)}") from error
    names = {name.decode(): number for name, number in compiled.groupindex.items()}
    for group in groups:
        if group not in names:
            raise MisuseError(f"{pattern!r} has no group (?<{group}>...); {', '.join(groups)} are needed")

    def find(text: str) -> Iterator[Hit]:
        data = text.encode()
        byte = character = 0  # a place that is known in bytes and in characters
        for found in compiled.finditer(data):
            start, end = found.span()
            if end == start:
                continue
            byte, character = start, character + len(_text(data[byte:start]))
            starts = {name: found.start(number) for name, number in names.items()}
            places = {name: character + len(_text(data[start:at])) for name, at in starts.items() if at >= 0}
            groups = {name: _text(data[slice(*found.span(names[name]))]) for name in places}
            yield Hit(character, character + len(_text(data[start:end])), dict.fromkeys(names) | groups, places)

    return find


def _events(text: str) -> Iterator[Hit]:
    """Find `EVENT` where RE2 does: at the first ` {` of a line that ends in `}`; the next line belongs to it."""
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    number = 0
    while number + 1 < len(lines):
        line, event, start, end = lines[number], lines[number + 1], starts[number], starts[number + 1]
        clock = line.find(" {") + 1
        if clock and line.endswith("}"):
            host = 1 + max(line.rfind(space, 0, clock - 1) for space in "\t\f\r ")
            groups: Groups = {"host": line[host : clock - 1], "clock": line[clock:], "event": event}
            places = {"host": start + host, "clock": start + clock, "event": end}
            yield Hit(start + host, end + len(event), groups, places)
            number += 1
        number += 1


def _delimiters(text: str) -> Iterator[Hit]:
    """Find `DELIMITER` where RE2 does: from the first sign of a line to the last."""
    start = 0
    for line in text.split("\n"):
        begin, end = line.find("=== "), line.rfind(" ===")
        if 0 <= begin <= end - 4:
            name = begin + 4
            yield Hit(start + begin, start + end + 4, {"trace": line[name:end]}, {"trace": start + name})
        start += len(line) + 1


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _why(error: Exception) -> str:
    problem = error.args[0] if error.args else ""
    text = problem.decode("utf-8", "replace") if isinstance(problem, bytes) else str(error)
    if re.search(r"invalid perl operator: \(\?<?[=!]", text):
        return "it uses lookaround ((?=, (?!, (?<= or (?<!), which cannot be searched in linear time; write it without"
    if re.fullmatch(r"invalid escape sequence: \\[1-9]", text):
        return f"it refers back ({text[-2:]}), which cannot be done in linear time; say it without"
    return text
