"""A trace as Perfetto's track events: a track for each process, copies as flows, holds as slices.

Invariant: every row that the definition can use is written once: a send, an internal event or a crash as an instant, an
arrival with its delivery as one slice, the time the copy was held; either of them alone as an instant. Each copy is a
flow from its send to where it ends. Time is the recorded one if every row has it, else a microsecond for each step of
an order in which causes come first. Slices of one track must not cross, so holds that do are on tracks side by side.

Needs the package `perfetto`: pip install "thence[perfetto]".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from thence.core.model.events import Event
from thence.core.model.order import RejectedRow, by_run, usable
from thence.tables.explain.causality import causal_order
from thence.tables.files.source import open_to_write

if TYPE_CHECKING:
    from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

SEQUENCE = 1
STEP = 1000
"""Nanoseconds for each step of the order, where no time was recorded."""


def write_perfetto(events: Iterable[Event], target: Path | IO[bytes], *, rejected: list[RejectedRow]) -> int:
    """Write all runs; return how many rows were written. Rows that cannot be used are appended to `rejected`."""
    runs = by_run(events)
    if isinstance(target, Path):
        with open_to_write(target) as stream:
            return _write(runs, stream, rejected)
    return _write(runs, target, rejected)


def _write(runs: dict[str, list[Event]], stream: IO[bytes], rejected: list[RejectedRow]) -> int:
    from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

    writer = _Writer(StreamingTraceProtoBuilder(stream))
    count = 0
    for run, rows in runs.items():
        good, bad = usable(rows)
        rejected += bad
        count += len(good)
        writer.run(run, causal_order(good))
    return count


@dataclass(slots=True)
class _Writer:
    builder: StreamingTraceProtoBuilder
    tracks: int = 0
    flows: int = 0
    named: dict[tuple[str, ...], int] = field(default_factory=dict)

    def run(self, run: str, rows: Sequence[Event]) -> None:
        """Write one run, rows in causal order."""
        timed = all(event.time is not None for event in rows)
        at = {e: round((e.time or 0.0) * 1e9) if timed else place * STEP for place, e in enumerate(rows)}
        flow: dict[tuple[str | None, str], int] = {}
        for event in rows:
            if event.kind == "send":
                for name in event.destinations or ():
                    self.flows += 1
                    flow[event.message, name] = self.flows
        held = dict(_held(rows))
        ends = set(held.values())
        busy: dict[str, list[int]] = defaultdict(list)
        for event in rows:
            if event.kind == "send":
                starts = [flow[event.message, name] for name in event.destinations or ()]
                self.instant(run, event, at[event], starts=starts)
            elif event in held:
                until = max(at[event], at[held[event]])
                slot = _free(busy[event.process], at[event], until)
                self.slice(run, event, slot, at[event], until, flow.get((event.message, event.process)))
            elif event not in ends:
                stops = flow.get((event.message, event.process)) if event.kind in ("receive", "deliver") else None
                self.instant(run, event, at[event], stops=stops)

    def track(self, *names: str) -> int:
        """Return the track of a path of names, described when it is first asked for."""
        if names not in self.named:
            parent = self.track(*names[:-1]) if len(names) > 1 else None
            self.tracks += 1
            packet = self.builder.create_packet()
            packet.track_descriptor.uuid = self.named.setdefault(names, self.tracks)
            packet.track_descriptor.name = names[-1]
            if parent is not None:
                packet.track_descriptor.parent_uuid = parent
            self.builder.write_packet(packet)
        return self.named[names]

    def instant(self, run: str, event: Event, at: int, *, starts: Sequence[int] = (), stops: int | None = None) -> None:
        """Write an event without length."""
        self._event(self.track(run, event.process), "TYPE_INSTANT", at, event, starts, stops)

    def slice(self, run: str, event: Event, slot: int, start: int, end: int, stops: int | None) -> None:
        """Write the time a copy was held."""
        names = (run, event.process, "held" if slot == 0 else f"held {slot + 1}")
        track = self.track(*names)
        self._event(track, "TYPE_SLICE_BEGIN", start, event, (), stops)
        self._event(track, "TYPE_SLICE_END", end, None, (), None)

    def _event(
        self, track: int, kind: str, at: int, event: Event | None, starts: Sequence[int], stops: int | None
    ) -> None:
        packet = self.builder.create_packet()
        packet.timestamp = at
        packet.trusted_packet_sequence_id = SEQUENCE
        track_event = packet.track_event
        track_event.type = getattr(type(track_event), kind)
        track_event.track_uuid = track
        if event is not None:
            track_event.name = event.kind if event.message is None else f"{event.kind} {event.message}"
            if event.label is not None:
                track_event.categories.append(event.label)
            for name, value in (("index", event.index), ("bytes", event.bytes)):
                if value is not None:
                    note = track_event.debug_annotations.add()
                    note.name, note.int_value = name, value
        track_event.flow_ids.extend(starts)
        if stops is not None:
            track_event.terminating_flow_ids.append(stops)
        self.builder.write_packet(packet)


def _held(rows: Sequence[Event]) -> Iterator[tuple[Event, Event]]:
    """Yield each arrival with its delivery."""
    waiting: dict[tuple[str, str | None], list[Event]] = defaultdict(list)
    for event in rows:
        if event.kind == "receive":
            waiting[event.process, event.message].append(event)
        elif event.kind == "deliver" and waiting[event.process, event.message]:
            yield waiting[event.process, event.message].pop(0), event


def _free(busy: list[int], start: int, end: int) -> int:
    """Return the first slot that is free at `start`, and take it until `end`."""
    slot = next((place for place, until in enumerate(busy) if until <= start), len(busy))
    busy[slot : slot + 1] = [end]
    return slot
