"""The options and columns a checkpoint was made with: columns may be added later, nothing else may change."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from thence.core.model.plain import Row
from thence.errors import MisuseError
from thence.tables.delivery.delivery_terms import DeliveryTerms

HEAD = "head"
"""The state variable that a stream of this release keeps for each shard."""
OF_AN_EARLIER_RELEASE = (
    "this checkpoint keeps its state by key, as thence 0.1.0 wrote it, and this release keeps it by shard: let 0.1.0 "
    "finish what it holds (`thence waiting` and `thence give-up` of that release), then begin with a new checkpoint "
    "and with the sources at the offsets that the old one reached"
)


def refuse_earlier(checkpoint: str | os.PathLike[str]) -> None:
    """Refuse a checkpoint whose state is not kept by shard, as far as this machine sees its folder.

    Spark notes the names of a query's state variables beside them.
    """
    notes = Path(os.fspath(checkpoint).removeprefix("file://")) / "state" / "0" / "_metadata"
    for note in notes.rglob("*"):
        if note.name.isdigit() and note.is_file():
            text = note.read_text(errors="replace").replace("\\", "")
            if '"stateName":' in text and f'"stateName":"{HEAD}"' not in text:
                raise MisuseError(f"{os.fspath(checkpoint)}: {OF_AN_EARLIER_RELEASE}")


def made_with(terms: DeliveryTerms, schema: pa.Schema) -> Row:
    """Describe what a checkpoint is made with."""
    names = terms.columns
    columns = [names.run, names.destination, names.message, names.sender, names.time, names.cause]
    return {
        "by": terms.by,
        "columns": columns,
        "key": list(names.key),
        "schema": {field.name: str(field.type) for field in schema},
    }


def same_terms(before: Row, now: Row) -> None:
    """Reject options or columns that contradict those a checkpoint was made with."""
    if before == now:
        return
    for name in ("by", "columns", "key"):
        if before[name] != now[name]:
            raise MisuseError(
                f"this checkpoint was made with {name} {_said(before[name])}, and now it is {_said(now[name])}: "
                "start the stream as before, or begin with a new checkpoint"
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
