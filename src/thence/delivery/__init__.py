"""Causal delivery over arrivals: one state, two steppers (plain Python, arrays), policies, and the Orderer."""

from __future__ import annotations

from thence.delivery.columns import Columns
from thence.delivery.orderer import Orderer
from thence.delivery.outcome import KINDS, OUTPUT_COLUMNS, PLACED, Outcome, Waiting
from thence.delivery.plain import Delivery
from thence.delivery.policy import Policy
from thence.delivery.reading import BYS, By, Reading

__all__ = [
    "BYS",
    "KINDS",
    "OUTPUT_COLUMNS",
    "PLACED",
    "By",
    "Columns",
    "Delivery",
    "Orderer",
    "Outcome",
    "Policy",
    "Reading",
    "Waiting",
]
