"""Pages, diagrams and plots of results; called as a function, `thence.show(data, out=...)` writes the page of a trace.

All modules except `page` are pure: they read no file, start no run and use no terminal.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Show(ModuleType):
    """The type of this package, which makes it callable."""

    # An ordinary function cannot stand here: the first `import thence.show.plots` binds the name `show` in `thence` to
    # this package, whatever it was before. So the package itself answers the call, before and after such an import.

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Write a page; see `thence.show.page.show`."""
        from thence.show.page import show

        return show(*given, **named)


sys.modules[__name__].__class__ = _Show
