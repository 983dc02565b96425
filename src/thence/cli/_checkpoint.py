"""Checks shared by the commands for streams: one process at a time may use a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from thence.errors import MisuseError


@contextmanager
def sole_stream(checkpoint: Path | None) -> Iterator[None]:
    """Reject a checkpoint that this release cannot continue, and a second stream on a checkpoint in use.

    Spark would end one of the two in the middle of its work.
    """
    if checkpoint is None:
        yield
        return
    import fcntl

    from thence.tables.delivery.checkpoint_terms import refuse_earlier

    refuse_earlier(checkpoint)
    checkpoint.mkdir(parents=True, exist_ok=True)
    with (checkpoint / ".thence-lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MisuseError(f"another stream runs on checkpoint {checkpoint}; stop it first") from None
        yield
