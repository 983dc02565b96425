"""Causal order as state machines: one file per algorithm; no time, chance, I/O or logging."""

from thence.core.protocols.base import Member, Receiver
from thence.core.protocols.effects import (
    Deferred,
    Deliver,
    Duplicate,
    Effect,
    GoesWithout,
    Hold,
    Pending,
    Sent,
    Transmit,
)
from thence.core.protocols.registry import REGISTRY, ProtocolEntry, create, lookup, require

__all__ = [
    "REGISTRY",
    "Deferred",
    "Deliver",
    "Duplicate",
    "Effect",
    "GoesWithout",
    "Hold",
    "Member",
    "Pending",
    "ProtocolEntry",
    "Receiver",
    "Sent",
    "Transmit",
    "create",
    "lookup",
    "require",
]
