"""What a delivering stream does, from its own progress reports: delivered, held, oldest wait, state bytes.

    listener = DeliveryListener()
    spark.streams.addListener(listener)
    ...
    listener.latest("query name or id")

Law. Numbers come from Spark's progress events alone; nothing is computed twice. `held` is the sum over all keys since
the listener began to listen (each micro-batch reports the change of the keys it touched); `oldest_seconds`,
`state_bytes` and the counts are those of the keys of the last micro-batch. For everything that a checkpoint holds
back, ask `waiting`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from thence.spark.streaming import METRICS


@dataclass(frozen=True, slots=True)
class Delivery:
    """Totals of one query, and the state of its last micro-batch."""

    batches: int = 0
    rows: int = 0
    delivered: int = 0
    released: int = 0
    late: int = 0
    duplicate: int = 0
    quarantined: int = 0
    held: int = 0
    oldest_seconds: float | None = None
    state_bytes: int = 0

    def after(self, rows: int, told: dict[str, Any]) -> Delivery:
        """Return the totals after one more micro-batch."""
        count = {name: told.get(name) or 0 for name in ("delivered", "released", "late", "duplicate", "quarantined")}
        change = (told.get("held") or 0) - (told.get("held_before") or 0)
        return replace(
            self,
            batches=self.batches + 1,
            rows=self.rows + rows,
            held=self.held + change,
            oldest_seconds=told.get("oldest_seconds"),
            state_bytes=told.get("state_bytes") or 0,
            **{name: getattr(self, name) + value for name, value in count.items()},
        )


class DeliveryListener(StreamingQueryListener):
    """Keeps the latest numbers of every delivering query of a session."""

    def __init__(self) -> None:
        """Know no query yet."""
        self.queries: dict[str, Delivery] = {}

    def latest(self, query: str) -> Delivery:
        """Return the numbers of a query by its name or id."""
        return self.queries.get(query, Delivery())

    def onQueryStarted(self, event: Any) -> None:
        """Start at nothing."""
        for name in {str(event.id), event.name} - {None}:
            self.queries.setdefault(name, Delivery())

    def onQueryProgress(self, event: Any) -> None:
        """Take over a micro-batch."""
        progress = event.progress
        told = progress.observedMetrics.get(METRICS)
        if told is None:
            return
        for name in {str(progress.id), progress.name} - {None}:
            self.queries[name] = self.latest(name).after(progress.numInputRows, told.asDict())

    def onQueryIdle(self, event: Any) -> None:
        """Nothing changes."""

    def onQueryTerminated(self, event: Any) -> None:
        """Keep the last numbers."""
