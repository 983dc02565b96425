"""The recipe of docs/how-to/stream-output.md for a table that sees each row once, with repeated micro-batches."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from thence import Orderer

PAGE = Path(__file__).parents[3] / "docs" / "how-to/stream-output.md"
Row = dict[str, Any]


class Batch:
    """What the recipe asks of a DataFrame."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def select(self, *names: str) -> Batch:
        return Batch([{name: row[name] for name in names} for row in self.rows])

    def where(self, condition: str) -> Batch:
        assert condition == "position is not null"
        return Batch([row for row in self.rows if row["position"] is not None])

    def toLocalIterator(self) -> Iterator[tuple[Any, ...]]:
        return (tuple(row.values()) for row in self.rows)


def recipe() -> str:
    """Return the function of the recipe, without the query that calls it."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = (block for block in blocks if "on conflict" in block)
    return str(found[found.index("import sqlite3") : found.index("ordered = deliver(")]).replace(
        "from thence.spark import deliver\n", ""
    )


def test_a_micro_batch_that_comes_again_changes_nothing(tmp_path: Path) -> None:
    names: dict[str, Any] = {"target": str(tmp_path / "target.db")}
    exec(recipe(), names)
    with sqlite3.connect(names["target"]) as database:
        database.execute("create table ordered(account, position, event_id, outcome, primary key (account, position))")
    names_here = {"message": "event_id", "depends_on": "parent_id"}
    orderer = Orderer("depends_on", key=["account"], columns=names_here, policy="release", after_rows=2)
    told = [[("b", ["a"]), ("a", [])], [("c", ["q"]), ("d", []), ("a", [])], [("e", []), ("q", []), ("e", [])]]
    wanted: list[tuple[Any, ...]] = []
    for number, rows in enumerate(told):
        made = [{"account": "d", "event_id": name, "parent_id": causes} for name, causes in rows]
        left = [out for row in made for out in orderer.push(row)]
        for _ in range(1 + number % 2):  # every second micro-batch comes again
            names["upsert"](Batch(left), number)
        wanted += [("d", row["position"], row["event_id"], row["outcome"]) for row in left if row["position"]]
    with sqlite3.connect(names["target"]) as database:
        assert database.execute("select * from ordered order by position").fetchall() == wanted
    assert [row[2:] for row in wanted][-3:] == [("c", "released"), ("e", "delivered"), ("q", "late")]
