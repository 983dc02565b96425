"""Types of columns as Spark has them, made from the one map of types (`tables.contract.spark_to_arrow_types`)."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StructField, StructType

from thence.tables.contract.spark_to_arrow_types import arrow_type


def spark_type(kind: str) -> DataType:
    """Return the type that Spark SQL writes so."""
    return from_arrow_type(arrow_type(kind))


def struct_of(types: Mapping[str, str]) -> StructType:
    """Return columns by their names and their types as Spark SQL writes them."""
    return StructType([StructField(name, spark_type(kind)) for name, kind in types.items()])
