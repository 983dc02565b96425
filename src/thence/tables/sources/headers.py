"""Kafka headers that name causes: the same for our producer, our consumer and Spark.

Invariant: `thence-message` is the id, `thence-sender` who sent it, `thence-causes` a JSON list of ids, `thence-stamp.D`
the wire stamp of the copy for destination D (stamps may differ from destination to destination). A record without
`thence-message` is named by where it lies, `topic/partition/offset`, so that two records are never taken for one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

MESSAGE, SENDER, CAUSES, STAMP = "thence-message", "thence-sender", "thence-causes", "thence-stamp."
NO_LIST = "thence-causes is not a JSON list of texts"
Headers = list[tuple[str, bytes]]


def write_headers(message: str, sender: str, causes: Iterable[str] | None, stamps: dict[str, bytes]) -> Headers:
    """Return the headers of a record: its causes by name, or a stamp for each destination."""
    headers: Headers = [(MESSAGE, message.encode()), (SENDER, sender.encode())]
    if causes is not None:
        headers.append((CAUSES, json.dumps(list(causes)).encode()))
    return headers + [(STAMP + destination, stamp) for destination, stamp in stamps.items()]


def read_headers(
    headers: Iterable[tuple[str, bytes | None]] | None, where: tuple[str, int, int], destination: str
) -> dict[str, object]:
    """Return the columns of an arrival at `destination`; without a readable list of causes it has no message id.

    `where`: topic, partition and offset.
    """
    values = dict(headers or ())
    message, sender, causes = values.get(MESSAGE), values.get(SENDER), values.get(CAUSES)
    listed = [] if causes is None else _list(causes)
    name = message.decode("utf-8", "replace") if message else "{}/{}/{}".format(*where)
    return {
        "run": None,
        "destination": destination,
        "message": None if listed is None else name,
        "sender": None if sender is None else sender.decode("utf-8", "replace"),
        "depends_on": listed or [],
        "stamp": values.get(STAMP + destination),
        "note": NO_LIST if listed is None else None,
    }


def _list(value: bytes) -> list[str] | None:
    """Return a list of ids, or None for what is not one."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) and all(isinstance(each, str) for each in found) else None
