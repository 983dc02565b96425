"""Whether a Debezium record has the form that its readers rely on, so that a record of another form aborts nothing.

Invariant: `misshapen` returns None, or a sentence that names the first field whose value cannot be read, what was
found, and what would be accepted. It is asked before anything else looks into a record.
"""

from __future__ import annotations

import json

from thence.core.model.plain import Fields

MOST_CHANGES = 10_000_000
"""of one transaction: END may name them all"""
_OBJECTS = ("before", "after", "source", "transaction")
_TEXTS = ("name", "table", "schema", "db")
_NUMBERS = ("lsn", "row", "event_serial_no")


def misshapen(body: Fields) -> str | None:
    """Return what is wrong with the form of a payload, or None."""
    for name in _OBJECTS:
        if not isinstance(body.get(name) or {}, dict):
            return _wrong(name, body[name], "an object")
    source, transaction = body.get("source") or {}, body.get("transaction") or {}
    for name in _TEXTS:
        if not isinstance(source.get(name), str | None):
            return _wrong(f"source.{name}", source[name], "a text")
    for name in _NUMBERS:
        if source.get(name) is not None and not _whole(source[name]):
            return _wrong(f"source.{name}", source[name], "a whole number")
    if not _is_sequence(source.get("sequence")):
        return _wrong("source.sequence", source["sequence"], "a list of LSNs")
    if transaction.get("id") is not None and not _whole(transaction.get("total_order")):
        return _wrong("transaction.total_order", transaction.get("total_order"), "a whole number")
    return _wrong_count(body)


def _wrong_count(body: Fields) -> str | None:
    count = body.get("event_count")
    if body.get("status") != "END" or count is None:
        return None
    if _whole(count) and int(count) <= MOST_CHANGES:
        return None
    return _wrong("event_count", count, f"a whole number up to {MOST_CHANGES}")


def _wrong(name: str, found: object, accepted: str) -> str:
    shown = repr(found)
    return f"{name} is {shown if len(shown) < 60 else shown[:60] + '...'}; {accepted} is accepted"


def _whole(value: object) -> bool:
    """Tell whether a value is a whole number from 0 up, or the text of one; none has more than twenty digits."""
    if isinstance(value, str):
        return value.isdecimal() and len(value) <= 20
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**20


def _is_sequence(value: object) -> bool:
    """Tell whether PostgreSQL's `sequence` is a list of LSNs (null for one that is not known), or the JSON of one."""
    try:
        found = json.loads(value) if isinstance(value, str) and value else value
    except ValueError:
        return False
    return not found or (isinstance(found, list) and all(each is None or _whole(each) for each in found))
