"""Rows of an outbox wait for the number before their own, unless that is proved lost."""

from __future__ import annotations

import pytest

from thence import Orderer
from thence.errors import MisuseError
from thence.sources import from_outbox


def rows(*numbers: int) -> list[dict[str, object]]:
    return [{"position": number, "xid": 7, "payload": f"p{number}"} for number in numbers]


def delivered(*numbers: int, **more: object) -> tuple[list[int], list[str]]:
    orderer = Orderer("depends_on", key=["destination"])
    out = [row["number"] for each in from_outbox(rows(*numbers), **more) for row in orderer.push(each)]  # type: ignore[arg-type]
    return out, [row["blocker"] for row in orderer.waiting()]


def test_a_hole_is_a_missing_cause_with_a_name() -> None:
    assert delivered(3, 1, 2) == ([1, 2, 3], [])
    assert delivered(1, 2, 4, 5) == ([1, 2], ["outbox/3", "outbox/3"])
    assert delivered(5, 6) == ([5, 6], [])
    assert delivered(5, 6, after=3) == ([], ["outbox/4", "outbox/4"])
    assert delivered() == ([], [])


def test_a_hole_up_to_the_horizon_is_lost() -> None:
    assert delivered(1, 4, 7, horizon=4) == ([1, 4], ["outbox/6"])
    assert delivered(1, 4, 7, horizon=6) == ([1, 4, 7], [])
    assert delivered(1, 4, 7, horizon=5) == ([1, 4], ["outbox/6"])
    assert delivered(1, 4, lost=[2, 3]) == ([1, 4], [])
    assert delivered(1, 4, lost=[2]) == ([1], ["outbox/3"])
    assert delivered(1, 4, lost=[3]) == ([1], ["outbox/2"])
    assert delivered(10**9, after=0, horizon=10**9) == ([10**9], [])


def test_a_step_and_the_columns_of_the_row() -> None:
    assert delivered(10, 30, step=10) == ([10], ["outbox/20"])
    (row,) = from_outbox(rows(1), transaction="xid", name="events")
    assert row["message"] == "events/1"
    assert (row["transaction"], row["payload"]) == ("7", "p1")  # type: ignore[typeddict-item]


def test_what_is_not_a_number_is_refused() -> None:
    with pytest.raises(MisuseError, match="column 'position' is 'x'"):
        from_outbox([{"position": "x"}])
    with pytest.raises(MisuseError, match="not 0 and a multiple of step=10"):
        from_outbox(rows(15), after=0, step=10)
    with pytest.raises(MisuseError, match="step is 0"):
        from_outbox(rows(15), step=0)


def test_rows_that_come_twice_and_a_long_outbox_read_backwards() -> None:
    for after in (None, 0, 1):
        orderer = Orderer("depends_on", key=["destination"])
        arrivals = from_outbox(rows(2, 2, 1, 1, 3, 2), after=after)
        out = [(row["number"], row["outcome"]) for each in arrivals for row in orderer.push(each)]
        assert out == [
            (1, "delivered"), (1, "duplicate"), (2, "delivered"), (2, "duplicate"), (2, "duplicate"), (3, "delivered"),
        ]  # fmt: skip
    length = 10_000
    out, waiting = delivered(*range(length, 0, -1), after=0)
    assert (out, waiting) == (list(range(1, length + 1)), [])
