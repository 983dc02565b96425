"""Whole transactions into a database, as users import it; it lives in `thence.tables.sinks`."""

from thence.tables.sinks import RowRefused, SqlSink, sql

__all__ = ["RowRefused", "SqlSink", "sql"]
