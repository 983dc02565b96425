# mypy: disable-error-code="valid-type,misc,no-redef,type-arg,return-value,operator,index,assignment,arg-type"
"""Reads the explicit causes or the clock of one row.

*Invariant.* Nothing here raises because of a row's content: for an unusable row the reason is returned. Batches are
read in `coded_rows_cy.py`, with the same answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

from thence.core.model.plain import Field

NO_MESSAGE = "no message id"
EXACT = 2**53
"""Below it every whole number is a float of its own"""


# -- explicit causes ---------------------------------------------------------------------------------------------------


def read_explicit(message: Field, causes: Field, separator: str | None = None) -> tuple | str:
    """Read a row that names its causes: one id, several, or none (null, empty text); `separator` parts a text."""
    return _explicit(message, causes_in(causes, separator))


def causes_in(causes: Field, separator: str | None) -> list:
    """Return the ids that a value names: a text that is a JSON array, as CSV and mixed JSON have them, is an array."""
    if causes is None:
        return []
    if isinstance(causes, str):
        if separator is not None:
            return [part.strip() for part in causes.split(separator)]
        found = nested(causes) if causes.startswith("[") else None
        return found if isinstance(found, list) else [causes]
    if isinstance(causes, Mapping | bytes | bytearray) or not isinstance(causes, Iterable):
        return [causes]
    if separator is None:
        return list(causes)
    return [part for each in causes for part in (causes_in(each, separator) if isinstance(each, str) else [each])]


def nested(text: str) -> list | dict | None:
    """Return the array or object of JSON that a text is; None if it is neither."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list | dict) else None


def id_text(value: Field) -> str | None:
    """Return an id as the text that it is compared by; None for null, NaN and an empty text.

    2.0 is the whole number 2: pandas turns a column of whole numbers into floats where values are missing.
    """
    if isinstance(value, str):
        return value or None
    if value is None or value != value:
        return None
    if isinstance(value, float | Decimal) and _is_whole(value):
        return str(int(value))
    if isinstance(value, bool | list | tuple | Mapping):
        return _json(value)
    return str(value)


def _is_whole(value: float | Decimal) -> bool:
    """Return whether a number is whole and, if it is a float, has lost no digits."""
    if isinstance(value, float):
        return value.is_integer() and abs(value) < EXACT
    return value.is_finite() and value == value.to_integral_value()


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), default=str)


@cython.cfunc
def _explicit(message: object, causes: list) -> object:
    own: str | None = message if type(message) is str and message else id_text(message)
    if own is None:
        return NO_MESSAGE
    if own[0] in "[{" and (inner := nested(own)) is not None:
        return f"the message id is {_json(inner):.60}; one text or number is accepted"
    if isinstance(message, float) and abs(message) >= EXACT:
        return f"the message id {own} is a float that has lost digits"
    whole: cython.bint = isinstance(message, int) or (isinstance(message, float) and _is_whole(message))
    names: list = []
    for cause in causes:
        name: str | None = cause if type(cause) is str and cause else id_text(cause)
        if name is None:
            continue
        if name[0] in "[{" and (inner := nested(name)) is not None:
            return f"a cause is {_json(inner):.60}; one id or an array of ids is accepted"
        if whole and isinstance(cause, float) and not _is_whole(cause):
            why = "has lost digits" if cause.is_integer() else "is a fraction"
            return f"cause {cause} {why}, and the message id {own} is a whole number: they are never equal"
        names.append(name)
    if len(names) > 1:
        names = list(dict.fromkeys(names))
    if own in names:
        return f"cycle: {own} depends on itself"
    return (None, own, 1, names, None, None)


# -- clocks ------------------------------------------------------------------------------------------------------------


def read_clock(sender: Field, clock: Field) -> tuple | str:
    """Read a row with a clock: component s counts the messages of s to this destination."""
    if sender is None:
        return "no sender"
    if clock is None:
        return "no clock"
    if not isinstance(clock, Mapping):
        try:
            clock = dict(clock)
        except (TypeError, ValueError):
            return f"the clock is a {type(clock).__name__}; a map from sender to count is accepted"
    return _clock(sender, list(clock), list(clock.values()))


@cython.cfunc
def _clock(sender: object, names: list, counts: list) -> object:
    own: object = 0
    place: cython.Py_ssize_t
    needed: list = []
    numbers: list = []
    for place in range(len(names)):
        count = counts[place]
        if type(count) is not int or count < 0 or count >> 63:
            return f"clock component {names[place]} is {count!r}; a count from 0 is accepted"
        if names[place] == sender:
            own = count
            count = count - 1
        if count > 0:
            needed.append(names[place])
            numbers.append(count)
    if own < 1:
        return f"the clock has no component of its sender {sender}; it must count this message"
    for place in range(1, len(needed)):
        if needed[place] <= needed[place - 1]:
            pairs = dict(zip(needed, numbers, strict=True))
            needed = sorted(pairs)
            return (None, sender, own, needed, [pairs[name] for name in needed], None)
    return (None, sender, own, needed, numbers, None)
