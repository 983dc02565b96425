"""Causal delivery over arrivals: one rule, policies, and the Orderer."""

from __future__ import annotations

from thence.delivery.columns import Columns
from thence.delivery.orderer import Orderer
from thence.delivery.outcome import KINDS, OUTPUT_COLUMNS, PLACED, Waiting
from thence.delivery.outcome_cy import Outcome
from thence.delivery.policy import Policy
from thence.delivery.reading import BYS, By, Reading
from thence.delivery.rule_cy import Rule

__all__ = [
    "BYS",
    "KINDS",
    "OUTPUT_COLUMNS",
    "PLACED",
    "By",
    "Columns",
    "Orderer",
    "Outcome",
    "Policy",
    "Reading",
    "Rule",
    "Waiting",
]
