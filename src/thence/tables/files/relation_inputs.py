"""Tables of libraries that wrap another one or run queries: DuckDB relations, Ibis tables, Narwhals frames.

*Invariant.* A query is run once, so that random values and rows without an order are read as one table. What comes out
belongs to the connection or backend that the input belongs to, with the types that the input has.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from thence.tables.files.inputs import ArrowTable, InputTable, input_refusal, input_table

if TYPE_CHECKING:
    import pyarrow as pa

_AS_TEXT = re.compile(r"\b(BIT|TIME WITH TIME ZONE|UHUGEINT|BIGNUM|VARINT|UNION|VARIANT)\b")
"""Types of DuckDB that Arrow has no type for; their texts can be cast back."""


class DuckTable(InputTable):
    """A DuckDB relation; what comes out is a relation of the same connection."""

    def __init__(self, relation: Any) -> None:
        self._relation = relation
        kinds = [(name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)]
        texts = any(_AS_TEXT.search(kind) for _, kind in kinds)
        read = [_cast(name, "VARCHAR") if _AS_TEXT.search(kind) else _quoted(name) for name, kind in kinds]
        self._rows = ArrowTable(relation.project(", ".join(read)) if texts else relation)
        self._kinds = kinds
        self.names = self._rows.names

    def arrow(self, names: Iterable[str], types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
        return self._rows.arrow(names, types)

    def taken(self, places: pa.Array, added: pa.Table) -> Any:
        own = [_cast(name, kind) for name, kind in self._kinds]
        rows = self.made(self._rows.taken(places, added))
        return rows.project(", ".join([*own, *map(_quoted, added.column_names)]))

    def made(self, table: pa.Table) -> Any:
        """Return a relation over an Arrow table, of the connection that the relation has."""
        _thence_arrow = table
        return self._relation.query("__thence_rows", "SELECT * FROM _thence_arrow")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _cast(name: str, kind: str) -> str:
    return f"CAST({_quoted(name)} AS {kind}) AS {_quoted(name)}"


class IbisTable(InputTable):
    """An Ibis table of any backend; what comes out is a memtable with the types of the table."""

    def __init__(self, table: Any) -> None:
        self._rows, self._kinds = ArrowTable(table), dict(table.schema().items())
        self.names = self._rows.names

    def arrow(self, names: Iterable[str], types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
        return self._rows.arrow(names, types)

    def taken(self, places: pa.Array, added: pa.Table) -> Any:
        made = self.made(self._rows.taken(places, added))
        found = made.schema()
        return made.cast({name: kind for name, kind in self._kinds.items() if found[name] != kind})

    def made(self, table: pa.Table) -> Any:
        return sys.modules["ibis"].memtable(table)  # loaded, since the caller has a table of it


class NarwhalsTable(InputTable):
    """A Narwhals frame: the frame inside it does the work, and what comes out is wrapped again."""

    def __init__(self, frame: Any) -> None:
        native = frame.to_native()
        inner = input_table(native)
        if inner is None:
            raise input_refusal(native)
        self._inner, self.names = inner, inner.names
        # narwhals.stable.v1 has frames of its own; the module of a frame's class, or one above it, wraps
        parts = type(frame).__module__.split(".")
        modules = [sys.modules[".".join(parts[:end])] for end in range(len(parts), 0, -1)]
        self._wrap = next(module.from_native for module in modules if hasattr(module, "from_native"))

    def arrow(self, names: Iterable[str], types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
        return self._inner.arrow(names, types)

    def taken(self, places: pa.Array, added: pa.Table) -> Any:
        return self._wrap(self._inner.taken(places, added), eager_only=True)

    def made(self, table: pa.Table) -> Any:
        return self._wrap(self._inner.made(table), eager_only=True)
