# cython: boundscheck=False, wraparound=False, initializedcheck=False
# boundscheck: starts, codes and offsets are those of Arrow's encoders, and each array is as long as its neighbours say.
# wraparound: no index is negative.
# initializedcheck: every array is set when its object is made.
# mypy: ignore-errors
# C types are in coded_rows_cy.pxd, where mypy does not see them.
"""The rows of a batch as numbers: which source each is from, and what it needs. A further row creates no object.

*Invariant.* A row read in a batch gives the same result as `reading_cy.py` gives for that row alone. Rows that the
columns do not decide (`odd`) are read alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

from thence.tables.delivery.reading_cy import NO_MESSAGE
from thence.tables.delivery.room_cy import zeros


@cython.auto_pickle(False)
@cython.final
@cython.cclass
class CodedRows:
    """Row r is number `number[r]` of source `own[r]` and needs `need[start[r]:start[r + 1]]`, up to `wanted` of each.

    Sources are numbers of `lexicon`. A row with `own[r] < 0` is in `odd`: a sentence says why it is unusable, or it was
    read alone; -2 - n stands for an unusable row of source n. Of explicit causes every number is 1, and `number` and
    `wanted` are empty.
    """

    def __init__(
        self,
        lexicon: object,
        own: Any,
        start: Any,
        need: Any,
        odd: dict[int, Any],
        number: Any = None,
        wanted: Any = None,
    ) -> None:
        """Take arrays: 4 bytes an entry, of numbers 8; they are changed as a rule takes the rows."""
        self.lexicon, self.odd = lexicon, odd
        self.own, self.start, self.need = memoryview(own), memoryview(start), memoryview(need)
        self.number = memoryview(array("q") if number is None else number)
        self.wanted = memoryview(array("q") if wanted is None else wanted)
        self.mark = memoryview(zeros("i", len(lexicon)))

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.own)

    def of(self, place: int) -> tuple | str:
        """Return one row in the batch's numbers; for tests."""
        if self.own[place] < 0:
            return self.odd[place]
        span = range(self.start[place], self.start[place + 1])
        names = [self.lexicon.name(self.need[at]) for at in span]
        counts = [self.wanted[at] for at in span] if len(self.number) else None
        number = self.number[place] if len(self.number) else 1
        return (None, self.lexicon.name(self.own[place]), number, names, counts, None)


class Lexicon:
    """The names of a batch's sources, by number."""

    def __init__(self, names: Any) -> None:
        """Take the names, a list."""
        self._names = names

    def __len__(self) -> int:
        """Return how many names there are."""
        return len(self._names)

    def name(self, number: int) -> Any:
        """Return the name that has this number."""
        return self._names[number]

    def names(self) -> list[Any]:
        """Return all names, by number."""
        return self._names

    def listed(self, numbers: Iterable[int]) -> list[Any]:
        """Return the names that have these numbers."""
        return [self._names[number] for number in numbers]


def coded_reads(reads: Sequence[tuple | str], ids: Sequence[str | None] | None = None) -> CodedRows:
    """Return rows that were read one by one; `ids`: of explicit causes the ids, also of rows that are unusable."""
    place: cython.Py_ssize_t
    numbers: dict = {}
    odd: dict = {}
    own = array("i")
    start, need = array("i", [0]), array("i")
    number, wanted = array("q"), array("q")
    for place, read in enumerate(reads):
        if isinstance(read, str) or read[0] is not None or read[5] is not None:
            name = None if ids is None else ids[place]
            own.append(-1 if name is None else -2 - numbers.setdefault(name, len(numbers)))
            number.append(0)
            odd[place] = read
        else:
            own.append(numbers.setdefault(read[1], len(numbers)))
            number.append(read[2])
            for each in read[3]:
                need.append(numbers.setdefault(each, len(numbers)))
            wanted.extend([1] * len(read[3]) if read[4] is None else read[4])
        start.append(len(need))
    return CodedRows(Lexicon(list(numbers)), own, start, need, odd, number, wanted)


# -- explicit causes ---------------------------------------------------------------------------------------------------


def coded_explicit(
    lexicon: Lexicon, own: object, start: object, need: object, flags: object, alone: Callable[[int], str]
) -> CodedRows:
    """Return rows whose ids and causes are numbers of a lexicon, -1 for null; the arrays are changed.

    `flags`: of each name whether it is an id (0), empty (1), or an array or object of JSON (2); None if all are ids.
    `alone` reads the row at a place that is unusable.
    """
    rows: CodedRows = CodedRows(lexicon, own, start, need, {})
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    first: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    begin: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    me: cython.int
    cause: cython.int
    bad: cython.bint
    flagged: cython.bint = flags is not None
    flag: cython.schar[::1] = memoryview(array("b") if flags is None else flags)
    for row in range(len(rows.own)):
        me = rows.own[row]
        end = rows.start[row + 1]
        rows.start[row] = first = kept
        bad = me < 0 or (flagged and flag[me] != 0)
        for at in range(begin, end):
            cause = rows.need[at]
            if cause < 0 or (flagged and flag[cause] == 1) or rows.mark[cause]:
                continue
            if cause == me or (flagged and flag[cause] == 2):
                bad = True
            rows.mark[cause] = 1  # it may stand twice
            rows.need[kept] = cause
            kept += 1
        for at in range(first, kept):
            rows.mark[rows.need[at]] = 0
        begin = end
        if bad:
            kept = first
            rows.odd[row] = NO_MESSAGE if me < 0 else alone(row)
            rows.own[row] = -1 if me < 0 else -2 - me
    rows.start[len(rows.own)] = kept
    return rows


# -- clocks ------------------------------------------------------------------------------------------------------------


def coded_clocks(
    lexicon: Lexicon, own: object, start: object, codes: object, counts: object, alone: Callable[[int], tuple | str]
) -> CodedRows:
    """Return rows with a clock each: its components are those from `start[r]` on; `own`: -1 where a row is unusable.

    The arrays are changed. `alone` reads the row at a place that is unusable, or whose names do not ascend.
    """
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    first: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    begin: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    me: cython.int
    code: cython.int
    count: cython.longlong
    last: cython.longlong
    plain: cython.bint
    rows: CodedRows = CodedRows(lexicon, own, start, codes, {}, zeros("q", len(own)), counts)
    names: list = lexicon.names()
    ranks = zeros("q", len(names) + 1)
    for last, place in enumerate(sorted(range(len(names)), key=names.__getitem__)):
        ranks[place] = last
    rank: cython.longlong[::1] = memoryview(ranks)
    for row in range(len(rows.own)):
        me = rows.own[row]
        end = rows.start[row + 1]
        rows.start[row] = first = kept
        last, plain = -1, me >= 0
        for at in range(begin, end):
            count, code = rows.wanted[at], rows.need[at]
            if count < 0 or rank[code] <= last:  # a name may stand twice
                plain = False
                break
            last = rank[code]
            if code == me:
                rows.number[row] = count
                count -= 1
            if count > 0:
                rows.need[kept], rows.wanted[kept] = code, count
                kept += 1
        begin = end
        if not plain or rows.number[row] < 1:
            kept = first
            rows.own[row] = -1
            rows.odd[row] = alone(row)
    rows.start[len(rows.own)] = kept
    return rows
