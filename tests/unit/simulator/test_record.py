"""Records: names, sizes, stamps in the clear, arrivals, bytes that repeat."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from random import Random

import pytest
from support.recorded import read_events

from thence.core.model.message import Copy
from thence.core.model.minimum import Minimum
from thence.core.model.roster import Roster
from thence.core.protocols.registry import create
from thence.errors import MisuseError
from thence.lab.simulator import Observer, RunRecorder, Scenario, Simulation, simulate
from thence.tables.files.jsonl import format_line
from thence.tables.files.parquet import read_rosters
from thence.tables.files.recorder import DIGITS, decimal


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".parquet"])
def test_written_and_read_back_and_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    result = simulate(Scenario(protocol="central", messages=80, labels=2), trace=True, stamps=True)
    again = simulate(Scenario(protocol="central", messages=80, labels=2), trace=True, stamps=True)
    assert result.recorder is not None
    assert again.recorder is not None
    one, two = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
    assert result.recorder.write(one) == len(result.recorder.events)
    again.recorder.write(two)
    assert one.read_bytes() == two.read_bytes()
    read = read_events(one)
    assert read == result.recorder.events


@pytest.mark.parametrize("protocol", ["ks-ft", "central"])
@pytest.mark.parametrize("names", [None, ("α", "node1", 'say "so"', "d:")])
def test_hops_are_written_as_their_rows_are(protocol: str, names: tuple[str, ...] | None) -> None:
    """Lines made without a row for each equal the lines of the rows."""
    result = simulate(Scenario(protocol=protocol, processes=4, messages=60, labels=2), trace=True)
    assert result.recorder is not None
    hops = result.recorder.hop_rows
    hops.roster = Roster(names) if names else hops.roster
    lines = [format_line(event) for event in hops.events]
    assert [line.encode() for line in hops.lines()] == lines
    assert b"".join(hops.blocks()) == b"".join(lines)
    assert len(hops) > 60


@pytest.mark.parametrize(("protocol", "crashes"), [("ks", 0), ("unordered", 0), ("a-causal", 2)])
@pytest.mark.parametrize("names", [None, ("α", "node1", 'say "so"', "d:")])
def test_events_are_written_as_their_rows_are(protocol: str, crashes: int, names: tuple[str, ...] | None) -> None:
    """With facts and without, with labels and without, sends, receives, deliveries and crashes."""
    for labels in (0, 2):
        scenario = Scenario(protocol=protocol, processes=4, messages=60, labels=labels, crashes=crashes)
        result = simulate(scenario, trace=True)
        assert result.recorder is not None
        rows = result.recorder.event_rows
        rows.roster = Roster(names) if names else rows.roster
        events = rows.events
        assert [line.encode() for line in rows.lines()] == [format_line(event) for event in events]
        assert {event.kind for event in events} >= {"send", "receive", "deliver"} | ({"crash"} if crashes else set())
        assert len(events) == len(rows) > 100


def test_rows_that_are_looked_at_on_the_way_are_those_of_the_end() -> None:
    """Rows are made when they are asked for, each once, whoever asks and when."""

    class Curious(Observer):
        def __init__(self, recorder: RunRecorder) -> None:
            self.recorder, self.looked = recorder, 0

        def delivered(self, now: float, copy: Copy) -> None:
            self.looked += bool(self.recorder.rows[-1].message)

    scenario = Scenario(processes=4, messages=60)
    recorder = RunRecorder()
    curious = Curious(recorder)
    Simulation(scenario, recorder, curious).run()
    assert curious.looked > 60
    assert recorder.rows == simulate(scenario, trace=True).events


def test_a_name_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    result = simulate(Scenario(processes=2, messages=3, run="\ud800"), trace=True)
    assert result.recorder is not None
    with pytest.raises(MisuseError, match="cannot be written as JSON"):
        result.recorder.write(tmp_path / "trace.jsonl")


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 1.0, 1e5, 1e6, 1e9])
def test_times_of_hops_are_written_as_rounded_numbers_are(scale: float) -> None:
    """The quick form equals `repr` of the rounded number, on either side of where it is left to `repr`."""
    random = Random(7)
    times = [scale * random.random() for _ in range(2000)] + [scale * number / 8 for number in range(80)]
    assert [decimal(time) for time in times] == [repr(round(time, DIGITS)) for time in times]


@pytest.mark.parametrize("name", ["trace.csv", "trace.jsonl.zst", "trace.parquet.gz", "trace"])
def test_unknown_ending(name: str) -> None:
    result = simulate(Scenario(messages=1), trace=True)
    assert result.recorder is not None
    with pytest.raises(MisuseError, match=r"ends in none of \.jsonl, \.jsonl\.gz and \.parquet"):
        result.recorder.write(name)


def test_names_count_within_a_label() -> None:
    events = simulate(Scenario(messages=200, labels=3), trace=True).events
    sent: dict[tuple[str, str | None], list[str]] = {}
    for event in events:
        if event.kind == "send":
            sent.setdefault((event.process, event.label), []).append(event.message or "")
    for (process, label), names in sent.items():
        assert names == [f"{process}{number}/{label}" for number in range(1, len(names) + 1)]
    assert len({event.label for event in events}) == 3


def test_hops_count_along_a_link() -> None:
    result = simulate(Scenario(protocol="acked", processes=4, messages=60, fanout="unicast"), trace=True)
    assert result.recorder is not None
    sent: dict[tuple[str, str], list[str]] = {}
    for event in result.recorder.hop_rows.events:
        if event.kind == "send":
            (destination,) = event.destinations or ()
            sent.setdefault((event.process, destination), []).append(event.message or "")
    assert len(sent) == 12
    for (source, destination), names in sent.items():
        assert names == [f"{source}{number}/{destination}" for number in range(1, len(names) + 1)]


def test_index_and_order() -> None:
    events = simulate(Scenario(messages=100), trace=True).events
    assert [event.order for event in events] == list(range(len(events)))
    for process in "abcdefgh":
        mine = [event.index for event in events if event.process == process]
        assert mine == list(range(1, len(mine) + 1))


@pytest.mark.parametrize("labels", [0, 2])
def test_stamps_in_the_clear_are_the_minimum_of_ks(labels: int) -> None:
    events = simulate(Scenario(processes=4, messages=60, labels=labels, to_self=True), trace=True, stamps=True).events
    checked = 0
    for label in {event.label for event in events}:
        mine = [event for event in events if event.label == label]
        minimum = Minimum(mine)
        for event in mine:
            if event.kind == "deliver":
                assert event.message is not None
                assert event.dependencies is not None
                facts = {(m, d) for m, names in event.dependencies for d in names}
                assert facts == minimum.on_copy(event.message, event.process)
                assert event.facts == len(facts)
                assert event.entries == len(event.dependencies)
                checked += 1
    assert checked > 60


def test_without_stamps_there_are_none() -> None:
    assert all(e.dependencies is None for e in simulate(Scenario(messages=50), trace=True).events)
    liar = simulate(Scenario(protocol="unordered", messages=50), trace=True, stamps=True)
    assert {e.facts for e in liar.events} == {None}


@pytest.mark.parametrize("protocol", ["ks", "rst", "central"])
def test_arrivals_hold_stamps_that_decode(tmp_path: Path, protocol: str) -> None:
    result = simulate(Scenario(protocol=protocol, processes=4, messages=50), trace=True, arrivals=True)
    assert result.arrivals is not None
    path = tmp_path / "arrivals.jsonl"
    assert result.arrivals.write(path) == result.outcome.deliveries
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows[0].pop("roster") == ["a", "b", "c", "d"]
    assert all(list(row) == ["run", "destination", "arrival", "message", "sender", "stamp"] for row in rows)
    receiver = {name: create(protocol, "abcd", name) for name in "abcd"}
    for name in "abcd":
        mine = [row for row in rows if row["destination"] == name]
        assert [row["arrival"] for row in mine] == list(range(1, len(mine) + 1))
    for row in rows:
        copy = receiver[row["destination"]].decode(base64.b64decode(row["stamp"]), source=row["sender"])
        assert f"{'abcd'[copy.sender]}{copy.count}" == row["message"]
        assert row["message"].startswith(row["sender"])
    received = [(e.process, e.message) for e in result.events if e.kind == "receive"]
    assert [(row["destination"], row["message"]) for row in rows] == received


def test_arrivals_as_parquet(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    result = simulate(Scenario(messages=30), arrivals=True)
    assert result.arrivals is not None
    path = tmp_path / "arrivals.parquet"
    result.arrivals.write(path)
    table = pq.read_table(path)
    assert table.column_names == ["run", "destination", "arrival", "message", "sender", "stamp"]
    assert [tuple(row.values()) for row in table.to_pylist()] == result.arrivals.rows
    assert [list(roster) for roster in read_rosters(path)] == [list("abcdefgh")]
    empty = simulate(Scenario(messages=0), arrivals=True)
    assert empty.arrivals is not None
    assert empty.arrivals.write(path) == 0
    assert pq.read_table(path).num_rows == 0
