"""A trace as Perfetto's track events, read back with Perfetto's own classes."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
from support.traces import random_trace

from thence.cli import main
from thence.core.model.events import Event, parse
from thence.core.model.order import RejectedRow, usable
from thence.tables.export.perfetto import write_perfetto
from thence.tables.files.jsonl import write_jsonl

HELD = "a!1>c a!2>b b?a2 b!1>c c<b1 c<a1 c?a1 c?b1 c. c#"


def written(events: list[Event]) -> tuple[Any, list[RejectedRow]]:
    stream, rejected = io.BytesIO(), []  # type: ignore[var-annotated]
    write_perfetto(events, stream, rejected=rejected)
    trace = Trace()
    trace.ParseFromString(stream.getvalue())
    return trace, rejected


def events_of(trace: Any) -> list[Any]:
    return [packet for packet in trace.packet if packet.HasField("track_event")]


def test_tracks_instants_holds_and_flows() -> None:
    trace, rejected = written(parse(HELD))
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")}
    paths = {uuid: (tracks[t.parent_uuid].name if t.parent_uuid else None, t.name) for uuid, t in tracks.items()}
    said = [(paths[p.track_event.track_uuid], p.track_event.name, p.timestamp) for p in events_of(trace)]
    assert (("run", "a"), "send a1", 0) in said
    assert (("run", "b"), "deliver a2", 2000) in said
    assert (("c", "held"), "receive b1", 4000) in said
    assert (("c", "held 2"), "receive a1", 5000) in said  # both are held at once
    assert (("run", "c"), "crash", 9000) in said
    begins = [p for p in events_of(trace) if p.track_event.type == TrackEvent.TYPE_SLICE_BEGIN]
    ends = [p for p in events_of(trace) if p.track_event.type == TrackEvent.TYPE_SLICE_END]
    assert [(p.timestamp) for p in begins] == [4000, 5000]
    assert sorted(p.timestamp for p in ends) == [6000, 7000]
    assert rejected == []


@pytest.mark.parametrize("seed", range(6))
def test_every_row_is_there_once_and_every_flow_has_one_start(seed: int) -> None:
    events = random_trace(seed)
    trace, rejected = written(events)
    good, bad = usable(events)
    assert [each.event for each in rejected] == [each.event for each in bad]
    found = [p.track_event for p in events_of(trace)]
    shown = sum(e.type == TrackEvent.TYPE_INSTANT for e in found)
    shown += 2 * sum(e.type == TrackEvent.TYPE_SLICE_BEGIN for e in found)
    assert shown == len(good), f"seed {seed}"
    starts = [flow for e in found for flow in e.flow_ids]
    stops = [flow for e in found for flow in e.terminating_flow_ids]
    assert len(starts) == len(set(starts)) == sum(len(e.destinations or ()) for e in good if e.kind == "send")
    assert set(stops) <= set(starts)


def test_recorded_time_is_used_where_every_row_has_it() -> None:
    events = [replace(e, time=0.5 * place) for place, e in enumerate(parse("a!1>b b?a1"))]
    assert [p.timestamp for p in events_of(written(events)[0])] == [0, 500_000_000]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "run.jsonl", tmp_path / "slice.pftrace"
    write_jsonl(parse(HELD), source)
    assert main(["convert", str(source), "--to", "perfetto", "--around", "a2", "--out", str(target)]) == 0
    trace = Trace()
    trace.ParseFromString(target.read_bytes())
    assert "deliver a2" in {p.track_event.name for p in events_of(trace)}
    assert "crash" not in {p.track_event.name for p in events_of(trace)}
    capsys.readouterr()
