"""Live processes: members of a protocol, carried by a journal and by connections.

`core`, `link` and `process` do no I/O and know no clock and no task; `journal` writes; `tcp` and `memory` carry bytes;
`endpoint` is the thin driver on asyncio, and what an application uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import fcntl  # noqa: F401
except ModuleNotFoundError:
    raise ImportError(
        "thence.runtime needs a POSIX system, Linux or macOS say: it locks its journal through fcntl, which is missing",
        name=__name__,
    ) from None

if TYPE_CHECKING:
    from thence.live.config import Config, load
    from thence.live.database import JournalError
    from thence.live.endpoint import Endpoint
    from thence.live.message import DoneError, Message, RolledBackError, Transaction
    from thence.live.writer import FailedError

__all__ = [
    "Config",
    "DoneError",
    "Endpoint",
    "FailedError",
    "JournalError",
    "Message",
    "RolledBackError",
    "Transaction",
    "load",
]

_HOMES = {
    "Config": "config",
    "load": "config",
    "Endpoint": "endpoint",
    "DoneError": "message",
    "Message": "message",
    "Transaction": "message",
    "RolledBackError": "message",
    "JournalError": "database",
    "FailedError": "writer",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(f"thence.live.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'thence.runtime' has no attribute {name!r}")
