"""Specifications in TLA+ (`specs/`), TLC to check them, and recorded executions checked against them."""
