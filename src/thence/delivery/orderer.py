"""Causal delivery over any plain iterable: no Spark, no JVM, the standard library alone.

    from thence import Orderer

    orderer = Orderer(by="depends_on")
    for row in orderer.deliver(rows):        # dicts in the order of arrival
        print(row["outcome"], row["position"], row["message"], row["reason"])

Law. Every row comes out exactly once, with the columns of `outcome.OUTPUT_COLUMNS` added; rows of one key keep the
order that `Engine` gives them. It is the same engine that `thence.spark.deliver` runs, so the same arrivals give the
same outcomes there.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from thence.delivery.columns import Columns
from thence.delivery.engine import Engine
from thence.delivery.outcome import Outcome
from thence.delivery.pack import pack, unpack
from thence.delivery.policy import Name, Policy
from thence.delivery.reading import By, Reading, Rosters, rosters_of
from thence.delivery.state import dump, restore
from thence.errors import MisuseError

Row = Mapping[str, Any]
Key = tuple[Any, ...]


class Orderer:
    """Delivers rows in causal order, one state machine for each key."""

    def __init__(
        self,
        by: By = "stamp",
        *,
        roster: Rosters = None,
        key: Iterable[str] | None = None,
        columns: Mapping[str, str] | None = None,
        policy: Name | Policy = "wait",
        after_rows: int | None = None,
        after_seconds: float | None = None,
        remember: int | None = None,
        held_limit: int | None = None,
        when_full: Literal["fail", "release"] = "fail",
    ) -> None:
        """Say what rows tell of their causes, and what to do about causes that do not come.

        `roster`: the processes in order of position, for stamps. `key`: the columns whose values part the rows into
        independent orders; (run, destination) if not given. `columns`: your name for a column of the contract, as in
        `{"message": "event_id"}`. The rest is explained in `thence.delivery.policy`.
        """
        self.by = by
        self.rosters = rosters_of(by, roster)
        self.columns = Columns(by, columns, key)
        if isinstance(policy, Policy):
            self.policy = policy
        else:
            self.policy = Policy(policy, after_rows, after_seconds, remember, held_limit, when_full)
        self.engines: dict[Key, Engine] = {}
        self._held: dict[Key, dict[int, Row]] = {}

    def push(self, row: Row) -> list[dict[str, Any]]:
        """Take the next row; return the rows that leave now, in order."""
        names = self.columns
        key = tuple(row.get(name) for name in names.key)
        why = names.refuse(key)
        engine = self._engine(key)
        message = row.get(names.message)
        if why is None:
            read = engine.reading.read(message, row.get(names.sender), row.get(names.destination), row.get(names.cause))
        else:
            read = why
        held = self._held[key]
        held[engine.rows + 1] = row
        named = None if message is None else str(message)
        return [_joined(held.pop(o.ticket), o) for o in engine.push(read, named, seconds(row.get(names.time)))]

    def deliver(self, rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
        """Pass rows through in causal order; at the end, whatever still waits comes as `blocked`."""
        for row in rows:
            yield from self.push(row)
        yield from self.finish()

    def finish(self) -> list[dict[str, Any]]:
        """Return what still waits as `blocked`, and forget it: the input has ended."""
        out = []
        for key, engine in self.engines.items():
            held = self._held[key]
            out += [_joined(held.pop(outcome.ticket), outcome) for outcome in engine.finish()]
            engine.meta.clear()
            engine.lanes.clear()
        return out

    def waiting(self) -> list[dict[str, Any]]:
        """Explain every held row: key, message, missing causes, root blocker, how long."""
        return [
            {
                **dict(zip(self.columns.key, key, strict=True)),
                "message": w.message,
                "missing": list(w.missing),
                "blocker": w.blocker,
                "held_for": w.held_for,
                "held_seconds": w.held_seconds,
                "reason": w.reason,
            }
            for key, engine in self.engines.items()
            for w in engine.pending()
        ]

    def snapshot(self, encode: Callable[[Row], bytes] | None = None) -> bytes:
        """Return the whole state as bytes; `encode` writes a held row (default: JSON, bytes included)."""
        write = encode or _to_json
        keys = list(self.engines)
        try:
            texts = [json.dumps(key) for key in keys]
        except TypeError as error:
            raise MisuseError(f"a key can not be kept: {error}; texts and numbers are accepted") from None
        blobs = []
        for key in keys:
            rows = [write(self._held[key][ticket]) for ticket in self.engines[key].meta]
            extra = pack({}, {"length": ("q", [len(row) for row in rows]), "rows": ("b", b"".join(rows))})
            blobs.append(dump(self.engines[key], extra))
        lengths = [len(blob) for blob in blobs]
        header = {"by": self.by, "key": list(self.columns.key)}
        return pack(header, {"keys": ("s", texts), "length": ("q", lengths), "blobs": ("b", b"".join(blobs))})

    def restore(self, data: bytes, decode: Callable[[bytes], Row] | None = None) -> Orderer:
        """Take over the state that `snapshot` returned, and return this orderer, which must be made alike."""
        read = decode or _from_json
        header, columns = unpack(data)
        if header.get("by") != self.by or header.get("key") != list(self.columns.key):
            raise MisuseError(f"snapshot of by={header.get('by')!r}, key={header.get('key')}; this is by={self.by!r}")
        at = 0
        self.engines, self._held = {}, {}
        for text, length in zip(columns["keys"], columns["length"], strict=True):
            key: Key = tuple(json.loads(text))
            blob = columns["blobs"][at : at + length]
            at += length
            engine, extra = restore(blob, Reading(self.by, self.rosters), self.policy, self.columns.where(key))
            _, rows = unpack(extra)
            self.engines[key] = engine
            self._held[key] = held = {}
            start = 0
            for ticket, size in zip(engine.meta, rows["length"], strict=True):
                held[ticket] = read(rows["rows"][start : start + size])
                start += size
        return self

    def _engine(self, key: Key) -> Engine:
        engine = self.engines.get(key)
        if engine is None:
            engine = Engine(Reading(self.by, self.rosters), self.policy, self.columns.where(key))
            self.engines[key] = engine
            self._held[key] = {}
        return engine


def seconds(time: Any) -> float | None:
    """Return an event time as seconds; what is no time is none."""
    if isinstance(time, datetime.datetime):
        known = time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
        return known.timestamp()
    if isinstance(time, bool) or not isinstance(time, int | float) or not math.isfinite(time):
        return None
    return float(time)


def _joined(row: Row, outcome: Outcome) -> dict[str, Any]:
    return {**row, **outcome.columns()}


def _to_json(row: Row) -> bytes:
    def other(value: Any) -> Any:
        if isinstance(value, bytes):
            return {"$bytes": base64.b64encode(value).decode()}
        raise MisuseError(f"a held row has a {type(value).__name__}, which JSON can not hold; pass encode= and decode=")

    return json.dumps(dict(row), default=other).encode()


def _from_json(data: bytes) -> Row:
    def hook(value: dict[str, Any]) -> Any:
        return base64.b64decode(value["$bytes"]) if value.keys() == {"$bytes"} else value

    row: Row = json.loads(data, object_hook=hook)
    return row
