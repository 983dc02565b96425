"""The documented calls in a session that nobody has set up, in zones that are not UTC: one program tries them all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from spark.deliver import plain_session

from thence.tables.engines.spark.java import find_java

pytestmark = pytest.mark.timeout(1800)  # of the program that tries them all
ZONES = ["America/New_York", "Etc/UTC", "Asia/Kolkata"]
HOUR = 3_600_000_000
MICROS = 1_711_845_000_000_000


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("plain")
    variables = {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, plain_session.__file__, str(folder), *ZONES]
    ran = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[ran.stderr.rfind("\nTraceback") :][:6000]
    told: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return told


def test_moments_are_the_same_in_every_zone(found: dict[str, Any]) -> None:
    first = "waits for q; q has not arrived"
    rows: list[list[Any]] = [
        ["d", "a", "delivered", 1, None, [], MICROS, MICROS, "2024-03-31 01:30:00"],
        ["d", "b", "delivered", 2, None, [], MICROS + HOUR, MICROS + HOUR, "2024-03-31 02:30:00"],
        ["d", "y", "blocked", None, first, ["q"], None, None, None],
        ["d", "z", "delivered", 3, None, ["b"], None, None, None],
        [None, "n", "quarantined", None, "no destination", [], None, None, None],
    ]
    out = [row for row in rows if row[2] != "blocked"]
    for zone in ZONES:
        assert found[f"{zone} batch"] == sorted(rows, key=str)
        assert found[zone] == sorted(out, key=str)
    assert [row[:3] for row in found["no arrival"]] == [row[:3] for row in sorted(out, key=str)]
    null_inside = [*out[:-1], [None, "n", "delivered"]]  # a struct is a key of its own, whatever is in it
    assert [row[:3] for row in found["struct key"]] == [row[:3] for row in sorted(null_inside, key=str)]


def test_what_waits_is_shown_under_the_callers_names(found: dict[str, Any]) -> None:
    assert found["split"] == [3, 2]
    assert found["waits"] == found["waits, told"] == [["d", "y", ["q"], "q", 0, None, "waits for q; q has not arrived"]]
    assert found["waits of a stream"] == [["d", "y", ["q"], "q", None, "waits for q; q has not arrived"]]
    refused = found["waits in a folder with a space"]
    assert refused.startswith("Spark's reader of states finds none in '")
    assert "/no arrival/checkpoint', which has ' ' in it: only checkpoint folders of letters, digits and " in refused


BY_ROWS, BY_TIME = "after 2 later rows", "after 4 s of event time"
QUARANTINED = ["quarantined", [], None, "on a cycle of causes: a, b, c"]
LABELS: dict[str, dict[str, list[Any]]] = {
    "given up": {
        "g 0 b": ["released", ["a"], None, f"released without a, {BY_ROWS}"],
        "g 3 c": ["released", ["a"], None, "released without a"],
        "g 4 q": ["delivered", [], None, None],
    },
    "given up, clocks": {
        "g 0 b": ["released", ["a#1"], None, f"released without a#1, {BY_ROWS}"],
        "g 3 c": ["released", ["a#1"], None, "released without a#1"],
    },
    "times": {
        "none 0 b": ["released", ["a"], 5.0, f"released without a, {BY_TIME}"],
        "none 1 c": ["released", ["z"], 5.0, f"released without z, {BY_TIME}"],
        "far 2 f": ["delivered", [], 0.0, "its time is 1e+09 s ahead of the key's, more than 60: not counted"],
        "far 3 c": ["released", ["z"], 6.0, f"released without z, {BY_TIME}"],
    },
    "held": {
        "forgotten 3 z": ["delivered", [], None, None],
        "forgotten 5 e": ["delivered", [], None, None],
        "cycles 0 a": QUARANTINED,
        "cycles 1 b": QUARANTINED,
        "cycles 2 c": QUARANTINED,
        "cycles 3 a": ["duplicate", [], None, "it was quarantined before"],
        "cycles 5 u": ["delivered", [], None, None],
    },
}
"""Labels that were once untrue: outcome, what is missing, how long it was held, and the sentence"""


@pytest.mark.parametrize("name", list(LABELS))
def test_what_is_said_is_true_under_the_callers_names(found: dict[str, Any], name: str) -> None:
    told = found["truths"][name]
    for of in ("batch", "stream"):
        assert {row: told[of][row] for row in LABELS[name]} == LABELS[name], of
    blocked = {row: said for row, said in told["batch"].items() if said[0] == "blocked"}
    assert told["stream"] == {row: said for row, said in told["batch"].items() if row not in blocked}
    if name == "held":
        assert blocked["cycles 4 w"][3] == "waits for a; a was quarantined"
        assert blocked["order 0 k"][1] == ["z9", "y8", "x7"]
    if name == "given up, clocks":
        assert blocked["m 0 s"][3].startswith("waits for a#1, a#2, a#3, a#4, a#5, a#6, a#7, a#8 and 999992 more; ")


def test_a_restart_with_other_columns(found: dict[str, Any]) -> None:
    told = found["other columns"]
    assert told["rows"] == [["a", 2, "new", 1], ["b", 1, None, 2]]
    other_type, other_name = told["errors"]
    assert "this checkpoint was made with column n int32, which is string now: columns may be added" in other_type
    assert "this checkpoint was made with columns run, destination, message" in other_name


def test_the_recipe_for_a_table_once(found: dict[str, Any]) -> None:
    once = found["once"]
    assert once["first"] == once["replayed"]
    assert [row[1:3] for row in once["first"]] == [[1, "a"], [2, "b"], [3, "z"]]


def test_what_is_refused(found: dict[str, Any]) -> None:
    assert found["no provider"].startswith("a stream needs the RocksDB state store: spark.conf.set(")
    assert found["alike"] == (
        "columns 'message' and 'Message' differ in case only, which are one to Spark: rename one, or set "
        "spark.sql.caseSensitive to true"
    )
