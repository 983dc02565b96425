"""Names of messages and hops in traces, diagrams and errors.

The simulator, the explorer and live endpoints name messages by one rule, from what every process that handles a copy
knows: sender, count and label. `a7` is the 7th message of a, `a7/red` its 7th under the label red. Relayed messages and
protocol messages are *hops*: rows of the run `<run>/hops`, sent and received and never delivered. There `a7/b` is the
7th of a on the link to b; a link that carries messages too counts them.

*Invariant.* No two messages of a run, and no two hops, have one name. A colon stands between a count and a name that
ends in a digit, `:` or `#` (`node1:7`), and before a slash that follows a digit within a name (`rack1/x` becomes
`rack1:/x`). So the first slash that follows a digit ends the count, and without one the name ends with the count.
"""

from __future__ import annotations

import re

SEPARATED = frozenset("0123456789:#")
"""Ends of process names after which a colon separates the count."""
SLASH = re.compile(r"([0-9]:*)/")
"""A slash within a process name that could be taken for the one before a label."""
HOPS = "/hops"
"""How the run of hops is called, after the run itself."""


def prefix_of(sender: str) -> str:
    """Return the prefix before the count in the names of a process's messages."""
    if "/" in sender:
        sender = SLASH.sub(r"\1:/", sender)
    return f"{sender}:" if sender[-1:] in SEPARATED else sender


def suffix_of(label: str | None) -> str:
    """Return the suffix after the count in the names of messages under a label, and of hops to a destination."""
    return "" if label is None else f"/{label}"


def name_of(sender: str, count: int, label: str | None = None) -> str:
    """Return the name of the count-th message of a process under a label: a7, a7/red, or node1:7."""
    return f"{prefix_of(sender)}{count}{suffix_of(label)}"


def hop_name(source: str, number: int, destination: str) -> str:
    """Return the name of a hop: a7/b is the 7th of a on the link to b."""
    return name_of(source, number, destination)
