"""Causal delivery over arrivals: one rule, policies, the Orderer and the Gate."""

from __future__ import annotations

from thence.tables.contract.columns import By
from thence.tables.delivery.columns import Columns
from thence.tables.delivery.delivery_rule_cy import Rule
from thence.tables.delivery.gate import Gate
from thence.tables.delivery.gate_entry import TurnRefused
from thence.tables.delivery.orderer import Orderer
from thence.tables.delivery.outcome import KINDS, OUTPUT_COLUMNS, PLACED, Waiting
from thence.tables.delivery.outcome_cy import Outcome
from thence.tables.delivery.policy import Policy
from thence.tables.delivery.reading import BYS, Reading

__all__ = [
    "BYS",
    "KINDS",
    "OUTPUT_COLUMNS",
    "PLACED",
    "By",
    "Columns",
    "Gate",
    "Orderer",
    "Outcome",
    "Policy",
    "Reading",
    "Rule",
    "TurnRefused",
    "Waiting",
]
