"""Simulations over a grid, resumable, spread over the tasks of an engine."""
