"""One tree of errors. The class says whose fault it is; the text says what was found and what would be accepted.

- `MisuseError`: the caller asked for something that cannot be done.
- `PeerError`: something that arrived from another process cannot be used.
- `TraceError`: recorded data cannot be used.
"""

from __future__ import annotations


class ThenceError(Exception):
    """Base of every error that thence raises on purpose."""


class MisuseError(ThenceError):
    """The caller's request cannot be met: a wrong argument, or a protocol whose needs are not given."""


class PeerError(ThenceError):
    """What arrived from a peer is malformed, unknown or out of limits."""


class TraceError(ThenceError):
    """Recorded data is malformed; the text names file, line, row or process."""
