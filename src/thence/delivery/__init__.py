"""Causal delivery over arrivals, in plain Python: the engine that live consumers, Spark jobs and streams all run."""

from __future__ import annotations

from thence.delivery.columns import Columns
from thence.delivery.engine import Engine
from thence.delivery.orderer import Orderer
from thence.delivery.outcome import KINDS, OUTPUT_COLUMNS, PLACED, Outcome, Waiting
from thence.delivery.policy import Policy
from thence.delivery.reading import BYS, By, Reading

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
