"""docs/laboratory/topology.md says what the code does: its examples are run."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import thence.lab.topology

PAGE = (Path(__file__).parents[3] / "docs" / "laboratory/topology.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_examples_run_and_print_what_they_say() -> None:
    first, said, second = BLOCKS
    for kind, code in (first, second):
        assert kind == "python"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/laboratory/topology.md", "exec"), {})
        if code == first[1]:
            assert printed.getvalue() == said[1]
        assert printed.getvalue()


def test_the_calls_in_the_table_are_there() -> None:
    table = PAGE[PAGE.index("| call | gives |") : PAGE.index("`balance` is")]
    called = set(re.findall(r"`(\w+)\(", table))
    assert len(called) == 12
    assert called <= set(thence.lab.topology.__all__)
