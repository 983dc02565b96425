# cython: boundscheck=False, wraparound=False, initializedcheck=False
# boundscheck: codes come from `code` and `enter` alone, which make room for them first.
# wraparound: no index is negative.
# initializedcheck: every array is set when its object is made.
# mypy: ignore-errors
# C types are in codes_cy.pxd, where mypy does not see them.
"""The sources of one key as small integers, *codes*, and what is known of each.

Of each code, arrays say its level, how many needs of held rows name it (`refs`), the held row of an explicit id
(`row_of`), and who waits for it (`watch`, see `sources_cy.py`). An object (`Source`) is made only when there is more. A
key whose rows come in one batch takes its codes from the batch (`enter`): no id becomes a Python object unless a
sentence names it. Names are looked up once rows come by name or in a second batch (`settle`).

*Invariant.* An id of explicit causes that was delivered has code `DONE` in `orders`, and its own code is used again
once no held row names it (`tidy`, after a batch: the batch names it by that code). Beyond the last `remember` ids only
a fingerprint of each is kept.
"""

from __future__ import annotations

from array import array
from collections import deque
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

if cython.compiled:
    from cython.cimports.thence.tables.delivery.coded_rows_cy import CodedRows
    from cython.cimports.thence.tables.delivery.held_cy import NO_INTS, Held
    from cython.cimports.thence.tables.delivery.room_cy import Room
else:
    from thence.tables.delivery.coded_rows_cy import CodedRows
    from thence.tables.delivery.held_cy import NO_INTS, Held
    from thence.tables.delivery.room_cy import Room

if TYPE_CHECKING:
    from collections.abc import Hashable

    from thence.tables.delivery.reading import Reading

FOREVER = 1 << 62
DONE = 0
"""The code of every id that was delivered."""
DONE_LEVEL, DONE_ROWS = array("q", [1]), array("i", [0])


def fingerprint(message: str) -> int:
    """Return 64 bits of an id: among 18 million million ids, less than one in a million is taken for another."""
    return int.from_bytes(blake2b(message.encode(), digest_size=8).digest(), "little", signed=True)


@cython.final
@cython.no_gc  # it refers to numbers and texts alone: there are no cycles
@cython.cclass
class Source:
    """What is known about a source beyond its level."""

    def __init__(self) -> None:
        """Start without any knowledge of the source."""
        self.seen, self.quarantined = 0, False
        self.holes: Any = None  # [(first, last)]
        self.held = self.numbers = None  # its held rows by number; a heap of the numbers, made when it is asked for
        self.prefix, self.noted = None, False  # what stands before a number in its name; whether it is in `changed`
        self.retired = False  # whether its id stands for DONE


@cython.cfunc
def _source() -> Source:
    """Return `Source()`, made without Python's argument parsing, which is slower."""
    source: Source = Source.__new__(Source)
    source.seen = 0
    source.quarantined = source.noted = source.retired = False
    source.holes = source.held = source.numbers = source.prefix = None
    return source


@cython.cfunc
def in_hole(source: Source, number: cython.longlong) -> cython.bint:
    """Return whether a number was given up earlier and has not come since."""
    if source.holes is not None:
        for first, last in source.holes:
            if first <= number <= last:
                return True
    return False


@cython.cclass
class Codes(Held):
    """The codes of one key's sources, by causal order and name."""

    def __init__(self, reading: Reading, remember: int | None = None, room: Room | None = None) -> None:
        """Start without any source."""
        Held.__init__(self, room)
        self.reading = reading
        self.cyclic = reading.by == "depends_on"
        self.remember = FOREVER if remember is None else remember
        self.fresh: Any = None  # where changes are recorded: the ids delivered since the last write,
        self.gone: list[int] = []  # the fingerprints of ids forgotten since then,
        self.changed: list[int] = []  # and the sources of which something else changed
        self.origin = NO_INTS
        self.count, self.level = 1, DONE_LEVEL
        self.refs = self.row_of = self.watch = DONE_ROWS
        self.lose_all()

    @cython.cfunc
    def lose_all(self) -> cython.void:
        """Forget every source; the memory is used again."""
        code: cython.Py_ssize_t
        self.dense = self.reading.dense and not self.cyclic
        self.recent: deque[str] | None = None if self.remember == FOREVER else deque()
        self.forgotten: set[int] = set()
        self.orders: dict[str | None, dict[Hashable, int]] = {}
        self.holes = 0
        for code in range(1, self.count):
            self.level[code] = self.refs[code] = self.row_of[code] = self.watch[code] = 0
        self.count = 1
        self.extra, self.names, self.free = [None], [None], []
        self.loose, self.delivered = [], []  # codes that no held row names any more; ids delivered, not yet DONE
        self.lexicon = None  # the names of the batch that all codes are from; `origin`: their numbers there

    # -- codes -----------------------------------------------------------------------------------------------------

    @cython.cfunc
    def make_room(self, count: cython.Py_ssize_t) -> cython.void:
        """Make room for codes below a count."""
        if count > len(self.level):
            room: Room = self.room
            most: cython.Py_ssize_t = max(count, 2 * len(self.level))
            self.level = room.more_longs(self.level, most)
            self.refs, self.row_of = room.more_ints(self.refs, most), room.more_ints(self.row_of, most)
            self.watch = room.more_ints(self.watch, most)

    @cython.ccall
    def code(self, label: object, name: object) -> cython.longlong:
        """Return the code of a source, a new one if nothing is known of it."""
        code: cython.longlong = self.known(label, name)
        if code < 0:
            code = self._new(name)
            self.orders[label][name] = code
        return code

    @cython.cfunc
    def _new(self, name: object) -> cython.longlong:
        """Return a code that is not in use."""
        code: cython.longlong
        if self.free:
            code = self.free.pop()
        else:
            code = self.count
            self.count += 1
            self.make_room(self.count)
            self.extra.append(None)
            self.names.append(None)
        self.names[code] = name
        return code

    @cython.ccall
    def known(self, label: object, name: object) -> cython.longlong:
        """Return the code of a source if anything is known of it, else -1."""
        if self.lexicon is not None:
            self.settle()
        names: dict = self.orders.get(label)
        if names is None:
            names = {}
            self.orders[label] = names
            self.dense = self.reading.dense and not self.cyclic  # the first stamp of a key settles it
        code: object = names.get(name)
        if code is None:
            return DONE if self.forgotten and fingerprint(name) in self.forgotten else -1
        return code

    @cython.ccall
    def source(self, code: cython.longlong) -> Source:
        """Return what is known of a source beside its level."""
        source: Source = self.extra[code]
        if source is None:
            source = _source()
            self.extra[code] = source
        return source

    @cython.ccall
    def text(self, code: cython.longlong) -> object:
        """Return the name of a source."""
        return self.names[code] if self.lexicon is None else self.lexicon.name(self.origin[code])

    def named_code(self, label: object, name: object) -> int:
        """Return a code that keeps its name until no held row names it, though the id may be delivered."""
        code: cython.longlong = self.code(label, name)
        if self.cyclic and code == DONE:
            code = self._new(name)
            self.level[code] = 1
            self.source(code)
            self.retire(code)
        return code

    def level_of(self, code: cython.longlong) -> int:
        """Return up to which number a source counts as delivered."""
        return self.level[code]

    def set_level(self, code: cython.longlong, level: cython.longlong) -> None:
        """Set a level read from a saved state."""
        self.level[code] = level

    def enter(self, rows: CodedRows, first: cython.Py_ssize_t, last: cython.Py_ssize_t) -> None:
        """Replace the batch's numbers of sources by codes of this key, in these rows."""
        place: cython.Py_ssize_t
        at: cython.Py_ssize_t
        own: cython.int
        names: list = None
        entered: list = []
        if self.lexicon is not None:
            self.settle()
            self.tidy()
        if self.cyclic and self.count == 1 and not self.orders and not self.forgotten:
            self.lexicon, self.names = rows.lexicon, None
            self.make_room(min(last - first + rows.start[last] - rows.start[first], len(rows.mark)) + 1)
            if len(self.origin) < len(self.level):
                self.origin = self.room.more_ints(NO_INTS, len(self.level))
        else:
            names = rows.lexicon.names()
        for place in range(first, last):
            own = rows.own[place]
            if own >= 0:
                rows.own[place] = self._enter(rows, names, entered, own)
                for at in range(rows.start[place], rows.start[place + 1]):
                    rows.need[at] = self._enter(rows, names, entered, rows.need[at])
            elif own < -1:  # an unusable row that has an id
                rows.own[place] = -2 - self._enter(rows, names, entered, -2 - own)
        if names is None:
            self.extra.extend([None] * (self.count - 1))
            for place in range(1, self.count):
                rows.mark[self.origin[place]] = 0
        for each in entered:
            rows.mark[each] = 0

    @cython.cfunc
    def _enter(self, rows: CodedRows, names: list | None, entered: list, number: cython.int) -> cython.int:
        """Return the code of a source by its number in a batch; `names`: None where all codes are from the batch."""
        code: cython.int = rows.mark[number]
        if code > 0:
            return code - 1
        if names is None:
            code = self.count
            self.origin[code] = number
            self.count += 1
        else:
            code = self.code(None, names[number])
            entered.append(number)
        rows.mark[number] = code + 1
        return code

    @cython.ccall
    def settle(self) -> object:
        """Give the codes of a batch their names, so that rows can come by name."""
        code: cython.Py_ssize_t
        source: Source
        lexicon, self.lexicon = self.lexicon, None
        if self.fresh is None:
            self.names = [None, *lexicon.listed(self.origin[1 : self.count])]
        else:  # every key of the batch is written, so its names are made once for all keys
            texts: list = lexicon.names()
            self.names = [None]
            for code in range(1, self.count):
                self.names.append(texts[self.origin[code]])
        self.orders[None] = {name: code for code, name in enumerate(self.names) if code}
        self.dense = False
        if self.fresh is None and self.recent is None:
            for code in range(1, self.count):
                source = self.extra[code]
                if self.level[code] > 0 and (source is None or source.holes is None):
                    self.delivered.append(code)
        self.origin = NO_INTS

    @cython.ccall
    def tidy(self) -> object:
        """Count delivered ids as DONE, and use again the codes that no held row names."""
        code: cython.longlong
        if self.lexicon is not None:
            self.settle()
        names: dict = self.orders.get(None)
        for each in self.delivered:
            code = each
            name = self.names[code]
            names[name] = DONE
            if self.fresh is not None:
                self.fresh.append(name)
            if self.recent is not None:
                self._remember(names, name)
            self.retire(code)
        self.delivered = []
        loose, self.loose = self.loose, []
        for each in loose:
            self.let_go(each)

    @cython.ccall
    def retire(self, code: cython.longlong) -> object:
        """Note that the id of a code stands for DONE; the code is used again once no held row names it."""
        if self.refs[code] or self.extra[code] is not None:
            self.source(code).retired = True
        self.loose.append(code)

    @cython.ccall
    def let_go(self, code: cython.longlong) -> object:
        """Use the code of a delivered id again, unless a held row names it or it is to be written."""
        source: Source = self.extra[code]
        if self.names[code] is None or self.refs[code]:
            return  # already free, or still in use
        if source is None or (source.retired and not source.noted):
            self.recycle(code)

    @cython.cfunc
    def _remember(self, names: dict, name: object) -> cython.void:
        self.recent.append(name)
        while len(self.recent) > self.remember:
            oldest = self.recent.popleft()
            names.pop(oldest, None)
            print_ = fingerprint(oldest)
            self.forgotten.add(print_)
            if self.fresh is not None:
                self.gone.append(print_)

    @cython.cfunc
    def recycle(self, code: cython.longlong) -> cython.void:
        """Assign a code to another source."""
        self.names[code] = self.extra[code] = None
        self.level[code] = 0
        self.free.append(code)

    @cython.cfunc
    def name(self, code: cython.longlong, number: cython.longlong) -> object:
        """Return the name of a cause as users know it."""
        source: Source
        if self.cyclic:
            return self.text(code)
        source = self.source(code)
        if source.prefix is None:
            source.prefix = self.reading.name(self.names[code], 1).removesuffix("1")
        return source.prefix + str(number)

    @cython.cfunc
    def named(self, needs: object) -> object:
        """Name causes; of a protocol with a rule of its own they are named already."""
        if not needs or isinstance(needs, tuple):
            return needs
        return [self.name(need[0], need[1]) for need in needs]

    @cython.cfunc
    def note(self, code: cython.longlong) -> cython.void:
        """Record that a source differs from what was last written."""
        source: Source
        if self.fresh is not None:
            source = self.source(code)
            if not source.noted:
                source.noted = True
                self.changed.append(code)
