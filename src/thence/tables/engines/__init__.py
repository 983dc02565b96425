"""Engines of table operations: this process or Spark."""
