"""Errors of ours that were raised in a Python worker, made errors of ours again.

Invariant: Spark passes on what a worker raised as text alone, a line of a traceback with the name of its class. That
text is read here and nowhere else; whatever is not of ours goes on as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from thence.errors import MisuseError, PeerError, ThenceError, TraceError

_CLASSES = {f"{cls.__module__}.{cls.__qualname__}": cls for cls in (MisuseError, PeerError, TraceError)}
_LINE = re.compile(rf"({'|'.join(map(re.escape, _CLASSES))}): (.*)")


def error_of_ours(text: str) -> ThenceError | None:
    """Return the error of ours that a text of Spark's tells of, or None."""
    found = _LINE.search(text)
    return None if found is None else _CLASSES[found[1]](found[2])


@contextmanager
def errors_of_workers() -> Iterator[None]:
    """Raise errors of ours as such, if what is done inside fails in a worker because of one."""
    try:
        yield
    except Exception as error:
        ours = error_of_ours(str(error))
        if ours is None:
            raise
        raise ours from error
