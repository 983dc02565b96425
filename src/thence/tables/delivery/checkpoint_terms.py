"""What a checkpoint was made with: columns may be added later, and nothing else may change."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from thence.core.model.plain import Row
from thence.errors import MisuseError
from thence.tables.delivery.setup import Setup


def made_with(setup: Setup, schema: pa.Schema) -> Row:
    """Say what a checkpoint is made with."""
    names = setup.columns
    columns = [names.run, names.destination, names.message, names.sender, names.time, names.cause]
    return {
        "by": setup.by,
        "columns": columns,
        "key": list(names.key),
        "schema": {field.name: str(field.type) for field in schema},
    }


def same_terms(before: Row, now: Row) -> None:
    """Refuse to go on with what differs from what a checkpoint was made with."""
    if before == now:
        return
    for name in ("by", "columns", "key"):
        if before[name] != now[name]:
            raise MisuseError(
                f"this checkpoint was made with {name} {_said(before[name])}, and now it is {_said(now[name])}: go on "
                "as before, or begin with a new checkpoint"
            )
    for name, kind in before["schema"].items():
        found = now["schema"].get(name)
        if found != kind:
            what = "is gone" if found is None else f"is {found}"
            raise MisuseError(
                f"this checkpoint was made with column {name} {kind}, which {what} now: columns may be added, none "
                "may go or change its type; or begin with a new checkpoint"
            )


def _said(value: str | Iterable[str]) -> str:
    return value if isinstance(value, str) else ", ".join(value)
