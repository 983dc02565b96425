"""Causal order as state machines: one file per algorithm; no time, chance, I/O or logging."""

from whence.protocols.base import Member, Receiver
from whence.protocols.effects import Deferred, Deliver, Duplicate, Effect, Hold, Pending, Sent, Transmit
from whence.protocols.registry import REGISTRY, Entry, create, lookup, require

__all__ = [
    "REGISTRY",
    "Deferred",
    "Deliver",
    "Duplicate",
    "Effect",
    "Entry",
    "Hold",
    "Member",
    "Pending",
    "Receiver",
    "Sent",
    "Transmit",
    "create",
    "lookup",
    "require",
]
