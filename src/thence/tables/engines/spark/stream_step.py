"""The stateful step of a stream: one shard of keys, its rows of a micro-batch, its timer.

Spark also starts this class beside the driver, to learn which state it keeps, and gives that process about ten seconds
to answer. So the module imports next to nothing: what it works with is unpacked when the first rows come.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

if TYPE_CHECKING:
    import pandas as pd

    from thence.tables.delivery.shard import Shard
    from thence.tables.engines.spark.shard_visit import Visits

CHATTY = "pyspark.sql.streaming.transform_with_state_driver_worker"
"""What Spark runs once for each query, to open its state; it prints what it does, and Java shows that to the user."""
HEAD, SEGMENTS, BLOB, NAME = "head", "segments", "blob binary", "name string"


class Segments:
    """The segments of the shard at hand, in a map of Spark's state store."""

    def __init__(self, state: MapState) -> None:
        """Take the map."""
        self.state = state

    def get(self, name: str) -> bytes | None:
        """Return a segment, if it is there."""
        found = self.state.getValue((name,))
        return None if found is None else bytes(found[0])

    def put(self, name: str, data: bytes) -> None:
        """Write a segment into Spark's state store."""
        self.state.updateValue((name,), (data,))

    def delete(self, name: str) -> None:
        """Remove a segment from Spark's state store."""
        self.state.removeKey((name,))


class ShardState(StatefulProcessor):
    """The state variables of a shard, opened by a worker."""

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore the state at a worker; silence the process beside the driver, which logs every step."""
        self.__dict__.update(state)
        spec = sys.modules["__main__"].__spec__
        if spec is not None and spec.name == CHATTY:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # for as long as it lives

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state of the shard; Spark calls this first."""
        self.handle = handle
        self.head = handle.getValueState(HEAD, BLOB)
        self.segments = handle.getMapState(SEGMENTS, NAME, BLOB)

    def close(self) -> None:
        """Close nothing: Spark owns the state."""


class Processor(ShardState):
    """The stateful step: each shard's state, its rows, its timer."""

    def __init__(self, visits: Visits) -> None:
        """Take what a visit of a shard needs."""
        self.sent, self.timed = pickle.dumps(visits), visits.options.timed
        self.unpacked: Any = None

    def __getstate__(self) -> dict[str, object]:
        """Leave out what the worker unpacks again."""
        return {"sent": self.sent, "timed": self.timed, "unpacked": None}

    @property
    def visits(self) -> Visits:
        """The arguments of a visit of a shard."""
        if self.unpacked is None:
            self.unpacked = pickle.loads(self.sent)
        visits: Visits = self.unpacked
        return visits

    def handleInputRows(  # type: ignore[override]  # frames alone: it is a step in pandas
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        """Take a shard's rows of one micro-batch, then operators' commands, then time-outs."""
        blobs = [row[-1] for frame in rows for row in frame.to_numpy(object).tolist() if isinstance(row[-1], bytes)]
        yield self._visit(blobs, timerValues)

    def handleInitialState(  # type: ignore[override]  # frames alone: it is a step in pandas
        self, key: Any, initialState: pd.DataFrame, timerValues: TimerValues
    ) -> None:
        """Take ids that are known; Spark calls this in the first micro-batch alone, before rows."""
        self._visit([row[-1] for row in initialState.to_numpy(object).tolist()], timerValues)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        """Release rows that have waited too long, and forget keys that have finished."""
        yield self._visit([], timerValues)

    def _visit(self, blobs: list[bytes], timer_values: TimerValues) -> pd.DataFrame:
        state = self.head.get()
        before = None if state is None else bytes(state[0])
        moment = int(timer_values.getCurrentProcessingTimeInMs()) if self.timed else 0
        store = Segments(self.segments)
        shard, out, held = self.visits.take(before, store, blobs, moment)
        self._set_timer(shard, moment)
        frame = self.visits.leave(shard, store, out, held)
        head = shard.head()
        if head != before:
            self.head.update((head,))
        self.visits.keep(shard)
        return frame

    def _set_timer(self, shard: Shard, moment: int) -> None:
        """Set the shard's timer to the time at which the first of its keys is due."""
        if not self.timed:
            return
        due = shard.look_again(self.visits.when)
        due = None if due is None else max(due, moment + 1)
        if due == shard.timer:
            return
        if shard.timer is not None and shard.timer > moment:
            self.handle.deleteTimer(shard.timer)
        if due is not None:
            self.handle.registerTimer(due)
        shard.timer = due


class Rewriter(ShardState):
    """Writes the shards that `reshard` made, as they come."""

    def __init__(self, timed: bool) -> None:
        """Return whether the stream keeps timers."""
        self.timed = timed

    def __getstate__(self) -> dict[str, object]:
        """Travel to a worker; the base class then silences the one beside the driver."""
        return {"timed": self.timed}

    def handleInputRows(  # type: ignore[override]  # frames alone: it is a step in pandas
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        """Write a shard: its head stands under the empty name, its segments under theirs."""
        from thence.tables.delivery.packing import unpack

        for frame in rows:
            for name, data in zip(frame["name"], frame["data"], strict=True):
                if name:
                    self.segments.updateValue((name,), (bytes(data),))
                    continue
                self.head.update((bytes(data),))
                timer = unpack(bytes(data))[0]["timer"]
                if self.timed and timer is not None:
                    self.handle.registerTimer(timer)
        return iter(())
