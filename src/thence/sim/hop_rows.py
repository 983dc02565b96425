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


class HopRows:
    """Iterates over rows of the run `<run>/hops`, where a7 is the 7th hop that a sent."""

    def __init__(self, run: str, roster: Roster) -> None:
        """Start without any."""
        self.run, self.names = f"{run}/hops", roster.names
        self.kept: list[Any] = []
        """time, copy, whether it was sent, time, ...: no object for each"""

    def __len__(self) -> int:
        return len(self.kept) // 3

    def __iter__(self) -> Iterator[Event]:
        """Make the rows in the order in which they happened."""
        names, run = self.names, self.run
        index, sent = [0] * len(names), [0] * len(names)
        called: dict[int, str] = {}  # by id: the copies are all kept, so each keeps its own
        steps = iter(self.kept)
        for order, (now, copy, leaves) in enumerate(zip(steps, steps, steps, strict=True)):
            here = copy.source if leaves else copy.destination
            index[here] += 1
            if leaves:
                sent[here] += 1
                called[id(copy)] = name_of(names[here], sent[here])
            to = (names[copy.destination],) if leaves else None
            kind: Kind = "send" if leaves else "receive"
            yield Event(
                run, names[here], index[here], kind, called[id(copy)], to, copy.label, order, round(now, DIGITS)
            )

    def lines(self) -> Iterator[bytes]:
        """Yield the rows as lines of JSON, as `format_line` writes them, without a row for each."""
        names, size = self.names, len(self.names)
        index, sent = [0] * size, [0] * size
        called: dict[int, str] = {}
        quoted = [encode_basestring(name) for name in names]
        begun = [f'{{"run":{encode_basestring(self.run)},"process":{name},"index":' for name in quoted]
        message = [encode_basestring(name_of(name, 0))[:-2] for name in names]
        to = [f',"destinations":[{name}]' for name in quoted]
        steps = iter(self.kept)
        try:
            for order, (now, copy, leaves) in enumerate(zip(steps, steps, steps, strict=True)):
                label = "" if copy.label is None else f',"label":{encode_basestring(copy.label)}'
                rest = f'{label},"order":{order},"time":{round(now, DIGITS)!r}}}\n'
                if leaves:
                    here = copy.source
                    sent[here] += 1
                    called[id(copy)] = name = f'{message[here]}{sent[here]}"'
                    kind, rest = "send", to[copy.destination] + rest
                else:
                    here, name, kind = copy.destination, called[id(copy)], "receive"
                index[here] += 1
                yield f'{begun[here]}{index[here]},"kind":"{kind}","message":{name}{rest}'.encode()
        except UnicodeEncodeError as error:  # a surrogate in a name
            raise MisuseError(f"the hops of {self.run} cannot be written as JSON: {error}") from error
