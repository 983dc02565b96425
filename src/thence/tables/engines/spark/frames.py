"""Whether what a caller hands to an operator is a DataFrame of Spark, and which function takes it if it is not."""

from __future__ import annotations

from pyspark.sql import DataFrame

from thence.errors import MisuseError
from thence.tables.files.inputs import input_table, is_path


def check_frame(data: object, function: str) -> None:
    """Refuse what is no DataFrame of Spark, naming what would take it; DataFrames of Spark Connect are accepted."""
    if isinstance(data, DataFrame):
        return
    found = f"{type(data).__module__.partition('.')[0]}.{type(data).__qualname__}".removeprefix("builtins.")
    known = is_path(data) or isinstance(data, list) or input_table(data) is not None
    hint = f"thence.{function} takes it, or " if known else ""
    raise MisuseError(
        f"found {found}; thence.spark.{function} takes a DataFrame of Spark: {hint}spark.createDataFrame makes one"
    )
