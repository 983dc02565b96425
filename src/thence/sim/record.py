"""The record of a run: its events as rows of the trace table, and its arrivals as rows of the arrivals table.

Law. Rows stand in the order in which they happened, so causes come first and `order` counts them. A message is named
after its sender and its number among all messages of that sender, over all labels: a7. Protocol messages and relayed
copies are rows of a run of their own, `<run>/hops`, where a7 is the 7th hop that a sent; they are sent and received and
never delivered, so that nobody takes them for messages of the application. A copy that arrives again, doubled by the
network or relayed by the protocol, is no event of the run itself. The same scenario gives the same bytes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from thence.errors import MisuseError
from thence.model.events import Event
from thence.model.message import Copy, name_of
from thence.model.plain import Row
from thence.model.roster import Roster
from thence.protocols.effects import Sent
from thence.sim.event_rows import Clear, CopyRow, EventRows
from thence.sim.hop_rows import HopRows, in_blocks
from thence.sim.simulation import Observer, Simulation
from thence.sim.sizes import Sizes
from thence.trace.formats import by_name


class Names:
    """Names of messages over all labels, from their numbers within a label."""

    def __init__(self, roster: Roster) -> None:
        """Start with nothing sent."""
        self._names, self._sent = roster.names, [0] * len(roster)
        self._known: dict[tuple[str | None, int, int], str] = {}

    def new(self, label: str | None, sender: int, count: int) -> str:
        """Name a message that is sent now."""
        self._sent[sender] += 1
        name = name_of(self._names[sender], self._sent[sender])
        self._known[label, sender, count] = name
        return name

    def of(self, label: str | None, sender: int, count: int) -> str:
        """Return the name of a message sent before."""
        return self._known[label, sender, count]


class Recorder(Observer):
    """Keeps the rows of a trace; `stamps` adds the dependencies of each copy in the clear."""

    def __init__(self, *, stamps: bool = False, sizes: Sizes | None = None) -> None:
        """Keep nothing yet."""
        self.stamps, self.sizes = stamps, sizes or Sizes()
        self._here: dict[tuple[str | None, int, int, int], CopyRow | None] = {}
        """by message and destination, what arrived: what its delivery will say, None once that is said"""

    def begin(self, simulation: Simulation) -> None:
        """Take names from the run."""
        self.run, self.roster, self.members = simulation.outcome.run, simulation.roster, simulation.members
        self.names = Names(simulation.roster)
        self.event_rows = EventRows(self.run, simulation.roster)
        self._note = self.event_rows.kept.append
        self.hop_rows = HopRows(self.run, simulation.roster)
        self._hops, self._hop_number, self._hops_sent = self.hop_rows.kept, self.hop_rows.number, self.hop_rows.sent

    @property
    def rows(self) -> list[Event]:
        """The rows of the run itself, hops left out."""
        return self.event_rows.rows()

    @property
    def events(self) -> list[Event]:
        """All rows: the run, then its hops."""
        return [*self.rows, *self.hop_rows]

    def sent(self, now: float, process: int, sent: Sent, asked: float) -> None:
        """Record a send."""
        name = self.names.new(sent.label, sent.message.sender, sent.message.count)
        self._note((now, process, "send", name, sent.label, sent.destinations, None))

    def arrived(self, now: float, copy: Copy) -> None:
        """Record a receive, once, and keep what the delivery will say again."""
        key = (copy.label, copy.sender, copy.count, copy.destination)
        if key not in self._here:
            self._here[key] = row = self._row_of(copy)
            self._note((now, copy.destination, "receive", row.message, copy.label, 0, row))

    def delivered(self, now: float, copy: Copy) -> None:
        """Record a delivery."""
        key = (copy.label, copy.sender, copy.count, copy.destination)
        row = self._here.get(key) or self._row_of(copy)
        self._here[key] = None
        self._note((now, copy.destination, "deliver", row.message, copy.label, 0, row))

    def crashed(self, now: float, process: int) -> None:
        """Record a crash."""
        self._note((now, process, "crash", None, None, 0, None))

    def hops_sent(self, now: float, copies: Sequence[Copy]) -> None:
        """Record the beginnings of hops."""
        kept, number, sent = self._hops, self._hop_number, self._hops_sent
        for copy in copies:
            source = copy.source
            number[id(copy)] = sent[source] = place = sent[source] + 1
            kept += (now, copy.label, source, copy.destination, place)

    def hop_arrived(self, now: float, copy: Copy) -> None:
        """Record a hop's end."""
        self._hops += (now, copy.label, copy.source, copy.destination, -self._hop_number[id(copy)])

    def _row_of(self, copy: Copy) -> CopyRow:
        size = self.sizes.of(self.members[copy.destination], copy)
        name = self.names.of(copy.label, copy.sender, copy.count)
        return CopyRow(name, size, self._clear(copy) if self.stamps else None)

    def _clear(self, copy: Copy) -> Clear | None:
        found = self.members[copy.destination].dependencies(copy)
        if found is None:
            return None
        members, of = self.roster.members, self.names.of
        return tuple((of(copy.label, message.sender, message.count), members(mask)) for message, mask in found)

    def write(self, path: Path | str) -> int:
        """Write the trace; the name's end says the format: .jsonl, .jsonl.gz or .parquet. Return the number of rows."""
        path = Path(path)
        if format_of(path) == "parquet":
            from thence.trace.parquet import write_parquet

            return write_parquet(self.events, path, rosters=[self.roster])
        from thence.trace.jsonl import format_line
        from thence.trace.source import create

        with create(path) as stream:
            rows = map(format_line, self.rows) if self.stamps else in_blocks(self.event_rows.lines())
            stream.writelines(chain(rows, in_blocks(self.hop_rows.lines())))
        return len(self.event_rows) + len(self.hop_rows)


class ArrivalRecorder(Observer):
    """Keeps one row for each copy that arrives at a destination of its message, with its stamp on the wire."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self.rows: list[tuple[str, str, int, str, str, bytes]] = []

    def begin(self, simulation: Simulation) -> None:
        """Take names from the run."""
        self.run, self.roster, self.members = simulation.outcome.run, simulation.roster, simulation.members
        self.names, self._arrivals = Names(simulation.roster), [0] * len(simulation.roster)

    def sent(self, now: float, process: int, sent: Sent, asked: float) -> None:
        """Name the message."""
        self.names.new(sent.label, sent.message.sender, sent.message.count)

    def arrived(self, now: float, copy: Copy) -> None:
        """Keep the row."""
        here, name = copy.destination, self.roster.names
        self._arrivals[here] += 1
        message = self.names.of(copy.label, copy.sender, copy.count)
        stamp = self.members[here].encode(copy)
        self.rows.append((self.run, name[here], self._arrivals[here], message, name[copy.sender], stamp))

    def jsonl(self) -> Iterator[bytes]:
        """Yield the lines; stamps in base64, and the first line says the roster."""
        roster: Row = {"roster": list(self.roster.names)}
        for run, destination, arrival, message, sender, stamp in self.rows:
            row = {"run": run, "destination": destination, "arrival": arrival, "message": message, "sender": sender}
            row["stamp"] = base64.b64encode(stamp).decode()
            yield json.dumps(row | roster, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
            roster = {}

    def write(self, path: Path | str) -> int:
        """Write the arrivals; .jsonl, .jsonl.gz or .parquet (whose metadata holds the roster). Return how many."""
        path = Path(path)
        if format_of(path) == "parquet":
            self._write_parquet(path)
        else:
            from thence.trace.source import create

            with create(path) as stream:
                stream.writelines(self.jsonl())
        return len(self.rows)

    def _write_parquet(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from thence.kernels.columns import arrow_schema
        from thence.model.columns import arrival_columns
        from thence.trace.parquet import roster_metadata

        schema = arrow_schema(arrival_columns("stamp")).with_metadata(roster_metadata([self.roster]))
        columns = list(zip(*self.rows, strict=True)) or [()] * len(schema)
        pq.write_table(pa.table([list(column) for column in columns], schema=schema), path, compression="zstd")


def format_of(path: Path) -> str:
    """Return the format that the end of a name says, `jsonl` or `parquet`, or say which ends there are."""
    found = by_name(path)
    if found is None or (found == "parquet" and path.suffix == ".gz"):
        raise MisuseError(f"{path.name} ends in none of .jsonl, .jsonl.gz and .parquet, which say the format")
    return found
