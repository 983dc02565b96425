"""Serialized sends as KS98, section 7.1, words them; for tests and the explorer only."""

from __future__ import annotations

from thence.core.model.message import Copy
from thence.core.protocols.effects import Effect
from thence.core.protocols.receiver import Needs
from thence.core.protocols.serial_broadcast import MessageNumber, SerialBroadcast
from thence.core.protocols.serial_multicast import MulticastToken, SerialMulticast, after_sending
from thence.lab.explorer.setting import Variant


class OwnIsAwaited(SerialBroadcast):
    """The broadcast before, even if it is the receiver's own, which never comes."""

    name = "serial-broadcast-waits"
    code = 161

    def _previous(
        self, last: MessageNumber | None, other: MessageNumber | None, destination: int
    ) -> MessageNumber | None:
        return last


class OwnIsDelivered(OwnIsAwaited):
    """The broadcast before, even if it is the receiver's own, which counts as delivered."""

    name = "serial-broadcast-own"
    code = 160

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """Ask for the broadcast before unless it is one's own."""
        return () if copy.stamp is None or copy.stamp[0] == me else (copy.stamp,)


class LogAlone(SerialMulticast):
    """Sends are serialized, but the latest message to each process is learned from deliveries, not from the token."""

    name = "serial-multicast-log"
    code = 162

    def _taken(self, token: object) -> MulticastToken:
        return self.log

    def _delivered(self, copy: Copy) -> list[Effect]:
        number, latest = self.log
        heard = tuple(theirs or own for theirs, own in zip(copy.stamp[1], latest, strict=True))
        self.log = after_sending((number, heard), copy.destinations, (copy.sender, copy.count))
        return []


VARIANTS: tuple[Variant, ...] = (
    Variant(OwnIsDelivered, "serial-broadcast", 25, "unsafe",
        "7.1: one entry, the broadcast before; one's own counts as delivered", "a!1>bc b!1>ac a!2>bc b<a2"),
    Variant(OwnIsAwaited, "serial-broadcast", 25, "stuck",
        "7.1: one entry, the broadcast before; one's own is awaited", "a!1>b b<a1 b!1>a a<b1", processes=2),
    Variant(LogAlone, "serial-multicast", 26, "unsafe", "7.1: logs learn the n entries from deliveries",
        "a!1>c b!1>ac a<b1 a!2>c c<b1 c<a2"),
)  # fmt: skip
