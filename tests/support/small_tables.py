"""Forty small tables of arrivals, and what delivery makes of each, for every kind of input.

A table is written as its rows: `c<a|b@7` is the row of id `c` with the causes `a` and `b` that arrived as number 7.
Without a number a row arrives where it stands; `-` is not an id, `c<` an empty text of causes and `c` a null.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pyarrow as pa

from thence import Orderer

TEXTS = {
    "one row": "a",
    "a cause and its effect": "a b<a",
    "an effect first": "b<a a",
    "a chain": "a b<a c<b",
    "a chain backwards": "d<c c<b b<a a",
    "a fork": "a b<a c<a",
    "a fork backwards": "c<a b<a a",
    "two causes": "a b c<a|b",
    "two causes that come later": "c<a|b b a",
    "a diamond": "d<b|c b<a c<a a",
    "a cause named twice": "b<a|a a",
    "two chains": "b<a y<x x a",
    "no causes at all": "c b a",
    "empty texts are no causes": "b< a<",
    "nulls and empty texts": "c<b b< a",
    "a row twice": "a a b<a",
    "an effect twice": "b<a a b<a",
    "a duplicate while the first waits": "b<a b<a a",
    "three of one": "a a a",
    "a lost cause": "b<lost a",
    "behind a lost cause": "c<b b<lost a",
    "one cause of two is lost": "c<a|lost a",
    "two lost causes": "a<lost b<gone c<lost|gone",
    "a cycle of two": "a<b b<a",
    "a cycle of three": "a<c b<a c<b",
    "behind a cycle": "c<b a<b b<a",
    "its own cause": "a<a b",
    "its own cause among others": "b<a|b a",
    "no id": "- a",
    "no id but a cause": "-<a a",
    "no id among others": "b<a - a -",
    "rows out of order": "b<a@1 a@2 c<b@0",
    "rows backwards": "c<b@3 b<a@2 a@1",
    "arrivals with gaps": "b<a@10 a@700 c<a@-5",
    "many of one cause": "f<a e<a d<a c<a b<a a",
    "long ids, signs and spaces": "id:7/x<é%20 é%20",
}
"""Tables whose ids are texts."""
NUMBERS = {
    "numbers": "1 2<1 3<2",
    "numbers backwards": "300<20 20<1 1",
    "numbers, one lost": "7<8 9",
}
"""Tables whose ids are whole numbers, the causes of another type."""
NUMBER_TYPES = {"another width": pa.int16(), "floats": pa.float64()}
"""Types of causes beside whole numbers; pandas has floats where a value of a column is missing."""
OTHER_TYPES: dict[str, tuple[pa.DataType, pa.DataType]] = {
    "texts and numbers": (pa.string(), pa.int64()),
    "numbers and texts": (pa.int64(), pa.string()),
}
"""Types of ids and causes that are never equal: the table is refused. The rows are `1` and `2<1`."""
AT = dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.timezone(dt.timedelta(hours=-3)))
ZONE = "America/Sao_Paulo"
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:")
SEEN = ("id", "outcome", "position", "waited_for", "held_for", "reason", "missing", "blocker", "at", "n")
"""What is compared."""


def rows_of(name: str, text: str) -> list[dict[str, Any]]:
    """Return the rows of a table: its name is the run, which is the key."""
    found = []
    for place, row in enumerate(text.split(" ")):
        row, _, arrival = row.partition("@")
        own, sign, causes = row.partition("<")
        found.append(
            {"run": name, "arrival": int(arrival or place), "id": None if own == "-" else own.replace("%20", " "),
             "causes": causes.replace("%20", " ") if sign else None, "at": AT + dt.timedelta(hours=place), "n": place}
        )  # fmt: skip
    return found


def arrow(tables: dict[str, str], ids: pa.DataType = pa.string(), causes: pa.DataType = pa.string()) -> pa.Table:  # noqa: B008
    """Return tables as one, each a key of it."""
    rows = [row for name, text in tables.items() for row in rows_of(name, text)]
    texts = [row["causes"] for row in rows]
    texts = texts if pa.types.is_string(causes) else [text or None for text in texts]
    columns = {
        "run": pa.array([row["run"] for row in rows]),
        "arrival": pa.array([row["arrival"] for row in rows], pa.int64()),
        "id": pa.array([row["id"] for row in rows]).cast(ids),
        "causes": pa.array(texts, pa.string()).cast(causes),
        "at": pa.array([row["at"] for row in rows], pa.timestamp("us", ZONE)),
        "n": pa.array([row["n"] for row in rows], pa.int64()),
    }
    return pa.table(columns)


def wanted(tables: dict[str, str]) -> dict[str, list[tuple[Any, ...]]]:
    """Return what the orderer makes of each table, row by row."""
    found = {}
    for name, text in tables.items():
        rows = sorted(rows_of(name, text), key=lambda row: (row["arrival"], row["id"] or ""))
        columns = {"message": "id", "depends_on": "causes"}
        orderer = Orderer("depends_on", columns=columns, key=["run"], separator="|")
        found[name] = seen(list(orderer.deliver(rows)))[name]
    return found


def seen(rows: list[dict[str, Any]]) -> dict[str, list[tuple[Any, ...]]]:
    """Return what is compared of delivered rows, table by table."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(row["run"], []).append(tuple(_plain(row[name]) for name in SEEN))
    return found


def _plain(value: Any) -> Any:
    """Return a value in one form: every id is a text, every moment in UTC."""
    if isinstance(value, str) and _MOMENT.match(value):
        value = dt.datetime.fromisoformat(value)
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat()
    if value is None or value != value:
        return None
    return tuple(map(str, value)) if isinstance(value, list | tuple) else str(value)
