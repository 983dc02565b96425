"""Sources and transactions whose names are longer than a key of a database, into a target that keeps each apart."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from thence import Orderer
from thence.sinks import sql
from thence.sources import Record, WholeTransaction, from_change
from thence.tables.sinks.micro_batches import MicroBatchSink
from thence.tables.sinks.positions import stored_name
from thence.tables.sources.whole import Changes

LONG = "file=" + "b" * 300
NAMES = [LONG + "1", LONG + "2", "x" * 190, "x" * 191, "A" * 173, "a" * 173, stored_name(LONG + "1"), "tx", "TX"]
"""Names that differ behind the part that is kept, only by case, and one that looks like a shortened one."""


def check_long_names(engine: sa.Engine) -> None:
    """Apply, repeat and refuse transactions of every name, by every table that the sink keeps; the target is empty."""
    with engine.begin() as connection:
        connection.exec_driver_sql("create table item(id integer primary key, note varchar(9) not null)")
    for place, source in enumerate(NAMES):
        _apply(engine, source, place)
        _dead_letter(engine, source)
        _micro_batches(engine, source, place)
    with engine.connect() as connection:
        count = connection.exec_driver_sql
        assert count("select count(*) from item").scalar() == len(NAMES) * (len(NAMES) + 1)
        assert count("select count(*) from thence_dead_letters").scalar() == len(NAMES) ** 2
        assert count("select count(*) from thence_open_changes").scalar() == 0


def _unit(source: str, name: str, after: dict[str, Any]) -> WholeTransaction:
    changes = Changes()
    changes.append({"op": "c", "source": {"table": "item"}, "after": after})
    return WholeTransaction(source, name, changes, id=name, order="keys")


def _apply(engine: sa.Engine, source: str, place: int) -> None:
    units = [_unit(source, name, {"id": 1000 * place + number, "note": ""}) for number, name in enumerate(NAMES)]
    with sql(engine, ["item"]) as sink:
        assert sink.write(units) == len(NAMES)
        assert sink.write(units) == 0
        assert all(map(sink.has, units))


def _dead_letter(engine: sa.Engine, source: str) -> None:
    units = [_unit(source, f"bad {name}", {"id": 1, "note": None}) for name in NAMES]
    with sql(engine, ["item"], refused="dead-letter") as sink:
        assert sink.write([*units, *units]) == 0
        assert (sink.refused, sink.repeated) == (len(NAMES), len(NAMES))


def _micro_batches(engine: sa.Engine, source: str, place: int) -> None:
    """Write one transaction over two micro-batches; it is kept in the target between them."""
    name, topic = f"{LONG}{place} in micro-batches", f"{source}.transaction"
    change = {"op": "c", "source": {"table": "item", "name": source}, "after": {"id": 1000 * place + 500, "note": ""},
              "transaction": {"id": name, "total_order": 1}}  # fmt: skip
    records = [
        Record(json.dumps({"status": "BEGIN", "id": name}), None, topic, 0, 0),
        Record(json.dumps(change), None, f"{source}.item", 0, 0),
        Record(json.dumps({"status": "END", "id": name, "event_count": 1}), None, topic, 0, 1),
    ]
    orderer, applied = Orderer("depends_on", key=["destination"]), []
    for records_of_batch in (records[:2], records[2:]):
        sink = MicroBatchSink(engine, ["item"])
        arrivals = [{**from_change(each), **each._asdict()} for each in records_of_batch]
        rows = [row for each in arrivals for row in orderer.push(each)]
        applied += [sink.write(rows), sink.write(rows)]
        assert sink.sink.since(source) == ("offset 1" if applied[-2] else None)
        sink.close()
    assert applied == [0, 0, 1, 0]
