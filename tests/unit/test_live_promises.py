"""docs/reference/live.md names a test beside each promise, and the tests exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference/live.md"
NAMED = re.compile(r"`(test_\w+)`")


def _tests() -> set[str]:
    found: set[str] = set()
    for folder in ("live", "nats", "soak"):
        for file in (ROOT / "tests" / folder).glob("*.py"):
            found |= set(re.findall(r"^def (test_\w+)\(", file.read_text(encoding="utf-8"), re.MULTILINE))
    return found


def test_the_tests_that_the_page_names_exist() -> None:
    named = set(NAMED.findall(PAGE.read_text(encoding="utf-8")))
    assert len(named) > 30
    assert sorted(named - _tests()) == []


def test_every_promise_names_its_test() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text.split("## What is promised, under which faults")[1].split("Not promised:")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    assert [row for row in rows if not NAMED.search(row)] == []
