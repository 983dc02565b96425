"""One tree of errors. The class says whose fault it is; the text says what was found and what would be accepted.

- `MisuseError`: the caller asked for something that cannot be done.
- `PeerError`: something that arrived from another process cannot be used.
- `TraceError`: recorded data cannot be used.
"""

from __future__ import annotations


class WhenceError(Exception):
    """Base of every error that whence raises on purpose."""


class MisuseError(WhenceError):
    """The caller's request cannot be met: a wrong argument, or a protocol whose needs are not given."""


class PeerError(WhenceError):
    """What arrived from a peer is malformed, unknown or out of limits."""


class TraceError(WhenceError):
    """Recorded data is malformed; the text names file, line, row or process."""
