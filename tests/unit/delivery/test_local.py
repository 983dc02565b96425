"""A table in this process: by arrays or row by row, as its size wants it, and what is said while loops are compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from thence.delivery import local
from thence.delivery.key_state import ARRAYS_FROM
from thence.delivery.local import deliver_table, setup_of, sized

SETUP = setup_of("depends_on", None, {}, None, {})


def table_of(rows: int) -> pa.Table:
    """Return a chain of causes, of which each pair is swapped."""
    places = [place ^ 1 for place in range(rows)]
    causes = [[f"m{place - 1}"] if place else [] for place in places]
    return pa.table(
        {"run": ["r"] * rows, "destination": ["d"] * rows, "message": [f"m{p}" for p in places], "depends_on": causes}
    )


def test_the_size_of_a_table_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(local.PLAIN_UP_TO, "depends_on", 400)
    assert sized(SETUP, table_of(400)).fast_from > 400
    assert sized(SETUP, table_of(401)).fast_from == ARRAYS_FROM


def test_both_ways_give_the_same_table() -> None:
    table = table_of(600)
    assert sized(SETUP, table) != SETUP
    assert deliver_table(table, sized(SETUP, table)).equals(deliver_table(table, SETUP))


def test_it_is_said_once_that_loops_are_compiled(tmp_path: Path) -> None:
    code = """
from test_local import SETUP, table_of
from thence.delivery.local import deliver_table
said = []
deliver_table(table_of(600), SETUP, said.append)
print(len(said), said[0], said[-1] or "and no more", sep="|") if said else print("nothing")
"""
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    env, run = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": path}, [sys.executable, "-c", code]
    said = [subprocess.run(run, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout.strip() for _ in "12"]
    count, first, last = said[0].split("|")
    assert int(count) > 3
    assert (first, last) == (": compiling loops, once on this machine (1)", "and no more")
    assert said[1] == "nothing"
