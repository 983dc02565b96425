"""Causal order on Spark, as users import it; it lives in `thence.tables.engines.spark`.

`local_session` starts an embedded session; the operators take any session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thence.lab.sweep.driver import sweep as sweep
    from thence.tables.engines.spark.audit import audit as audit
    from thence.tables.engines.spark.audit import audit_files as audit_files
    from thence.tables.engines.spark.cost import CostResult as CostResult
    from thence.tables.engines.spark.cost import cost as cost
    from thence.tables.engines.spark.deliver import deliver as deliver
    from thence.tables.engines.spark.deliver import split as split
    from thence.tables.engines.spark.deliver import with_rosters as with_rosters
    from thence.tables.engines.spark.give_up import give_up as give_up
    from thence.tables.engines.spark.into_database import into_database as into_database
    from thence.tables.engines.spark.into_lakehouse import committed_tables as committed_tables
    from thence.tables.engines.spark.into_lakehouse import into_lakehouse as into_lakehouse
    from thence.tables.engines.spark.into_table import into_table as into_table
    from thence.tables.engines.spark.metrics import DeliveryListener as DeliveryListener
    from thence.tables.engines.spark.reshard import reshard as reshard
    from thence.tables.engines.spark.results import AuditResult as AuditResult
    from thence.tables.engines.spark.session import local_session as local_session
    from thence.tables.engines.spark.stamp import stamp as stamp
    from thence.tables.engines.spark.waiting import waiting as waiting
    from thence.tables.engines.spark.waiting import waiting_in_stream as waiting_in_stream

_WHERE = {
    "local_session": "thence.tables.engines.spark.session",
    "audit": "thence.tables.engines.spark.audit",
    "AuditResult": "thence.tables.engines.spark.results",
    "audit_files": "thence.tables.engines.spark.audit",
    "cost": "thence.tables.engines.spark.cost",
    "CostResult": "thence.tables.engines.spark.cost",
    "deliver": "thence.tables.engines.spark.deliver",
    "split": "thence.tables.engines.spark.deliver",
    "into_database": "thence.tables.engines.spark.into_database",
    "into_lakehouse": "thence.tables.engines.spark.into_lakehouse",
    "into_table": "thence.tables.engines.spark.into_table",
    "committed_tables": "thence.tables.engines.spark.into_lakehouse",
    "with_rosters": "thence.tables.engines.spark.deliver",
    "waiting": "thence.tables.engines.spark.waiting",
    "reshard": "thence.tables.engines.spark.reshard",
    "waiting_in_stream": "thence.tables.engines.spark.waiting",
    "give_up": "thence.tables.engines.spark.give_up",
    "stamp": "thence.tables.engines.spark.stamp",
    "sweep": "thence.lab.sweep.driver",
    "DeliveryListener": "thence.tables.engines.spark.metrics",
}


__all__ = list(_WHERE)


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})


def __getattr__(name: str) -> Any:
    """Load an operator on first use."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(_WHERE[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        lacking = f'thence.spark.{name} needs pyspark: pip install "thence[spark]"'
        raise ModuleNotFoundError(lacking, name="pyspark") from None
