"""thence keeps effects behind their causes: causal order for messages, streams and recorded executions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from thence.auditing.local import audit
    from thence.costing.local import cost
    from thence.delivery import Orderer

__all__ = ["Orderer", "__version__", "audit", "cost"]

_WHERE = {"Orderer": "thence.delivery", "audit": "thence.auditing.local", "cost": "thence.costing.local"}
"""where the public names live; each is loaded when it is asked for"""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "runtime":
        return import_module("thence.runtime")
    if name not in _WHERE:
        raise AttributeError(f"module 'thence' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
