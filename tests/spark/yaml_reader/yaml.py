"""Reads the specification of a pipeline where PyYAML, which `spark-pipelines` imports, is not installed."""

from __future__ import annotations

from typing import Any, TextIO

import strictyaml


def safe_load(stream: TextIO) -> Any:
    """Return what a file says; all of its values are texts."""
    return strictyaml.load(stream.read()).data
