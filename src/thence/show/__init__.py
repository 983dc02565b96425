"""Pages, diagrams and plots of results; called as a function, `thence.show(data, out=...)` writes the page of a trace.

Everything but `page` is pure: it reads no file, starts no run and knows no terminal.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Show(ModuleType):
    """This package: importing one of its modules makes it `thence.show`, which is a function for users as well."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Write a page; see `thence.show.page.show`."""
        from thence.show.page import show

        return show(*given, **named)


sys.modules[__name__].__class__ = _Show
