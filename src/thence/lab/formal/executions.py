"""Executions saved by the explorer (`thence explore --save`) as rows of a trace."""

from __future__ import annotations

from pathlib import Path

from thence.core.model.events import Event
from thence.errors import TraceError
from thence.lab.explorer.witness import FORMAT, Impossible, loads
from thence.lab.papers.variants import VARIANTS

LOOKED_AT = 200
"""characters at the beginning of a file that say what it is"""


def is_execution(path: Path) -> bool:
    """Return whether a file is an execution that the explorer saved."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return f'"{FORMAT}"'.encode() in file.read(LOOKED_AT)


def replayed_events(path: Path) -> list[Event]:
    """Replay a saved execution and return its events, stamps in the clear, and those of its hops."""
    try:
        done = loads(path.read_text(encoding="utf-8"), VARIANTS).run()
        return [*done.events, *done.hops]
    except Impossible as error:
        raise TraceError(f"{path} is not an execution of its setting any more: {error}") from None
    except TraceError as error:
        raise TraceError(f"{path}: {error}; an execution written by --save is accepted") from None
