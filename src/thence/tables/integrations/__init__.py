"""Causal order inside frameworks for services, a module for each, which imports it; see docs/how-to/gate.md."""

from __future__ import annotations

from importlib.util import find_spec

from thence.errors import MisuseError


def need(package: str, extra: str) -> None:
    """Refuse to go on without a framework, and say how to install it."""
    if find_spec(package) is None:
        raise MisuseError(f"this needs the package {package}: pip install 'thence[{extra}]'")
