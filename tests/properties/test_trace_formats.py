"""Whatever a table can hold comes back from JSONL and Parquet; whatever bytes there are, no line is lost."""

from __future__ import annotations

import io
import json
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st
from support.recorded import located_lines, read_events

from thence.core.model.events import EVENT_KINDS, Event
from thence.tables.contract.row_validity import event_of, row_of
from thence.tables.files.jsonl import format_line, write_jsonl
from thence.tables.files.parquet import write_parquet
from thence.tables.files.shiviz import ClockEvent, parse_log
from thence.tables.files.source import Quarantined

TEXTS = st.text(max_size=8)
NAMES = st.text(min_size=1, max_size=6)
SETS = st.lists(NAMES, unique=True, max_size=4).map(tuple)
SIZES = st.none() | st.integers(0, 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)


@st.composite
def events(draw: st.DrawFn) -> Event:
    kind = draw(st.sampled_from(sorted(EVENT_KINDS)))
    named = kind in ("send", "deliver", "receive")
    return Event(
        run=draw(TEXTS),
        process=draw(NAMES),
        index=draw(st.integers(1, 2**63 - 1)),
        kind=kind,  # type: ignore[arg-type]
        message=draw(NAMES) if named else draw(st.none() | TEXTS),
        destinations=draw(SETS) if kind == "send" else draw(st.none() | SETS),
        label=draw(st.none() | TEXTS),
        order=draw(st.none() | LONGS),
        time=draw(st.none() | st.floats(allow_nan=False, allow_infinity=False)),
        entries=draw(SIZES),
        facts=draw(SIZES),
        bytes=draw(SIZES),
        dependencies=draw(st.none() | st.lists(st.tuples(NAMES, SETS), max_size=3).map(tuple)),
    )


@given(events())
def test_a_row_says_its_event(event: Event) -> None:
    assert event_of(row_of(event)) == event


@given(events())
def test_a_line_is_what_the_json_module_writes(event: Event) -> None:
    slow = json.dumps(row_of(event), ensure_ascii=False, separators=(",", ":"))
    assert format_line(event) == slow.encode() + b"\n"


@given(st.lists(events(), max_size=6))
def test_jsonl_round_trip(rows: list[Event]) -> None:
    stream = io.BytesIO()
    assert write_jsonl(rows, stream) == len(rows)
    found = list(located_lines(io.BytesIO(stream.getvalue()), "f"))
    expected = [e if e.order is not None else replace(e, order=n) for n, e in enumerate(rows)]
    assert found == list(enumerate(expected, 1))
    again = io.BytesIO()
    write_jsonl(rows, again)
    assert again.getvalue() == stream.getvalue()


@given(st.lists(events(), max_size=6), st.integers(1, 3))
def test_parquet_round_trip(rows: list[Event], files: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        assert write_parquet(rows, path, files=files, row_group=2) == len(rows)
        found: list[Quarantined] = []
        parts = [path] if files == 1 else sorted(path.iterdir())
        read = [event for part in parts for event in read_events(part, found)]
    expected = [e if e.order is not None else replace(e, order=n) for n, e in enumerate(rows)]
    if files > 1:
        expected.sort(key=lambda event: event.order or 0)
    assert (read, found) == (expected, [])


LINE = format_line(Event("r", "a", 1, "send", "a1", ("b",)))
PIECES = st.sampled_from([LINE, LINE[:-1], LINE[:30], b"\n", b"\r\n", b"  \n", b"{}\n", b"[1]\n", b'"\xff"\n', b"\xff"])


@given(st.binary(max_size=200) | st.lists(PIECES | st.binary(max_size=8), max_size=12).map(b"".join))
@example(b"\xef\xbb\xbf")
@example(b"\xef\xbb\xbf" + LINE)
@example(b'{"index":1e999999}\n{"a":' + b"[" * 2000)
def test_any_bytes_no_line_is_lost(data: bytes) -> None:
    found = list(located_lines(io.BytesIO(data), "f"))
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    expected = [number for number, line in enumerate(lines, 1) if line.strip()]
    assert [each.line if isinstance(each, Quarantined) else each[0] for each in found] == expected


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3), st.lists, max_leaves=4)
)
def test_any_value_in_any_column_gives_an_event_or_a_reason(value: object) -> None:
    row = {"run": "r", "process": "a", "index": 1, "kind": "send", "message": "m", "destinations": ["b"]}
    for name in (*row, "label", "order", "time", "entries", "facts", "bytes", "dependencies"):
        found = event_of(row | {name: value})
        assert isinstance(found, Event | str)
        if isinstance(found, Event):
            assert event_of(row_of(found)) == found


LOG = st.sampled_from(['a {"a":1}', "one", 'b {"a":1, "b":2} two', '[x/a] {"a":1} y', "=== r ===", "", '{"a"', '"'])


@given(st.lists(LOG | st.text(max_size=12), max_size=10).map("\n".join))
@example("(?<host>a)(?<clock>b)(?<event>c)")
@example("(?<host>a)(?<clock>b)(?<event>c)\n(?<trace>x*)\nxx\nab c")
def test_any_text_no_line_of_a_log_is_lost(text: str) -> None:
    found = list(parse_log(text, "f"))
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    said = {each.line for each in found}
    if None in said:
        assert len(found) == 1
        return
    events = [each for each in found if isinstance(each, ClockEvent)]
    lost = []
    for number, line in enumerate(lines, 1):
        near = any(event.text in line and abs(event.line - number) <= 1 for event in events)
        bad = any(each.line in (number - 1, number, number + 1) for each in found if isinstance(each, Quarantined))
        header = number <= 2 and "<clock>" in lines[0]
        if not (not line.strip() or number in said or near or bad or header or line.startswith("=== ")):
            lost.append(line)
    assert lost == []
