"""The papers' tables and figures, measured again: published value or statement beside ours, and a verdict per claim.

Each paper is a module with one `PAPER`: the simulations it needs (a grid), what else it measures, its claims, tables
and pictures. `run.py` puts them together. Nothing here starts Spark: whoever calls says how a grid is run.
"""
