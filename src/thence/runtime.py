"""Live endpoints, as users import them; they live in `thence.live`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thence import live

if TYPE_CHECKING:
    from thence.live import Config as Config
    from thence.live import Endpoint as Endpoint
    from thence.live import JournalError as JournalError
    from thence.live import Message as Message
    from thence.live import RolledBackError as RolledBackError
    from thence.live import Transaction as Transaction
    from thence.live import load as load

__all__ = live.__all__


def __getattr__(name: str) -> Any:
    """Load a name on first use, so that the import alone does not load asyncio."""
    return getattr(live, name)
