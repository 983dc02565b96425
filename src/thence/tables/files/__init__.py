"""The record of a run: its table, readers and writers, clocks in logs, and explanations."""
