"""The exhaustive driver: every distinguishable execution of a small system, judged by definition."""
