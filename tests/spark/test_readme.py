"""The README's stream, and commands one after the other in an empty folder that end with the demo."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
ALL = """
import json, sys
from thence import cli
for command in json.loads(sys.argv[1]):
    code = cli.main(command)
    if code:
        sys.exit(f"{command}: exit code {code}")
"""


COMMANDS = """
thence simulate --protocol ks --processes 8 --messages 500 --trace run.jsonl --arrivals arrivals.jsonl
thence audit run.jsonl
thence deliver arrivals.jsonl --by stamp --out ordered
thence cost run.jsonl --protocols ks,rst,ci-dc
thence explore --protocol ks --processes 3 --messages 3
thence reproduce ks98 --quick
thence protocols
thence simulate --protocol unordered --processes 5 --messages 60 --seed 3 --trace late.jsonl
thence show late.jsonl
thence demo --out demo --orders 400 --json demo.json
"""


def test_the_stream_of_the_readme(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "incoming").mkdir()
    rows = [("paid", "ordered"), ("ordered", None), ("shipped", "packed")]
    lines = [json.dumps({"event_id": name, "parent_id": cause, "account": 7}) for name, cause in rows]
    (tmp_path / "incoming" / "0.json").write_text("\n".join(lines))
    (block,) = re.findall(r"^```py\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    for folder in ("incoming", "checkpoint", "ordered"):  # Spark's JVM keeps the folder in which it was started
        block = block.replace(f'"{folder}"', f'"{tmp_path}/{folder}"')
    names: dict[str, Any] = {"spark": spark, "schema": "event_id string, parent_id string, account long"}
    exec(compile(block, "README.md", "exec"), names)
    query = names["query"]
    query.processAllAvailable()
    query.stop()
    found = spark.read.parquet(str(tmp_path / "ordered")).orderBy("position").select("event_id", "position", "outcome")
    assert list(map(tuple, found.collect())) == [("ordered", 1, "delivered"), ("paid", 2, "delivered")]


@pytest.mark.timeout(1800)
def test_commands_and_the_demo(tmp_path: Path) -> None:
    """In one process, so that all of them share one Spark; `test_java` starts that one."""
    commands = [shlex.split(line)[1:] for line in COMMANDS.strip().splitlines()]
    ran = subprocess.run(
        [sys.executable, "-c", ALL, json.dumps(commands)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert "<- too early" in ran.stdout
    made = json.loads((tmp_path / "demo.json").read_text())
    assert made["failures"] == []
    assert made["audit"]["violations"] > 40
    assert (made["deliver"]["verdict"], made["deliver"]["blocked"]) == ("causal", 2)
    assert sum(made["deliver"]["held_seconds"].values()) == made["deliver"]["held"] > 40
    assert made["stream"] == {"rows": 1199, "waited_for": "order-200", "held": 2, "released": 1}
    assert (made["live"]["verdict"], made["live"]["lost"]) == ("causal", 0)
    pages = [(tmp_path / "demo" / name).read_text() for name in ("index.html", "violation.html")]
    assert pages[0].count("data:image/svg+xml") == 2
    assert "payment-" in pages[1]
