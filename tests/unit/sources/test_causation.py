"""Events that name their cause."""

from __future__ import annotations

from typing import Any

import pytest

from thence import Orderer
from thence.errors import MisuseError
from thence.sources import from_event, from_events, from_headers


@pytest.mark.parametrize("cause", ["1", "", None, 1, [], ["", None, 1]])
def test_a_cause_that_is_empty_or_itself_is_none(cause: Any) -> None:
    row = from_event({"id": 1, "causation_id": cause})
    assert (row["message"], row["depends_on"], row["destination"]) == ("1", [], "1")


def test_without_an_id_it_is_set_aside_with_a_note() -> None:
    for event in ({}, {"id": ""}, {"id": None}):
        row = from_event(event)
        assert (row["message"], row["kind"]) == (None, "unreadable")
        assert row["note"] == "no id: field 'id' is missing or empty"


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
