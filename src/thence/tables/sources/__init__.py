"""Adapters from foreign records to arrivals: change events, spans, events that name their cause. No Spark.

Invariant: each adapter maps one foreign record to one row of the arrivals table (by="depends_on"): nothing is left out,
nothing is guessed. A record that cannot be put in order becomes a row without a message id and with a `note` that
says why; delivery quarantines it. `thence.spark.sources` applies the same rules to DataFrames, `thence.sources.kafka`
to a consumer.
"""

from __future__ import annotations

from thence.tables.sources.agents import AGENT_PRESETS
from thence.tables.sources.arrival import Arrival, Record
from thence.tables.sources.causation import PRESETS, from_event, from_events
from thence.tables.sources.changes import from_changes
from thence.tables.sources.cloudevents import from_cloudevent, from_headers
from thence.tables.sources.debezium import from_change
from thence.tables.sources.observed import observed
from thence.tables.sources.otlp import Skew, from_spans, orphans, skews
from thence.tables.sources.outbox import OUTBOX_PRESETS, from_outbox
from thence.tables.sources.whole import WholeTransaction, WholeTransactions, whole_transactions

__all__ = [
    "AGENT_PRESETS",
    "OUTBOX_PRESETS",
    "PRESETS",
    "Arrival",
    "Record",
    "Skew",
    "WholeTransaction",
    "WholeTransactions",
    "from_change",
    "from_changes",
    "from_cloudevent",
    "from_event",
    "from_events",
    "from_headers",
    "from_outbox",
    "from_spans",
    "observed",
    "orphans",
    "skews",
    "whole_transactions",
]
