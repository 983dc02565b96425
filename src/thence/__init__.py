"""thence keeps effects behind their causes: causal order for messages, streams and recorded executions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from thence.delivery import Orderer

__all__ = ["Orderer", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Orderer":
        from thence.delivery import Orderer

        return Orderer
    raise AttributeError(f"module 'thence' has no attribute {name!r}")
