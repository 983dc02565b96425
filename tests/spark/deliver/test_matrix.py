"""The forty small tables on Spark, all as keys of one table: what a batch makes of them.

`tests/unit/api/test_matrix.py` holds the other inputs against the same answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from support.small_tables import NUMBERS, OTHER_TYPES, TEXTS, arrow, seen, wanted

from thence.errors import MisuseError
from thence.spark import deliver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASKED: dict[str, Any] = {"columns": {"message": "id", "depends_on": "causes"}, "key": ["run"]}


def test_a_batch(spark: SparkSession) -> None:
    frame = spark.createDataFrame(arrow(TEXTS))
    found = seen(deliver(frame, "depends_on", separator="|", **ASKED).toArrow().to_pylist())
    for name, rows in wanted(TEXTS).items():
        assert found[name] == rows, name


def test_numbers_in_a_batch(spark: SparkSession) -> None:
    frame = spark.createDataFrame(arrow(NUMBERS, pa.int64(), pa.int16()))
    found = seen(deliver(frame, "depends_on", **ASKED).toArrow().to_pylist())
    for name, rows in wanted(NUMBERS).items():
        assert found[name] == rows, name


@pytest.mark.parametrize("types", OTHER_TYPES)
def test_other_types_are_refused(spark: SparkSession, types: str) -> None:
    frame = spark.createDataFrame(arrow({"t": "1<2 2<1"}, *OTHER_TYPES[types]))
    with pytest.raises(MisuseError, match="is never equal to a"):
        deliver(frame, "depends_on", **ASKED)
