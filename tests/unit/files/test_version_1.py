"""What version 1 wrote, every later version reads."""

from __future__ import annotations

import io
from pathlib import Path

from support.recorded import judge_runs, read_events

from thence.core.model.events import Event
from thence.core.model.roster import Roster
from thence.tables.files.jsonl import write_jsonl
from thence.tables.files.parquet import read_rosters
from thence.tables.files.source import Quarantined

V1 = Path(__file__).parents[2] / "data" / "v1"

ROSTERS = [Roster(["a", "b", "c"]), Roster(["a", "b", "c", "Zoë"])]
EVENTS = [
    Event("first", "a", 1, "send", "a1", ("b", "c"), order=0, time=0.0),
    Event("first", "b", 1, "receive", "a1", order=1, time=0.25, entries=0, facts=0, bytes=9),
    Event("first", "b", 2, "deliver", "a1", order=2, time=0.25, entries=0, facts=0, bytes=9),
    Event("first", "b", 3, "send", "b1", ("a", "c"), order=3, time=1e-3),
    Event("first", "c", 1, "receive", "b1", order=4, entries=1, facts=1, bytes=14, dependencies=(("a1", ("c",)),)),
    Event("first", "c", 2, "deliver", "b1", order=5, entries=1, bytes=14, dependencies=(("a1", ("c",)), ("x", ()))),
    Event("first", "c", 3, "deliver", "a1", order=6, entries=0, facts=0, bytes=9, dependencies=()),
    Event("first", "a", 2, "crash", order=7),
    Event("first", "a", 3, "internal", order=8),
    Event("second", "Zoë", 1, "send", 'Zoë\u2028\n"1"', ("Zoë", "a b"), "red", order=0),
    Event("second", "Zoë", 2, "deliver", 'Zoë\u2028\n"1"', label="red", order=1),
    Event("second", "Zoë", 3, "send", "nobody", (), order=2**62),
]


def test_the_jsonl_of_version_1() -> None:
    found: list[Quarantined] = []
    assert read_events(V1 / "trace.jsonl", found) == EVENTS
    assert found == []


def test_the_parquet_of_version_1() -> None:
    found: list[Quarantined] = []
    assert read_events(V1 / "trace.parquet", found) == EVENTS
    assert found == []
    assert read_rosters(V1 / "trace.parquet") == ROSTERS


def test_jsonl_is_still_written_to_the_same_bytes() -> None:
    stream = io.BytesIO()
    write_jsonl(EVENTS, stream)
    assert stream.getvalue() == (V1 / "trace.jsonl").read_bytes()


def test_the_verdicts_are_these() -> None:
    assert {run: j.verdict for run, j in judge_runs(EVENTS).items()} == {"first": "violated", "second": "causal"}
