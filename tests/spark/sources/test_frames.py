"""The DataFrame forms give, row for row, what the plain forms give: on the recorded samples, batch and stream."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from support.shown_sources import COLUMNS, KAFKA, LOG, ODD_EVENTS, lines, records, told

from thence.errors import MisuseError
from thence.sources import from_change, from_cloudevent, from_event, from_events, from_spans
from thence.sources import from_changes as plain_changes
from thence.sources import orphans as plain_orphans
from thence.sources import skews as plain_skews
from thence.tables.engines.spark import sources
from thence.tables.sources.headers import read_headers, write_headers

ALONE = ("tombstone", "heartbeat", "unreadable", "schema change")
"""records that name no connector: as a table they are in a group of their own, and have no destination"""


@pytest.mark.parametrize("order", ["commit", "keys"])
def test_debezium_as_a_table(spark: Any, order: Any) -> None:
    keys = {"orders.customer": "customer.id"} if order == "keys" else None
    wanted, table = [], []
    for server, name in (("one", "debezium-mysql"), ("two", "debezium-postgresql")):
        log = [
            each._replace(topic=str(each.topic).replace("shop", server), value=each.value and
                          str(each.value).replace('"shop"', f'"{server}"')) for each in records(name)
        ]  # fmt: skip
        wanted += plain_changes(log, order=order, foreign_keys=keys)
        table += [tuple(each) for each in log]
    found = sources.from_changes(spark.createDataFrame(table, LOG), order=order, foreign_keys=keys).collect()
    assert len(found) == len(table)
    columns = [*COLUMNS, "transaction"]
    rows = [row for row in found if row["kind"] not in ALONE]
    assert told(rows, columns) == told([row for row in wanted if row["kind"] not in ALONE], columns)


def test_debezium_as_a_stream(spark: Any, tmp_path: Path) -> None:
    log = records("debezium-sqlserver")
    spark.createDataFrame([tuple(each) for each in log], LOG).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(LOG).parquet(str(tmp_path / "in"))
    found = sources.from_changes(stream, order="commit")
    query = found.writeStream.format("memory").queryName("changes").outputMode("append").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    wanted = [from_change(each) for each in log]
    assert told(spark.table("changes").collect(), COLUMNS) == told(wanted, COLUMNS)
    with pytest.raises(MisuseError, match="together"):
        sources.from_changes(stream, order="keys")
    with pytest.raises(MisuseError, match="topic, partition and offset"):
        sources.from_changes(stream.drop("offset"))
    with pytest.raises(MisuseError, match="offset N"):
        sources.from_changes(stream, since="monday")


def test_avro_as_a_table(spark: Any) -> None:
    schema = {
        "type": "record",
        "name": "E",
        "fields": [{"name": "status", "type": "string"}, {"name": "id", "type": "string"}],
    }
    data = struct.pack(">bI", 0, 5) + b"\x0aBEGIN" + b"\x0c0-1-42"
    table = spark.createDataFrame([(bytearray(data), "shop.transaction")], "value binary, topic string")
    (row,) = sources.from_changes(table, schemas={5: schema}).collect()
    assert (row["kind"], row["message"], row["destination"]) == ("begin", "tx0-1-42/begin", "shop")


def test_events_as_a_table(spark: Any) -> None:
    odd = ['{"id": 7, "source": ""}', "{}", "[1]", "no JSON"]
    texts = [json.dumps(line["value"]) for line in lines("cloudevents")] + odd
    found = sources.from_cloudevents(spark.createDataFrame([(text,) for text in texts], "value string"))
    columns = [*COLUMNS, "type", "trace", "span"]
    assert told(found.collect(), columns) == told([from_cloudevent(text) for text in texts], columns)
    for line in lines("causation"):
        preset, text = line["preset"], json.dumps(line["value"])
        rows = sources.from_events(spark.createDataFrame([(text,)], "value string"), preset=preset).collect()
        assert told(rows, COLUMNS) == told([from_event(line["value"], preset=preset)], COLUMNS)
    frame = spark.createDataFrame([(json.dumps(each),) for each in ODD_EVENTS], "value string")
    assert told(sources.from_events(frame).collect(), COLUMNS) == told(
        [from_event(each) for each in ODD_EVENTS], COLUMNS
    )


def test_masstransit_as_a_table_and_not_as_a_stream(spark: Any, tmp_path: Path) -> None:
    def message(name: str, place: str | None, correlation: str | None, initiator: str | None) -> dict[str, Any]:
        return {"messageId": name, "conversationId": place, "correlationId": correlation, "initiatorId": initiator}

    events = [
        message("m2", "c", "k2", "k1"), message("m1", "c", "k1", None), message("m3", "c", "s", "s"),
        message("m4", "c", "s", "s"), message("m5", "c", "s", None), message("o1", "d", "k1", "k9"),
        message("f", None, "x", ""),
    ]  # fmt: skip
    texts = [json.dumps(each) for each in events]
    frame = spark.createDataFrame(
        [(text, n) for n, text in enumerate([*texts, "no JSON", None])], "value string, n int"
    )
    wanted = from_events([*events, {}, {}], preset="masstransit")
    assert told(sources.from_events(frame, preset="masstransit").collect(), COLUMNS) == told(wanted, COLUMNS)
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema("value string").json(str(tmp_path / "in"))
    with pytest.raises(MisuseError, match="another field"):
        sources.from_events(stream, preset="masstransit")


def test_spans_as_a_table(spark: Any) -> None:
    exports = [json.dumps(each) for each in lines("otlp")]
    exports += ["{", "", "[1]", '{"resourceSpans": 5}', '{"resourceSpans": [{"scopeSpans": 1}]}', "{}"]
    frame = spark.createDataFrame([(each, n) for n, each in enumerate(exports)], "value string, file int")
    columns = [*COLUMNS, "name", "trace", "links"]
    for destination in ("sink", None):
        found = sources.from_spans(frame, destination=destination)
        wanted = [row for export in exports for row in from_spans(export, destination=destination)]
        assert told(found.collect(), columns) == told(wanted, columns)
    assert "file" in found.columns
    kept, _ = plain_orphans(wanted)
    assert told(sources.orphans(found).collect(), columns) == told(kept, columns)
    (skew,), (plain,) = sources.skews(found).collect(), plain_skews(wanted)
    assert (skew["parent"], skew["child"], skew["early"], skew["offset"], skew["violation"]) == (
        plain.parent, plain.child, len(plain.pairs), plain.offset, plain.violation,
    )  # fmt: skip


def test_spans_in_protobuf_and_clocks_that_contradict(spark: Any) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    for service, name, parent, start in (("a", 1, 0, 10), ("b", 2, 1, 9), ("a", 3, 2, 8), ("a", 4, 1, 5)):
        resource = request.resource_spans.add()
        attribute = resource.resource.attributes.add()
        attribute.key, attribute.value.string_value = "service.name", service
        span = resource.scope_spans.add().spans.add()
        span.trace_id, span.span_id = b"\1" * 16, bytes([name] * 8)
        span.parent_span_id, span.start_time_unix_nano = bytes([parent] * 8) if parent else b"", start * 10**9
    data = request.SerializeToString()
    found = sources.from_spans(spark.createDataFrame([(bytearray(data),)], "value binary"), format="protobuf")
    wanted = list(from_spans(data))
    assert told(found.collect(), COLUMNS) == told(wanted, COLUMNS)
    ours = {(row["parent"], row["child"]): row["violation"] for row in sources.skews(found).collect()}
    assert ours == {(skew.parent, skew.child): skew.violation for skew in plain_skews(wanted)}
    assert ours == {("a", "b"): True, ("b", "a"): True, ("a", "a"): True}


def test_kafkas_headers_are_read_as_the_consumer_reads_them(spark: Any) -> None:
    sets = [
        write_headers("a1", "a", [], {}), write_headers("b1", "b", ["a1", "c,2"], {"sink": b"\1\2", "other": b"\3"}),
        [("thence-causes", b"{}")], [("thence-causes", b"[1")], [],
        [("thence-causes", b'["x"]'), ("thence-message", b"")],
    ]  # fmt: skip
    import datetime

    now = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    table = [(None, b"v", "t", 1, n, now, headers) for n, headers in enumerate(sets)]
    found = sources.from_kafka(spark.createDataFrame(table, KAFKA), destination="sink").orderBy("offset").collect()
    for n, (row, headers) in enumerate(zip(found, sets, strict=True)):
        wanted = read_headers(headers, ("t", 1, n), "sink")
        ours = row.asDict(recursive=True)
        ours["stamp"] = None if ours["stamp"] is None else bytes(ours["stamp"])
        assert {name: ours[name] for name in wanted} == wanted
    with pytest.raises(MisuseError, match="headers"):
        sources.from_kafka(spark.createDataFrame([("t",)], "topic string"), destination="sink")
    with pytest.raises(MisuseError, match="no topics"):
        sources.kafka_options("localhost:1", [])


def test_the_example_delivers_the_changes_it_ships(spark: Any) -> None:
    import importlib.util

    path = Path(__file__).parents[3] / "examples" / "sources" / "debezium.py"
    spec = importlib.util.spec_from_file_location("debezium_example", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    lines = [line.split() for line in example.main()]
    assert len(lines) == len(example.DATA.read_text().splitlines())
    assert {line[-1] for line in lines if line[0] not in ("schema", "heartbeat")} == {"delivered"}
