"""Keep Arrow from importing pandas just to detect pandas objects, which takes longer than a small audit.

*Invariant.* Code that needs pandas still gets it: Arrow imports it when asked to convert to or from it. Only that it
recognises objects of pandas by itself, in a process that has not imported pandas, is given up; so this is for commands
that work on files, not for the library.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Absent:
    """A finder that refuses pandas. It has no base class: importing `importlib.abc` takes 4 ms."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise ImportError for pandas; leave all other modules to the next finder."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not loaded here", name=fullname)
        return None


def without_pandas() -> None:
    """Make Arrow look for pandas now and not find it, unless it is loaded."""
    import pyarrow as pa

    if "pandas" in sys.modules:
        return
    absent = _Absent()
    sys.meta_path.insert(0, absent)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(absent)
