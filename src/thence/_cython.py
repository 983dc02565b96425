"""Stand-ins for the parts of `cython` that compiled modules use, for plain Python without Cython.

Modules whose names end in `_cy` are written in Cython's pure Python mode. Their annotations are never evaluated
(`from __future__ import annotations`), so only decorators and the few functions below are called at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

compiled = False


def _same(thing: T) -> T:
    return thing


cclass = ccall = cfunc = final = inline = no_gc = _same


def _directive(_value: object) -> Callable[[T], T]:
    return _same


boundscheck = wraparound = initializedcheck = cdivision = nonecheck = auto_pickle = _directive


def exceptval(*_value: object, check: bool = True) -> Callable[[T], T]:
    """Declare how a C function reports an exception; means nothing in plain Python."""
    return _same


class _Nogil:
    """Serves as the decorator `@cython.nogil` and as the block `with cython.nogil:`."""

    def __call__(self, function: T) -> T:
        return function

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> None:
        pass


nogil = _Nogil()


def fused_type(*_types: object) -> object:
    """Stand for one of several C types."""
    return object


def cast(_type: object, value: T, **_options: object) -> T:
    """Return the value; compiled code reads it as the C type."""
    return value


def declare(_type: object = None, value: Any = None, **_options: object) -> Any:
    """Return the initial value; compiled code declares a C variable."""
    return value


def __getattr__(name: str) -> object:
    """Stand for any C type that is named outside an annotation."""
    if name.startswith("__"):
        raise AttributeError(name)
    return object
