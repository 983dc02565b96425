"""Times as seconds, read by one rule wherever another process wrote them: event times, times of events, of
changes.
"""

from __future__ import annotations

import datetime
import math
from decimal import Decimal


def seconds(time: object) -> float | None:
    """Return a time as seconds: a number, a moment or date, or one as ISO 8601 writes it; anything else gives None.

    A moment without a zone is taken as UTC, and a date as its midnight.
    """
    if isinstance(time, str):
        try:
            time = datetime.datetime.fromisoformat(time.strip())
        except ValueError:
            return None
    elif isinstance(time, datetime.date) and not isinstance(time, datetime.datetime):
        time = datetime.datetime(time.year, time.month, time.day)
    if isinstance(time, datetime.datetime):
        return (time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)).timestamp()
    if isinstance(time, bool) or not isinstance(time, int | float | Decimal) or not math.isfinite(time):
        return None
    return float(time)
