"""CloudEvents, and other events that name their cause, as DataFrames of arrivals: JSON texts read by expressions.

Invariant: Row for row what `thence.sources.from_cloudevent` and `thence.sources.from_event` give, batch or stream.
Where a framework names causes by another field than the id, the messages of a conversation must be seen together: a
batch hands each conversation to `thence.sources.from_events`, a stream is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampType

from thence.errors import MisuseError
from thence.tables.engines.spark.sources.together import ARRIVAL, beside
from thence.tables.sources.causation import Preset, alone, no_id, parsed_event, preset_of
from thence.tables.sources.causation import from_events as plain

if TYPE_CHECKING:
    import pyarrow as pa

_PLACE = "__thence_conversation"

_TRACEPARENT = "^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?$"


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
    names = Preset(id, causation, destination, sender, time) if preset is None else preset_of(preset)
    if preset is not None and names.aliases:
        return _by_conversation(records, value, preset)
    own = _field(F.col(f"`{value}`").cast("string"), names.id)
    needed = [(no_id(names), own.isNull())]
    return _arrivals(records, value, names, F.lit(None).cast("string"), needed)


def _by_conversation(records: DataFrame, value: str, preset: str) -> DataFrame:
    """Return the arrivals of messages that name causes by another field than the id, each conversation together."""
    _need(records, value)
    if records.isStreaming:
        raise MisuseError(f"preset {preset!r} names causes by another field than the id: a stream cannot look it up")
    names = preset_of(preset)
    text = F.col(f"`{value}`").cast("string")
    place = F.coalesce(_field(text, names.destination), _field(text, names.id))
    schema = StructType([*records.schema.fields, *ARRIVAL.fields])
    return records.groupBy(place.alias(_PLACE)).applyInArrow(_conversation(value, preset), schema)


def _conversation(value: str, preset: str) -> Callable[[pa.Table], pa.Table]:
    """Return what each conversation runs; it travels to the workers."""
    import pyarrow

    def together(table: pyarrow.Table) -> pyarrow.Table:
        events = [parsed_event(each) for each in table.column(value).to_pylist()]
        return beside(table, plain(events, preset=preset), ARRIVAL)

    together.__annotations__ = {"table": pyarrow.Table, "return": pyarrow.Table}
    return together


def _need(records: DataFrame, value: str) -> None:
    if value not in records.columns:
        raise MisuseError(f"no column {value!r}; the table has {', '.join(records.columns)}")


def from_cloudevents(records: DataFrame, *, value: str = "value") -> DataFrame:
    """Return CloudEvents as arrivals, with the columns of the records kept.

    Args:
        records: a DataFrame with one event in each row.
        value: the column with the JSON of a structured event.
    """
    text = F.col(f"`{value}`").cast("string")
    parent = F.coalesce(_field(text, "traceparent"), F.lit(""))
    trace, span = (F.regexp_extract(parent, _TRACEPARENT, group) for group in (1, 2))
    usable = (F.regexp_replace(trace, "0", "") != "") & (F.regexp_replace(span, "0", "") != "")
    rows = _arrivals(
        records,
        value,
        Preset("id", "causationid", "correlationid", "source", "time"),
        F.when(usable, trace),
        [(f"no {name}", _field(text, name).isNull()) for name in ("id", "source", "specversion", "type")],
        ": not a CloudEvent",
    )
    return rows.select(
        "*",
        _field(text, "type").alias("type"),
        F.when(usable, trace).alias("trace"),
        F.when(usable, span).alias("span"),
    )


def _arrivals(
    records: DataFrame, value: str, names: Preset, otherwise: Column, needed: list[tuple[str, Column]], what: str = ""
) -> DataFrame:
    _need(records, value)
    text = F.col(f"`{value}`").cast("string")
    own, cause = _field(text, names.id), _field(text, names.causation)
    lacks = F.concat_ws(", ", *[F.when(absent, F.lit(why)) for why, absent in needed])
    usable = lacks == ""
    listed = F.when(F.startswith(cause, F.lit("[")), F.from_json(cause, "array<string>")).otherwise(F.array(cause))
    causes = F.array_distinct(F.filter(listed, lambda each: each.isNotNull() & (each != "") & (each != own)))
    none = F.array().cast("array<string>")
    place = F.coalesce(_field(text, names.destination), otherwise)
    by_itself = place.isNull() & (F.size(F.coalesce(causes, none)) > 0)
    return records.select(
        "*",
        F.lit(None).cast("string").alias("run"),
        F.coalesce(place, own).alias("destination"),
        F.when(usable, own).alias("message"),
        _field(text, names.sender).alias("sender"),
        _seconds(_field(text, names.time)).alias("time"),
        F.when(usable, F.coalesce(causes, none)).otherwise(none).alias("depends_on"),
        F.when(usable, F.lit("event")).otherwise(F.lit("unreadable")).alias("kind"),
        F.when(~usable, F.concat(lacks, F.lit(what))).when(by_itself, F.lit(alone(names))).alias("note"),
    )


def _field(text: Column, name: str) -> Column:
    """Return a field as text; null where it is missing, null or empty. A field called so, dots and all, comes first."""

    def at(*steps: str) -> Column:
        return F.nullif(F.get_json_object(text, "$" + "".join(f"['{step}']" for step in steps)), F.lit(""))

    steps = name.split(".")
    return at(name) if len(steps) == 1 else F.coalesce(at(name), at(*steps))


def _seconds(value: Column) -> Column:
    """Return a time as seconds: a number as it is, an ISO 8601 text in UTC unless it says its own offset."""
    zoned = value.rlike("([zZ]|[+-][0-9]{2}:?[0-9]{2})$")
    text = F.when(zoned, value).otherwise(F.concat(value, F.lit("Z")))
    stamp = text.try_cast(TimestampType())  # whatever the session takes a timestamp for
    return F.coalesce(value.try_cast("double"), stamp.cast("double"))
