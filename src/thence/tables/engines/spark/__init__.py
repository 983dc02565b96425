"""Spark: partitions, functions over them, streams and their state. The only package that imports pyspark."""
