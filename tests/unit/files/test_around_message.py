"""The part around a message, and traces as logs for the viewer."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from thence.core.model.events import Event, parse, render
from thence.core.model.order import RejectedRow
from thence.errors import MisuseError, TraceError
from thence.tables.explain.causality import causal_order, vector_clocks, with_order
from thence.tables.explain.clock_findings import audit_clocks
from thence.tables.export.around import around
from thence.tables.export.shiviz import write_clock_events, write_shiviz
from thence.tables.files.shiviz import ClockEvent, parse_log, read_shiviz

LOGS = Path(__file__).parents[2] / "data" / "shiviz"
LONG = "e!1>f f?e1 a. a!1>bc a. e!2>f b. b?a1 b. b!1>c f?e2 c. c?b1 c. c?a1 c. e!3>f f?e3"


def written(events: list[Event], message: str | None = None) -> str:
    stream = io.BytesIO()
    write_shiviz(events, stream, around=message)
    return stream.getvalue().decode()


def test_an_excerpt_holds_the_violation_and_its_neighbours() -> None:
    assert render(around(parse(LONG), "a1")) == "a. a!1>bc a. b. b?a1 b. b!1>c c?b1 c. c?a1 c."
    assert render(around(parse(LONG), "b1")) == "a!1>bc b?a1 b. b!1>c c. c?b1 c. c?a1"
    assert render(around(parse(LONG), "e2")) == "e!1>f f?e1 e!2>f f?e2 e!3>f f?e3"


def test_rows_are_unchanged() -> None:
    events = parse(LONG)
    assert set(around(events, "a1")) <= set(events)


def test_an_excerpt_of_each_run_that_has_the_message() -> None:
    runs = [*parse("a!1>b b?a1", run="r"), *parse("c!1>b b?c1", run="s"), *parse("a!1>b", run="t")]
    assert [(e.run, e.kind) for e in around(runs, "a1")] == [("r", "send"), ("r", "deliver"), ("t", "send")]


def test_a_message_nobody_sends() -> None:
    with pytest.raises(MisuseError, match="no run of the trace sends a message 'x9'"):
        around(parse("a!1>b b?a1"), "x9")


def test_a_trace_as_a_log() -> None:
    assert written(parse("a!1>bc b<a1 b?a1 b!1>c c?b1 c?a1 a#")) == (
        "(?<host>\\S*) (?<clock>{.*})\\n(?<event>.*)\n"
        "\n"
        'a {"a":1}\nsend a1 to b, c\n'
        'b {"b":1}\nreceive a1\n'
        'b {"a":1, "b":2}\ndeliver a1\n'
        'b {"a":1, "b":3}\nsend b1 to c\n'
        'c {"a":1, "b":3, "c":1}\ndeliver b1\n'
        'c {"a":1, "b":3, "c":2}\ndeliver a1\n'
        'a {"a":2}\ncrash\n'
    )


def test_an_excerpt_as_a_log_counts_its_own_rows() -> None:
    assert written(parse(LONG), "b1") == (
        "(?<host>\\S*) (?<clock>{.*})\\n(?<event>.*)\n"
        "\n"
        'a {"a":1}\nsend a1 to b, c\n'
        'b {"a":1, "b":1}\ndeliver a1\n'
        'b {"a":1, "b":2}\ninternal\n'
        'b {"a":1, "b":3}\nsend b1 to c\n'
        'c {"c":1}\ninternal\n'
        'c {"a":1, "b":3, "c":2}\ndeliver b1\n'
        'c {"a":1, "b":3, "c":3}\ninternal\n'
        'c {"a":1, "b":3, "c":4}\ndeliver a1\n'
    )


def test_runs_and_labels_are_executions() -> None:
    text = written([*parse("a!1>b/red b?a1/red a!2>b a#", run="r"), *parse("a!1>b", run="s")])
    found = [each for each in parse_log(text, "f") if isinstance(each, ClockEvent)]
    assert [(e.run, e.text) for e in found] == [
        ("r/red", "send a1 to b"),
        ("r/red", "deliver a1"),
        ("r/red", "crash"),
        ("r", "send a2 to b"),
        ("r", "crash"),
        ("s", "send a1 to b"),
    ]
    assert audit_clocks(found).findings == []


def test_names_that_the_viewer_could_not_read() -> None:
    events = [
        Event("r", "a b", 1, "send", "m\n1", ("a%20b",)),
        Event("r", "a%20b", 1, "deliver", "m\n1"),
    ]
    assert written(events).splitlines()[2:] == [
        'a%20b {"a%20b":1}',
        "send m 1 to a%20b",
        'a%2520b {"a%20b":1, "a%2520b":1}',
        "deliver m 1",
    ]


def test_rows_that_cannot_be_used_are_told() -> None:
    rejected: list[RejectedRow] = []
    count = write_shiviz(parse("a!1>b b?a1 b?x1"), io.BytesIO(), rejected=rejected)
    assert (count, [each.reason for each in rejected]) == (2, ["message x1 was never sent"])


def test_a_real_log_is_written_in_the_usual_layout(tmp_path: Path) -> None:
    for name in ("facebook-multiple.log", "simple-reliable-broadcast.log"):
        events = list(read_shiviz(LOGS / name, []))
        assert write_clock_events(events, tmp_path / name) == len(events)
        again = list(read_shiviz(tmp_path / name, []))
        assert [(e.run, e.host, e.clock, e.text) for e in again] == [(e.run, e.host, e.clock, e.text) for e in events]


def test_an_execution_of_one_event_is_written_under_its_name() -> None:
    stream = io.BytesIO()
    events = [ClockEvent("f", 1, "first", "a", {"a": 1}, "x"), ClockEvent("f", 2, "second", "b", {"b": 1}, "y")]
    assert write_clock_events(events, stream) == 2
    found = stream.getvalue().decode().splitlines()[2:]
    assert found == ["=== first ===", 'a {"a":1}', "x", "=== second ===", 'b {"b":1}', "y"]


def test_causes_come_first_whatever_the_rows_say() -> None:
    events = parse("a!1>b b?a1 b!1>a a?b1")
    backwards = [replace(event, order=None) for event in reversed(events)]
    assert render(causal_order(backwards)) == render(events)
    lied = [replace(event, order=-(event.order or 0)) for event in events]
    assert render(causal_order(lied)) == render(events)
    assert [(e.order, e.kind) for e in with_order([*backwards, Event("run", "c", 1, "deliver", "x")])] == [
        (0, "send"),
        (1, "deliver"),
        (2, "send"),
        (3, "deliver"),
        (4, "deliver"),
    ]


def test_no_order_puts_these_causes_first() -> None:
    with pytest.raises(TraceError, match=r"a 1 \(deliver b1\), b 1 \(deliver a1\)"):
        causal_order(parse("a?b1 a!1>b b?a1 b!1>a"))


def test_vector_clocks_by_hand() -> None:
    assert list(vector_clocks(parse("a!1>b b. b?a1 a. b!1>a a?b1"))) == [
        {"a": 1},
        {"b": 1},
        {"a": 1, "b": 2},
        {"a": 2},
        {"a": 1, "b": 3},
        {"a": 3, "b": 3},
    ]
