# cython: boundscheck=False, wraparound=False, initializedcheck=False
# boundscheck: entries are laid out here alone, and every index is below `entries`.
# wraparound: no index is negative.
# initializedcheck: no view is used before it is set.
# mypy: disable-error-code="valid-type,misc,no-redef,type-arg,no-any-return,has-type,union-attr,return-value"
"""The dependency log: messages of the causal past with their still relevant destinations.

Invariant (KS98 section 4.2). An entry (sender, count, destinations) means: the message may still be on its way to these
destinations. Absent entries mean something too: if a sender's newest entry is t, every message of it below t that has
no entry is delivered, or guaranteed to be delivered in order, everywhere. So an empty entry is kept only as the newest
of its sender.

Entries stand one behind the other by ascending sender and count, each as its sender, its count and the words of its
set; no log is wider than its sets need. A log is never changed once it is made, so members, stamps and states share it.
From outside it is a mapping {sender: ((count, destinations), ...)}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

if cython.compiled:
    from cython.cimports.thence.core.wire.words_cy import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        Words,
        Writer,
        numbers_in,
        room,
        set_bytes,
        width_of,
        words_of,
    )
else:
    from thence.core.wire.words_cy import Words, Writer, numbers_in, room, set_bytes, width_of, words_of

Group = tuple[tuple[int, int], ...]
"""entries (count, destinations) of one sender by ascending count"""


@cython.final
@cython.cclass
class Log:
    """The messages that are still in flight as far as a process knows, with their open destinations."""

    def __init__(self, groups: Any = None) -> None:
        """Take the entries of each sender by ascending count; nothing makes an empty log."""
        given: dict = {} if groups is None else dict(groups)
        most: Any = 0
        number: cython.Py_ssize_t = 0
        for group in given.values():
            number += len(group)
            for _, mask in group:
                most |= mask
        self.lay_out(number, width_of(most.bit_length()))
        for sender in sorted(given):
            for count, mask in given[sender]:
                self.head(sender, count)
                self.words(words_of(mask, self.width))

    # -- entries ---------------------------------------------------------------------------------------------------

    @cython.cfunc
    @cython.exceptval(check=False)
    def sender(self, i: cython.Py_ssize_t) -> cython.longlong:
        """Return the sender of entry `i`."""
        return self.data[i * self.stride]

    @cython.cfunc
    @cython.exceptval(check=False)
    def count(self, i: cython.Py_ssize_t) -> cython.longlong:
        """Return the count of entry `i`."""
        return self.data[i * self.stride + 1]

    @cython.cfunc
    @cython.exceptval(check=False)
    def last(self, i: cython.Py_ssize_t) -> cython.bint:
        """Return whether an entry is the newest of its sender."""
        return i + 1 == self.entries or self.sender(i + 1) != self.sender(i)

    @cython.cfunc
    @cython.exceptval(check=False)
    def empty(self, i: cython.Py_ssize_t) -> cython.bint:
        """Return whether entry `i` has no destinations left."""
        j: cython.Py_ssize_t
        found: cython.longlong = 0
        for j in range(i * self.stride + 2, (i + 1) * self.stride):
            found |= self.data[j]
        return found == 0

    @cython.cfunc
    def mask(self, i: cython.Py_ssize_t) -> Any:
        """Return the destinations of entry `i` as an integer."""
        j: cython.Py_ssize_t
        found: Any = self.data[(i + 1) * self.stride - 1]
        for j in range((i + 1) * self.stride - 2, i * self.stride + 1, -1):
            found = found << 56 | self.data[j]
        return found

    # -- making a log, entry by entry ------------------------------------------------------------------------------

    @cython.cfunc
    def lay_out(self, entries: cython.Py_ssize_t, width: cython.Py_ssize_t) -> object:
        """Start without entries, with place for that many."""
        self.entries = 0
        self.width = width
        self.stride = 2 + width
        self.place = entries
        self.raw = room(entries * self.stride)
        self.data = numbers_in(self.raw)
        return None

    @cython.cfunc
    @cython.exceptval(check=False)
    def head(self, sender: cython.longlong, count: cython.longlong) -> cython.void:
        """Begin the next entry: its set is empty until `words` says otherwise."""
        j: cython.Py_ssize_t
        at: cython.Py_ssize_t = self.entries * self.stride
        self.data[at] = sender
        self.data[at + 1] = count
        for j in range(at + 2, at + self.stride):
            self.data[j] = 0
        self.entries += 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def words(self, words: Words) -> cython.void:
        """Give the latest entry its set."""
        j: cython.Py_ssize_t
        at: cython.Py_ssize_t = (self.entries - 1) * self.stride + 2
        for j in range(self.width):
            self.data[at + j] = words.word[j]

    @cython.cfunc
    @cython.exceptval(check=False)
    def take(self, log: Log, i: cython.Py_ssize_t) -> cython.void:
        """Add an entry of another log as it is."""
        j: cython.Py_ssize_t
        at: cython.Py_ssize_t = self.entries * self.stride
        start: cython.Py_ssize_t = i * log.stride
        for j in range(self.stride):
            self.data[at + j] = log.data[start + j] if j < log.stride else 0
        self.entries += 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def copy(self, log: Log, i: cython.Py_ssize_t, ended: Words) -> cython.void:
        """Add an entry of another log without the destinations at which it has ended."""
        j: cython.Py_ssize_t
        at: cython.Py_ssize_t = self.entries * self.stride
        start: cython.Py_ssize_t = i * log.stride
        self.data[at] = log.data[start]
        self.data[at + 1] = log.data[start + 1]
        for j in range(self.width):
            self.data[at + 2 + j] = log.data[start + 2 + j] & ~ended.word[j] if j < log.width else 0
        self.entries += 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def meet(self, log: Log, i: cython.Py_ssize_t) -> cython.void:
        """Leave the latest entry the destinations that the one of another log has, too."""
        j: cython.Py_ssize_t
        at: cython.Py_ssize_t = (self.entries - 1) * self.stride + 2
        start: cython.Py_ssize_t = i * log.stride + 2
        for j in range(self.width):
            self.data[at + j] &= log.data[start + j] if j < log.width else 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def purge(self, first: cython.Py_ssize_t) -> cython.void:
        """Drop the empty entries from there on, but not the last (PURGE_NULL_ENTRIES)."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        to: cython.Py_ssize_t = first
        for i in range(first, self.entries):
            if i + 1 == self.entries or not self.empty(i):
                if to < i:
                    for j in range(self.stride):
                        self.data[to * self.stride + j] = self.data[i * self.stride + j]
                to += 1
        self.entries = to

    @cython.cfunc
    def trimmed(self) -> Log:
        """Return the log in as few words as its sets need."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        need: cython.Py_ssize_t = 1
        if self.width == 1:
            return self
        for i in range(self.entries):
            for j in range(need, self.width):
                if self.data[i * self.stride + 2 + j]:
                    need = j + 1
        if need == self.width:
            return self
        made: Log = blank(self.entries, need)
        for i in range(self.entries):
            made.take(self, i)
        return made

    # -- what protocols do with it -----------------------------------------------------------------------------------

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def newest(self, sender: cython.longlong) -> cython.longlong:
        """Return the newest count that is known of a sender; 0 if there is none."""
        i: cython.Py_ssize_t
        found: cython.longlong = 0
        for i in range(self.entries):
            if self.sender(i) == sender:
                found = self.count(i)
        return found

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def beyond(
        self, me: cython.longlong, sent: cython.longlong, sender: cython.longlong, count: cython.longlong
    ) -> cython.bint:
        """Return whether it names messages not sent yet: of `me` beyond its count, of `sender` from a count on."""
        return self.newest(me) > sent or self.newest(sender) >= count

    @cython.ccall
    def needs(self, me: cython.Py_ssize_t) -> list:
        """Return the messages that are, as far as the log knows, still on their way to a position."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t = me // 56
        bit: cython.longlong = cython.cast(cython.longlong, 1) << me % 56
        found: list = []
        if j < self.width:
            for i in range(self.entries):
                if self.data[i * self.stride + 2 + j] & bit:
                    found.append((self.sender(i), self.count(i)))
        return found

    @cython.ccall
    def union(self) -> Any:
        """Return all destinations to which anything may still be on its way."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        words: Words = Words(self.width)
        for i in range(self.entries):
            for j in range(self.width):
                words.word[j] |= self.data[i * self.stride + 2 + j]
        return words.mask()

    @cython.ccall
    def without(self, mask: Any) -> Log:
        """Take destinations out of every entry and drop the older entries this empties."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        first: cython.Py_ssize_t = 0
        hit: cython.bint = False
        ended: Words = words_of(mask, self.width)
        for i in range(self.entries):
            for j in range(self.width):
                if self.data[i * self.stride + 2 + j] & ended.word[j]:
                    hit = True
        if not hit:
            return self
        made: Log = blank(self.entries, self.width)
        for i in range(self.entries):
            made.copy(self, i, ended)
            if self.last(i):
                made.purge(first)
                first = made.entries
        return made.trimmed()

    @cython.ccall
    def appended(self, sender: cython.longlong, count: cython.longlong, mask: Any) -> Log:
        """Add a newer entry of a sender; an empty newest before it need not stay."""
        i: cython.Py_ssize_t = 0
        width: cython.Py_ssize_t = max(self.width, width_of(mask.bit_length()))
        made: Log = blank(self.entries + 1, width)
        while i < self.entries and self.sender(i) <= sender:
            made.take(self, i)
            i += 1
        if i and self.sender(i - 1) == sender and made.empty(i - 1):
            made.entries -= 1
        made.head(sender, count)
        made.words(words_of(mask, width))
        while i < self.entries:
            made.take(self, i)
            i += 1
        return made

    @cython.ccall
    def merged(self, other: Log, ended: Any = 0) -> Log:
        """Merge what arrives, without the destinations at which that has ended (KS98 RCV(4) and RCV(5)).

        An entry one side lacks is redundant if that side knows a newer message of the sender; of an entry both have,
        the destinations both have remain.
        """
        a: cython.Py_ssize_t = 0
        b: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        first: cython.Py_ssize_t
        sender: cython.longlong
        made: Log = blank(self.entries + other.entries, max(self.width, other.width))
        taken: Words = words_of(ended, made.width)
        while a < self.entries or b < other.entries:
            if b == other.entries or (a < self.entries and self.sender(a) < other.sender(b)):
                made.take(self, a)  # nothing arrives of this sender
                a += 1
                continue
            first = made.entries
            sender = other.sender(b)
            end = b
            while not other.last(end):
                end += 1
            while a < self.entries and self.sender(a) == sender:
                while b <= end and other.count(b) < self.count(a):
                    b += 1  # RCV(4), first loop as its comment says: the log knows a newer message and not this one
                if b <= end and other.count(b) == self.count(a):
                    made.copy(other, b, taken)
                    made.meet(self, a)  # RCV(4): both have it
                    b += 1
                elif self.count(a) > other.count(end):
                    made.take(self, a)  # RCV(4), second loop: else the stamp knows a newer one and not this
                a += 1
            while b <= end:
                made.copy(other, b, taken)
                b += 1
            made.purge(first)  # RCV(5)
        return made.trimmed()

    # -- bytes -----------------------------------------------------------------------------------------------------

    @cython.ccall
    def write(self, out: bytearray, size: cython.Py_ssize_t) -> object:
        """Append the log: of each sender, by groups, the newest count, the differences down from it, and the sets.

        A group says how many of its entries have destinations and whether one without follows last: KS98 keeps the
        newest entry of each sender even when it is empty, and nothing else that is.
        """
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        end: cython.Py_ssize_t
        first: cython.Py_ssize_t = 0
        empty: cython.Py_ssize_t
        words: Words = Words(max(self.width, width_of(size)))
        to: Writer = Writer(out, 20 + self.entries * (32 + set_bytes(size)))
        to.number(len(self))
        while first < self.entries:
            end = first
            while not self.last(end):
                end += 1
            empty = self.empty(end)
            to.number(self.sender(first))
            to.number((end + 1 - first - empty) << 1 | empty)
            to.number(self.count(end))
            for i in range(end, first, -1):
                to.number(self.count(i) - self.count(i - 1) - 1)
            for i in range(first, end + 1 - empty):
                for j in range(self.width):
                    words.word[j] = self.data[i * self.stride + 2 + j]
                to.set(words, size)
            first = end + 1
        to.close()
        return None

    # -- the log as a value ----------------------------------------------------------------------------------------

    def groups(self) -> dict[int, Group]:
        """Return the entries of each sender."""
        i: cython.Py_ssize_t
        found: dict = {}
        group: list = []
        for i in range(self.entries):
            group.append((self.count(i), self.mask(i)))
            if self.last(i):
                found[self.sender(i)] = tuple(group)
                group = []
        return found

    def facts(self) -> int:
        """Count the pairs (message, destination)."""
        return sum([self.mask(i).bit_count() for i in range(self.entries)])

    def frozen(self, rename: Sequence[int] | None = None) -> object:
        """Return a small hashable value that only this log has, with positions renamed if asked."""
        if rename is not None:
            return Log(
                {
                    rename[sender]: [(count, _renamed(mask, rename)) for count, mask in group]
                    for sender, group in self.groups().items()
                }
            ).frozen()
        key: bytes = bytes(self.raw[: 8 * self.entries * self.stride])
        return key if self.width == 1 else (self.width, key)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Log):
            return self is other or bool(self.frozen() == other.frozen())
        return isinstance(other, Mapping) and self.groups() == other

    def __hash__(self) -> int:
        return hash(self.frozen())

    def __repr__(self) -> str:
        return f"Log({self.groups()})"

    def __reduce__(self) -> tuple[type, tuple[dict[int, Group]]]:
        return Log, (self.groups(),)

    def __len__(self) -> int:
        i: cython.Py_ssize_t
        found: cython.Py_ssize_t = 0
        for i in range(self.entries):
            found += self.last(i)
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self.groups())

    def __contains__(self, sender: object) -> bool:
        return sender in self.groups()

    def __getitem__(self, sender: int) -> Group:
        return self.groups()[sender]

    def get(self, sender: int, default: Any = None) -> Any:
        """Return the entries of a sender."""
        return self.groups().get(sender, default)

    def keys(self) -> Any:
        """Return the senders that have entries."""
        return self.groups().keys()

    def values(self) -> Any:
        """Return the entries of each sender."""
        return self.groups().values()

    def items(self) -> Any:
        """Return senders with their entries."""
        return self.groups().items()


Mapping.register(Log)


@cython.cfunc
def _renamed(mask: Any, rename: Any) -> Any:
    return sum([1 << to for position, to in enumerate(rename) if mask >> position & 1])


@cython.cfunc
def blank(entries: cython.Py_ssize_t, width: cython.Py_ssize_t) -> Log:
    """Return an empty log with place for that many entries."""
    log: Log = Log.__new__(Log)
    log.lay_out(entries, width)
    return log
