"""Sends that are tried on a copy of the member, before any of them counts.

Invariant: a send that a trial has taken is taken by the core as well, as long as nothing else reaches the core between.
"""

from __future__ import annotations

from thence.live.core import Core
from thence.live.inputs import Send


class Trial:
    """A row of sends that will be applied together."""

    def __init__(self, core: Core) -> None:
        """Copy the member."""
        self._core, self._member, self._labels = core, core.member.fork(), set(core.labels)

    def send(self, given: Send) -> None:
        """Raise what the core would raise for this send after those before it."""
        self._core.check_send(given, self._labels)
        self._member.send(given.destinations, label=given.label)
        if given.label is not None:
            self._labels.add(given.label)
