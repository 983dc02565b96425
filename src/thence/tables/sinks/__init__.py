"""Whole transactions into a database whose foreign keys stay switched on; see docs/how-to/foreign-keys.md."""

from __future__ import annotations

from thence.tables.sinks.sql_sink import RowRefused, SqlSink, sql

__all__ = ["RowRefused", "SqlSink", "sql"]
