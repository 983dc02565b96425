"""A program: cost and sweep in another kind of session, held against the plain replay and the plain loop.

python tests/spark/experiments_elsewhere.py connect
python tests/spark/experiments_elsewhere.py local-cluster[2,1,1024]
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

GRID = "[grid]\nprotocol = ['ks', 'rst']\nprocesses = [3, 5]\nmessages = 40\nseed = 1\n"


def main(kind: str) -> None:
    """Run both and compare."""
    import pyarrow as pa
    from elsewhere import session

    from whence.cost import replay
    from whence.cost.replay import Cost
    from whence.sim import Scenario, simulate
    from whence.sim.grid import parse_grid
    from whence.spark.cost import cost
    from whence.spark.sweep import sweep
    from whence.spark.sweep_task import Store, run_one
    from whence.trace.schema import arrow_schema, row_of

    spark = session(kind, None)
    run = simulate(Scenario(processes=4, messages=60), trace=True, measure=False)
    table = pa.Table.from_pylist([row_of(event) for event in run.events], schema=arrow_schema())
    with cost(spark.createDataFrame(table), ["ks", "bss"]) as result:
        found = {row["protocol"]: row.asDict() for row in result.costs.collect()}
        assert result.recommendation().protocol == "ks"
    for name, row in found.items():
        assert replay(run.events, name, run.scenario.roster) == Cost(**{key: row[key] for key in Cost.__slots__}), name
    grid = parse_grid(GRID)
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
        assert sweep(spark, grid, there, traces=True).results.count() == 4
        for each in grid.scenarios:
            spec = json.dumps(each.scenario.row())
            run_one(Store(here), each.id, spec, traces=True, warmup=grid.warmup, batches=grid.batches)
        one, two = (
            {
                str(p.relative_to(f)): p.read_bytes()
                for w in ("results", "traces")
                for p in Path(f, w).rglob("*.parquet")
            }
            for f in (here, there)
        )
        assert one == two
        assert len(one) == 8
    spark.stop()
    print("equal")


if __name__ == "__main__":
    main(*sys.argv[1:])
