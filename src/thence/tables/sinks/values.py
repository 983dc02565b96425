"""Values of Debezium's JSON as values of a target's columns.

Debezium writes dates, times, decimals and bytes as numbers and texts, and says the meaning in the record's schema,
which is often left out. The type of the target's column decides here; a value that could mean several things is
refused with the setting of the connector that makes it plain.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import json
import uuid
from typing import Any

from sqlalchemy import Column
from sqlalchemy import types as T

UNAVAILABLE = "__debezium_unavailable_value"
"""stands for a large value that the change left as it was"""
_EPOCH = datetime.date(1970, 1, 1)


class Unusable(ValueError):
    """A value that the target's column cannot take."""

    number: int | None = None
    """of the change that has it, from 1"""


def converted(value: Any, column: Column[Any]) -> Any:
    """Return a value as the column takes it."""
    if value is None:
        return None
    kind = column.type
    try:
        if isinstance(kind, T.JSON):
            return json.loads(value) if isinstance(value, str) else value
        if isinstance(kind, T.DateTime):
            return _moment(value, column)
        if isinstance(kind, T.Date):
            return _EPOCH + datetime.timedelta(days=value) if isinstance(value, int) else _date(value)
        if isinstance(kind, T.Time):
            return datetime.time.fromisoformat(value) if isinstance(value, str) else _unclear(value, column)
        if isinstance(kind, T.Boolean):
            return bool(value)
        if isinstance(kind, T.Numeric) and isinstance(value, str):
            return decimal.Decimal(value)
        if isinstance(kind, T.LargeBinary) and isinstance(value, str):
            return base64.b64decode(value, validate=True)
        if isinstance(kind, T.Uuid) and isinstance(value, str) and kind.as_uuid:
            return uuid.UUID(value)
    except (ValueError, OverflowError, RecursionError, decimal.InvalidOperation, binascii.Error) as error:
        if isinstance(error, Unusable):
            raise
        hint = "; set decimal.handling.mode=string at the connector" if isinstance(kind, T.Numeric) else ""
        raise Unusable(f"column {column.name} is {kind}, and {value!r:.60} is not such a value{hint}") from None
    return value


def _date(value: Any) -> datetime.date:
    return datetime.date.fromisoformat(str(value)[:10])


def _moment(value: Any, column: Column[Any]) -> datetime.datetime:
    if isinstance(value, str):
        found = datetime.datetime.fromisoformat(value)
        if found.tzinfo is not None and not getattr(column.type, "timezone", False):
            found = found.astimezone(datetime.UTC).replace(tzinfo=None)
        return found
    _unclear(value, column)
    raise AssertionError


def _unclear(value: Any, column: Column[Any]) -> None:
    raise Unusable(
        f"column {column.name} is {column.type}, and the number {value!r:.60} does not say its unit; set "
        "time.precision.mode=isostring at the connector"
    )
