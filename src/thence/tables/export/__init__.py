"""Traces in the formats of other viewers: ShiViz and Perfetto."""
