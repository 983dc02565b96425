"""Plain data, named once: what tables, JSON and options are made of where no narrower type can be said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]
"""A row of a table or a JSON object: values by the names of their columns."""
Fields: TypeAlias = Mapping[str, Any]
"""The same, or the options of a protocol by name, for whoever only reads."""
