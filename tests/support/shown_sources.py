"""The operators of `thence.spark.sources` in any session, held row for row against their plain forms.

`tables` and `streams` are called by programs that start a session of another kind: Connect, one that nobody has set up,
another zone than UTC.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from thence import Orderer
from thence.sources import Record, from_change, from_cloudevent, from_event, from_spans
from thence.sources import from_changes as plain_changes
from thence.sources import orphans as plain_orphans
from thence.sources import skews as plain_skews
from thence.tables.sources.headers import read_headers, write_headers

SAMPLES = Path(__file__).parents[1] / "data" / "sources"
COLUMNS = ["destination", "message", "sender", "time", "depends_on", "kind", "note"]
LOG = "value string, key string, topic string, partition int, offset long"
KAFKA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp_ltz, "
    "headers array<struct<key string, value binary>>"
)
NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
KEYS = {"orders.customer": "customer.id"}
ODD_EVENTS: list[dict[str, Any]] = [
    {"id": 1, "causation_id": "1"}, {"id": 1, "causation_id": ""}, {"id": 2, "causation_id": [1, 2, 1]},
    {"id": ""}, {"id": 3, "time": 12.5}, {"id": 4, "time": "2026-01-02T03:04:05+02:00"}, {"id": 5, "time": "soon"},
    {"id": 6, "time": "2026-03-29T02:30:00"},
]  # fmt: skip


def lines(name: str) -> list[dict[str, Any]]:
    """Return the records of a sample; its first line says where the form is documented."""
    return [json.loads(line) for line in (SAMPLES / f"{name}.jsonl").read_text().splitlines()[1:]]


def told(rows: Iterable[Any], columns: list[str]) -> list[str]:
    """Return rows as texts that can be compared, whatever their order."""
    found = (row if isinstance(row, dict) else row.asDict(recursive=True) for row in rows)
    return sorted(json.dumps([row[name] for name in columns]) for row in found)


def records(name: str) -> list[Record]:
    """Return a sample as it would lie in Kafka."""
    offsets: dict[str, int] = {}
    out = []
    for line in lines(name):
        value, topic = line["value"], line["topic"]
        text = value if value is None or isinstance(value, str) else json.dumps(value)
        offsets[topic] = offsets.get(topic, -1) + 1
        out.append(Record(text, None if line["key"] is None else json.dumps(line["key"]), topic, 0, offsets[topic]))
    return out


def tables(spark: Any) -> None:
    """Hold every operator against its plain form, on tables."""
    _changes(spark)
    _events(spark)
    _spans(spark)
    _kafka(spark)


def _changes(spark: Any) -> None:
    from thence.spark.sources import from_changes

    log = records("debezium-mysql")
    rows = [(*each, NOW, [("h", bytearray(b"v"))]) for each in log]  # as the connector gives them, headers and all
    table = spark.createDataFrame(
        rows, f"{LOG}, timestamp timestamp_ltz, headers array<struct<key string, value binary>>"
    )
    for order, keys in (("commit", None), ("keys", KEYS), ("transaction", None)):
        found = from_changes(table, order=order, foreign_keys=keys, server="shop")  # type: ignore[arg-type]
        wanted = plain_changes(log, order=order, foreign_keys=keys, server="shop")  # type: ignore[arg-type]
        left = found.selectExpr("*", "unix_seconds(timestamp) as seconds").drop("timestamp").collect()
        assert told(left, [*COLUMNS, "transaction"]) == told(wanted, [*COLUMNS, "transaction"]), order
        assert {row["seconds"] for row in left} == {int(NOW.timestamp())}, order
        half = log[:-1]  # the last END is missing
        table_of_half = spark.createDataFrame([tuple(each) for each in half], LOG)
        found = from_changes(table_of_half, order=order, foreign_keys=keys, server="shop", whole=True)  # type: ignore[arg-type]
        wanted = plain_changes(half, order=order, foreign_keys=keys, server="shop", whole=True)  # type: ignore[arg-type]
        assert told(found.collect(), [*COLUMNS, "transaction"]) == told(wanted, [*COLUMNS, "transaction"]), order


def _events(spark: Any) -> None:
    from thence.spark.sources import from_cloudevents, from_events

    texts = [json.dumps(line["value"]) for line in lines("cloudevents")]
    frame = spark.createDataFrame([(text,) for text in texts], "value string")
    columns = [*COLUMNS, "type", "trace", "span"]
    assert told(from_cloudevents(frame).collect(), columns) == told(map(from_cloudevent, texts), columns)
    odd = spark.createDataFrame([(json.dumps(each),) for each in ODD_EVENTS], "value string")
    assert told(from_events(odd).collect(), COLUMNS) == told(map(from_event, ODD_EVENTS), COLUMNS)


def _spans(spark: Any) -> None:
    from thence.spark.sources import from_spans as spark_spans
    from thence.spark.sources import orphans, skews

    exports = [json.dumps(each) for each in lines("otlp")]
    frame = spark.createDataFrame([(each,) for each in [*exports, "{"]], "value string")
    found, wanted = spark_spans(frame), [row for export in [*exports, "{"] for row in from_spans(export)]
    columns = [*COLUMNS, "name", "trace", "links"]
    assert told(found.collect(), columns) == told(wanted, columns)
    assert told(orphans(found).collect(), columns) == told(plain_orphans(wanted)[0], columns)
    pairs = {(row["parent"], row["child"]): (row["offset"], row["violation"]) for row in skews(found).collect()}
    assert pairs == {(skew.parent, skew.child): (skew.offset, skew.violation) for skew in plain_skews(wanted)} != {}


def _kafka(spark: Any) -> None:
    from thence.spark.sources import from_kafka

    sets = [write_headers("b1", "b", ["a1"], {"sink": b"\1"}), [("thence-causes", b"{}")], []]
    table = [(None, bytearray(b"v"), "t", 1, n, NOW, headers) for n, headers in enumerate(sets)]
    found = from_kafka(spark.createDataFrame(table, KAFKA), destination="sink").drop("key", "value", "stamp").collect()
    wanted = [read_headers(headers, ("t", 1, n), "sink") for n, headers in enumerate(sets)]
    columns = ["destination", "message", "sender", "depends_on", "note"]
    assert told(found, columns) == told(wanted, columns)
    assert {row["time"] for row in found} == {NOW.timestamp()}


def streams(spark: Any, folder: Path) -> None:
    """Read changes and events as streams; deliver the events, which have no `arrival`, in causal order."""
    from thence.spark import deliver
    from thence.spark.sources import from_changes, from_cloudevents

    log = records("debezium-sqlserver")
    found = _streamed(spark, from_changes, [tuple(each) for each in log], LOG, folder / "changes")
    assert told(found, COLUMNS) == told(map(from_change, log), COLUMNS)
    texts = [json.dumps(line["value"]) for line in reversed(lines("cloudevents"))]
    wanted = list(Orderer("depends_on").deliver(map(from_cloudevent, texts)))

    def ordered(stream: Any) -> Any:
        return deliver(from_cloudevents(stream), "depends_on")

    left = _streamed(spark, ordered, [(text,) for text in texts], "value string", folder / "events")
    kept = [row for row in wanted if row["outcome"] != "blocked"]
    assert told(left, ["message", "outcome", "position"]) == told(kept, ["message", "outcome", "position"])


def _streamed(spark: Any, read: Any, rows: list[Any], schema: str, folder: Path) -> list[Any]:
    spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(folder / "in"))
    out = read(spark.readStream.schema(schema).parquet(str(folder / "in")))
    query = out.writeStream.format("parquet").option("path", str(folder / "out")).trigger(availableNow=True)
    query.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
    return list(spark.read.parquet(str(folder / "out")).collect())
