"""The events of a run, kept as they come and made into rows, or into lines, when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import NamedTuple

from thence.model.events import Event, Kind
from thence.model.roster import Roster
from thence.sim.hop_rows import DIGITS, decimal
from thence.sim.sizes import Size

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
    """The rows of a run in the order in which they happened."""

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

    def lines(self) -> Iterator[str]:
        """Yield the rows as lines of JSON, as `format_line` writes them, without a row for each and without stamps."""
        quoted = [encode_basestring(name) for name in self.roster.names]
        begun = [f'{{"run":{encode_basestring(self.run)},"process":{name},"index":' for name in quoted]
        index, ends, then, time = [0] * len(quoted), _Ends(), -1.0, ""
        for order, (now, process, kind, message, label, to, copy) in enumerate(self.kept):
            if now != then:
                then, time = now, decimal(now)
            index[process] = place = index[process] + 1
            line = f'{begun[process]}{place},"kind":"{kind}"'
            if message is not None:
                line += f',"message":{encode_basestring(message)}'
            if to:
                line += f',"destinations":[{",".join([name for at, name in enumerate(quoted) if to >> at & 1])}]'
            if label is not None:
                line += f',"label":{encode_basestring(label)}'
            end = "}\n" if copy is None else ends[copy.size]
            yield f'{line},"order":{order},"time":{time}{end}'


class _Ends(dict[Size, str]):
    """How lines end that say a size."""

    def __missing__(self, size: Size) -> str:
        facts = "" if size.facts is None else f',"facts":{size.facts}'
        self[size] = end = f',"entries":{size.entries}{facts},"bytes":{size.bytes}}}\n'
        return end
