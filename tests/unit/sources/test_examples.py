"""The examples run from a fresh clone with one command each, on the data they ship; the notebook tells its story."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from random import Random

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[3] / "examples" / "sources"


@pytest.mark.parametrize("name", ["agents", "causation", "otel"])
def test_an_example_runs_with_one_command(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "delivered" in done.stdout


def test_the_example_of_kafka_says_where_there_is_a_broker(tmp_path: Path) -> None:
    alone = tmp_path / "kafka.py"
    alone.write_text((EXAMPLES / "kafka.py").read_text())
    done = subprocess.run([sys.executable, str(alone)], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "kafka.py: only a clone brings a broker; name one of yours, as in: python kafka.py localhost:9092\n"
    )


@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs_and_shows_pictures() -> None:
    book = nbformat.read(EXAMPLES / "payments_before_orders.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(book)
    stored = [out for cell in book.cells for out in cell.get("outputs", ()) if out.output_type == "stream"]
    manager = KernelManager(kernel_name="python3", transport="ipc")  # no ports, which others may take meanwhile
    NotebookClient(book, km=manager, timeout=600, startup_timeout=600, iopub_timeout=600).execute()
    outputs = [out for cell in book.cells for out in cell.get("outputs", ())]
    assert sum("image/png" in out.get("data", {}) for out in outputs) == 2
    told = [out.text for out in outputs if out.output_type == "stream" and out.name == "stdout"]
    assert told == [out.text for out in stored]
    assert any("by cause        0 of 24 are early" in text for text in told)


def test_the_changes_that_are_shipped_come_whole_and_in_order() -> None:
    from thence import Orderer
    from thence.sources import Record, from_changes

    lines = [json.loads(line) for line in (EXAMPLES / "data" / "changes.jsonl").read_text().splitlines()]
    records = [Record(json.dumps(line["value"]), line["key"], line["topic"]) for line in lines]
    for seed in range(5):
        arrivals = from_changes(records)
        Random(seed).shuffle(arrivals)
        out = list(Orderer("depends_on", key=["destination"]).deliver(arrivals))
        aside = [row for row in out if row["outcome"] != "delivered"]
        assert {(row["kind"], row["outcome"]) for row in aside} == {("schema change", "quarantined")}
        assert len(out) == len(lines)
        whole = [row["transaction"] for row in out if row["kind"] in ("create", "update")]
        assert len([1 for one, two in pairwise([None, *whole]) if one != two]) == len(set(whole))
