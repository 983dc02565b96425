"""An engine as bytes and back: the blob that a stream keeps for each key between micro-batches.

Law. `restore(dump(engine))` answers every further row as `engine` would. The blob says version, kind of causes,
protocol and roster, and is refused where they differ from what the caller asks for. Its columns are flat numbers, so
that the array twin reads the same blob.
"""

from __future__ import annotations

import math
from typing import Any

from thence.delivery.engine import Engine, Meta
from thence.delivery.foreign import ForeignLane
from thence.delivery.lane import Lane, Source
from thence.delivery.pack import pack, unpack
from thence.delivery.policy import Policy
from thence.delivery.reading import Read, Reading
from thence.errors import MisuseError
from thence.model.message import Copy


def dump(engine: Engine, extra: bytes = b"") -> bytes:
    """Return the state of an engine; `extra` is the caller's own (the held rows themselves)."""
    reading = engine.reading
    kind = "q" if reading.by == "stamp" else "s"
    orders = list(engine.lanes)
    header: dict[str, Any] = {
        "by": reading.by,
        "protocol": reading.protocol,
        "roster": None if reading.roster is None else list(reading.roster.names),
        "rows": engine.rows,
        "position": engine.position,
        "clock": engine.clock,
        "orders": orders,
        "foreign": {},
    }
    columns: dict[str, tuple[str, Any]] = {"extra": ("b", extra)}
    metas = list(engine.meta.items())
    columns["held.ticket"] = ("q", [ticket for ticket, _ in metas])
    columns["held.order"] = ("q", [orders.index(meta.order) for _, meta in metas])
    columns["held.placed"] = ("q", [meta.placed for _, meta in metas])
    columns["held.clock"] = ("d", [math.nan if meta.clock is None else meta.clock for _, meta in metas])
    columns["held.named"] = ("q", [meta.message is not None for _, meta in metas])
    columns["held.message"] = ("s", [meta.message or "" for _, meta in metas])
    lanes = [lane for lane in engine.lanes.values() if isinstance(lane, Lane)]
    rows = [lane.held[ticket] for ticket, meta in metas if isinstance(lane := engine.lanes[meta.order], Lane)]
    columns["held.source"] = (kind, [row.source for row in rows])
    columns["held.number"] = ("q", [row.number for row in rows])
    columns["held.needs"] = ("q", [len(row.needs) for row in rows])
    columns["need.source"] = (kind, [source for row in rows for source, _ in row.needs])
    columns["need.number"] = ("q", [number for row in rows for _, number in row.needs])
    for name in ("delivered", "solid", "forgot", "seen"):
        _put(columns, name, kind, [list(getattr(lane, name).items()) for lane in lanes])
    _put(columns, "kept", kind, [list(lane._kept) for lane in lanes])
    for place, lane in enumerate(engine.lanes.values()):
        if isinstance(lane, ForeignLane):
            me = lane.receiver.me
            header["foreign"][str(place)] = {"me": me, "waits": [[t, *w] for t, w in lane.waits.items()]}
            columns[f"foreign.{place}"] = ("b", lane.dump())
    return pack(header, columns)


def _put(columns: dict[str, tuple[str, Any]], name: str, kind: str, lanes: list[list[tuple[Source, int]]]) -> None:
    columns[f"{name}.count"] = ("q", [len(pairs) for pairs in lanes])
    columns[f"{name}.source"] = (kind, [source for pairs in lanes for source, _ in pairs])
    columns[f"{name}.number"] = ("q", [number for pairs in lanes for _, number in pairs])


def restore(data: bytes, reading: Reading, policy: Policy, where: str = "") -> tuple[Engine, bytes]:
    """Return the engine that `dump` described, and the caller's extra bytes."""
    header, columns = unpack(data)
    if header["by"] != reading.by:
        raise MisuseError(f"state of by={header['by']!r}, asked for by={reading.by!r}")
    fresh = Reading(reading.by, reading.rosters, header["protocol"])
    if header["roster"] is not None:
        known = [
            roster for roster in reading.rosters if list(roster.names[: len(header["roster"])]) == header["roster"]
        ]
        if not known:
            raise MisuseError(f"state under the roster {header['roster']}, which is not among those given")
        fresh.roster = known[0]
    engine = Engine(fresh, policy, where)
    engine.rows, engine.position, engine.clock = header["rows"], header["position"], header["clock"]
    orders: list[str | None] = header["orders"]
    for place, order in enumerate(orders):
        said = header["foreign"].get(str(place))
        if said is None:
            engine.lanes[order] = engine.new_lane()
        else:
            copy = Copy(0, 1, 0, 0, said["me"], None, order)
            engine.lanes[order] = lane = engine.new_lane(Read(order, 0, 1, (), copy))
            assert isinstance(lane, ForeignLane)
            waits = said["waits"]
            lane.load(columns[f"foreign.{place}"], [w[0] for w in waits], [tuple(w[1:]) for w in waits])
    _fill(engine, columns)
    _hold(engine, orders, columns)
    return engine, columns["extra"]


def _fill(engine: Engine, columns: dict[str, Any]) -> None:
    lanes = [lane for lane in engine.lanes.values() if isinstance(lane, Lane)]
    for name in ("delivered", "solid", "forgot", "seen", "kept"):
        at = 0
        for lane, count in zip(lanes, columns[f"{name}.count"], strict=True):
            span = slice(at, at + count)
            pairs = list(zip(columns[f"{name}.source"][span], columns[f"{name}.number"][span], strict=True))
            at += count
            if name == "kept":
                lane._kept = dict.fromkeys(pairs)
                lane.beyond = {source: {} for source in lane.solid}
                for source, number in pairs:
                    lane.beyond[source][number] = None
            else:
                setattr(lane, name, dict(pairs))


def _hold(engine: Engine, orders: list[str | None], columns: dict[str, Any]) -> None:
    at = row = 0
    for place, ticket in enumerate(columns["held.ticket"]):
        order = orders[columns["held.order"][place]]
        clock = columns["held.clock"][place]
        message = columns["held.message"][place] if columns["held.named"][place] else None
        engine.meta[ticket] = Meta(order, message, None if math.isnan(clock) else clock, columns["held.placed"][place])
        lane = engine.lanes[order]
        if not isinstance(lane, Lane):
            continue
        span = slice(at, at + columns["held.needs"][row])
        needs = tuple(zip(columns["need.source"][span], columns["need.number"][span], strict=True))
        at = span.stop
        lane.hold(ticket, columns["held.source"][row], columns["held.number"][row], needs)
        row += 1
