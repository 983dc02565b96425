"""One send to very many destinations: memory does not grow with the square of the number of processes."""

from __future__ import annotations

import pytest
from unit.judge.wide_run import measured


@pytest.mark.parametrize("answers", [False, True])
def test_a_wide_send_in_chunks(answers: bool) -> None:
    found = measured(60_000, 6_000, 15_000, answers=answers)
    assert found["verdict"] == "causal"
    assert found["events"] >= 60_000
    assert found["peak"] < 1100, found


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("answers", [False, True])
def test_a_million_rows_and_a_send_to_20000(answers: bool) -> None:
    found = measured(1_100_000, 20_000, 1_000_000, answers=answers)
    print(found)
    assert found["verdict"] == "causal"
    assert found["peak"] < 4000, found
