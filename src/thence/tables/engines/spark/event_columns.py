"""Any DataFrame of events brought to the columns of a normal table, inside the JVM.

*Invariant.* No row is dropped and nothing is repaired by guessing: a value of another type than its column's becomes
null, and `odd` says what stood there, in the words of `tables.contract.row_validity`. All else that makes a row
unusable is found where rows are Arrow (`tables.judge.normal_table.completed`). Columns that the frame does not have are
null; columns that are not ours are left behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from thence.errors import MisuseError
from thence.tables.contract.columns import JUDGED_COLUMNS, Column, renamed
from thence.tables.contract.row_validity import event_of, mistyped
from thence.tables.judge.coded_rows import KIND_CODES, NORMAL, UNKNOWN

_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_PLACED = ("file", "line", "reason")
_OPTIONAL = ("label", "order")
_FOUND = "\N{REPLACEMENT CHARACTER}"
"""Placeholder for a row's value in the template of a reason."""
_PYTHON = {
    T.ArrayType: "list", T.MapType: "dict", T.StructType: "dict", T.BinaryType: "bytes", T.DateType: "date",
    T.TimestampType: "datetime", T.TimestampNTZType: "datetime", T.DecimalType: "Decimal",
}  # fmt: skip
"""The text for values that are too large to be shown."""


def with_event_columns(events: DataFrame, *, located: bool = False) -> DataFrame:
    """Return the frame in the columns of a normal table; optional ones only where they can hold something.

    `located`: the rows are from a reader of ours, and come with `file`, `line` and the `reason` why one is not an
    event. Else columns of these names are the caller's own and are left behind, like any other that is not ours.
    """
    ours = {*(column.name for column in JUDGED_COLUMNS), *(_PLACED if located else ())}
    events = _apart(events, ours)
    fields = {field.name: field.dataType for field in events.schema.fields if field.name in ours}
    columns: dict[str, str] = {name: f"`{name}`" for name in ("file", "line") if name in fields}
    odd = ["`reason`"] if "reason" in fields else []
    for column in JUDGED_COLUMNS:
        if column.name in fields or column.name not in _OPTIONAL:
            columns[column.name], reason = _typed(fields.get(column.name), column)
            odd += [reason] if reason else []
    names = [name for name in NORMAL.names if name in columns]
    columns |= {
        "_said": columns["kind"],
        "kind": _kind(columns["kind"]),
        "_odd": f"coalesce({', '.join([*odd, 'NULL'])})",
    }
    coded = events.selectExpr(*(f"{column} AS `{name}`" for name, column in columns.items()))
    unknown = f"CASE WHEN `kind` = {UNKNOWN} THEN {_unknown('_said')} END"  # the code is computed once, and used here
    return coded.selectExpr(*(f"`{name}`" for name in names), f"coalesce(`_odd`, {unknown}) AS `odd`")


def in_our_names(
    events: DataFrame,
    called: Mapping[str, str] | None,
    kinds: Mapping[str, str] | None = None,
    columns: Sequence[Column] = JUDGED_COLUMNS,
) -> DataFrame:
    """Return the frame in our names and our kinds where the caller has others; columns that stood in the way move."""
    called = called or {}
    ours = {column.theirs: column.name for column in renamed(columns, called, kinds) if column.called}
    for theirs in ours:
        if events.columns.count(theirs) != 1:
            raise MisuseError(f"columns names {theirs!r}; the frame has {', '.join(events.columns)}")
    if called:
        names = [
            ours.get(name, f"other {place} {name}" if name in called else name)
            for place, name in enumerate(events.columns)
        ]
        events = events.toDF(*names)
    if kinds and "kind" in events.columns:
        cases = " ".join(f"WHEN {quoted(theirs)} THEN {quoted(word)}" for theirs, word in kinds.items())
        events = events.withColumn("kind", F.expr(f"CASE CAST(`kind` AS STRING) {cases} ELSE `kind` END"))
    return events


def _apart(events: DataFrame, ours: set[str]) -> DataFrame:
    """Return the frame with its columns called so that Spark, which takes `Run` and `run` for one, tells ours apart."""
    folded = {name.lower() for name in ours}
    if all(name in ours or name.lower() not in folded for name in events.columns):
        return events
    names = [name if name in ours else f"other {place} {name}" for place, name in enumerate(events.columns)]
    return events.toDF(*names)


def quoted(text: str | bytes) -> str:
    """Return a text as a SQL literal that is valid for any content and any setting for quotes."""
    return f"CAST(X'{(text.encode() if isinstance(text, str) else text).hex()}' AS STRING)"


def _typed(found: T.DataType | None, column: Column) -> tuple[str, str | None]:
    """Return a column in its type, and the reason for values of another type, if there can be any."""
    null = f"CAST(NULL AS {column.type})"
    if found is None or isinstance(found, T.NullType):
        return null, None
    if _fits(found, column.type):
        return f"CAST(`{column.name}` AS {column.type})", None
    value, name = f"`{column.name}`", column.name
    if column.type == "array<string>" and isinstance(found, T.ArrayType):
        value, name, found = f"get({value}, 0)", f"an entry of {name}", found.elementType
    template = mistyped(name, _FOUND, "string" if name != column.name else column.type)
    return null, f"CASE WHEN {value} IS NOT NULL THEN {_sentence(template, _shown(value, found))} END"


def _fits(found: T.DataType, kind: str) -> bool:
    if kind == "array<string>":
        return isinstance(found, T.ArrayType) and isinstance(found.elementType, T.StringType | T.NullType)
    return isinstance(found, T.StringType if kind == "string" else _WHOLE)


def _shown(value: str, found: T.DataType) -> str:
    """Return a value as `tables.contract.row_validity.shown` has it."""
    text = f"CAST({value} AS STRING)"
    if isinstance(found, T.StringType):
        return f"concat({quoted(chr(39))}, substring({text}, 1, 60), {quoted(chr(39))})"
    if isinstance(found, T.BooleanType):
        return f"initcap({text})"
    if isinstance(found, (*_WHOLE, T.FloatType, T.DoubleType)):
        return text
    return quoted(_PYTHON.get(type(found), found.simpleString()))


def _sentence(template: str, found: str) -> str:
    """Return the SQL expression of a reason that shows a row's value."""
    before, after = template.split(_FOUND)
    return f"concat({quoted(before)}, {found}, {quoted(after)})"


def _kind(kind_text: str) -> str:
    """Return the code of a kind."""
    cases = (f"WHEN {kind_text} = '{name}' THEN {number}" for name, number in KIND_CODES.items())
    return f"CAST(CASE {' '.join(cases)} ELSE {UNKNOWN} END AS TINYINT)"


def _unknown(kind_text: str) -> str:
    """Return the reason for an unknown kind."""
    missing, unknown = str(event_of({})), str(event_of({"kind": _FOUND}))
    found = _sentence(unknown, f"substring({kind_text}, 1, 60)")
    return f"CASE WHEN {kind_text} IS NULL THEN {quoted(missing)} ELSE {found} END"
