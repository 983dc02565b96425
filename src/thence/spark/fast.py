"""The array state of one key: the twin of `delivery.engine.Engine` for as long as nothing was ever released.

Law. It reads and writes the same blob as `delivery.state`, and its outcomes equal the engine's, row for row; where it
can not go on (a label, a second protocol, a policy that acts) it says so, and the engine takes the blob over.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.delivery.pack import pack, unpack
from thence.delivery.policy import Policy
from thence.delivery.reading import Read, Reading
from thence.errors import MisuseError
from thence.kernels import receive, stamps
from thence.kernels.rows import fixed
from thence.kernels.stamps import LARGE
from thence.protocols.receiver import ClockMember
from thence.protocols.registry import REGISTRY

FOREVER = 1 << 62
MOST_NAMES = 1 << 14
I64 = np.dtype(np.int64)


class Left(NamedTuple):
    """What left: rows of the working table in order, and of each what the output columns say."""

    rows: Any
    status: Any
    position: Any
    held_for: Any
    held_seconds: Any
    waited: Any
    """an Arrow list of texts"""
    stopped: int
    """the new row after which the policy acts, or -1"""


class Fast:
    """Array state; `names` are the sources of a clock, or None for stamps, whose sources are positions."""

    def __init__(self, reading: Reading, policy: Policy) -> None:
        """Start empty."""
        self.reading, self.policy = reading, policy
        self.names: dict[str, int] | None = {} if reading.by == "clock" else None
        self.rows = self.position = 0
        self.clock = math.nan
        size = len(reading.rosters[0]) if reading.by == "stamp" else 0
        self.delivered = np.zeros(size, I64)
        self.seen = np.zeros(size, I64)
        self.ticket = self.source = self.number = self.length = np.zeros(0, I64)
        self.need_source = self.need_number = np.zeros(0, I64)
        self.since = np.zeros(0)

    @staticmethod
    def can(reading: Reading, destination: str | None) -> bool:
        """Tell whether rows of this kind have an array twin."""
        if reading.by == "clock":
            return True
        if reading.by != "stamp" or len(reading.rosters) != 1 or len(reading.rosters[0]) > stamps.MOST:
            return False
        known = reading.entry is None or reading.entry.protocol.code in stamps.CODES
        return known and destination in reading.rosters[0]

    # -- rows ------------------------------------------------------------------------------------------------------

    def take(self, message: Any, sender: Any, destination: Any, cause: Any, times: Any) -> tuple[Left, dict[int, str]]:
        """Take new rows, given as Arrow columns and event times; `LookupError` means that the engine must."""
        new = len(cause)
        flat = self._stamps(cause, destination) if self.names is None else self._clocks(sender, cause)
        who, own, start, length, good, need_source, need_number = flat
        if self.names is None and not self._agree(sender, who, good):
            good = good & np.array([self._same(sender, row, who[row]) for row in range(new)])
        reasons: dict[int, str] = {}
        more: list[tuple[int, Read]] = []
        for row in np.flatnonzero(~good).tolist():
            read = self.reading.read(_at(message, row), _at(sender, row), _at(destination, row), _at(cause, row))
            if isinstance(read, str):
                reasons[row] = read
            elif read.order is not None or not self.reading.shared:
                raise LookupError("a label, or a receiver of its own kind")
            else:
                more.append((row, read))
        if more:
            who, own, start, length, need_source, need_number = self._mend(
                more, who.copy(), own.copy(), start.copy(), length.copy(), need_source, need_number
            )
        return self._run(who, own, start, length, need_source, need_number, times, reasons), reasons

    def _stamps(self, cause: Any, destination: Any) -> Any:
        roster = self.reading.rosters[0]
        me = roster.position(_at(destination, 0))
        column = cause.cast(pa.large_binary()) if pa.types.is_large_binary(cause.type) else cause.cast(pa.binary())
        width = np.int64 if pa.types.is_large_binary(column.type) else np.int32
        offsets = np.frombuffer(column.buffers()[1], width)[column.offset : column.offset + len(column) + 1]
        buffer = column.buffers()[2]
        data = np.frombuffer(buffer, np.uint8) if buffer is not None else np.zeros(0, np.uint8)
        if self.reading.entry is None:
            self._settle(destination, cause)
        code = -1 if self.reading.entry is None else self.reading.entry.protocol.code
        if code not in stamps.CODES and code >= 0:
            raise LookupError("a receiver of its own kind")
        digest = np.frombuffer(roster.hash, np.uint8)
        return stamps.read_stamps(fixed(data), offsets.astype(np.int64), code, digest, len(roster), me)

    def _settle(self, destination: Any, cause: Any) -> None:
        """Let the first stamp that can be read say the protocol."""
        for row in range(len(cause)):
            if not isinstance(self.reading.read(None, None, _at(destination, row), _at(cause, row)), str):
                return

    def _agree(self, sender: Any, who: Any, good: Any) -> bool:
        """Tell whether the senders the rows name are those of their stamps."""
        if sender is None or sender.null_count == len(sender):
            return True
        names = pa.array(self.reading.rosters[0].names).cast(sender.type)
        told = names.take(pa.array(who))
        same = pc.fill_null(pc.equal(told, sender), True)
        return bool(pc.all(pc.or_(same, pa.array(~good))).as_py())

    def _same(self, sender: Any, row: int, who: int) -> bool:
        said = _at(sender, row)
        return said is None or said == self.reading.rosters[0].name(who)

    def _clocks(self, sender: Any, clock: Any) -> Any:
        assert self.names is not None
        clock = clock if clock.offset == 0 else pa.concat_arrays([clock])
        offsets = np.frombuffer(clock.buffers()[1], np.int32)[clock.offset : clock.offset + len(clock) + 1]
        keys = self._codes(clock.keys)
        items = clock.items.cast(pa.int64())
        values = pc.fill_null(items, -1).to_numpy(zero_copy_only=False)
        who = self._codes(sender) if sender is not None else np.full(len(clock), -1, I64)
        if clock.null_count:
            who = np.where(clock.is_null().to_numpy(zero_copy_only=False), -1, who)
        if len(self.names) > MOST_NAMES:
            raise LookupError("more names than the arrays take")
        self._grow()
        return stamps.read_clocks(offsets.astype(np.int64), keys, values, who, max(len(self.names), 1))

    def _codes(self, texts: Any) -> Any:
        assert self.names is not None
        coded = texts.cast(pa.string()).dictionary_encode()
        table = [self.names.setdefault(name, len(self.names)) for name in coded.dictionary.to_pylist()]
        indices = pc.fill_null(coded.indices, len(table)).to_numpy(zero_copy_only=False)
        return np.array([*table, -1], I64)[indices]

    def _grow(self) -> None:
        assert self.names is not None
        more = len(self.names) - len(self.delivered)
        if more > 0:
            self.delivered = np.concatenate([self.delivered, np.zeros(more, I64)])
            self.seen = np.concatenate([self.seen, np.zeros(more, I64)])

    def _code(self, source: Any) -> int:
        return int(source) if self.names is None else self.names.setdefault(source, len(self.names))

    def _mend(
        self, more: list[tuple[int, Read]], who: Any, own: Any, start: Any, length: Any, sources: Any, numbers: Any
    ) -> Any:
        """Put in what only Python could read."""
        extra: list[tuple[int, int]] = []
        for row, read in more:
            if read.number >= LARGE or any(t >= LARGE for _, t in read.needs):
                raise LookupError("a number beyond the arrays")
            who[row], own[row] = self._code(read.source), read.number
            start[row], length[row] = len(sources) + len(extra), len(read.needs)
            extra += [(self._code(source), number) for source, number in read.needs]
        if self.names is not None:
            self._grow()
        sources = np.concatenate([sources, np.array([s for s, _ in extra], I64)])
        numbers = np.concatenate([numbers, np.array([t for _, t in extra], I64)])
        return who, own, start, length, sources, numbers

    def _run(
        self, who: Any, own: Any, start: Any, length: Any, need_source: Any, need_number: Any, times: Any, reasons: Any
    ) -> Left:
        held, new = len(self.ticket), len(who)
        base = len(self.need_source)
        starts = np.concatenate([np.cumsum(self.length) - self.length, start + base]).astype(I64)
        lengths = np.concatenate([self.length, length]).astype(I64)
        sources = np.concatenate([self.need_source, need_source]).astype(I64)
        numbers = np.concatenate([self.need_number, need_number]).astype(I64)
        ticket = np.concatenate([self.ticket, self.rows + 1 + np.arange(new, dtype=I64)])
        clock = np.concatenate([self.since, np.fmax.accumulate(np.concatenate([[self.clock], times]))[1:]])
        skip = np.zeros(held + new, np.bool_)
        skip[[held + row for row in reasons]] = True
        source = np.concatenate([self.source, who]).astype(I64)
        number = np.concatenate([self.number, own]).astype(I64)
        policy = self.policy
        status, order, left_at, stopped = receive.run(
            held, skip, source, number, starts, lengths, sources, numbers, ticket, clock, self.delivered, self.seen,
            policy.after_rows or FOREVER, math.inf if policy.after_seconds is None else float(policy.after_seconds),
            policy.held_limit or FOREVER,
        )  # fmt: skip
        done = held + new if stopped < 0 else stopped + 1
        left_status = status[order]
        placed = left_status == receive.DELIVERED
        position = self.position + np.cumsum(placed)
        since = np.where(left_at == order, 0.0, clock[left_at] - clock[order])
        since = np.where(np.isnan(clock[left_at]), np.nan, since)
        spans = np.where(placed & (left_at != order), lengths[order], 0)
        flat = _spans(starts[order], spans)
        waited = pa.ListArray.from_arrays(
            pa.array(np.concatenate([[0], np.cumsum(spans)]).astype(np.int32)),
            self.cause_names(sources[flat], numbers[flat]),
        )
        held_for = ticket[left_at] - ticket[order]
        left = Left(order, left_status, position, held_for, since, waited, stopped - held if stopped >= 0 else -1)
        self.position += int(placed.sum())
        self.rows += done - held
        self.clock = float(clock[done - 1]) if done > held else self.clock
        keep = np.flatnonzero(status[:done] == receive.HELD)
        flat = _spans(starts[keep], lengths[keep])
        self.ticket, self.source, self.number = ticket[keep], source[keep], number[keep]
        self.length, self.since = lengths[keep], clock[keep]
        self.need_source, self.need_number = sources[flat], numbers[flat]
        return left

    def cause_names(self, source: Any, number: Any) -> Any:
        """Name causes, all at once."""
        if self.names is None:
            names, sign = self.reading.rosters[0].names, "#" if self.reading.dense else ""
        else:
            names, sign = tuple(self.names), "#"
        if not len(source):
            return pa.array([], pa.string())
        told = pa.array([name + sign for name in names]).take(pa.array(source))
        return pc.binary_join_element_wise(told, pa.array(number).cast(pa.string()), "")

    # -- the blob --------------------------------------------------------------------------------------------------

    def dump(self, messages: list[str | None], extra: bytes = b"") -> bytes:
        """Return the state as `delivery.state` writes it."""
        reading = self.reading
        roster = None if reading.by != "stamp" or reading.roster is None else list(reading.roster.names)
        header: dict[str, Any] = {
            "by": reading.by,
            "protocol": reading.protocol,
            "roster": roster,
            "rows": self.rows,
            "position": self.position,
            "clock": None if math.isnan(self.clock) else self.clock,
            "orders": [None] if len(self.ticket) or self.delivered.any() else [],
            "foreign": {},
        }
        held = len(self.ticket)
        kind, told = ("q", _same) if self.names is None else ("s", self._told())
        some = np.flatnonzero(self.delivered)
        seen = np.flatnonzero(self.seen) if self.names is not None else np.zeros(0, I64)
        none = np.zeros(0, I64)
        columns: dict[str, tuple[str, Any]] = {
            "extra": ("b", extra),
            "held.ticket": ("q", self.ticket),
            "held.order": ("q", np.zeros(held, I64)),
            "held.placed": ("q", np.zeros(held, I64)),
            "held.clock": ("d", self.since),
            "held.named": ("q", [message is not None for message in messages]),
            "held.message": ("s", [message or "" for message in messages]),
            "held.source": (kind, told(self.source)),
            "held.number": ("q", self.number),
            "held.needs": ("q", self.length),
            "need.source": (kind, told(self.need_source)),
            "need.number": ("q", self.need_number),
        }
        pairs = {"delivered": (some, self.delivered[some]), "solid": (none, none), "forgot": (none, none)}
        pairs |= {"seen": (seen, self.seen[seen]), "kept": (none, none)}
        for name, (sources, numbers) in pairs.items():
            columns[f"{name}.count"] = ("q", [len(sources)] * len(header["orders"]))
            columns[f"{name}.source"] = (kind, told(sources))
            columns[f"{name}.number"] = ("q", numbers)
        return pack(header, columns)

    def _told(self) -> Any:
        assert self.names is not None
        names = list(self.names)
        return lambda codes: [names[code] for code in codes.tolist()]

    @classmethod
    def load(cls, data: bytes, reading: Reading, policy: Policy) -> tuple[Fast, bytes] | None:
        """Return the array state of a blob and the caller's extra bytes; None where only the engine can go on."""
        header, columns = unpack(data)
        if header["by"] != reading.by:
            raise MisuseError(f"state of by={header['by']!r}, asked for by={reading.by!r}")
        waived = len(columns["solid.source"]) or len(columns["forgot.source"]) or len(columns["kept.source"])
        if header["foreign"] or waived or header["orders"] not in ([None], []):
            return None
        if header["protocol"] is not None and not issubclass(REGISTRY[header["protocol"]].protocol, ClockMember):
            return None
        if max([*columns["delivered.number"], *columns["need.number"], *columns["held.number"]], default=0) >= LARGE:
            return None
        fresh = Reading(reading.by, reading.rosters, header["protocol"])
        if header["roster"] is not None:
            if header["roster"] != list(reading.rosters[0].names):
                return None
            fresh.roster = reading.rosters[0]
        fast = cls(fresh, policy)
        fast.rows, fast.position = header["rows"], header["position"]
        fast.clock = math.nan if header["clock"] is None else header["clock"]
        fast.ticket, fast.number = _ints(columns["held.ticket"]), _ints(columns["held.number"])
        fast.length, fast.since = _ints(columns["held.needs"]), np.array(columns["held.clock"], np.float64)
        fast.need_number = _ints(columns["need.number"])
        fast.source, fast.need_source = fast._sources(columns["held.source"]), fast._sources(columns["need.source"])
        for name, into in (("delivered", "delivered"), ("seen", "seen")):
            sources = fast._sources(columns[f"{name}.source"])
            getattr(fast, into)[sources] = _ints(columns[f"{name}.number"])
        return fast, columns["extra"]

    def _sources(self, values: Any) -> Any:
        if self.names is None:
            return _ints(values)
        codes = np.array([self._code(name) for name in values], I64)
        self._grow()
        return codes


def _same(values: Any) -> Any:
    return values


def _ints(values: Any) -> Any:
    return np.array(values, I64)


def _at(column: Any, row: int) -> Any:
    return None if column is None else column[row].as_py()


def _spans(start: Any, length: Any) -> Any:
    """Return the places of many spans, one after the other."""
    total = int(length.sum())
    if not total:
        return np.zeros(0, I64)
    ends = np.cumsum(length)
    return np.repeat(start - (ends - length), length) + np.arange(total, dtype=I64)
