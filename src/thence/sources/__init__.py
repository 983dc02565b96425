"""From what people have to arrivals: change events, spans, events that name their cause. Pure logic, no Spark.

Law. Each adapter maps one foreign record to one row of the arrivals table (by="depends_on"), and keeps the record
itself as payload: nothing is left out, nothing is guessed. A record that can not be read becomes a row without a
message id, which delivery quarantines with that reason.
"""

from __future__ import annotations

from thence.sources.causation import from_event
from thence.sources.debezium import from_change, from_changes
from thence.sources.otel import Skew, from_spans, skews

__all__ = ["Skew", "from_change", "from_changes", "from_event", "from_spans", "skews"]
