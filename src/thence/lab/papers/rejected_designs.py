"""Cheaper designs than A_fifo and the repair of A_causal, each with a failure or drawback; for tests and the explorer.

Piggybacking instead of holding back. `a-causal-carry-own`: a send leaves at once and carries the sender's own
messages that are not secured; the process that receives them hands them on. It fails with two crashes: what was handed
on once can be lost again. `a-causal-carry`: every message carries all messages of its causal past that are
not known to be secured, from any sender. No failure found, no send ever waits; but outsiders handle
messages that are not theirs (no longer genuine in the strict sense), payloads travel many times, and what a
crashed sender left unsecured is carried forever.

Bounded counters. `a-fifo-modulo`: numbers modulo 3, the sender going on once its last message is secured,
that is, OKed by all *trusted* addressees. A correct process that no process trusts for a while can be two behind,
and takes a new message for an old one. Waiting for all instead of the trusted blocks forever after a crash.

Lazy relays. `a-fifo-lazy`: an OK is a mere word, and a message is handed on only when its sender is no longer
trusted, from a record that is kept until every trusted addressee is known to have delivered it. An addressee
that is correct and not trusted then never gets what the crashed sender did not send it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from thence.core.model.message import MESSAGE, Copy, Stamp
from thence.core.model.roster import Roster, positions
from thence.core.protocols.a_causal import GROUP_COUNTS, ACausal
from thence.core.protocols.a_fifo import AFifo, FifoOkays
from thence.core.protocols.ack_receiver import OK, Mail, kinds_of
from thence.core.protocols.effects import Effect, Transmit
from thence.core.wire.codec import INT, MASK, PROCESS, ByCount, RecordShape, Seq, Shape, Vector
from thence.lab.explorer.setting import Variant

CARGO = RecordShape(PROCESS, INT, MASK, GROUP_COUNTS)
"""a message carried along: sender, count, destinations, its own nbCast"""
LADEN = RecordShape(GROUP_COUNTS, Seq(CARGO, make=tuple))
"""nbCast, and the messages of the past that may not be secured"""
DesignCopy = tuple[int, int, int, dict[int, tuple[int, ...]]]


class ACausalCarry(ACausal):
    """Every unsecured message of the causal past travels along."""

    name = "a-causal-carry"
    code = 144
    kinds: ClassVar[dict[str, Shape]] = kinds_of(LADEN)
    fields: ClassVar[dict[str, Shape]] = {
        **ACausal.fields,
        "risky": Seq(CARGO),
    }
    transitive: ClassVar[bool] = True

    def begin(self) -> None:
        super().begin()
        self.risky: list[DesignCopy] = []

    def _unsecured(self, destinations: int) -> list[int]:
        return []  # nothing is held back

    def stamped(self, destinations: int) -> Stamp:
        """Return the stamp with the messages that it carries along."""
        self._released()
        self._settle_own()
        self.risky = [c for c in self.risky if c[0] != self.me or c[1] in self.own]
        cargo = tuple(self.risky)
        matrix = super().stamped(destinations)
        self.risky.append((self.me, self.count, destinations, matrix))
        return matrix, cargo

    def receive(self, copy: Copy) -> list[Effect]:
        """Forward carried messages, or accept those addressed here."""
        effects: list[Effect] = []
        for carried in _cargo(copy) if copy.destinations & self.bit else ():
            effects += self._unloaded(carried, copy)
        self._secured_by(copy)
        return effects + super().receive(copy)

    def _unloaded(self, carried: DesignCopy, within: Copy) -> list[Effect]:
        sender, count, destinations, matrix = carried
        if destinations & self.bit:
            home = Copy(sender, count, destinations, sender, self.me, (matrix, ()), within.label)
            return super().receive(home)
        if sender == self.me or any(c[:2] == (sender, count) for c in self.risky):
            return []
        if self.transitive:
            self.risky.append(carried)
        to = positions(destinations & ~self.bit)
        stamp = (matrix, ())
        copies = tuple(Copy(sender, count, destinations, self.me, d, stamp, within.label) for d in to)
        return [Transmit(copies)]

    def _secured_by(self, copy: Copy) -> None:
        """Forget what the sender of a later message no longer carries: it was secured."""
        still = {c[:2] for c in _cargo(copy)}
        self.risky = [c for c in self.risky if c[0] != copy.sender or c[1] >= copy.count or c[:2] in still or not still]

    def _check(self, copy: Copy) -> None:
        pass  # outsiders take part


def _cargo(copy: Copy) -> tuple[DesignCopy, ...]:
    cargo: tuple[DesignCopy, ...] = (copy.stamp[0] if copy.kind == OK else copy.stamp)[1]
    return cargo


class ACausalCarryOwn(ACausalCarry):
    """Only the sender's own unsecured messages travel along."""

    name = "a-causal-carry-own"
    code = 145
    transitive = False


class ModuloOkays(FifoOkays):
    """Reads numbers modulo 3, as the one nearest to what comes next."""

    to_sender = True

    def number(self, sender: int, stamp: Stamp) -> int:
        """Return the number that is congruent and at most one away from the next."""
        following = self.following[sender]
        return following + (super().number(sender, stamp) - following + 1) % 3 - 1


class AFifoModulo(AFifo):
    """A_fifo with numbers modulo 3: the next message leaves when the last one is secured."""

    name = "a-fifo-modulo"
    code = 146
    hold_back = True
    receives = ModuloOkays

    def _check(self, copy: Copy) -> None:
        pass  # a number may be taken for that of a message before the first

    def _unsecured(self, destinations: int) -> list[int]:
        return [count for count, (to, okayed) in self.own.items() if not self._secured(to, okayed)]


class AFifoModuloAll(AFifoModulo):
    """The next message leaves when all addressees have OKed the last one, trusted or not."""

    name = "a-fifo-modulo-all"
    code = 147

    def _secured(self, to: int, okayed: int) -> bool:
        return not to & ~okayed


class LazyOkays(FifoOkays):
    """OKs carry no message; messages of a sender that is no longer trusted are handed on."""

    def __init__(
        self, roster: Roster, me: int, groups: tuple[int, ...], kinds: Mapping[str, Shape], *, counts: bool
    ) -> None:
        """Start without votes; records are always kept."""
        super().__init__(roster, me, groups, kinds, counts=True)
        self.votes: list[dict[int, int]] = [{} for _ in range(self.size)]

    def more_fields(self) -> dict[str, Shape]:
        """OKs of messages that are not here yet."""
        return {"votes": Vector(ByCount(MASK))}

    def receive(self, copy: Copy) -> list[Effect]:
        """Note an OK of a message that is not here; take a message, and the OKs that came before it."""
        votes, known = self.votes[copy.sender], self.mails[copy.sender]
        if copy.kind == OK and copy.count not in known:
            if self.done.get(copy.sender, 0) >= copy.count:
                return []
            votes[copy.count] = votes.get(copy.count, 0) | 1 << copy.source
            return []
        if copy.kind == OK or copy.count in known:
            return super().receive(copy)
        number, following = self.number(copy.sender, copy.stamp), self.following[copy.sender]
        if number < following:
            return super().receive(copy)
        home = Copy(copy.sender, copy.count, copy.destinations, copy.sender, self.me, copy.stamp, copy.label)
        is_next = number == following
        known[copy.count] = Mail(home, votes.pop(copy.count, 0) | (self.bit if is_next else 0), is_next)
        effects = self._tell(home, OK) if is_next else []
        return effects + self._handed_on(home) + self.advance(copy.sender)

    def progress(self) -> list[Effect]:
        """Forward messages from senders that are no longer trusted."""
        tables = (*self.mails, *self.kept)
        relays = [effect for table in tables for mail in table.values() for effect in self._handed_on(mail.copy)]
        return super().progress() + relays

    def _handed_on(self, home: Copy) -> list[Effect]:
        return [] if self.trust >> home.sender & 1 else self._tell(home, MESSAGE)


class AFifoLazy(AFifo):
    """A_fifo that hands a message on when its sender is suspected, and forgets it on the word of the trusted."""

    name = "a-fifo-lazy"
    code = 148
    receives = LazyOkays

    def begin(self) -> None:
        """Start as the base does, and always count deliveries."""
        super().begin()
        self.counts = True


VARIANTS: tuple[Variant, ...] = (
    Variant(ACausalCarry, "a-causal", 20, "unsafe", "not in the paper: carry what is at risk", "", processes=3),
    Variant(ACausalCarryOwn, "a-causal", 20, "unsafe", "not in the paper: carry one's own at risk", "", processes=4),
    Variant(AFifoModulo, "a-fifo", 22, "stuck", "not in the paper: numbers modulo 3", "", processes=3),
    Variant(AFifoModuloAll, "a-fifo", 22, "stuck", "not in the paper: modulo 3, OKed by all", "", processes=2),
    Variant(AFifoLazy, "a-fifo", 20, "stuck", "not in the paper: hand on when the sender is suspected", "",
        processes=3),
)  # fmt: skip
