"""What is held back, for which cause, since when: of a batch from its output, of a stream from its state store.

    waiting(ordered)                        # a DataFrame that `deliver` returned for a batch
    waiting(session, "checkpoint/path")     # the last committed micro-batch of a stream

Law. One row per blocked message: key, message, the causes it still misses, the one at the root of its wait (a cause
that has not arrived, or was quarantined), how many rows and how much event time have passed since it came. A key column
that is a struct, a list or a map is shown as JSON for a stream.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from thence.core.model.plain import Row
from thence.core.model.roster import Roster
from thence.errors import MisuseError
from thence.tables.delivery.outcome import OUTPUT_COLUMNS, WAITING_COLUMNS
from thence.tables.delivery.policy import Policy
from thence.tables.delivery.reading import Reading
from thence.tables.delivery.rule_state import resumed
from thence.tables.delivery.state import decode
from thence.tables.delivery.stored_key import Sealed, message_ids, whole
from thence.tables.engines.spark.deliver import MADE, column, resolved
from thence.tables.engines.spark.spark_types import spark_type

READABLE = "/_-.~!'()*:@&=+$,;"
"""Signs that stand for themselves in a path of Spark's reader of states, beside letters and digits."""
FIELDS = (
    StructField("message", spark_type("string")),
    *(StructField(name, spark_type(OUTPUT_COLUMNS[name])) for name in WAITING_COLUMNS),
)


def waiting(
    what: DataFrame | SparkSession,
    checkpoint: str | os.PathLike[str] | None = None,
    *,
    key: Iterable[str] | None = None,
    columns: Mapping[str, str] | None = None,
) -> DataFrame:
    """Explain what waits. `key` and `columns` of a batch are as `deliver` was told, if its output does not say them."""
    if checkpoint is None:
        if isinstance(what, SparkSession) or not hasattr(what, "columns"):
            raise MisuseError("waiting(session) needs the checkpoint folder of a stream as well")
        return _of_batch(what, key, (columns or {}).get("message"))
    return _of_stream(what, os.fspath(checkpoint))  # type: ignore[arg-type]


def _of_batch(ordered: DataFrame, key: Iterable[str] | None, message: str | None) -> DataFrame:
    if "blocker" not in ordered.columns or ordered.isStreaming:
        raise MisuseError("waiting takes what deliver returned for a batch; for a stream, its session and checkpoint")
    made = json.loads(ordered.schema["blocker"].metadata.get(MADE, "{}"))
    asked = [*([key] if isinstance(key, str) else key or ()), *([message] if message else ())]
    for name in asked:
        if resolved(ordered, name) not in ordered.columns:
            raise MisuseError(f"no column {name!r}; the table has {', '.join(ordered.columns)}")
    keys = [key] if isinstance(key, str) else list(key or made.get("key", ("run", "destination")))
    keys = [resolved(ordered, name) for name in keys]
    message = resolved(ordered, message or made.get("message", "message"))
    chosen = [column(name) for name in keys if name in ordered.columns]
    if message in ordered.columns and message not in keys:
        chosen.append(column(message).cast("string").alias("message"))
    blocked = ordered.where(F.col("outcome") == "blocked")
    return blocked.select(*chosen, *[column(name) for name in WAITING_COLUMNS])


def _refuse_unreadable(checkpoint: str) -> None:
    """Refuse a folder in which Spark's reader of states looks for nothing: it takes %20 for a space, and so on."""
    whole_path = checkpoint if "://" in checkpoint else os.path.abspath(checkpoint)
    strange = sorted({sign for sign in whole_path if sign.isascii() and not sign.isalnum() and sign not in READABLE})
    if strange:
        raise MisuseError(
            f"Spark's reader of states finds none in {whole_path!r}, which has {' '.join(map(repr, strange))} in it: a "
            f"checkpoint folder of letters, digits and {READABLE} can be looked into; name this one anew while its "
            "stream is stopped"
        )


def _of_stream(session: SparkSession, checkpoint: str) -> DataFrame:
    _refuse_unreadable(checkpoint)
    store = session.read.format("statestore").option("path", checkpoint)
    state = store.option("stateVarName", "state").load()
    keys = state.schema["key"].dataType
    assert isinstance(keys, StructType)
    names = keys.fieldNames()
    blobs = state.select("key.*", F.lit("").alias("__name"), F.col("value.blob").alias("__data"))
    sealed = store.option("stateVarName", "parts").load()
    parts = sealed.select(
        "key.*", F.col("user_map_key.name").alias("__name"), F.col("user_map_value.blob").alias("__data")
    )
    schema = StructType([*keys.fields, *FIELDS])
    both = blobs.unionByName(parts).groupBy(*map(column, names))
    return both.applyInArrow(_explained(names), schema)


def _explained(names: list[str]) -> Callable[[pa.Table], pa.Table]:
    def explained(table: pa.Table) -> pa.Table:
        texts = pa.list_(pa.string())
        types = {"message": pa.string(), "missing": texts, "blocker": pa.string(), "held_for": pa.int64()}
        types |= {"held_seconds": pa.float64(), "reason": pa.string()}
        found = dict(zip(table.column("__name").to_pylist(), table.column("__data").to_pylist(), strict=True))
        rows = list(_waiting(found)) if found.get("") else []
        made = pa.Table.from_pylist(rows, schema=pa.schema([(field.name, types[field.name]) for field in FIELDS]))
        for place, name in enumerate(names):
            values = pa.chunked_array([table.column(name).combine_chunks().take(pa.array([0] * len(made), pa.int64()))])
            made = made.add_column(place, pa.field(name, values.type), values)
        return made

    return explained


def _waiting(found: Mapping[str, bytes]) -> Iterator[Row]:
    """Yield what one key holds back: its blob stands under the empty name, its parts under theirs."""
    state, extra, about = decode(found[""])
    key = whole(state, extra, about, found.get, Sealed())
    rosters = () if state.roster is None else (Roster(state.roster),)
    reading = Reading(state.by, rosters)  # type: ignore[arg-type]
    rule = resumed(key.state, reading, Policy(), elsewhere=key.elsewhere)
    messages = message_ids(key.held, about["made"])
    for held, message in zip(rule.pending(), messages, strict=True):
        row = held._asdict() | {"message": message}
        yield {field.name: row[field.name] for field in FIELDS}
