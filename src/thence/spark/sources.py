"""Foreign records as DataFrames of arrivals; they live in `thence.tables.engines.spark.sources`."""

from thence.tables.engines.spark.sources import *  # noqa: F403
from thence.tables.engines.spark.sources import __all__ as __all__
