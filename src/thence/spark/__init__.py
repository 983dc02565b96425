"""The data pipeline: causal order on Spark. The only part of thence that imports pyspark.

`thence.spark.session.local_session` starts an embedded session; the operators take any session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thence.sim.sweep import sweep as sweep
    from thence.spark.auditing import audit as audit
    from thence.spark.costs import CostResult as CostResult
    from thence.spark.costs import cost as cost
    from thence.spark.delivering import deliver as deliver
    from thence.spark.delivering import split as split
    from thence.spark.delivering import with_rosters as with_rosters
    from thence.spark.files import audit_files as audit_files
    from thence.spark.metrics import DeliveryListener as DeliveryListener
    from thence.spark.results import AuditResult as AuditResult
    from thence.spark.stamping import stamp as stamp
    from thence.spark.waits import waiting as waiting

_WHERE = {
    "audit": "thence.spark.auditing",
    "AuditResult": "thence.spark.results",
    "audit_files": "thence.spark.files",
    "cost": "thence.spark.costs",
    "CostResult": "thence.spark.costs",
    "deliver": "thence.spark.delivering",
    "split": "thence.spark.delivering",
    "with_rosters": "thence.spark.delivering",
    "waiting": "thence.spark.waits",
    "stamp": "thence.spark.stamping",
    "sweep": "thence.sim.sweep",
    "DeliveryListener": "thence.spark.metrics",
}


def __getattr__(name: str) -> Any:
    """Load an operator when it is asked for."""
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
