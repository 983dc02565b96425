"""The papers: printed variants, rejected designs, networks, claims, and `reproduce`.

Each paper is a module with one `PAPER`: the simulations it needs (a grid), what else it measures, its claims, tables
and pictures, the published value or statement beside ours, and a verdict per claim. `run.py` puts them together.
`variants/` are printed forms that fail, `chapter7/` the networks and experiments of the separators' chapter 7. Nothing
here starts Spark: the caller says how a grid is run.
"""
