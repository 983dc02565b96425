"""Printed forms of `ks`, `ci-dc`, `rst`, `ses`, `prs`, `bss` and `ech` that fail, for tests and the explorer only."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from thence.core.model.message import Copy
from thence.core.model.roster import Roster, positions
from thence.core.protocols.base import Member
from thence.core.protocols.bss import BSS
from thence.core.protocols.ci_dc import CiDc
from thence.core.protocols.counts_cy import later
from thence.core.protocols.ech import ECH
from thence.core.protocols.effects import Deliver, Effect, Hold, Sent
from thence.core.protocols.ks import KS
from thence.core.protocols.prs import PRS
from thence.core.protocols.receiver import ClockReceiver, Needs
from thence.core.protocols.rst import RST
from thence.core.protocols.ses import SES, TimeReceiver
from thence.core.wire.codec import INT, MASK, ByProcess, RecordShape, Seq, Shape
from thence.core.wire.dependency_log_cy import Group, Log
from thence.lab.explorer.setting import Variant

# -- ks -----------------------------------------------------------------------------------------------------------


def merged_as_printed(logged: Group, arriving: Group) -> Group:
    """Merge by RCV(4) with `l_{s,t'} ∉ LOG`: the first test never holds, so no entry of the stamp is ever marked."""
    table, newest = dict(arriving), arriving[-1][0]
    result = {count: dests & table.get(count, dests) for count, dests in logged if count in table or count > newest}
    for count, dests in arriving:
        if count not in result and count not in dict(logged):
            result[count] = dests
    last = max(result)
    return tuple((count, result[count]) for count in sorted(result) if result[count] or count == last)


class KSPrinted(KS):
    """`ks` with step RCV(4) exactly as printed."""

    name = "ks-printed"
    code = 101

    def _delivered(self, copy: Copy) -> list[Effect]:
        log = self.log.groups()
        for sender, arriving in self._learned(copy).items():
            log[sender] = merged_as_printed(log[sender], arriving) if sender in log else arriving
        self.log = Log(log)
        return []


class KSLookahead(KS):
    """Section 4.5: RCV(4) and RCV(5) already when a message is received that must wait."""

    name = "ks-lookahead"
    code = 102

    def receive(self, copy: Copy) -> list[Effect]:
        """Look ahead on a copy that is held."""
        effects = super().receive(copy)
        if effects and isinstance(effects[0], Hold):
            self.log = self.log.merged(copy.stamp)
        return effects


class KSOnce(KS):
    """Section 3.5: the same information is not sent to the same process twice."""

    name = "ks-once"
    code = 103
    fields: ClassVar[dict[str, Shape]] = {
        **KS.fields,
        "told": ByProcess(Seq(RecordShape(INT, INT, MASK), make=frozenset)),
    }

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None, explicit: bool = False) -> None:
        """Remember what was sent to each process."""
        super().__init__(roster, process, label=label, explicit=explicit)
        self.told: dict[int, frozenset[tuple[int, int, int]]] = {}

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        sent = super()._send(destinations, context, token)
        copies = []
        for copy in sent.copies:
            already_sent = self.told.get(copy.destination, frozenset())
            stamp: dict[int, Group] = {}
            for sender, group in copy.stamp.items():
                news = tuple(entry for entry in group if (sender, *entry) not in already_sent)
                if news:
                    stamp[sender] = news
            self.told[copy.destination] = already_sent | {(s, *entry) for s, group in stamp.items() for entry in group}
            copies.append(replace(copy, stamp=Log(stamp)))
        return Sent(sent.message, destinations, tuple(copies), self.label)


class KSSelf(KS):
    """The sender delivers its own copy at once, and neither its entry nor its delivered clock hears of it."""

    name = "ks-self"
    code = 104

    def receive(self, copy: Copy) -> list[Effect]:
        """Deliver one's own copy without RCV."""
        return [Deliver(copy)] if copy.sender == self.me else super().receive(copy)


# -- ci-dc --------------------------------------------------------------------------------------------------------


class CiDcUnion(CiDc):
    """R4 read as a union with the sender's tuple that CI already carries (S5 before S4)."""

    name = "ci-dc-union"
    code = 105

    def _delivered(self, copy: Copy) -> list[Effect]:
        self.ci = self.ci.merged(copy.stamp[0].appended(copy.sender, copy.count, copy.destinations))
        return []


# -- unicast texts on multicast -----------------------------------------------------------------------------------


class OneDestination(Member):
    """A member that treats every delivered message as sent to itself alone."""

    def _delivered(self, copy: Copy) -> list[Effect]:
        alone = Copy(copy.sender, copy.count, self.bit, copy.source, self.me, copy.stamp, copy.label)
        return super()._delivered(alone)


class RSTUnicast(OneDestination, RST):
    """A delivery counts the message as sent to this destination only."""

    name = "rst-unicast"
    code = 106


class SESUnicast(OneDestination, SES):
    """A delivery lists the message under no other destination."""

    name = "ses-unicast"
    code = 107


class PRSUnicast(OneDestination, PRS):
    """A delivery records the message under no other destination."""

    name = "prs-unicast"
    code = 108


# -- self-addressed copies ----------------------------------------------------------------------------------------


class RSTPlusOne(RST):
    """On delivery, SENT[j][i] := SENT[j][i] + 1 on the receiver's own matrix."""

    name = "rst-plus-one"
    code = 109

    def _delivered(self, copy: Copy) -> list[Effect]:
        rows = [list(map(max, sent, stamped)) for sent, stamped in zip(self.sent, copy.stamp, strict=True)]
        if copy.sender == self.me:
            rows = [list(row) for row in self.sent]
        else:
            for d in positions(copy.destinations & ~self.bit):
                rows[copy.sender][d] = max(rows[copy.sender][d], copy.stamp[copy.sender][d] + 1)
        rows[copy.sender][self.me] += 1
        self.sent = tuple(map(tuple, rows))
        return []


class SESClock(SES):
    """The time compared with is the process's own clock, which its own sends advance."""

    name = "ses-clock"
    code = 110

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        sent = super()._send(destinations, context, token)
        assert isinstance(self.receiver, TimeReceiver)
        self.receiver.told = later(self.receiver.told, self.time)
        return sent


# -- bss on multicast ---------------------------------------------------------------------------------------------


class BSSMulticast(BSS):
    """Vector clocks without the refusal: any destinations."""

    name = "bss-multicast"
    code = 111

    def _check_destinations(self, destinations: int) -> None:
        pass


# -- ech ----------------------------------------------------------------------------------------------------------


class AnySender(ClockReceiver):
    """`is-in` as printed: some n in D with c_m <= c_n, from any sender."""

    def _unmet(self, needs: Needs) -> Needs:
        newest = max(self.delivered)
        return [need for need in needs if newest < need[1]]

    def _wake(self, sender: int, ready: list[int]) -> None:
        watched = [entry for heap in self._watch.values() for entry in heap]
        self._watch.clear()
        for _, arrival in sorted(watched):
            if left := self._unmet(self.held[arrival][1]):
                self._watch.setdefault(left[0][0], []).append((left[0][1], arrival))
            else:
                ready.append(arrival)
        ready.sort()
        for heap in self._watch.values():
            heap.sort()


class ECHPrinted(ECH):
    """R5 without "from the same sender"."""

    name = "ech-printed"
    code = 112
    receives = AnySender


VARIANTS: tuple[Variant, ...] = (
    Variant(KSPrinted, "ks", 2, "not minimal", "RCV(4): if t < t' and l_{s,t'} not in LOG",
        "a!1>bc c<a1 c!1>a a!2>bc a<c1 a!3>b"),
    Variant(KSLookahead, "ks", 3, "unsafe", "4.5: RCV(4) and RCV(5) could also occur before RCV(1)",
        "a!1>bc b!1>ac a<b1 a!2>bc c<a1 c<a2 c!1>b b<c1", fifo=True),
    Variant(KSOnce, "ks", 4, "unsafe", "3.5: not transmit the same information more than once to the same node",
        "a!1>b a!2>c a!3>c c<a2 c<a3 c!1>b b<c1", fifo=True),
    Variant(KSSelf, "ks", 5, "stuck", "the sender delivers its own copy at the send", "b!1>bc b<b1 c<b1 c!1>b b<c1",
        fifo=True),
    Variant(CiDcUnion, "ci-dc", 9, "not minimal", "R4: CI_m[j] := CI_m[j] u {(t, m.D - i)}", "a!1>bc b<a1 b!1>c"),
    Variant(RSTUnicast, "rst", 10, "unsafe", "SENT[j][i] is counted for the receiver alone", "a!1>bc b<a1 b!1>c c<b1"),
    Variant(SESUnicast, "ses", 10, "unsafe", "V_P is merged for the receiver alone", "a!1>bc b<a1 b!1>c c<b1"),
    Variant(PRSUnicast, "prs", 10, "unsafe", "CB is updated for the receiver alone", "a!1>bc b<a1 b!1>c c<b1"),
    Variant(RSTPlusOne, "rst", 11, "stuck", "SENT[j][i] := SENT[j][i] + 1", "a!1>a a<a1 a!2>a a<a2"),
    Variant(SESClock, "ses", 11, "unsafe", "deliver if t <= the local time", "a!1>ab b<a1 b!1>a a<b1"),
    Variant(BSSMulticast, "bss", 12, "stuck", "vector clocks on arbitrary destinations", "a!1>b a!2>c b<a1 c<a2"),
    Variant(ECHPrinted, "ech", 14, "unsafe", "R5: m is-in D iff some n in D: c_m <= c_n",
        "a!1>b c!1>b c!2>b b<a1 b<c2"),
)  # fmt: skip
