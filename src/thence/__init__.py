"""thence keeps effects behind their causes: causal order for messages, streams and recorded executions.

    import thence
    thence.deliver(table, id="event_id", causes="parent_id")    # rows in causal order; pandas in, pandas out
    thence.audit(events).verdict                                # causal, violated or unknown
    thence.cost(events).recommendation                          # which protocol such traffic needs
    thence.show(events, out="run.html")                         # the run as a page

Tables are pandas, Polars or pyarrow tables, anything with Arrow's capsule interface, lists of dicts, or paths. The same
functions for Spark's DataFrames are in `thence.spark`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from thence.show.page import show as show
    from thence.tables.delivery import Gate as Gate
    from thence.tables.delivery import Orderer as Orderer
    from thence.tables.delivery import Policy as Policy
    from thence.tables.engines.local.audit import audit as audit
    from thence.tables.engines.local.cost import cost as cost
    from thence.tables.engines.local.deliver_input import deliver as deliver
    from thence.tables.engines.local.stamp import stamp as stamp

__all__ = ["Gate", "Orderer", "Policy", "__version__", "audit", "cost", "deliver", "show", "stamp"]


def _refuse_stale_modules() -> None:
    """Raise ImportError in a clone whose compiled modules are older than their sources.

    Python would import the old code without a warning. An installed package has no setup.py beside it and is not
    checked.
    """
    import os

    package = os.path.dirname(__file__)
    clone = os.path.dirname(os.path.dirname(package))
    if not os.path.exists(os.path.join(clone, "setup.py")):
        return
    for folder, _, files in os.walk(package):
        for file in files:
            if file.endswith(".so") and "_cy." in file:
                compiled, name = os.path.join(folder, file), file.split(".", 1)[0]
                sources = [os.path.join(folder, each) for each in files if each in (f"{name}.py", f"{name}.pxd")]
                if not sources or max(map(os.path.getmtime, sources)) > os.path.getmtime(compiled):
                    raise ImportError(f"{compiled} is older than its source; run: make install")


_WHERE = {
    "Gate": "thence.tables.delivery",
    "Orderer": "thence.tables.delivery",
    "Policy": "thence.tables.delivery",
    "audit": "thence.tables.engines.local.audit",
    "cost": "thence.tables.engines.local.cost",
    "deliver": "thence.tables.engines.local.deliver_input",
    "stamp": "thence.tables.engines.local.stamp",
}
"""where the public names live; each is loaded when it is asked for"""


_refuse_stale_modules()


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("runtime", "show"):  # packages; `show` is callable
        return import_module(f"thence.{name}")
    if name not in _WHERE:
        raise AttributeError(f"module 'thence' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
