"""The events of a run, kept as they come and made into rows, or into lines, when they are asked for.

A run has many events, its hops even more (OKs go from every process to every other), and a row costs more than what it
says.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from json.encoder import encode_basestring
from typing import NamedTuple

from thence.core.model.events import Event, Kind
from thence.core.model.roster import Roster
from thence.errors import MisuseError
from thence.lab.simulator.sizes import Size

DIGITS = 9
"""of a second that a trace keeps"""
FIXED = f"%.{DIGITS}f"
BLOCK = 1024
"""lines that are made bytes and written at once"""
Clear = tuple[tuple[str, tuple[str, ...]], ...]
"""a stamp in the clear: messages with destinations"""


class CopyRow(NamedTuple):
    """What both rows of one copy tell; one object for both."""

    message: str
    size: Size
    clear: Clear | None


Kept = tuple[float, int, Kind, str | None, str | None, int, CopyRow | None]
"""time, process, kind, message, label, destinations of a send as a mask, what the rows of a copy tell"""


class EventRows:
    """The rows of a run, or of its hops, in the order in which they happened."""

    def __init__(self, run: str, roster: Roster) -> None:
        """Start without any."""
        self.run, self.roster = run, roster
        self.kept: list[Kept] = []
        self._rows: list[Event] = []
        self._index = [0] * len(roster)

    def __len__(self) -> int:
        return len(self.kept)

    def rows(self) -> list[Event]:
        """Return all rows so far; what was made before is not made again."""
        run, names, rows, index = self.run, self.roster.names, self._rows, self._index
        for now, process, kind, message, label, to, copy in self.kept[len(rows) :]:
            index[process] += 1
            place, time, destinations = len(rows), round(now, DIGITS), self.roster.members(to) if to else None
            sizes = () if copy is None else (*copy.size[:3], copy.clear)
            rows.append(
                Event(run, names[process], index[process], kind, message, destinations, label, place, time, *sizes)
            )
        return rows

    def blocks(self) -> Iterator[bytes]:
        """Yield the lines of `lines` as bytes, many at once."""
        lines = self.lines()
        try:
            while block := "".join(islice(lines, BLOCK)):
                yield block.encode()
        except UnicodeEncodeError as error:  # a surrogate in a name
            raise MisuseError(f"the run cannot be written as JSON: {error}") from error

    def lines(self) -> Iterator[str]:
        """Yield the rows as lines of JSON, as `format_line` writes them, without a row for each and without stamps."""
        quoted = [encode_basestring(name) for name in self.roster.names]
        begun = [f'{{"run":{encode_basestring(self.run)},"process":{name},"index":' for name in quoted]
        addresses, labels, ends = _Addresses(quoted), _Labels(), _Ends()
        index, then, time = [0] * len(quoted), -1.0, ""
        for order, (now, process, kind, message, label, to, copy) in enumerate(self.kept):
            if now != then:  # what leaves at one time often follows what arrived then
                then, time = now, decimal(now)
            index[process] = place = index[process] + 1
            named = "" if message is None else f',"message":{encode_basestring(message)}'
            rest = f'{addresses[to]}{labels[label]},"order":{order},"time":{time}'
            end = "}\n" if copy is None else ends[copy.size]
            yield f'{begun[process]}{place},"kind":"{kind}"{named}{rest}{end}'


class _Addresses(dict[int, str]):
    """How a line says the destinations of a send, by their mask."""

    def __init__(self, quoted: list[str]) -> None:
        super().__init__({0: ""})
        self._quoted = quoted

    def __missing__(self, mask: int) -> str:
        named = ",".join([name for at, name in enumerate(self._quoted) if mask >> at & 1])
        self[mask] = text = f',"destinations":[{named}]'
        return text


class _Labels(dict[str | None, str]):
    """How a line says a label."""

    def __missing__(self, label: str | None) -> str:
        self[label] = text = "" if label is None else f',"label":{encode_basestring(label)}'
        return text


class _Ends(dict[Size, str]):
    """How lines end that say a size."""

    def __missing__(self, size: Size) -> str:
        facts = "" if size.facts is None else f',"facts":{size.facts}'
        self[size] = end = f',"entries":{size.entries}{facts},"bytes":{size.bytes}}}\n'
        return end


def decimal(seconds: float) -> str:
    """Return `repr(round(seconds, DIGITS))` in half the time where that has no exponent and no digit is in doubt."""
    if not 1e-4 <= seconds < 1e6:
        return repr(round(seconds, DIGITS))
    text = (FIXED % seconds).rstrip("0")
    return f"{text}0" if text[-1] == "." else text
