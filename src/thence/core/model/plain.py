"""Type aliases for plain data in tables, JSON and options, where no narrower type fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]
"""A row of a table or a JSON object: values by the names of their columns."""
Fields: TypeAlias = Mapping[str, Any]
"""The same, or the options of a protocol by name, for readers only."""
Json: TypeAlias = Any
"""The result of `json.loads` or `tomllib.loads`; its reader checks it."""
Field: TypeAlias = Any
"""One unchecked value of a row; its reader checks it."""
Option: TypeAlias = Any
"""A value given by name: an option of a protocol or a field of a scenario. Who states the name checks the value."""
