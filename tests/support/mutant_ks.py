"""Members of `ks` with one mistake each, and a small network that records what members do.

The mistakes are made on entries in the clear, {(sender, count): destinations}, so that they do not depend on how a
log is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from thence.core.model.events import Event, EventKind
from thence.core.model.message import Copy
from thence.core.model.message_names import name_of
from thence.core.model.roster import Roster
from thence.core.protocols import dependency
from thence.core.protocols.base import Member
from thence.core.protocols.effects import Deliver, Effect, Sent
from thence.core.protocols.ks import KS

Clear = dict[tuple[int, int], int]


def clear(log: object) -> Clear:
    """Return the entries of a log."""
    return {(message.sender, message.count): mask for message, mask in dependency.in_the_clear(log)}  # type: ignore[arg-type]


def log_of(entries: Clear, like: object) -> object:
    """Return a log of the same kind as another."""
    groups: dict[int, tuple[tuple[int, int], ...]] = {}
    for (sender, count), mask in sorted(entries.items()):
        groups[sender] = (*groups.get(sender, ()), (count, mask))
    return type(like)(groups)


def low(mask: int) -> int:
    return mask & -mask


class Mutant(KS):
    """A member that changes its stamps, its log after a send, or its log after a delivery."""

    def stamp(self, entries: Clear, before: Clear, copy: Copy) -> Clear:
        return entries

    def after_send(self, entries: Clear, before: Clear, sent: Sent) -> Clear:
        return entries

    def after_delivery(self, entries: Clear, before: Clear, copy: Copy) -> Clear:
        return entries

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        before = clear(self.log)
        sent = super()._send(destinations, context, token)
        copies = tuple(
            replace_stamp(copy, log_of(self.stamp(clear(copy.stamp), before, copy), copy.stamp)) for copy in sent.copies
        )
        sent = replace(sent, copies=copies)
        self.log = log_of(self.after_send(clear(self.log), before, sent), self.log)  # type: ignore[assignment]
        return sent

    def _delivered(self, copy: Copy) -> list[Effect]:
        before = clear(self.log)
        effects = super()._delivered(copy)
        self.log = log_of(self.after_delivery(clear(self.log), before, copy), self.log)  # type: ignore[assignment]
        return effects


def replace_stamp(copy: Copy, stamp: object) -> Copy:
    return Copy(
        copy.sender, copy.count, copy.destinations, copy.source, copy.destination, stamp, copy.label, copy.kind
    )  # fmt: skip


class Honest(Mutant):
    """No mistake: what is taken apart and put together again is the same."""


class DropsAFact(Mutant):
    """A stamp lacks one fact."""

    def stamp(self, entries: Clear, before: Clear, copy: Copy) -> Clear:
        full = [key for key, mask in entries.items() if mask]
        return entries | {full[0]: entries[full[0]] & ~low(entries[full[0]])} if full else entries


class DropsTheException(Mutant):
    """SND(2) without its exception: a copy says nothing of what is on its way to its own destination."""

    def stamp(self, entries: Clear, before: Clear, copy: Copy) -> Clear:
        return {key: mask & ~(1 << copy.destination) for key, mask in entries.items()}


class SuppressesNothing(Mutant):
    """SND(2) without suppression: one stamp for all destinations."""

    def stamp(self, entries: Clear, before: Clear, copy: Copy) -> Clear:
        return before


class NamesAnOlderMessage(Mutant):
    """A stamp has a wrong count."""

    def stamp(self, entries: Clear, before: Clear, copy: Copy) -> Clear:
        late = [(sender, count) for sender, count in entries if (sender, count - 1) not in entries and count > 1]
        if not late:
            return entries
        sender, count = late[0]
        kept = {key: mask for key, mask in entries.items() if key != late[0]}
        return kept | {(sender, count - 1): entries[late[0]]}


class KeepsWhatIsCovered(Mutant):
    """SND(3) left out: the log keeps facts about the destinations of a later message."""

    def after_send(self, entries: Clear, before: Clear, sent: Sent) -> Clear:
        return before | {key: mask for key, mask in entries.items() if key not in before}


class ForgetsItsOwnSends(Mutant):
    """SND(4) left out."""

    def after_send(self, entries: Clear, before: Clear, sent: Sent) -> Clear:
        return {key: mask for key, mask in entries.items() if key != (sent.message.sender, sent.message.count)}


class ForgetsEmptyEntries(Mutant):
    """SND(5) purges too much: the newest entry of a sender, too."""

    def after_send(self, entries: Clear, before: Clear, sent: Sent) -> Clear:
        return {key: mask for key, mask in entries.items() if mask}


class DeliversEarly(KS):
    """RCV(1) left out."""

    @staticmethod
    def needs(copy: Copy, me: int) -> list[tuple[int, int]]:
        return []


class WaitsForAllButOne(KS):
    """RCV(1) passes over the last need."""

    @staticmethod
    def needs(copy: Copy, me: int) -> list[tuple[int, int]]:
        return list(KS.needs(copy, me))[:-1]


class WaitsForAnEarlierCount(KS):
    """RCV(1) with a wrong count."""

    @staticmethod
    def needs(copy: Copy, me: int) -> list[tuple[int, int]]:
        return [(sender, count - 1) for sender, count in KS.needs(copy, me)]


class WaitsForMore(KS):
    """RCV(1) waits for what is on its way elsewhere, too."""

    @staticmethod
    def needs(copy: Copy, me: int) -> list[tuple[int, int]]:
        own = [(copy.sender, copy.count - 1)] if copy.count > 1 else []
        return [*KS.needs(copy, me), *own]


class KeepsADeliveredFact(Mutant):
    """RCV(3) left out for the message itself."""

    def after_delivery(self, entries: Clear, before: Clear, copy: Copy) -> Clear:
        key = (copy.sender, copy.count)
        return entries | {key: entries[key] | self.bit} if key in entries else entries


class ForgetsTheMerge(Mutant):
    """RCV(3) to RCV(5) left out."""

    def after_delivery(self, entries: Clear, before: Clear, copy: Copy) -> Clear:
        return before


class ForgetsTheMessage(Mutant):
    """RCV(3) takes the stamp over, not the message."""

    def after_delivery(self, entries: Clear, before: Clear, copy: Copy) -> Clear:
        return {key: mask for key, mask in entries.items() if key != (copy.sender, copy.count)}


class MergesByUnion(Mutant):
    """RCV(4), second loop: the union of destinations instead of what both have."""

    def after_delivery(self, entries: Clear, before: Clear, copy: Copy) -> Clear:
        return {key: mask | before.get(key, 0) for key, mask in entries.items()}


class KeepsWhatIsRedundant(Mutant):
    """RCV(4), first loop: the log keeps entries that the stamp shows to be redundant."""

    def after_delivery(self, entries: Clear, before: Clear, copy: Copy) -> Clear:
        return before | entries


class DeliversTwice(KS):
    """A copy is delivered twice."""

    def receive(self, copy: Copy) -> list[Effect]:
        return [again for effect in super().receive(copy) for again in (effect, effect) if again]


MUTANTS = (
    DropsAFact, DropsTheException, SuppressesNothing, NamesAnOlderMessage, KeepsWhatIsCovered, ForgetsItsOwnSends,
    ForgetsEmptyEntries, DeliversEarly, WaitsForAllButOne, WaitsForAnEarlierCount, WaitsForMore, KeepsADeliveredFact,
    ForgetsTheMerge, ForgetsTheMessage, MergesByUnion, KeepsWhatIsRedundant, DeliversTwice,
)  # fmt: skip


class Recording:
    """A network without order that records what members do, stamps in the clear."""

    def __init__(self, kind: type[Member], processes: int, run: str) -> None:
        self.roster, self.run = Roster.of(processes), run
        self.members = [kind(self.roster, place) for place in range(processes)]
        self.flight: list[Copy] = []
        self.events: list[Event] = []
        self.indexes = [0] * processes

    def send(self, process: int, destinations: int) -> None:
        sent = self.members[process].send(destinations)
        assert isinstance(sent, Sent)
        self.flight += sent.copies
        name = name_of(self.roster.name(process), sent.message.count)
        self._row(process, "send", name, self.roster.members(destinations))

    def receive(self, copy: Copy) -> None:
        self.flight.remove(copy)
        self._copy_row("receive", copy)
        for effect in self.members[copy.destination].receive(copy):
            if isinstance(effect, Deliver):
                self._copy_row("deliver", effect.copy)

    def _copy_row(self, kind: EventKind, copy: Copy) -> None:
        name, members = self.roster.name, self.roster.members
        found = self.members[copy.destination].dependencies(copy) or []
        stamp = tuple((name_of(name(message.sender), message.count), members(mask)) for message, mask in found)
        self._row(copy.destination, kind, name_of(name(copy.sender), copy.count), stamp=stamp)

    def _row(
        self, process: int, kind: EventKind, message: str, to: tuple[str, ...] | None = None, stamp: object = None
    ) -> None:
        self.indexes[process] += 1
        place = len(self.events)
        self.events.append(
            Event(self.run, self.roster.name(process), self.indexes[process], kind, message, to, order=place,
                  dependencies=stamp)  # type: ignore[arg-type]
        )  # fmt: skip


def recorded(kind: type[Member], processes: int, messages: int, seed: int, run: str = "run") -> list[Event]:
    """Send and receive by chance until all is sent and nothing is in flight."""
    chance, network = Random(seed), Recording(kind, processes, run)
    left = messages
    while left or network.flight:
        if left and (not network.flight or chance.random() < 0.4):
            sender = chance.randrange(processes)
            others = [1 << p for p in range(processes) if p != sender]
            network.send(sender, sum(chance.sample(others, chance.randint(1, len(others)))))
            left -= 1
        else:
            network.receive(chance.choice(network.flight))
    return network.events


def joined(*traces: Iterable[Event]) -> list[Event]:
    """Return several runs as one trace."""
    return [event for trace in traces for event in trace]
