"""CloudEvents, and other events that name their cause, as DataFrames of arrivals.

Invariant: `thence.sources.from_cloudevent` and `thence.sources.from_event` read every record, in the workers of a batch
or a stream. Where a framework names causes by another field than the id, the messages of a conversation must be seen
together: a batch hands each conversation to `thence.sources.from_events`, a stream is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from thence.core.model.plain import Fields
from thence.errors import MisuseError
from thence.tables.engines.spark.deliver import column
from thence.tables.engines.spark.sources.together import ARRIVAL, beside, need_column, one_by_one, plain_value
from thence.tables.sources import from_cloudevent, from_event
from thence.tables.sources.causation import from_events as plain
from thence.tables.sources.causation import parsed_event, preset_of

if TYPE_CHECKING:
    import pyarrow as pa

_PLACE = "__thence_conversation"
CLOUD_EVENT = StructType([*ARRIVAL.fields, *(StructField(name, StringType()) for name in ("type", "trace", "span"))])


def from_events(
    records: DataFrame,
    *,
    preset: str | None = None,
    value: str = "value",
    id: str = "id",
    causation: str = "causation_id",
    destination: str = "correlation_id",
    sender: str = "source",
    time: str = "time",
) -> DataFrame:
    """Return events that name their cause as arrivals, with the columns of the records kept.

    Args:
        records: a DataFrame with one event in each row.
        preset: a framework whose field names are known, one of `thence.sources.PRESETS`; it replaces the other names.
        value: the column with the JSON text of an event.
        id: the field of the message's id; a dot leads into an object.
        causation: the field of the id of its cause.
        destination: the field of what it belongs to, as a correlation id; messages are ordered within it.
        sender: the field of its sender.
        time: the field of its time.
    """
    if preset is not None and preset_of(preset).aliases:
        return _by_conversation(records, value, preset)
    names = {"id": id, "causation": causation, "destination": destination, "sender": sender, "time": time}

    def read(event: str | bytes | None) -> list[Fields]:
        return [from_event({} if event is None else event, preset=preset, **names)]

    need_column(records, value)
    return one_by_one(records, [value], read, ARRIVAL, records.columns)


def _by_conversation(records: DataFrame, value: str, preset: str) -> DataFrame:
    """Return the arrivals of messages that name causes by another field than the id, each conversation together."""
    need_column(records, value)
    if records.isStreaming:
        raise MisuseError(f"preset {preset!r} names causes by another field than the id: a stream cannot look it up")
    place = F.udf(lambda event: from_event(parsed_event(plain_value(event)), preset=preset)["destination"])
    schema = StructType([*records.schema.fields, *ARRIVAL.fields])
    return records.groupBy(place(column(value)).alias(_PLACE)).applyInArrow(_conversation(value, preset), schema)


def _conversation(value: str, preset: str) -> Callable[[pa.Table], pa.Table]:
    """Return what each conversation runs; it travels to the workers."""
    import pyarrow

    def together(table: pyarrow.Table) -> pyarrow.Table:
        events = [parsed_event(each) for each in table.column(value).to_pylist()]
        return beside(table, plain(events, preset=preset), ARRIVAL)

    together.__annotations__ = {"table": pyarrow.Table, "return": pyarrow.Table}
    return together


def from_cloudevents(records: DataFrame, *, value: str = "value") -> DataFrame:
    """Return CloudEvents as arrivals, with the columns of the records kept.

    Args:
        records: a DataFrame with one event in each row.
        value: the column with the JSON of a structured event.
    """

    def read(event: str | bytes | None) -> list[Fields]:
        return [from_cloudevent({} if event is None else event)]

    need_column(records, value)
    return one_by_one(records, [value], read, CLOUD_EVENT, records.columns)
