"""A row is an event or a reason."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from support.some import some

from thence.core.model.events import Event, parse
from thence.tables.contract.columns import ARRIVAL_COLUMNS, EVENT_COLUMNS, arrival_columns, ddl
from thence.tables.contract.row_validity import event_of, row_of
from thence.tables.contract.spark_to_arrow_types import arrow_schema

SEND = {"run": "r", "process": "a", "index": 1, "kind": "send", "message": "a1", "destinations": ["b", "c"]}


def test_columns_are_the_fields_of_an_event() -> None:
    assert [column.name for column in EVENT_COLUMNS] == [field.name for field in fields(Event)]
    assert arrow_schema().names == [column.name for column in EVENT_COLUMNS]
    assert [column.name for column in EVENT_COLUMNS if column.required] == ["run", "process", "index", "kind"]


def test_arrivals_end_in_what_says_their_causes() -> None:
    assert [column.name for column in ARRIVAL_COLUMNS] == ["run", "destination", "arrival", "message", "sender"]
    for by in ("stamp", "clock", "depends_on"):
        assert arrow_schema(arrival_columns(by)).names[-1] == by
    assert str(arrow_schema(arrival_columns("clock")).field("clock").type) == "map<string, int64>"


def test_the_spark_schema_quotes_its_names() -> None:
    assert ddl(EVENT_COLUMNS[:3]) == "`run` string NOT NULL, `process` string NOT NULL, `index` long NOT NULL"


def test_a_row_and_its_event() -> None:
    event = Event("r", "a", 1, "send", "a1", ("b", "c"))
    assert event_of(SEND) == event
    assert row_of(event) == SEND
    assert list(row_of(event)) == ["run", "process", "index", "kind", "message", "destinations"]


def test_every_column_comes_back() -> None:
    event = Event("r", "b", 2, "deliver", "a1", None, "red", 7, 0.5, 1, 2, 3, (("a1", ("b",)), ("c4", ())))
    assert event_of(row_of(event)) == event


def test_order_stands_in_only_where_there_is_none() -> None:
    assert event_of(SEND, order=4).order == 4  # type: ignore[union-attr]
    assert event_of(SEND | {"order": 9}, order=4).order == 9  # type: ignore[union-attr]


def test_keys_that_are_no_columns_are_passed_over() -> None:
    assert event_of(SEND | {"payload": {"x": 1}}) == event_of(SEND)


def test_seconds_may_be_a_whole_number() -> None:
    time = event_of(SEND | {"time": 5}).time  # type: ignore[union-attr]
    assert (time, type(time)) == (5.0, float)


@pytest.mark.parametrize(
    "moment", ["2026-11-17T10:00:00.5+05:30", "2026-11-17T04:30:00.5Z", "2026-11-17 04:30:00.5", 1794889800.5]
)
def test_a_time_is_seconds_or_a_moment(moment: object) -> None:
    assert event_of(SEND | {"time": moment}).time == 1794889800.5  # type: ignore[union-attr]


def test_a_message_may_be_for_nobody() -> None:
    assert event_of(SEND | {"destinations": []}).destinations == ()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "sent"}, "kind is 'sent'; one of crash, deliver, internal, receive, send is accepted"),
        ({"kind": None}, "kind is missing"),
        ({"kind": 3}, "kind is 3; a string is accepted"),
        ({"run": None}, "run is missing"),
        ({"process": ""}, "process is empty; a name is accepted"),
        ({"process": ["a"]}, "process is list; a string is accepted"),
        ({"process": "\ud800"}, "process is '\\ud800', which is not valid Unicode"),
        ({"index": None}, "index is missing"),
        ({"index": 0}, "index is 0; indexes count from 1"),
        ({"index": -3}, "index is -3; indexes count from 1"),
        ({"index": True}, "index is True; a whole number is accepted"),
        ({"index": 1.0}, "index is 1.0; a whole number is accepted"),
        ({"index": "1"}, "index is '1'; a whole number is accepted"),
        ({"index": 2**63}, "index is 9223372036854775808, which does not fit in 64 bits"),
        ({"message": None}, "a send row needs a message"),
        ({"message": ""}, "a send row needs a message"),
        ({"message": None, "kind": "deliver"}, "a deliver row needs a message"),
        ({"destinations": None}, "a send row needs destinations"),
        ({"destinations": "bc"}, "destinations is 'bc'; a list of process names is accepted"),
        ({"destinations": ["b", "b"]}, "destinations holds 'b' twice"),
        ({"destinations": ["b", 1]}, "an entry of destinations is 1; a string is accepted"),
        ({"destinations": ["b", None]}, "an entry of destinations is missing"),
        ({"destinations": [""]}, "an entry of destinations is empty; a name is accepted"),
        ({"label": 4}, "label is 4; a string is accepted"),
        ({"order": 1.5}, "order is 1.5; a whole number is accepted"),
        ({"time": "now"}, "time is 'now'; a number of seconds is accepted, or a moment as ISO 8601 writes it"),
        ({"time": False}, "time is False; a number of seconds is accepted, or a moment as ISO 8601 writes it"),
        ({"time": float("nan")}, "time is nan; a finite number of seconds is accepted"),
        ({"time": 10**400}, "time is int; a finite number of seconds is accepted"),
        ({"bytes": -1}, "bytes is -1; a size is not negative"),
        ({"entries": 2**31}, "entries is 2147483648, which does not fit in 32 bits"),
        ({"facts": True}, "facts is True; a whole number is accepted"),
        ({"dependencies": "a1"}, "dependencies is 'a1'; a list of messages with destinations is accepted"),
        ({"dependencies": ["a1"]}, "an entry of dependencies is 'a1'; message and destinations are accepted"),
        ({"dependencies": [{"message": "a1"}]}, "an entry of dependencies has no destinations"),
        ({"dependencies": [{"destinations": []}]}, "message of a dependency is missing"),
    ],
)
def test_reasons_say_what_was_found_and_what_is_accepted(change: dict[str, Any], reason: str) -> None:
    assert event_of(SEND | change) == reason


def test_reasons_stay_short() -> None:
    assert len(str(event_of(SEND | {"kind": "x" * 10_000}))) < 200
    assert len(str(event_of(SEND | {"index": "é" * 10_000}))) < 200


def test_the_notation_fits_the_schema() -> None:
    for event in some(parse("a!1>bc b<a1 b?a1 b. a#")):
        assert event_of(row_of(event)) == event
