"""The embedded Spark session; it lives in `thence.tables.engines.spark.session`."""

from thence.tables.engines.spark.session import local_session

__all__ = ["local_session"]
