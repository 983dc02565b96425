"""The hops of a run (protocol messages, relayed copies), kept as they come and made into rows when they are asked for.

A run has many more hops than messages (OKs go from everybody to everybody), and a row is dearer than what it says.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from json.encoder import encode_basestring
from typing import Any

from thence.errors import MisuseError
from thence.model.events import Event, Kind
from thence.model.message import name_of
from thence.model.roster import Roster

DIGITS = 9
"""of a second that a trace keeps"""
FIXED = f"%.{DIGITS}f"
WIDTH = 5
"""of what is kept of a hop's beginning or end"""
BLOCK = 1024
"""lines that are made bytes and written at once"""


class HopRows:
    """Iterates over rows of the run `<run>/hops`, where a7 is the 7th hop that a sent."""

    def __init__(self, run: str, roster: Roster) -> None:
        """Start without any."""
        self.run, self.names = f"{run}/hops", roster.names
        self.kept: list[Any] = []
        """time, label, source, destination, number (below 0 of what arrives), time, ...: no object for each"""
        self.sent = [0] * len(roster)
        self.number: dict[int, int] = {}
        """by id of the copy: who arrives is still the last that left under its id, since a copy under way is held"""

    def __len__(self) -> int:
        return len(self.kept) // WIDTH

    def __iter__(self) -> Iterator[Event]:
        """Make the rows in the order in which they happened."""
        names, run = self.names, self.run
        index = [0] * len(names)
        for order, (now, label, source, destination, number) in enumerate(self._steps()):
            leaves = number > 0
            here = source if leaves else destination
            index[here] += 1
            kind: Kind = "send" if leaves else "receive"
            name, to = name_of(names[source], abs(number)), (names[destination],) if leaves else None
            yield Event(run, names[here], index[here], kind, name, to, label, order, round(now, DIGITS))

    def _steps(self) -> Iterator[tuple[float, str | None, int, int, int]]:
        return zip(*[iter(self.kept)] * WIDTH, strict=True)

    def lines(self) -> Iterator[str]:
        """Yield the rows as lines of JSON, as `format_line` writes them, without a row for each."""
        names = self.names
        index = [0] * len(names)
        quoted = [encode_basestring(name) for name in names]
        begun = [f'{{"run":{encode_basestring(self.run)},"process":{name},"index":' for name in quoted]
        message = [encode_basestring(name_of(name, 0))[:-2] for name in names]
        sends = [f',"kind":"send","message":{name}' for name in message]
        receives = [f',"kind":"receive","message":{name}' for name in message]
        to = [f'","destinations":[{name}]' for name in quoted]
        given = set(islice(self.kept, 1, None, WIDTH)) - {None}
        labels = {label: f',"label":{encode_basestring(label)}' for label in given} | {None: ""}
        then, time = -1.0, ""
        for order, (now, label, source, destination, number) in enumerate(self._steps()):
            if now != then:  # what leaves at one time often follows what arrived then
                then, time = now, decimal(now)
            if number > 0:
                index[source] = place = index[source] + 1
                begin = f"{begun[source]}{place}{sends[source]}{number}{to[destination]}"
            else:
                index[destination] = place = index[destination] + 1
                begin = f'{begun[destination]}{place}{receives[source]}{-number}"'
            yield f'{begin}{labels[label]},"order":{order},"time":{time}}}\n'


def in_blocks(lines: Iterator[str]) -> Iterator[bytes]:
    """Yield lines as bytes, many at once."""
    try:
        while block := "".join(islice(lines, BLOCK)):
            yield block.encode()
    except UnicodeEncodeError as error:  # a surrogate in a name
        raise MisuseError(f"the run cannot be written as JSON: {error}") from error


def decimal(seconds: float) -> str:
    """Return `repr(round(seconds, DIGITS))` in half the time where that has no exponent and no digit is in doubt."""
    if not 1e-4 <= seconds < 1e6:
        return repr(round(seconds, DIGITS))
    text = (FIXED % seconds).rstrip("0")
    return f"{text}0" if text[-1] == "." else text
