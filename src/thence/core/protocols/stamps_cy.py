# cython: wraparound=False, initializedcheck=False
# wraparound: positions and lengths are never negative. Bounds checks stay on: these are bytes of other processes.
# initializedcheck: no view is used before it is set.
# mypy: disable-error-code="valid-type,misc,no-redef,type-arg,arg-type,assignment,index"
"""Reads the needs of the delivery rule from the bytes of stamps, without making copies or dependency logs.

*Invariant.* For every byte string, either the answer equals `decode` of `thence.core.protocols.wire` followed by the
protocol's `needs` and `gives`, or the row is left for those to judge: what they refuse, a stamp with a label,
one under another roster, and one that is not addressed to this destination. The bytes are read by the same `Reader`.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from thence.core.protocols.bss import BSS
from thence.core.protocols.ci_dc import CiDc
from thence.core.protocols.ech import ECH
from thence.core.protocols.fifo import Fifo
from thence.core.protocols.history import History
from thence.core.protocols.ks import KS
from thence.core.protocols.ks_hardware import KSHardware
from thence.core.protocols.prs import PRS
from thence.core.protocols.rst import RST
from thence.core.protocols.wire import WIRE_VERSION
from thence.errors import PeerError

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

if cython.compiled:
    from cython.cimports.thence.core.wire.dependency_log_reader_cy import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        read_needs,
    )
    from cython.cimports.thence.core.wire.reader_cy import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        Reader,
    )
    from cython.cimports.thence.core.wire.words_cy import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        Words,
    )
else:
    from thence.core.wire.dependency_log_reader_cy import read_needs
    from thence.core.wire.reader_cy import Reader
    from thence.core.wire.words_cy import Words

LARGEST = cython.declare(cython.longlong, (1 << 63) - 1)
LOG = cython.declare(cython.int, 0)
CONSTRAINTS = cython.declare(cython.int, 1)
HISTORY = cython.declare(cython.int, 2)
MATRIX = cython.declare(cython.int, 3)
VECTOR = cython.declare(cython.int, 4)
NUMBER = cython.declare(cython.int, 5)
BY_DESTINATION = cython.declare(cython.int, 6)
PASTS = cython.declare(cython.int, 7)
FORMS = {
    KS.code: LOG,
    KSHardware.code: LOG,
    CiDc.code: CONSTRAINTS,
    ECH.code: HISTORY,
    RST.code: MATRIX,
    BSS.code: VECTOR,
    Fifo.code: NUMBER,
    PRS.code: BY_DESTINATION,
    History.code: PASTS,
}
"""What stands in the stamp, by the number of the protocol on the wire; other protocols are not read here."""


LEFT = (-1, -1, 0)
"""Protocol, sender and number of a row that is left to `decode`."""


class StampColumns(NamedTuple):
    """Stamps as columns: what must be delivered before row r is `sources[starts[r]:starts[r + 1]]`, up to `counts`.

    Of rows that are left, `protocols` and `senders` are -1.
    """

    protocols: array[int]
    senders: array[int]
    numbers: array[int]
    starts: array[int]
    sources: array[int]
    counts: array[int]


def read_stamps(data: object, offsets: object, digest: bytes, size: cython.Py_ssize_t, here: object) -> StampColumns:
    """Read the stamps of one roster, row r at the process at position `here[r]`; rows with a position below 0 are left.

    `data` and `offsets` (8 bytes each) are those of an Arrow binary column, `digest` is the roster's hash.
    """
    row: cython.Py_ssize_t
    at: cython.const[cython.longlong][::1] = memoryview(offsets)
    me: cython.const[cython.int][::1] = memoryview(here)
    reader: Reader = Reader(memoryview(data).cast("B"), size, 0, 0)
    protocols, senders, numbers, starts = array("i"), array("i"), array("q"), array("i", [0])
    sources: list = []
    counts: list = []
    for row in range(len(me)):
        read: tuple = LEFT if me[row] < 0 else _read(reader, at[row], at[row + 1], digest, me[row], sources, counts)
        if read is LEFT:
            del sources[starts[row] :], counts[starts[row] :]
        protocols.append(read[0])
        senders.append(read[1])
        numbers.append(read[2])
        starts.append(len(sources))
    return StampColumns(protocols, senders, numbers, starts, array("i", sources), array("q", counts))


@cython.cfunc
def _read(
    reader: Reader,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    digest: bytes,
    me: cython.Py_ssize_t,
    sources: list,
    counts: list,
) -> tuple:
    """Return protocol, sender and number, and add what must be delivered before; `LEFT` if the row is left."""
    i: cython.Py_ssize_t
    sender: cython.longlong
    number: cython.longlong
    words: Words
    opening: cython.Py_ssize_t = len(digest) + 3  # version, protocol, the roster, no label
    if end - start < opening or reader.data[start] != WIRE_VERSION or reader.data[start + opening - 1]:
        return LEFT
    form: object = FORMS.get(reader.data[start + 1])
    if form is None:
        return LEFT
    for i in range(len(digest)):
        if reader.data[start + 2 + i] != digest[i]:
            return LEFT
    try:
        reader.span(start, end)
        reader.at = start + opening
        sender = reader.varint()
        number = reader.varint()
        words = reader.set()
        if sender >= reader.size or number < 1 or not words.has(me):
            return LEFT
        number = _read_needs(reader, form, sender, number, me, sources, counts)
        reader.done()
    except PeerError:
        return LEFT
    return reader.data[start + 1], sender, number


@cython.cfunc
def _read_needs(
    reader: Reader,
    form: cython.int,
    sender: cython.longlong,
    number: cython.longlong,
    me: cython.Py_ssize_t,
    sources: list,
    counts: list,
) -> cython.longlong:
    """Read what must be delivered before; return the number that the stamp itself has at this destination."""
    value: cython.longlong
    if form == LOG:
        read_needs(reader, me, sources, counts)
    elif form == CONSTRAINTS:  # control information, which counts for nothing here, and what must come before
        read_needs(reader, -1, sources, counts)
        _read_pairs(reader, sources, counts)
    elif form == HISTORY:  # addresses, and carbon copies
        read_needs(reader, me, sources, counts)
        read_needs(reader, -1, sources, counts)
    elif form == MATRIX:
        return _read_matrix(reader, sender, me, sources, counts)
    elif form == VECTOR:
        _read_vector(reader, me, sources, counts)
    elif form == NUMBER:
        value = reader.varint()
        if value:
            sources.append(sender)
            counts.append(value)
    elif form == BY_DESTINATION:
        _read_by_destination(reader, me, sources, counts)
    else:
        _read_pasts(reader, me, sources, counts)
    return number


@cython.cfunc
def _read_pairs(reader: Reader, sources: list, counts: list) -> object:
    found: dict = reader.pairs()
    sources.extend(found)
    counts.extend(found.values())
    return None


@cython.cfunc
def _read_by_destination(reader: Reader, me: cython.Py_ssize_t, sources: list, counts: list) -> object:
    """Read {destination: {process: count}} and keep what stands under `me`."""
    last: cython.longlong = -1
    destination: cython.longlong
    _i: cython.longlong
    for _i in range(reader.length()):
        destination = reader.varint()
        if destination <= last or destination >= reader.size:
            raise PeerError(f"position {destination} follows {last}")
        last = destination
        if destination == me:
            _read_pairs(reader, sources, counts)
        else:
            reader.pairs()
    return None


@cython.cfunc
def _read_matrix(
    reader: Reader, sender: cython.longlong, me: cython.Py_ssize_t, sources: list, counts: list
) -> cython.longlong:
    """Read a count for each sender and destination; return the stamp's own number."""
    row: cython.Py_ssize_t
    column: cython.Py_ssize_t
    value: cython.longlong
    own: cython.longlong = 0
    for row in range(reader.size):
        for column in range(reader.size):
            value = reader.varint()
            if column == me and value:
                sources.append(row)
                counts.append(value)
                if row == sender:
                    own = value
    if own == LARGEST:
        raise PeerError("its number has more than 63 bits")
    return own + 1


@cython.cfunc
def _read_vector(reader: Reader, me: cython.Py_ssize_t, sources: list, counts: list) -> object:
    """Read a count for each process; keep those of the others."""
    process: cython.Py_ssize_t
    value: cython.longlong
    for process in range(reader.size):
        value = reader.varint()
        if value and process != me:
            sources.append(process)
            counts.append(value)
    return None


@cython.cfunc
def _read_pasts(reader: Reader, me: cython.Py_ssize_t, sources: list, counts: list) -> object:
    """Read every sender's past; keep of each its newest message to `me`."""
    process: cython.Py_ssize_t
    i: cython.longlong
    latest: cython.longlong
    words: Words
    for process in range(reader.size):
        latest = 0
        for i in range(reader.length()):
            words = reader.set()
            if words.has(me):
                latest = i + 1
        if latest:
            sources.append(process)
            counts.append(latest)
    return None
