"""Rows that are unusable by themselves, with the reason that every format and engine gives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from thence.tables.contract.spark_to_arrow_types import arrow_schema

GOOD: dict[str, object] = {
    "run": "r", "process": "a", "index": 1, "kind": "internal", "message": None, "destinations": None, "label": None,
    "order": 1,
}  # fmt: skip
SEND = {"kind": "send", "message": "m"}
_KINDS = "crash, deliver, internal, receive, send"
ODD_ROWS: dict[str, tuple[Mapping[str, object], str]] = {
    "no run": ({"run": None}, "run is missing"),
    "no process": ({"process": None}, "process is missing"),
    "an empty process": ({"process": ""}, "process is empty; a name is accepted"),
    "no index": ({"index": None}, "index is missing"),
    "an index of 0": ({"index": 0}, "index is 0; indexes count from 1"),
    "an index below 0": ({"index": -(2**63)}, f"index is {-(2**63)}; indexes count from 1"),
    "no kind": ({"kind": None}, "kind is missing"),
    "an empty kind": ({"kind": ""}, f"kind is ''; one of {_KINDS} is accepted"),
    "an unknown kind": ({"kind": "é" * 99}, f"kind is '{'é' * 60}'; one of {_KINDS} is accepted"),
    "a kind with quotes": ({"kind": "it's"}, f"kind is 'it's'; one of {_KINDS} is accepted"),
    "a name twice": ({**SEND, "destinations": ["b", "c", "b"]}, "destinations holds 'b' twice"),
    "a name missing": ({**SEND, "destinations": ["b", None]}, "an entry of destinations is missing"),
    "an empty name": ({**SEND, "destinations": [""]}, "an entry of destinations is empty; a name is accepted"),
    "destinations of no send": ({"destinations": ["b", "b"]}, "destinations holds 'b' twice"),
    "no message": ({"kind": "send", "destinations": ["b"]}, "a send row needs a message"),
    "an empty message": ({"kind": "deliver", "message": ""}, "a deliver row needs a message"),
    "no destinations": (SEND, "a send row needs destinations"),
    "kind before run": ({"run": None, "kind": "x"}, f"kind is 'x'; one of {_KINDS} is accepted"),
    "destinations before process": (
        {**SEND, "destinations": [None], "process": ""}, "an entry of destinations is missing",
    ),
    "run before process": ({"run": None, "process": None, "index": 0}, "run is missing"),
    "a place that stands twice": ({"index": 7}, "index 7 of process a stands twice"),
    "a message in a place that stands twice": ({"kind": "send", "index": 7}, "index 7 of process a stands twice"),
}  # fmt: skip
TYPES: dict[str, tuple[str, object, str]] = {
    "text for a number": ("index", "x", "index is 'x'; a whole number is accepted"),
    "a fraction": ("index", 1.5, "index is 1.5; a whole number is accepted"),
    "a flag": ("order", True, "order is True; a whole number is accepted"),
    "a number for text": ("process", 12, "process is 12; a string is accepted"),
    "a list for text": ("message", ["m"], "message is list; a string is accepted"),
    "a number for a kind": ("kind", 3, "kind is 3; a string is accepted"),
    "text for a list": ("destinations", "b", "destinations is 'b'; a list of process names is accepted"),
    "numbers in a list": ("destinations", [4], "an entry of destinations is 4; a string is accepted"),
}
"""A column, a value of another type, and the reason; Parquet and Arrow tables have one type for all rows."""
SCHEMA = pa.schema(list(arrow_schema(nullable=True))[:8])
"""the columns of the trace table up to `order`"""


def rows_with(odd: Mapping[str, object]) -> list[dict[str, object]]:
    """Return good rows with an odd one among them."""
    places = (7, 8, 9)
    first, *rest = [GOOD | {"index": place, "order": place} for place in places]
    return [first, GOOD | {"index": 6, "order": 10} | odd, *rest]


def write(rows: list[dict[str, object]], path: Path) -> Path:
    """Write rows in the format that the name says."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
