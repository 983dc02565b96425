"""What is not proved is possible: gaps and rows set aside, whole and in chunks, against the definition."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from support.tables import as_found, by_definition, normal
from support.traces import Knobs, random_trace
from unit.judge.chunked import cuts_of, tables_in_chunks

from thence.core.model.events import Event, parse
from thence.core.model.order import RowPlace, judge
from thence.tables.judge.whole_run import judge_run as judge_arrays

LOST = "a!1>bc b?a1 b!1>c c?b1"


def damaged(events: list[Event], seed: int) -> tuple[pa.Table, list[Event], list[RowPlace]]:
    """Return a table with gaps and odd rows, the events that are left, and the places of the others."""
    r = Random(f"damaged {seed}")
    rows = normal(events).to_pylist()
    left: list[Event] = []
    refused: list[RowPlace] = []
    kept = []
    for row, event in zip(rows, events, strict=True):
        what = r.random()
        if what < 0.02:
            continue
        if what < 0.03:
            row["odd"] = "made up"
            row["process"] = r.choice([None, "", *[row["process"]] * 6])
            row["index"] = r.choice([None, 0, *[row["index"]] * 4])
            refused.append((row["process"], row["index"]))
        else:
            left.append(event)
        kept.append(row)
    return pa.Table.from_pylist(kept, schema=normal([]).schema), left, refused


def counted(found: dict[str, object]) -> dict[str, object]:
    """Leave out what says nothing of the rows that are not events."""
    return {name: value for name, value in found.items() if name not in ("events", "quarantine")}


@pytest.mark.parametrize("start", range(0, 300, 100))
def test_equal_to_the_definition(start: int) -> None:
    possible = violations = 0
    for seed in range(start, start + 100):
        events = random_trace(seed, Knobs(processes=5, steps=120, late=0.1, slow=0.3, lost=0.1))
        table, left, refused = damaged(events, seed)
        known = judge(left, refused=refused)
        possible, violations = possible + len(known.possible), violations + len(known.violations)
        whole = judge_arrays(events[0].run, table).to_pylist()
        assert counted(as_found(whole)) == counted(by_definition(known)), f"seed {seed}, whole"
        found = tables_in_chunks(table, events[0].run, cuts_of(len(table), seed))
        if not isinstance(found, str):
            assert counted(as_found(found)) == counted(by_definition(known)), f"seed {seed}, in chunks"
    assert min(possible, violations) > 100


@pytest.mark.parametrize(
    ("refused", "verdict"),
    [
        ((), "violated"),
        ([("c", 1)], "unknown"),
        ([("c", 2)], "violated"),
        ([("c", None)], "unknown"),
        ([(None, None)], "unknown"),
        ([("b", None)], "violated"),
    ],
)
def test_a_row_set_aside_may_hide_the_delivery(refused: list[RowPlace], verdict: str) -> None:
    judged = judge(parse(LOST), refused=refused)
    assert judged.verdict == verdict
    assert (len(judged.possible), len(judged.violations)) == ((1, 0) if verdict == "unknown" else (0, 1))


def test_a_gap_may_hide_the_delivery() -> None:
    events = parse("a!1>bc b?a1 b!1>c c. c?b1")
    assert judge(events).verdict == "violated"
    assert judge([event for event in events if event.kind != "internal"]).verdict == "unknown"


def test_a_message_that_came_later_is_proved_late() -> None:
    assert judge(parse("a!1>bc b?a1 b!1>c c?b1 c?a1"), refused=[("c", None)]).verdict == "violated"
