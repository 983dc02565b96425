"""The recorder: what happens to messages, simulated or live, as rows of the trace table.

*Invariant.* Every row of a run and of its hops is made here: messages and hops are named as
`thence.core.model.message_names` says, `index` counts the rows of a process, and rows stand in the order in which they
happened, so that causes come first. `order` is a row's position, or the place that a live endpoint's clock gives it.

Events are kept as they come and become rows, or lines, on request: a run has many, its hops even more (OKs go from
every process to every other), and a row costs more than what it says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from thence.core.model.events import Event, EventKind
from thence.core.model.message import MESSAGE, Copy
from thence.core.model.message_names import HOPS, name_of, prefix_of, suffix_of
from thence.core.model.roster import Roster
from thence.errors import MisuseError

DIGITS = 9
"""of a second that a trace keeps"""
FIXED = f"%.{DIGITS}f"
BLOCK = 1024
"""lines that are encoded and written at once"""
TRUSTS = "trusts"
"""message of the row that says whom a process trusts, as its destinations"""
Clear = tuple[tuple[str, tuple[str, ...]], ...]
"""a stamp in the clear: messages with destinations; of a hop, the message it is about with its source if that OKs it"""
Sizes = tuple[int | None, int | None, int | None]
"""entries, facts and bytes of a stamp, where they are known"""


class CopyRow(NamedTuple):
    """Values shared by the two rows of one copy."""

    message: str
    sizes: Sizes
    clear: Clear | None = None


Kept = tuple[float | None, int, EventKind, str | None, str | None, int, CopyRow | None]
"""time, process, kind, message, label, destinations of a send as a mask, what the rows of a copy tell"""


def about(copy: Copy, roster: Roster) -> Clear:
    """Return the message that a hop is about, with the source of the hop if that OKs it."""
    okays = () if copy.kind == MESSAGE else (roster.names[copy.source],)
    return ((name_of(roster.names[copy.sender], copy.count, copy.label), okays),)


class Recorder:
    """The rows of a run, and of its hops."""

    def __init__(self, run: str, roster: Roster) -> None:
        self.roster = roster
        self.event_rows, self.hop_rows = EventRows(run, roster), HopRows(f"{run}{HOPS}", roster)
        self._note = self.event_rows.kept.append

    @property
    def rows(self) -> list[Event]:
        """The rows of the run itself, hops left out."""
        return self.event_rows.events

    @property
    def events(self) -> list[Event]:
        """All rows: the run, then its hops."""
        return [*self.rows, *self.hop_rows.events]

    def row_of(self, label: str | None, sender: int, count: int, sizes: Sizes, clear: Clear | None = None) -> CopyRow:
        """Return what the receipt and the delivery of a copy have in common."""
        return CopyRow(name_of(self.roster.names[sender], count, label), sizes, clear)

    def note_send(self, time: float | None, label: str | None, sender: int, count: int, destinations: int) -> None:
        """Record a send as a row of the trace."""
        name = name_of(self.roster.names[sender], count, label)
        self._note((time, sender, "send", name, label, destinations, None))

    def note_copy(self, time: float | None, process: int, kind: EventKind, label: str | None, row: CopyRow) -> None:
        """Record that a copy arrived or was delivered."""
        self._note((time, process, kind, row.message, label, 0, row))

    def note_process(self, time: float | None, process: int, kind: EventKind, what: str | None = None) -> None:
        """Record what happens to a process itself: a crash, or (internal) a change of membership."""
        self._note((time, process, kind, what, None, 0, None))


class EventRows:
    """The rows of one run, in the order in which they happened."""

    def __init__(self, run: str, roster: Roster) -> None:
        self.run, self.roster = run, roster
        self.kept: list[Kept] = []
        self.places: list[int] = []
        """of each row its `order`, where a clock gives it"""
        self.indexes = defaultdict[int, int](int)
        """by process the index of its last row"""
        self._rows: list[Event] = []

    def __len__(self) -> int:
        return len(self.kept)

    def _since(self, start: int) -> Iterator[Kept]:
        return iter(self.kept[start:] if start else self.kept)

    @property
    def events(self) -> list[Event]:
        """All rows so far; what was made before is not made again."""
        run, names, rows, index, places = self.run, self.roster.names, self._rows, self.indexes, self.places
        for now, process, kind, message, label, to, copy in self._since(len(rows)):
            index[process] += 1
            place = places[len(rows)] if places else len(rows)
            time, destinations = None if now is None else round(now, DIGITS), self.roster.members(to) if to else None
            sizes = () if copy is None else (*copy.sizes, copy.clear)
            rows.append(
                Event(run, names[process], index[process], kind, message, destinations, label, place, time, *sizes)
            )
        return rows

    def take(self, roster: Roster) -> list[Event]:
        """Return the rows since the last call, which were given places, and keep them no longer."""
        self.roster = roster
        found = self.events
        self._rows = []
        self.kept.clear()
        self.places.clear()
        return found

    def blocks(self) -> Iterator[bytes]:
        """Yield the lines of `lines` as bytes, many at once."""
        lines = self.lines()
        try:
            while block := "".join(islice(lines, BLOCK)):
                yield block.encode()
        except UnicodeEncodeError as error:  # a surrogate in a name
            raise MisuseError(f"the run cannot be written as JSON: {error}") from error

    def lines(self) -> Iterator[str]:
        """Yield the rows as lines of JSON, as `format_line` writes them, without a row for each and without stamps.

        That takes a third of the time, which is a tenth to a fifth of a simulation that is written.
        """
        quoted = [encode_basestring(name) for name in self.roster.names]
        begun = [f'{{"run":{encode_basestring(self.run)},"process":{name},"index":' for name in quoted]
        addresses, labels, ends = _Addresses(quoted), _Labels(), _Ends()
        index, time = [0] * len(quoted), ""
        then: float | None = None
        for order, (now, process, kind, message, label, to, copy) in enumerate(self._since(0)):
            if now != then and now is not None:  # what leaves at one time often follows what arrived then
                then, time = now, decimal(now)
            index[process] = place = index[process] + 1
            named = "" if message is None else f',"message":{encode_basestring(message)}'
            rest = f'{addresses[to]}{labels[label]},"order":{order},"time":{time}'
            end = "}\n" if copy is None else ends[copy.sizes]
            yield f'{begun[process]}{place},"kind":"{kind}"{named}{rest}{end}'


class HopRows(EventRows):
    """The rows of hops: six items of one flat list for each, because the collector does not look into numbers."""

    def __init__(self, run: str, roster: Roster) -> None:
        super().__init__(run, roster)
        self.flat: list[Any] = []
        """time, label, source, destination, number on the link, and what the hop says in the clear, if that is kept.

        The number is negative where the hop arrives. It is 0 where the failure detector speaks to the source; then the
        destination stands for the mask of the trusted.
        """

    def __len__(self) -> int:
        return len(self.flat) // 6

    def _since(self, start: int) -> Iterator[Kept]:
        names = self.roster.names
        before, after = list(map(prefix_of, names)), list(map(suffix_of, names))
        each = iter(self.flat[6 * start :])
        for now, label, source, destination, number, clear in zip(each, each, each, each, each, each, strict=True):
            if number == 0:
                yield now, source, "internal", TRUSTS, None, destination, None
            elif number > 0:
                name = f"{before[source]}{number}{after[destination]}"  # hop_name, without its calls
                yield now, source, "send", name, label, 1 << destination, None
            else:
                name = f"{before[source]}{-number}{after[destination]}"
                copy = None if clear is None else CopyRow(name, (None, None, None), clear)
                yield now, destination, "receive", name, label, 0, copy

    def take(self, roster: Roster) -> list[Event]:
        found = super().take(roster) if self.flat else []
        self.flat.clear()
        return found


class _Addresses(dict[int, str]):
    """The text for the destinations of a send in a line, by their mask."""

    def __init__(self, quoted: list[str]) -> None:
        super().__init__({0: ""})
        self._quoted = quoted

    def __missing__(self, mask: int) -> str:
        named = ",".join([name for at, name in enumerate(self._quoted) if mask >> at & 1])
        self[mask] = text = f',"destinations":[{named}]'
        return text


class _Labels(dict[str | None, str]):
    """The text for a label in a line."""

    def __missing__(self, label: str | None) -> str:
        self[label] = text = "" if label is None else f',"label":{encode_basestring(label)}'
        return text


class _Ends(dict[Sizes, str]):
    """The ends of lines that state a size."""

    def __missing__(self, sizes: Sizes) -> str:
        entries, facts, length = sizes
        counted = "" if facts is None else f',"facts":{facts}'
        self[sizes] = end = f',"entries":{entries}{counted},"bytes":{length}}}\n'
        return end


def decimal(seconds: float) -> str:
    """Return `repr(round(seconds, DIGITS))` in half the time where that has no exponent and no digit is in doubt."""
    if not 1e-4 <= seconds < 1e6:
        return repr(round(seconds, DIGITS))
    text = (FIXED % seconds).rstrip("0")
    return f"{text}0" if text[-1] == "." else text
