"""Causal delivery over arrivals, in plain Python: the engine that live consumers, Spark jobs and streams all run."""

from __future__ import annotations

from whence.delivery.columns import Columns
from whence.delivery.engine import Engine
from whence.delivery.orderer import Orderer
from whence.delivery.outcome import KINDS, OUTPUT_COLUMNS, PLACED, Outcome, Waiting
from whence.delivery.policy import Policy
from whence.delivery.reading import BYS, By, Reading

__all__ = [
    "BYS",
    "KINDS",
    "OUTPUT_COLUMNS",
    "PLACED",
    "By",
    "Columns",
    "Engine",
    "Orderer",
    "Outcome",
    "Policy",
    "Reading",
    "Waiting",
]
