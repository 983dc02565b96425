"""The example of a declarative pipeline, run by Spark's own command: where a pipeline may ask for a schema."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "pipeline"
ROWS = [("a", "a2", "a1"), ("b", "b1", None), ("a", "a3", "a2"), ("a", "a1", None)]

if pyspark.__version__.startswith("4.2."):

    @pytest.mark.timeout(300)
    def test_a_streaming_table_around_deliver(tmp_path: Path) -> None:
        shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
        spec = tmp_path / "spark-pipeline.yml"
        spec.write_text(spec.read_text().replace("file:///tmp/thence-pipeline", (tmp_path / "storage").as_uri()))
        (tmp_path / "in").mkdir()
        lines = [json.dumps({"account": a, "message": m, "depends_on": d}) for a, m, d in ROWS]
        (tmp_path / "in" / "1.json").write_text("\n".join(lines))
        variables = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "src")}
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"), "run", "--spec", str(spec)]
        done = subprocess.run(
            [*command, "--master", "local[2]", "--conf", f"spark.thence.arrivals={tmp_path / 'in'}"],
            cwd=tmp_path, env=os.environ | variables, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-3000:]
        rows = pq.read_table(tmp_path / "spark-warehouse" / "ordered").to_pylist()
        found = sorted((row["account"], row["position"], row["message"]) for row in rows)
        assert found == [("a", 1, "a1"), ("a", 2, "a2"), ("a", 3, "a3"), ("b", 1, "b1")]
