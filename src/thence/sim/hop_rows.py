"""The hops of a run (protocol messages, relayed copies), kept as they come and made into rows when they are asked for.

A run has many more hops than messages (OKs go from everybody to everybody), and a row is dearer than what it says.
"""

from __future__ import annotations

from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import Any

from thence.errors import MisuseError
from thence.model.events import Event, Kind
from thence.model.message import name_of
from thence.model.roster import Roster

DIGITS = 9
"""of a second that a trace keeps"""
WIDTH = 5
"""of what is kept of a hop's beginning or end"""


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

    def lines(self) -> Iterator[bytes]:
        """Yield the rows as lines of JSON, as `format_line` writes them, without a row for each."""
        names = self.names
        index = [0] * len(names)
        quoted = [encode_basestring(name) for name in names]
        begun = [f'{{"run":{encode_basestring(self.run)},"process":{name},"index":' for name in quoted]
        message = [encode_basestring(name_of(name, 0))[:-2] for name in names]
        sends = [f',"kind":"send","message":{name}' for name in message]
        receives = [f',"kind":"receive","message":{name}' for name in message]
        to = [f'","destinations":[{name}]' for name in quoted]
        then, time = -1.0, ""
        try:
            for order, (now, label, source, destination, number) in enumerate(self._steps()):
                if now != then:  # what leaves at one time often follows what arrived then
                    then, time = now, f',"time":{round(now, DIGITS)!r}}}\n'
                if number > 0:
                    here, said, rest = source, sends[source], to[destination]
                else:
                    here, said, number, rest = destination, receives[source], -number, '"'
                if label is not None:
                    rest += f',"label":{encode_basestring(label)}'
                index[here] = place = index[here] + 1
                yield f'{begun[here]}{place}{said}{number}{rest},"order":{order}{time}'.encode()
        except UnicodeEncodeError as error:  # a surrogate in a name
            raise MisuseError(f"the hops of {self.run} cannot be written as JSON: {error}") from error
