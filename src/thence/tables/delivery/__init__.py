"""Causal delivery over arrivals: one rule, policies, and the Orderer."""

from __future__ import annotations

from thence.tables.delivery.columns import Columns
from thence.tables.delivery.delivery_rule_cy import Rule
from thence.tables.delivery.orderer import Orderer
from thence.tables.delivery.outcome import KINDS, OUTPUT_COLUMNS, PLACED, Waiting
from thence.tables.delivery.outcome_cy import Outcome
from thence.tables.delivery.policy import Policy
from thence.tables.delivery.reading import BYS, By, Reading

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
