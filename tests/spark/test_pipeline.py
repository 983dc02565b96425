"""The pipeline of examples/pipeline, run by `spark-pipelines`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pyspark

ROOT = Path(__file__).parents[2]


def run(folder: Path) -> list[tuple[str, int, str]]:
    """Run the pipeline, and return what it has ordered."""
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT / "src"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        ["spark-pipelines", "run"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-6000:]
    rows = pq.read_table(folder / "spark-warehouse" / "ordered").to_pylist()
    return sorted((row["account"], row["position"], row["what"]) for row in rows)


def test_a_table_of_a_pipeline_is_in_causal_order(tmp_path: Path) -> None:
    folder = tmp_path / "pipeline"
    shutil.copytree(ROOT / "examples" / "pipeline", folder)
    specification = folder / "spark-pipeline.yml"
    text = specification.read_text()
    assert "file:///tmp/thence-pipeline" in text
    specification.write_text(text.replace("file:///tmp/thence-pipeline", (tmp_path / "storage").as_uri()))
    # Shipped on Tuesday, bob's third event waits for a second one that is not there.
    assert run(folder) == [("ada", 1, "ordered"), ("ada", 2, "paid"), ("ada", 3, "shipped"), ("bob", 1, "ordered")]
    assert pq.read_table(folder / "spark-warehouse" / "payments").to_pylist() == [
        {"account": "ada", "event_id": "2", "position": 2}
    ]
