"""The pages on live endpoints name a test beside each promise, and the tests exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PROMISES = (DOCS / "reference/live.md").read_text(encoding="utf-8")
CONFIGURATION = (DOCS / "reference/live-configuration.md").read_text(encoding="utf-8")
OPERATION = (DOCS / "how-to/live-endpoints.md").read_text(encoding="utf-8")
OTHERS = "".join((DOCS / f"how-to/{name}.md").read_text(encoding="utf-8") for name in ("nats", "membership"))
NAMED = re.compile(r"`(test_\w+)`")


def _tests() -> set[str]:
    found: set[str] = set()
    for folder in ("live", "nats", "soak"):
        for file in (ROOT / "tests" / folder).glob("*.py"):
            found |= set(re.findall(r"^def (test_\w+)\(", file.read_text(encoding="utf-8"), re.MULTILINE))
    return found


def test_the_tests_that_the_pages_name_exist() -> None:
    named = set(NAMED.findall(PROMISES + CONFIGURATION + OPERATION + OTHERS))
    assert len(named) > 30
    assert sorted(named - _tests()) == []


def test_every_limit_and_every_sentence_on_operating_names_its_test() -> None:
    limits = [
        line
        for line in CONFIGURATION.split("| limit | default |")[1].split("Held messages")[0].splitlines()[2:]
        if line
    ]
    stops = [row for row in limits if not NAMED.search(row)]
    assert stops == [row for row in limits if row.startswith("| `stop_seconds`")]  # a clean stop is timed by every test
    points = OPERATION.split("## Operate")[1].split("\n- ")[1:]
    assert len(limits) > 12
    assert len(points) > 8
    assert [point for point in points if not NAMED.search(point)] == []


def test_every_promise_names_its_test() -> None:
    table = PROMISES.split("## What is promised, under which faults")[1].split("Not promised:")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    assert [row for row in rows if not NAMED.search(row)] == []
