"""Metrics of a delivering stream, from its own progress reports: delivered, held, oldest wait, state bytes.

    listener = DeliveryListener()
    spark.streams.addListener(listener)
    ...
    listener.latest("query name or id")

Invariant: numbers come from Spark's progress events alone; nothing is computed twice. `held` is the sum over all keys
since the listener began to listen (each micro-batch reports the change of the keys it touched); `oldest_seconds`,
`state_bytes` and the counts are those of the keys of the last micro-batch. For everything that a checkpoint holds back,
ask `waiting`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from thence.core.model.plain import Row
from thence.tables.engines.spark.stream import METRICS
from thence.tables.metrics import Server

PREFIX = "thence_delivery_"
_COUNTED = ("delivered", "released", "late", "duplicate", "quarantined")


@dataclass(frozen=True, slots=True)
class QueryTotals:
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

    def after(self, rows: int, observed: Row) -> QueryTotals:
        """Return the totals after one more micro-batch."""
        count = {name: observed.get(name) or 0 for name in _COUNTED}
        change = (observed.get("held") or 0) - (observed.get("held_before") or 0)
        return replace(
            self,
            batches=self.batches + 1,
            rows=self.rows + rows,
            held=self.held + change,
            oldest_seconds=observed.get("oldest_seconds"),
            state_bytes=observed.get("state_bytes") or 0,
            **{name: getattr(self, name) + value for name, value in count.items()},
        )


class DeliveryListener(StreamingQueryListener):
    """Keeps the latest numbers of every delivering query of a session; a collector of prometheus_client."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Start with no queries; add the listener with `session.streams.addListener`.

        Args:
            registry: also show the numbers in this registry of prometheus_client; a new one if not given.
        """
        self.queries: dict[str, QueryTotals] = {}
        self._shown: dict[str, QueryTotals] = {}
        """by the name of a query, or the id of one that has none"""
        self.registry = registry or CollectorRegistry()
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the numbers as Prometheus reads them."""
        rows = CounterMetricFamily(f"{PREFIX}rows", "Rows that left, by outcome.", labels=["query", "outcome"])
        held = GaugeMetricFamily(f"{PREFIX}held", "Rows that are held back.", labels=["query"])
        about = "Longest wait in event time, of the keys of the last micro-batch."
        oldest = GaugeMetricFamily(f"{PREFIX}oldest_seconds", about, labels=["query"])
        state = GaugeMetricFamily(f"{PREFIX}state_bytes", "State written in the last micro-batch.", labels=["query"])
        for query, now in list(self._shown.items()):
            for outcome in _COUNTED:
                rows.add_metric([query, outcome], getattr(now, outcome))
            held.add_metric([query], now.held)
            oldest.add_metric([query], now.oldest_seconds or 0.0)
            state.add_metric([query], now.state_bytes)
        yield from (rows, held, oldest, state)

    def serve(self, port: int = 0, host: str = "127.0.0.1") -> Server:
        """Serve the numbers to Prometheus at /metrics; close the returned server to stop.

        Args:
            port: the port; 0 chooses a free one.
            host: the address to listen at.
        """
        return Server(self.registry, port, host)

    def latest(self, query: str) -> QueryTotals:
        """Return the numbers of a query, all zero before its first micro-batch.

        Args:
            query: its name or its id.
        """
        return self.queries.get(query, QueryTotals())

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Start the counts of a query at zero; Spark calls this.

        Args:
            event: Spark's, with the name and the id of the query.
        """
        for name in _names(event):
            self.queries.setdefault(name, QueryTotals())

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Add the counts of a micro-batch; Spark calls this.

        Args:
            event: Spark's, with the observed metrics of the micro-batch.
        """
        progress = event.progress
        observed = progress.observedMetrics.get(METRICS)
        if observed is None:
            return
        for name in _names(progress):
            self.queries[name] = self.latest(name).after(progress.numInputRows, observed.asDict())
        self._shown[progress.name or str(progress.id)] = self.queries[str(progress.id)]

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Change nothing while a query has no new rows; Spark calls this.

        Args:
            event: Spark's, with the id of the query.
        """

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Keep the last counts of a query that ended; Spark calls this.

        Args:
            event: Spark's, with the id of the query.
        """


def _names(query: QueryStartedEvent | StreamingQueryProgress) -> set[str]:
    """Return the id of a query, and its name if it has one."""
    return {str(query.id), *([query.name] if query.name else [])}
