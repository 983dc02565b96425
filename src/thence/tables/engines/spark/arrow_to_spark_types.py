"""Types of columns as Spark has them, made from the one map of types (`tables.contract.spark_to_arrow_types`)."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType

from thence.tables.contract.spark_to_arrow_types import arrow_type


def spark_type(kind: str) -> DataType:
    """Return the type that Spark SQL writes so."""
    return from_arrow_type(arrow_type(kind))
