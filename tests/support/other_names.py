"""Traces of somebody who calls the columns otherwise, and has columns of ours' names that mean something else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from support.frames import SCHEMA
from thence.core.model.events import Event

CALLED = {"process": "pid", "index": "seq", "kind": "type", "destinations": "to whom"}
_OWN = {"process": "a program", "index": "an index of words", "line": 7, "Pid": "no pid"}


def other_table(events: Sequence[Event], called: Mapping[str, str] = CALLED) -> pa.Table:
    """Return events as a table in other names, or in ours if none are said."""
    columns = {
        called.get(name, name): pa.array([getattr(e, name) for e in events], SCHEMA.field(name).type)
        for name in SCHEMA.names
    }
    own = {name: pa.array([value] * len(events)) for name, value in _OWN.items()} if called else {}
    return pa.table(columns | own)


def write_other(events: Sequence[Event], path: Path, called: Mapping[str, str] = CALLED) -> None:
    """Write events in other names, in the format that the name of the file says."""
    table = other_table(events, called)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=max(1, len(table) // 3))
        return
    rows = ({name: value for name, value in row.items() if value is not None} for row in table.to_pylist())
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
