"""Records that are not quite what is documented: each gets a row, none aborts the others; seeds are printed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from support.shown_sources import KEYS, lines
from support.some import some

from thence import Orderer
from thence.sources import Record, from_change, from_changes, from_cloudevent, from_event, from_events, from_spans

ODD: list[Any] = [None, "", 0, -1, 1.5, True, [], {}, "x", [1], {"a": 1}, "9" * 30, 10**25, "null"]
DATABASES = ["postgresql", "mysql", "mariadb", "sqlserver"]


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in inner:
        yield (*here, step)
        yield from places(each, (*here, step))


def changed(value: Any, random: Random) -> Any:
    """Return a value with one field gone, or of another type."""
    value = copy.deepcopy(value)
    found = list(places(value))
    if not found:
        return random.choice(ODD)
    *way, last = random.choice(found)
    at = value
    for step in way:
        at = at[step]
    if random.random() < 0.3 and isinstance(at, dict):
        del at[last]
    else:
        at[last] = random.choice(ODD)
    return value


@pytest.mark.parametrize("database", DATABASES)
def test_no_change_aborts_the_others(database: str) -> None:
    print(f"seed {database}")
    random = Random(database)
    sample = [(line, json.dumps(line["value"])) for line in lines(f"debezium-{database}")]
    for _ in range(20):
        log = []
        for offset, (line, text) in enumerate(sample):
            odd = random.random() < 0.5
            key = random.choice([None, "7", "no JSON", b"\0\0\0\0\5x", json.dumps(changed(line["key"], random))])
            told = json.dumps(changed(line["value"], random)) if odd else text
            log.append(Record(told, key, line["topic"], 0, random.choice([offset, 0])))
        for order in ("commit", "transaction", "keys"):
            alone = [from_change(record, order=order) for record in log]
            rows = from_changes(log, order=order, foreign_keys=KEYS)
            assert len(rows) == len(log)
            assert all(row["note"] for row in [*alone, *rows] if row["message"] is None)
            assert len(list(Orderer("depends_on", key=["destination"]).deliver(rows))) == len(log)


def test_a_form_that_can_not_be_read_says_which_field() -> None:
    end = {"status": "END", "id": "0-1-2", "event_count": 10**12}
    assert (
        from_change(end, order="keys")["note"]
        == "event_count is 1000000000000; a whole number up to 10000000 is accepted"
    )
    change = {"op": "c", "source": {"name": "shop", "table": "t"}, "transaction": {"id": "0-1-2", "total_order": "two"}}
    row = from_change(change)
    assert (row["kind"], row["message"]) == ("unreadable", None)
    assert row["note"] == "transaction.total_order is 'two'; a whole number is accepted"
    assert from_change({"op": "c", "source": [1]})["note"] == "source is [1]; an object is accepted"


def test_no_event_and_no_export_aborts_the_others() -> None:
    random = Random(3)
    print("seed 3")
    for line in some(lines("cloudevents") + lines("causation")):
        for _ in range(50):
            event = changed(line["value"], random)
            row = from_cloudevent(json.dumps(event))
            assert row["note"] or row["message"]
            if isinstance(event, dict):
                assert from_event(event, preset=line.get("preset"))["kind"] in ("event", "unreadable")
                assert len(from_events([event, line["value"]], preset=line.get("preset") or "marten")) == 2
    for export in lines("otlp"):
        for _ in range(100):
            for span in from_spans(json.dumps(changed(export, random))):
                assert span["note"] or span["message"]
