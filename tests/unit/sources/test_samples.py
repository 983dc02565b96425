"""Every recorded sample has the outcome that is stated for it, and says where its form is documented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.some import some

from thence.sources import Record, from_change, from_cloudevent, from_event

SAMPLES = Path(__file__).parents[2] / "data" / "sources"


def lines(name: str) -> list[dict[str, Any]]:
    documented, *rest = [json.loads(line) for line in (SAMPLES / f"{name}.jsonl").read_text().splitlines()]
    assert documented["documented"]
    assert all(address.startswith("https://") for address in documented["addresses"])
    assert documented["addresses"]
    return rest


def record(line: dict[str, Any]) -> Record:
    value = line["value"]
    told = value if value is None or isinstance(value, str) else json.dumps(value)
    return Record(told, None if line["key"] is None else json.dumps(line["key"]), line["topic"])


@pytest.mark.parametrize("database", ["postgresql", "mysql", "mariadb", "sqlserver"])
def test_every_record_of_debezium_has_its_outcome(database: str) -> None:
    for line in some(lines(f"debezium-{database}")):
        row = from_change(record(line))
        assert row["kind"] == line["kind"], line
        if line["message"] is not None:
            assert (row["message"], row["depends_on"], row["note"]) == (line["message"], line["depends_on"], None)
        elif row["kind"] not in ("snapshot", "incremental"):
            assert row["message"] is None
            assert row["note"], line
        else:
            assert row["message"]
            assert not row["depends_on"]
        if line["topic"] == "shop.transaction" or row["sender"]:
            assert row["destination"] == "shop"


def test_every_kind_that_the_page_lists_has_a_sample() -> None:
    from thence.tables.sources import debezium

    kinds = {line["kind"] for name in SAMPLES.glob("debezium-*.jsonl") for line in lines(name.stem)}
    table = [line for line in str(debezium.__doc__).splitlines() if line.startswith("| ")][1:]
    listed = {kind.strip() for line in table for kind in line.split("|")[1].split(",")}
    assert listed - kinds == {"before", "signal"}  # the one depends on `since`, the other is not of a database
    assert from_change({"id": "1", "type": "execute-snapshot", "data": {}})["kind"] == "signal"


def test_cloudevents_and_presets() -> None:
    for line in some(lines("cloudevents")):
        row = from_cloudevent(json.dumps(line["value"]))
        told = (row["message"], row["depends_on"], row["kind"], row["destination"])
        assert told == (line["message"], line["depends_on"], line["kind"], line["destination"])
    for line in lines("causation"):
        event = from_event(line["value"], preset=line["preset"])
        told = (event["message"], event["depends_on"], event["kind"], event["destination"])
        assert told == (line["message"], line["depends_on"], line["kind"], line["destination"]), line["preset"]
        assert event["time"] == pytest.approx(1767323045)
