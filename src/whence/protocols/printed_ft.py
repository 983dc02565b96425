"""Printed forms of the fault-tolerant multicasts (placeholder while being written)."""
from whence.protocols.registry import Entry

VARIANTS: dict[str, Entry] = {}
