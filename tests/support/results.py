"""Results of audits as plain values, to be held against each other whoever judged."""

from __future__ import annotations

from itertools import pairwise

from thence.core.model.events import Event
from thence.core.model.order import usable
from thence.tables.explain.sentence import path as shortest
from thence.tables.judge.result import COLUMNS, AuditResult, violation_of

PLACED = ("file", "line")


def told(result: AuditResult, *, placed: bool = False) -> dict[str, object]:
    """Return all that a result says, lists in their order; where rows stood in files only if it is asked for."""
    lists = {
        name: [{c: v for c, v in row.items() if placed or c not in PLACED} for row in result.rows(name)]
        for name in COLUMNS
    }
    return {"verdict": result.verdict, "code": result.exit_code, "runs": result.run_rows, **lists}


def check_paths(result: AuditResult, runs: dict[str, list[Event]], limit: int | None = None) -> int:
    """Hold every path against breadth-first search over the usable rows of its run; return how many there were."""
    checked = 0
    good = {run: usable(events)[0] for run, events in runs.items()}
    for row, found in result.proved(limit):
        if limit is not None and checked == limit:
            break
        known = shortest(good[str(row["run"])], violation_of(row))
        assert found is not None, row
        assert known is not None
        assert len(found) == len(known), row
        assert (found[0].message, found[-1].message) == (row["missing"], row["early"]), row
        at = {(e.process, e.index): e for e in good[str(row["run"])]}
        for one, two in pairwise(found):
            assert {(one.process, one.index), (two.process, two.index)} <= at.keys(), row
            same = one.process == two.process and one.index < two.index
            carried = (one.kind, two.kind, one.message) == ("send", "deliver", two.message)
            assert same or carried, row
        checked += 1
    return checked
