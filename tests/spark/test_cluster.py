"""A standalone cluster of processes, to which thence is shipped as the page says, and of which one worker is killed."""

from __future__ import annotations

from pathlib import Path

from support.cluster import Walk


def test_the_pure_wheel_gives_the_answers_of_this_process_though_a_worker_is_killed(tmp_path: Path) -> None:
    found = Walk(tmp_path, 100_000, compiled=False).follow("The pure wheel")
    print(found)
    assert found["said"].count(".zip/thence/__init__.py") == 2  # of the driver, and of a worker
    assert found["said"].count("delivery_rule_cy.py") == 2
    assert sum(found["rows"].values()) == 99_999
