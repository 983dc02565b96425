"""The fault-tolerant multicasts as printed, for tests and the explorer only; see `variant.py`."""

from __future__ import annotations

from thence.core.protocols.a_causal import ACausal, CausalOkays
from thence.core.protocols.a_fifo import AFifo, FifoOkays
from thence.core.protocols.effects import Effect
from thence.lab.explorer.setting import Variant


class UntoldOkays(CausalOkays):
    """OKs go to the addressees only."""

    to_sender = False


class ACausalPrinted(ACausal):
    """A_causal to the letter: senders learn nothing of OKs and hold nothing back."""

    name = "a-causal-printed"
    code = 140
    hold_back = False
    receives = UntoldOkays


class ACausalDisjoint(ACausal):
    """A repair that is not enough: hold back only behind messages to entirely different groups."""

    name = "a-causal-disjoint"
    code = 141

    def _unsecured(self, destinations: int) -> list[int]:
        waits = super()._unsecured(destinations)
        return [count for count in waits if not self.own[count][0] & destinations]


class OneOkay(FifoOkays):
    """Line 20 to the letter: `if there is` a next message, one is OKed, perhaps one that was already."""

    def advance(self, sender: int) -> list[Effect]:
        """Look at every sender: the one message that is OKed may be another's."""
        effects: list[Effect] = []
        while found := [effect for each in range(self.size) for effect in super(OneOkay, self).advance(each)]:
            effects += found
        return effects

    def _okay_next(self, sender: int) -> list[Effect]:
        for each, mails in enumerate(self.mails):
            for mail in self.next_of(each):
                mails[mail.copy.count] = mail._replace(okayed=mail.okayed | self.bit, okayed_here=True)
                return self._tell(mail.copy, "ok")
        return []


class AFifoPrinted(AFifo):
    """A_fifo with line 20 to the letter."""

    name = "a-fifo-printed"
    code = 142
    receives = OneOkay


class AFifoTheta(AFifo):
    """A_fifo under the literal restriction of the failure detector: accurate in the system, not in each group."""

    name = "a-fifo-theta"
    code = 143
    literal_detector = True


VARIANTS: tuple[Variant, ...] = (
    Variant(ACausalPrinted, "a-causal", 20, "unsafe", "A_causal, lines 5-9: F-MCast(m) at once", "", processes=3),
    Variant(ACausalDisjoint, "a-causal", 20, "unsafe", "hold back behind disjoint destinations only", "", processes=3),
    Variant(AFifoPrinted, "a-fifo", 19, "stuck", "A_fifo, line 20: if there is m' in msgSet", "", processes=3),
    Variant(AFifoTheta, "a-fifo", 18, "stuck", "Theta_g: the output of Theta restricted to g", "", processes=3),
)  # fmt: skip
