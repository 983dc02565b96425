"""The judge of the soak on Kafka sees what it is there to see."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[3] / "benchmarks" / "kafka"


def judge_module() -> Any:
    spec = importlib.util.spec_from_file_location("soak_judge", BENCHMARKS / "soak_judge.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def told(order: list[int], events: int, duplicates: int = 0) -> dict[str, int]:
    judge = judge_module().Judge(1)
    for number in order:
        judge.see(f"e{number}", "delivered")
    for number in range(duplicates):
        judge.see(f"e{number}", "duplicate")
    counts: dict[str, int] = judge.told(events)
    return counts


def test_the_order_of_the_numbers_is_causal_and_others_are_not() -> None:
    right = told(list(range(200)), 200, duplicates=3)
    assert right == {"rows": 203, "delivered": 200, "known duplicates": 3, "other": 0, "twice": 0,
                     "before a cause": 0, "lost": 0}  # fmt: skip
    causes = judge_module().causes_of
    child = next(number for number in range(100, 200) if causes(1, number))
    early = [child, *(number for number in range(200) if number != child)]
    assert told(early, 200)["before a cause"] == 1
    lost = [number for number in range(200) if number != causes(1, child)[0]]
    assert told(lost, 200)["lost"] == 1
    assert told(lost, 200)["before a cause"] >= 1
    assert told([*range(200), 7], 200)["twice"] == 1


def test_what_spark_has_not_committed_is_not_counted(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    module = judge_module()
    rows = {"message": ["e0", "e1"], "outcome": ["delivered"] * 2, "position": [1, 2]}
    for name in ("kept", "lost"):
        pq.write_table(pa.table(rows), tmp_path / f"{name}.parquet")
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    entry = f'v1\n{{"path": "file://{tmp_path}/kept.parquet"}}'
    (log / "0").write_text(entry)
    (log / "1.compact").write_text(entry)
    assert module.rows_in(tmp_path) == 2
    assert module.judge_parquet(tmp_path, 1, 2)["lost"] == 0
