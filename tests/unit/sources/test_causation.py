"""Events that name their cause."""

from __future__ import annotations

import json
from typing import Any

import pytest

from thence import Orderer
from thence.errors import MisuseError
from thence.sources import from_cloudevent, from_event, from_events, from_headers


@pytest.mark.parametrize("cause", ["1", "", None, 1, [], ["", None, 1]])
def test_a_cause_that_is_empty_or_itself_is_none(cause: Any) -> None:
    row = from_event({"id": 1, "causation_id": cause})
    assert (row["message"], row["depends_on"], row["destination"]) == ("1", [], "1")


def test_without_an_id_it_is_set_aside_with_a_note() -> None:
    for event in ({}, {"id": ""}, {"id": None}):
        row = from_event(event)
        assert (row["message"], row["kind"]) == (None, "unreadable")
        assert row["note"] == "no id: field 'id' is missing or empty"


def test_the_text_of_an_event_is_an_event() -> None:
    event = {"id": 2, "causation_id": "1", "correlation_id": "c"}
    assert from_event(json.dumps(event)) == from_event(json.dumps(event).encode()) == from_event(event)
    message = {"messageId": "m2", "conversationId": "c", "initiatorId": "k1"}
    assert from_events([json.dumps(message)], preset="masstransit") == from_events([message], preset="masstransit")
    assert from_event("[1]")["kind"] == from_event("{")["kind"] == "unreadable"


def test_a_cause_without_a_conversation_is_told_of() -> None:
    """Its destination is its own id, so what it waits for never comes there."""
    event = {"id": "2", "source": "/a", "specversion": "1.0", "type": "t", "causationid": "1"}
    assert from_cloudevent(event)["note"] == (
        "it names a cause and no conversation: field 'correlationid' is missing or empty"
    )
    assert from_event({"id": 2, "causation_id": 1})["note"] is not None
    for known in ({"correlationid": "c"}, {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}, {"causationid": "2"}):
        assert from_cloudevent(event | known)["note"] is None
    rows = [from_cloudevent(each) | {"destination": "ledger"} for each in (event, event | {"id": "1"})]
    assert [row["message"] for row in Orderer("depends_on").deliver(rows)] == ["1", "2"]


def test_masstransit_names_causes_by_correlation() -> None:
    def message(name: str, correlation: str | None, initiator: str | None) -> dict[str, Any]:
        return {"messageId": name, "conversationId": "c", "correlationId": correlation, "initiatorId": initiator}

    rows = from_events([message("m2", "k2", "k1"), message("m1", "k1", None)], preset="masstransit")
    assert [row["depends_on"] for row in rows] == [["m1"], []]
    assert [row["message"] for row in Orderer("depends_on").deliver(rows)] == ["m1", "m2"]
    shared = [message("m1", "saga", None), message("m2", "saga", "saga"), message("m3", "saga", "saga")]
    rows = from_events(shared, preset="masstransit")
    assert rows[1]["depends_on"] == []
    assert "2 other messages" in str(rows[1]["note"])
    missing = from_events([message("m2", None, "gone")], preset="masstransit")
    assert missing[0]["depends_on"] == ["gone"]


def test_unknown_presets_are_refused_and_headers_read() -> None:
    with pytest.raises(MisuseError, match="kurrentdb, marten, masstransit, axon, axon-4"):
        from_event({}, preset="kafka")
    told = {"ce_id": b"2", "ce_source": b"/a", "ce_specversion": b"1.0", "ce_type": b"t", "ce_causationid": b"1"}
    row = from_headers([*told.items(), ("content-type", b"x"), ("traceparent", b"junk")])
    assert (row["message"], row["depends_on"], row["type"], row["trace"]) == ("2", ["1"], "t", None)


def test_the_other_fields_of_a_message_are_kept() -> None:
    event = {"id": 1, "causation_id": None, "amount": 7, "kind": "Paid", "kind_": 3, "body": {"a": [1]}, "note": None}
    row: Any = from_event(event)
    assert (row["amount"], row["body"], row["kind"], row["kind__"], row["kind_"], row["note_"]) == (
        7, {"a": [1]}, "event", "Paid", 3, None,
    )  # fmt: skip
    assert row.keys() & {"id", "causation_id"} == set()
    placed: Any = from_event({"eventId": "2", "metadata": {"$causationId": "1", "user": "u"}}, preset="kurrentdb")
    assert placed["metadata"] == {"$causationId": "1", "user": "u"}
    cloud: Any = from_cloudevent({"id": "1", "source": "/a", "specversion": "1.0", "type": "t", "data": {"a": 1}})
    assert (cloud["data"], cloud["type"]) == ({"a": 1}, "t")
    for out in Orderer("depends_on").deliver([row]):
        assert out["amount"] == 7
