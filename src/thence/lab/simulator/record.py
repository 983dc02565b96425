"""The record of a simulation: its trace, through the recorder of all traces, and its table of arrivals.

*Invariant.* A copy that arrives again, doubled by the network or relayed by the protocol, is not an event of the run.
The same scenario gives the same bytes.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, count
from pathlib import Path

from thence.core.model.message import Copy
from thence.core.model.message_names import name_of
from thence.core.model.plain import Row
from thence.core.protocols.effects import Sent
from thence.errors import MisuseError
from thence.lab.simulator.metrics import StampMeasure
from thence.lab.simulator.simulation import Observer, Simulation
from thence.tables.files.formats import by_name
from thence.tables.files.recorder import Clear, CopyRow, Kept, Recorder, about


class RunRecorder(Recorder, Observer):
    """Records a simulation; `stamps` adds the dependencies of each copy in the clear."""

    def __init__(self, *, stamps: bool = False, sizes: StampMeasure | None = None) -> None:
        self.stamps, self.sizes = stamps, sizes or StampMeasure()
        self._here: dict[tuple[str | None, int, int, int], CopyRow | None] = {}
        """by message and destination, what arrived: what its delivery will say, None once that is said"""
        self._hops: dict[int, int] = {}
        """by id of the copy its number; a copy under way is held, so that its id is not given to another"""

    def begin(self, simulation: Simulation) -> None:
        super().__init__(simulation.outcome.run, simulation.roster)
        self.members = simulation.members
        self._links = defaultdict[int, list[int]](lambda: [0] * len(self.roster))
        """by source and destination the number of hops so far"""
        self._trusted = [self.roster.everyone] * len(self.roster)
        self._place = count().__next__
        if self.stamps:
            self._note = self._placed

    def _placed(self, kept: Kept) -> None:
        """Keep an event; rows of the run and of its hops share one order, so that both can be replayed together."""
        self.event_rows.places.append(self._place())
        self.event_rows.kept.append(kept)

    def sent(self, now: float, process: int, sent: Sent, asked: float) -> None:
        """Record a send as a row of the trace."""
        self.note_send(now, sent.label, process, sent.message.count, sent.destinations)

    def arrived(self, now: float, copy: Copy) -> None:
        """Record a receive, once, and keep what the delivery will say again."""
        key = (copy.label, copy.sender, copy.count, copy.destination)
        if key not in self._here:
            self._here[key] = row = self._row_of(copy)
            self.note_copy(now, copy.destination, "receive", copy.label, row)

    def delivered(self, now: float, copy: Copy) -> None:
        """Record a delivery as a row of the trace."""
        key = (copy.label, copy.sender, copy.count, copy.destination)
        row = self._here.get(key) or self._row_of(copy)
        self._here[key] = None
        self.note_copy(now, copy.destination, "deliver", copy.label, row)

    def crashed(self, now: float, process: int) -> None:
        """Record a crash as a row of the trace."""
        self.note_process(now, process, "crash")

    def hops_sent(self, now: float, copies: Sequence[Copy]) -> None:
        """Record the beginnings of hops."""
        flat, known, links = self.hop_rows.flat, self._hops, self._links
        for copy in copies:
            source, destination = copy.source, copy.destination
            link = links[source]
            link[destination] = known[id(copy)] = number = link[destination] + 1
            flat += (now, copy.label, source, destination, number, None)
            if self.stamps:
                self.hop_rows.places.append(self._place())

    def hop_arrived(self, now: float, copy: Copy) -> None:
        """Record the arrival of a hop, by the send that began it; with stamps, what it is about."""
        clear: Clear | None = None
        if self.stamps:
            self.hop_rows.places.append(self._place())
            clear = about(copy, self.roster)
        self.hop_rows.flat += (now, copy.label, copy.source, copy.destination, -self._hops[id(copy)], clear)

    def trusted(self, now: float, process: int, mask: int) -> None:
        """Record, with stamps, that a process trusts others than before."""
        if self.stamps and mask != self._trusted[process]:
            self._trusted[process] = mask
            self.hop_rows.places.append(self._place())
            self.hop_rows.flat += (now, None, process, mask, 0, None)

    def _row_of(self, copy: Copy) -> CopyRow:
        sizes = self.sizes.of(self.members[copy.destination], copy)[:3]
        return self.row_of(copy.label, copy.sender, copy.count, sizes, self._clear(copy) if self.stamps else None)

    def _clear(self, copy: Copy) -> Clear | None:
        found = self.members[copy.destination].dependencies(copy)
        if found is None:
            return None
        names, members, label = self.roster.names, self.roster.members, copy.label
        return tuple((name_of(names[message.sender], message.count, label), members(mask)) for message, mask in found)

    def write(self, path: Path | str) -> int:
        """Write the trace as .jsonl, .jsonl.gz or .parquet, by the suffix of the name; return the number of rows."""
        path = Path(path)
        if format_of(path) == "parquet":
            from thence.tables.files.parquet import write_parquet

            return write_parquet(self.events, path, rosters=[self.roster])
        from thence.tables.files.jsonl import format_line
        from thence.tables.files.source import open_to_write

        with open_to_write(path) as stream:
            if self.stamps:
                stream.writelines(map(format_line, self.events))
            else:
                stream.writelines(chain(self.event_rows.blocks(), self.hop_rows.blocks()))
        return len(self.event_rows) + len(self.hop_rows)


class ArrivalRecorder(Observer):
    """Keeps one row for each copy that arrives at a destination of its message, with its stamp on the wire."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, int, str, str, bytes]] = []

    def begin(self, simulation: Simulation) -> None:
        self.run, self.roster, self.members = simulation.outcome.run, simulation.roster, simulation.members
        self._arrivals = [0] * len(simulation.roster)

    def arrived(self, now: float, copy: Copy) -> None:
        """Keep the copy as a row of the arrivals table, with its stamp."""
        here, name = copy.destination, self.roster.names
        self._arrivals[here] += 1
        message = name_of(name[copy.sender], copy.count, copy.label)
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
            from thence.tables.files.source import open_to_write

            with open_to_write(path) as stream:
                stream.writelines(self.jsonl())
        return len(self.rows)

    def _write_parquet(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from thence.tables.contract.columns import arrival_columns
        from thence.tables.contract.spark_to_arrow_types import arrow_schema
        from thence.tables.files.parquet import roster_metadata

        schema = arrow_schema(arrival_columns("stamp")).with_metadata(roster_metadata([self.roster]))
        columns = list(zip(*self.rows, strict=True)) or [()] * len(schema)
        pq.write_table(pa.table([list(column) for column in columns], schema=schema), path, compression="zstd")


def format_of(path: Path) -> str:
    """Return the format of a file by its suffix, `jsonl` or `parquet`; raise an error that lists the suffixes."""
    found = by_name(path)
    if found not in ("jsonl", "parquet") or path.suffix == ".zst" or (found == "parquet" and path.suffix == ".gz"):
        raise MisuseError(f"{path.name} ends in none of .jsonl, .jsonl.gz and .parquet, which say the format")
    return found
