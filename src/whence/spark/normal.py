"""Any DataFrame of events brought to the columns of a normal table, inside the JVM, and read from Arrow in a worker.

Law. No row is dropped and nothing is repaired by guessing: a value of another type than the trace table's
becomes null, and `odd` says what stood there. Columns that the frame does not have are null; columns that are
not ours are left behind.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from whence.kernels.rows import KIND_CODES, NORMAL, UNKNOWN
from whence.model.events import KINDS

_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_ALWAYS = ("run", "process", "index", "kind", "message", "destinations")


def normalise(events: DataFrame) -> DataFrame:
    """Return the frame in the columns of a normal table; optional ones only where they can hold something."""
    fields = {field.name: field.dataType for field in events.schema.fields}
    columns: dict[str, Column] = {}
    odd: list[Column] = []
    for name in ("run", "process", "message", "label"):
        if name in fields or name in _ALWAYS:
            columns[name] = _typed(fields, name, (T.StringType,), "string", "a string is accepted", odd)
    for name in ("index", "order"):
        if name in fields or name in _ALWAYS:
            columns[name] = _typed(fields, name, _WHOLE, "bigint", "a whole number is accepted", odd)
    columns["destinations"] = _destinations(fields, odd)
    columns["kind"] = _kind(fields, odd)
    if "reason" in fields:
        odd.insert(0, F.col("reason"))
    for name, kind in (("file", "string"), ("line", "bigint")):
        if name in fields:
            columns[name] = F.col(name).cast(kind)
    if odd:
        columns["odd"] = F.coalesce(*odd) if len(odd) > 1 else odd[0]
    return events.select(*(columns[name].alias(name) for name in NORMAL.names if name in columns))


def _typed(
    fields: dict[str, T.DataType], name: str, kinds: tuple[type, ...], to: str, accepted: str, odd: list[Column]
) -> Column:
    found = fields.get(name)
    if found is None or isinstance(found, T.NullType):
        return F.lit(None).cast(to)
    column = F.col(f"`{name}`")
    if isinstance(found, kinds):
        return column.cast(to)
    text = F.coalesce(F.substring(column.cast("string"), 1, 60), F.lit(found.simpleString()))
    odd.append(F.when(column.isNotNull(), F.concat(F.lit(f"{name} is '"), text, F.lit(f"'; {accepted}"))))
    return F.lit(None).cast(to)


def _destinations(fields: dict[str, T.DataType], odd: list[Column]) -> Column:
    found = fields.get("destinations")
    if found is None or isinstance(found, T.NullType):
        return F.lit(None).cast("array<string>")
    column = F.col("destinations")
    if isinstance(found, T.ArrayType) and isinstance(found.elementType, T.StringType | T.NullType):
        return column.cast("array<string>")
    said = f"destinations is {found.simpleString()}; a list of process names is accepted"
    odd.append(F.when(column.isNotNull(), F.lit(said)))
    return F.lit(None).cast("array<string>")


def _kind(fields: dict[str, T.DataType], odd: list[Column]) -> Column:
    column = _typed(fields, "kind", (T.StringType,), "string", "a string is accepted", odd)
    code = F.lit(UNKNOWN)
    for name, number in reversed(KIND_CODES.items()):
        code = F.when(column == name, number).otherwise(code)
    accepted = ", ".join(sorted(KINDS))
    unknown = F.concat(F.lit("kind is '"), F.substring(column, 1, 60), F.lit(f"'; one of {accepted} is accepted"))
    odd.append(
        F.when(column.isNull(), "kind is missing").when(~column.isin(*KIND_CODES), unknown).otherwise(F.lit(None))
    )
    return code.cast("tinyint")


def completed(table: pa.Table, run: str | None = None) -> pa.Table:
    """Return a table of some normal columns with all of them: those it lacks are null, or the one `run`."""
    columns = []
    for field in NORMAL:
        if field.name in table.column_names:
            column = table.column(field.name)
            if field.name == "process" and pa.types.is_string(column.type):
                column = pc.dictionary_encode(column)
            columns.append(column)
        elif field.name == "run" and run is not None:
            same = pa.array(np.zeros(len(table), np.int32))
            columns.append(pa.chunked_array([pa.DictionaryArray.from_arrays(same, pa.array([run]))]))
        else:
            columns.append(pa.chunked_array([pa.nulls(len(table), field.type)]))
    return pa.table(columns, names=NORMAL.names).unify_dictionaries()
