"""`ks` with stamps as differences on FIFO links: the safe form of what KS98 section 3.5 suggests; for comparison only.

Invariant. A copy says how its stamp differs from that of the copy before it on the same link: entries that are new or
have other destinations, and which of the earlier ones are gone. The destination works the whole stamp out when the copy
arrives, so from there on everything is `ks`. Section 3.5 leaves out what was sent before, and RCV(4) takes what is
absent for delivered (errata 4); here absence means "as before", and what is gone is named.

A copy also names the message that it differs from. On a link that loses, doubles or reorders copies the destination
refuses it instead of guessing. The state grows by two stamps for each link. `benchmarks/wire/differences.py` says what
it saves: next to nothing unless a sender talks to the same processes many times before it hears anything new, which is
why it is not a protocol of the registry.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import ClassVar

from thence.core.model.message import MESSAGE, Copy, MessageId
from thence.core.model.roster import Roster
from thence.core.protocols import dependency
from thence.core.protocols.effects import Effect, Sent
from thence.core.protocols.ks import KS
from thence.core.protocols.receiver import Needs
from thence.core.wire.codec import INT, ByProcess, RecordShape, Shape, Value
from thence.core.wire.dependency_log_cy import Log
from thence.core.wire.entries import Entries
from thence.core.wire.reader_cy import Reader
from thence.core.wire.sets import Rename
from thence.core.wire.words_cy import put_varint
from thence.errors import MisuseError, PeerError

LogEntry = tuple[int, int]
"""sender and count"""


class Places(Shape):
    """Places in a list, as a bit for each up to the last: which entries of the stamp before are gone."""

    def write(self, value: int, out: bytearray, size: int) -> None:
        data = value.to_bytes((value.bit_length() + 7) // 8, "little")
        put_varint(out, len(data))
        out += data

    def read(self, reader: Reader) -> int:
        data = reader.take(reader.length())
        if data and not data[-1]:
            raise PeerError(f"places before byte {reader.at} end with an empty byte")
        return int.from_bytes(data, "little")

    def freeze(self, value: Value, rename: Rename) -> Hashable:
        """Freeze the number; under other names the entries would stand in another order."""
        if rename is not None:
            raise MisuseError("differences have no other names; explore them without reductions")
        return int(value)


DIFFERENCE = RecordShape(INT, Entries(), Places())
"""(count of the message before on this link, entries that are new or changed, which entries before are gone)"""
LAST = ByProcess(RecordShape(INT, Entries()))
"""by process: count and stamp of the last message on the link"""


class KSDifferences(KS):
    """The stamps of `ks`, each sent as its difference from the one before on the same FIFO link."""

    name = "ks-differences"
    code = 129
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: DIFFERENCE}
    fields: ClassVar[dict[str, Shape]] = {**KS.fields, "sent_last": LAST, "received_last": LAST}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None, explicit: bool = False) -> None:
        super().__init__(roster, process, label=label, explicit=explicit)
        self.sent_last: dict[int, tuple[int, Log]] = {}
        self.received_last: dict[int, tuple[int, Log]] = {}

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """RCV(1), of a copy whose whole stamp has been worked out."""
        needs: Needs = copy.stamp[1].needs(me)
        return needs

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        sent = super()._send(destinations, context, token)
        copies = []
        for copy in sent.copies:
            count, before = self.sent_last.get(copy.destination, (0, Log()))
            copies.append(replace(copy, stamp=(count, *difference(before, copy.stamp))))
            self.sent_last[copy.destination] = (copy.count, copy.stamp)
        return replace(sent, copies=tuple(copies))

    def _check(self, copy: Copy) -> None:
        dependency.check_log(self, copy, self._whole(copy))

    def _whole(self, copy: Copy) -> Log:
        """Return the stamp that a copy stands for, or refuse one that does not follow the last on its link."""
        since, changed, gone = copy.stamp
        count, before = self.received_last.get(copy.source, (0, Log()))
        if since != count:
            raise PeerError(
                f"the stamp of {self._name(copy)} is a difference from message {since} on its link, but {count} "
                "was the last to arrive; the link must be FIFO"
            )
        return applied(before, changed, gone)

    def _received(self, copy: Copy) -> list[Effect]:
        whole = self._whole(copy)
        self.received_last[copy.source] = (copy.count, whole)
        return super()._received(replace(copy, stamp=(0, whole, 0)))

    def _delivered(self, copy: Copy) -> list[Effect]:
        return super()._delivered(replace(copy, stamp=copy.stamp[1]))

    def context_of(self, copy: Copy) -> Log:
        return super().context_of(replace(copy, stamp=copy.stamp[1]))

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the entries that are named, as new, changed or gone."""
        _, changed, gone = copy.stamp
        return int(changed.entries + gone.bit_count())

    @classmethod
    def facts(cls, copy: Copy) -> int:
        """Count the pairs (message, destination) that are named."""
        changed: Log = copy.stamp[1]
        return changed.facts()

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]]:
        """Return the entries that are named as new or changed."""
        return dependency.in_the_clear(copy.stamp[1])


def difference(before: Log, after: Log) -> tuple[Log, int]:
    """Return the entries of a stamp that are new or changed, and the places of those that are gone."""
    old, new = _entries(before), _entries(after)
    changed = {key: mask for key, mask in new.items() if old.get(key) != mask}
    gone = sum(1 << place for place, key in enumerate(old) if key not in new)
    return _log(changed), gone


def applied(before: Log, changed: Log, gone: int) -> Log:
    """Return the stamp that differs so from the one before."""
    old = _entries(before)
    if gone >> len(old):
        raise PeerError(f"a difference drops entry {gone.bit_length()} of a stamp that has {len(old)}")
    kept = {key: mask for place, (key, mask) in enumerate(old.items()) if not gone >> place & 1}
    return _log(kept | _entries(changed))


def _entries(log: Log) -> dict[LogEntry, int]:
    return {(sender, count): mask for sender, group in log.items() for count, mask in group}


def _log(entries: dict[LogEntry, int]) -> Log:
    groups: dict[int, tuple[tuple[int, int], ...]] = {}
    for (sender, count), mask in sorted(entries.items()):
        groups[sender] = (*groups.get(sender, ()), (count, mask))
    return Log(groups)
