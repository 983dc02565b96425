"""Foreign records as DataFrames of arrivals: Kafka, Debezium, CloudEvents, events that name their cause, OTLP.

Invariant: the rules are those of `thence.sources`; each operator here gives, row for row, what its plain form gives. A
batch and a stream take the same call where a record alone tells enough, and an operator says so where it does not.
Expressions do what expressions can; the rest is the plain function in the workers. Nothing here collects,
nor needs a driver's JVM.
"""

from __future__ import annotations

from thence.tables.engines.spark.sources.changes import from_changes
from thence.tables.engines.spark.sources.events import from_cloudevents, from_events
from thence.tables.engines.spark.sources.kafka import from_kafka, kafka_options, read_kafka
from thence.tables.engines.spark.sources.spans import from_spans, orphans, skews

__all__ = [
    "from_changes",
    "from_cloudevents",
    "from_events",
    "from_kafka",
    "from_spans",
    "kafka_options",
    "orphans",
    "read_kafka",
    "skews",
]
