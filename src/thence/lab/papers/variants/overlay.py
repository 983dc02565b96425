"""PC-broadcast without one part of what makes a new link safe; for tests and the explorer only.

None of these is in the paper. Each shows what the part is for: `pc-broadcast-eager` uses a link at once, as its
authors show it must not; `pc-broadcast-direct` sends the ping over the new link itself, where it overtakes what it
should follow; `pc-broadcast-no-buffer` keeps nothing while it waits for the pong; `pc-broadcast-late-buffer` uses the
link and sends the buffer after the next message.
"""

from __future__ import annotations

from thence.core.model.message import Copy
from thence.core.protocols.effects import Effect, Transmit
from thence.core.protocols.pc_broadcast import PING, MessageNumber, PCBroadcast
from thence.lab.explorer.setting import Variant


class _Unchecked(PCBroadcast):
    """Delivers what it receives, whichever message of its sender came before."""

    def _check_turn(self, copy: Copy) -> None:
        pass


class Eager(_Unchecked):
    """A new link is used at once."""

    name = "pc-broadcast-eager"
    code = 170

    def _connect(self, target: int) -> list[Effect]:
        self.links |= 1 << target
        return []


class DirectPing(_Unchecked):
    """The ping goes over the new link."""

    name = "pc-broadcast-direct"
    code = 171

    def _connect(self, target: int) -> list[Effect]:
        super()._connect(target)
        return [Transmit((Copy(self.me, self.pings, 1 << target, self.me, target, (), self.label, PING),))]


class NoBuffer(_Unchecked):
    """What is delivered between ping and pong is not kept for the new link."""

    name = "pc-broadcast-no-buffer"
    code = 172

    def _answered(self, copy: Copy) -> list[Effect]:
        super()._answered(copy)
        return []


class LateBuffer(_Unchecked):
    """The buffer follows the next message."""

    name = "pc-broadcast-late-buffer"
    code = 173

    def _forward(self, message: MessageNumber, source: int) -> tuple[Copy, ...]:
        ready = [target for target in self.opening if self.links >> target & 1]
        copies = super()._forward(message, source)
        for target in ready:
            copies += tuple(self._copy(kept, target) for kept in self.opening.pop(target)[1] if kept != message)
        return copies

    def _answered(self, copy: Copy) -> list[Effect]:
        kept = self.opening.get(copy.sender)
        super()._answered(copy)
        if kept is not None and kept[0] == copy.count and kept[1]:
            self.opening[copy.sender] = kept
        return []


def _variant(protocol: type[PCBroadcast], what: str) -> Variant:
    return Variant(protocol, "pc-broadcast", 0, "unsafe", f"not in the paper: {what}", "", processes=3, fifo=True)


VARIANTS: tuple[Variant, ...] = (
    _variant(Eager, "a new link is used at once"),
    _variant(DirectPing, "the ping goes over the new link"),
    _variant(NoBuffer, "nothing is kept for the new link"),
    _variant(LateBuffer, "the buffer follows the next message"),
)
