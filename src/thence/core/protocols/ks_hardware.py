"""KS98 with hardware multicast (section 4.5, first note): one stamp for all destinations.

Invariant: the sender puts its log on the message as it is; each destination d applies SND(2) for itself at the start of
RCV(3). Logs stay minimal; copies carry about twice the necessary facts (errata 6), since facts about every addressee
travel to all of them, but the network sends one packet.

Departures: as `ks`.
"""

from __future__ import annotations

from dataclasses import replace

from thence.core.model.message import Copy
from thence.core.protocols.effects import Effect, Sent
from thence.core.protocols.ks import KS
from thence.core.wire.dependency_log_cy import Log


class KSHardware(KS):
    """Least information in logs, one stamp for all destinations on the wire."""

    name = "ks-hardware"
    code = 2

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        stamp = self._causes(context)
        self.count += 1  # SND(1)
        sent = self._sent(destinations, lambda d: stamp)
        after = stamp.without(destinations)  # SND(3), SND(5)
        self.log = after.appended(self.me, self.count, destinations)  # SND(4)
        return replace(sent, context=self.log) if self.explicit else sent

    def _delivered(self, copy: Copy) -> list[Effect]:
        if not self.explicit:
            self.log = self.log.merged(self._learned(copy))  # RCV(4), RCV(5)
        return []

    def _learned(self, copy: Copy) -> Log:
        stamp: Log = copy.stamp.without(copy.destinations | self.gone)  # SND(2) done here, which includes RCV(3)
        return stamp.appended(copy.sender, copy.count, copy.destinations & ~(self.bit | self.gone))
