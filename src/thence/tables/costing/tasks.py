"""The tasks of a cost replay: Arrow in, Arrow out; the logic is in `thence.tables.costing`.

Invariant: Preparing a run and label gives its profile and its usable rows, causes first, cut to the sample, as one
payload; a replay gives one row of totals. A protocol that fails is a row with its error. Both depend on their rows
alone.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import fields

import pyarrow as pa

from thence.core.model.plain import Row
from thence.core.model.roster import Roster
from thence.tables.contract.row_validity import event_of
from thence.tables.contract.spark_to_arrow_types import ddl_of_types, schema_of_types
from thence.tables.costing.prepare import head_of, prepare, replayed
from thence.tables.costing.replay import Cost
from thence.tables.costing.traffic import Profile

HEAD = "head"
"""kind of the row that carries, as JSON in `message`, what only the whole run can tell: see `preparing.Head`"""

_TYPES = {"int": "bigint", "int | None": "bigint", "float | None": "double", "bool": "boolean"}


def _columns(of: type[Profile | Cost], *, without: str) -> dict[str, str]:
    """Return all fields of a dataclass of totals but one as columns; neither numbers nor flags: texts."""
    return {each.name: _TYPES.get(str(each.type), "string") for each in fields(of) if each.name != without}


_PROFILE = _columns(Profile, without="findings") | {"processes": "int"}
_COST = _columns(Cost, without="protocol")


_PREPARED = {
    "run": "string", "label": "string", **_PROFILE, "recorded": "bigint",
    "findings": "map<string,struct<met:boolean,why:string>>", "payload": "binary",
}  # fmt: skip
_COSTS = {"run": "string", "label": "string", "verdict": "string", "protocol": "string"} | _COST
PREPARED, COSTS = ddl_of_types(_PREPARED), ddl_of_types(_COSTS)
_PREPARED_ARROW = schema_of_types(_PREPARED)
_COSTS_ARROW = schema_of_types(_COSTS)


def prepare_task(sample: int) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Prepare one run and label."""

    def work(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        run, label = key[0].as_py(), key[1].as_py()
        rows = table.to_pylist()
        head = next((row for row in rows if row["kind"] == HEAD), None)
        if head is None:  # rows without run, or crashes alone
            return _PREPARED_ARROW.empty_table()
        heading = head_of(json.loads(head["message"]), label)
        found, kept = prepare((event_of(row) for row in rows if row["kind"] != HEAD), heading, sample)
        payload = pickle.dumps((heading.roster.names, kept))
        prepared = found.row() | {"run": run, "label": label, "recorded": heading.deliveries, "payload": payload}
        prepared["findings"] = list(prepared["findings"].items())
        return pa.Table.from_pylist([prepared], schema=_PREPARED_ARROW)

    return work


def replay_task(options: dict[str, Row]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Replay each payload through its protocol."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [batch.column(name) for name in ("run", "label", "verdict", "protocol", "payload")]
            for run, label, verdict, protocol, payload in zip(*columns, strict=True):
                names, rows = pickle.loads(payload.as_buffer())
                name = protocol.as_py()
                found = replayed(rows, name, Roster(names), options.get(name, {})).row()
                found |= {"run": run.as_py(), "label": label.as_py(), "verdict": verdict.as_py()}
                yield pa.RecordBatch.from_pylist([found], schema=_COSTS_ARROW)

    return work
