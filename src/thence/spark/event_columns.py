"""Any DataFrame of events brought to the columns of a normal table, inside the JVM.

Law. No row is dropped and nothing is repaired by guessing: a value of another type than the trace table's
becomes null, and `odd` says what stood there. Columns that the frame does not have are null; columns that are
not ours are left behind.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from thence.errors import MisuseError
from thence.kernels.rows import KIND_CODES, NORMAL, UNKNOWN
from thence.model.columns import JUDGED_COLUMNS, renamed
from thence.model.events import KINDS

_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_PLACED = ("file", "line", "reason")
_ALWAYS = ("run", "process", "index", "message", "destinations")


def with_event_columns(events: DataFrame, *, located: bool = False) -> DataFrame:
    """Return the frame in the columns of a normal table; optional ones only where they can hold something.

    `located`: the rows are from a reader of ours, and come with `file`, `line` and the `reason` why one is no event.
    Else columns of these names are somebody's own and are left behind, like any other that is not ours.
    """
    ours = {*_ALWAYS, "label", "order", "kind", *(_PLACED if located else ())}
    events = _apart(events, ours)
    fields = {field.name: field.dataType for field in events.schema.fields if field.name in ours}
    columns: dict[str, str] = {}
    odd: list[str] = []
    for name in ("run", "process", "message", "label"):
        if name in fields or name in _ALWAYS:
            columns[name] = _typed(fields, name, (T.StringType,), "STRING", "a string is accepted", odd)
    for name in ("index", "order"):
        if name in fields or name in _ALWAYS:
            columns[name] = _typed(fields, name, _WHOLE, "BIGINT", "a whole number is accepted", odd)
    columns["destinations"] = _destinations(fields, odd)
    kind_text = _typed(fields, "kind", (T.StringType,), "STRING", "a string is accepted", odd)
    if "reason" in fields:
        odd.insert(0, "`reason`")
    for name, kind in (("file", "STRING"), ("line", "BIGINT")):
        if name in fields:
            columns[name] = f"CAST(`{name}` AS {kind})"
    names = [name for name in NORMAL.names if name in columns or name == "kind"]
    columns |= {"kind": _kind(kind_text), "_said": kind_text, "_odd": f"coalesce({', '.join([*odd, 'NULL'])})"}
    coded = events.selectExpr(*(f"{column} AS `{name}`" for name, column in columns.items()))
    unknown = f"CASE WHEN `kind` = {UNKNOWN} THEN {_unknown('_said')} END"  # the code is made once, and used here
    return coded.selectExpr(*(f"`{name}`" for name in names), f"coalesce(`_odd`, {unknown}) AS `odd`")


def in_our_names(events: DataFrame, called: Mapping[str, str]) -> DataFrame:
    """Return the frame with our names for columns that the caller calls otherwise; those that stood in the way move."""
    ours = {column.theirs: column.name for column in renamed(JUDGED_COLUMNS, called) if column.called}
    for theirs in ours:
        if events.columns.count(theirs) != 1:
            raise MisuseError(f"columns names {theirs!r}; the frame has {', '.join(events.columns)}")
    if not called:
        return events
    names = [
        ours.get(name, f"other {place} {name}" if name in called else name) for place, name in enumerate(events.columns)
    ]
    return events.toDF(*names)


def _apart(events: DataFrame, ours: set[str]) -> DataFrame:
    """Return the frame with its columns called so that Spark, which takes `Run` and `run` for one, tells ours apart."""
    folded = {name.lower() for name in ours}
    if all(name in ours or name.lower() not in folded for name in events.columns):
        return events
    names = [name if name in ours else f"other {place} {name}" for place, name in enumerate(events.columns)]
    return events.toDF(*names)


def quoted(text: str | bytes) -> str:
    """Return a text for SQL, whatever it holds and whatever the session thinks of quotes."""
    return f"CAST(X'{(text.encode() if isinstance(text, str) else text).hex()}' AS STRING)"


def _typed(
    fields: dict[str, T.DataType], name: str, kinds: tuple[type, ...], to: str, accepted: str, odd: list[str]
) -> str:
    found = fields.get(name)
    if found is None or isinstance(found, T.NullType):
        return f"CAST(NULL AS {to})"
    if isinstance(found, kinds):
        return f"CAST(`{name}` AS {to})"
    text = f"coalesce(substring(CAST(`{name}` AS STRING), 1, 60), {quoted(found.simpleString())})"
    before, after = quoted(f"{name} is '"), quoted(f"'; {accepted}")
    odd.append(f"CASE WHEN `{name}` IS NOT NULL THEN concat({before}, {text}, {after}) END")
    return f"CAST(NULL AS {to})"


def _destinations(fields: dict[str, T.DataType], odd: list[str]) -> str:
    found = fields.get("destinations")
    if found is None or isinstance(found, T.NullType):
        return "CAST(NULL AS ARRAY<STRING>)"
    if isinstance(found, T.ArrayType) and isinstance(found.elementType, T.StringType | T.NullType):
        return "CAST(`destinations` AS ARRAY<STRING>)"
    reason = f"destinations is {found.simpleString()}; a list of process names is accepted"
    odd.append(f"CASE WHEN `destinations` IS NOT NULL THEN {quoted(reason)} END")
    return "CAST(NULL AS ARRAY<STRING>)"


def _kind(kind_text: str) -> str:
    """Return the code of a kind."""
    cases = (f"WHEN {kind_text} = '{name}' THEN {number}" for name, number in KIND_CODES.items())
    return f"CAST(CASE {' '.join(cases)} ELSE {UNKNOWN} END AS TINYINT)"


def _unknown(kind_text: str) -> str:
    """Return what is wrong with a kind that has no code."""
    before, after = quoted("kind is '"), quoted(f"'; one of {', '.join(sorted(KINDS))} is accepted")
    found = f"concat({before}, substring({kind_text}, 1, 60), {after})"
    return f"CASE WHEN {kind_text} IS NULL THEN 'kind is missing' ELSE {found} END"
