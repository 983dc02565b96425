"""A delivering stream in a process of its own, so that a test can kill it.

python stream_job.py FOLDER      files in FOLDER/in, checkpoint and sink beside them
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def stream(folder: Path, roster: list[str]) -> None:
    from support.deliveries import run_stream
    from support.tables_of_arrivals import SCHEMA
    from thence.spark import deliver
    from thence.spark.session import local_session

    spark = local_session(quick=True)
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    run_stream(deliver(source, "stamp", roster=roster, fast_from=1 << 30), folder)
    spark.stop()


if __name__ == "__main__":
    here = Path(sys.argv[1])
    stream(here, json.loads((here / "roster.json").read_text()))
