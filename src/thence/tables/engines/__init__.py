"""Who runs a table operation: this process or Spark."""
