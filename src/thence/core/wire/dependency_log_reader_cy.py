# cython: wraparound=False, initializedcheck=False
# wraparound: offsets and positions are never negative. Bounds checks stay on: these are bytes of other processes.
# initializedcheck: no view is used before it is set.
# mypy: disable-error-code="valid-type,misc,no-redef,type-arg,no-any-return,union-attr,return-value"
"""Dependency logs from bytes: the one strict reader, for a log or for the needs of one destination alone."""

from __future__ import annotations

from thence.errors import PeerError

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

if cython.compiled:
    from cython.cimports.thence.core.wire.dependency_log_cy import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        Log,
        blank,
    )
    from cython.cimports.thence.core.wire.reader_cy import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        Reader,
    )
    from cython.cimports.thence.core.wire.words_cy import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        Words,
        width_of,
    )
else:
    from thence.core.wire.dependency_log_cy import Log, blank
    from thence.core.wire.reader_cy import Reader
    from thence.core.wire.words_cy import Words, width_of


@cython.cfunc
def _grown(log: Log) -> Log:
    """Return the log with place for more entries."""
    i: cython.Py_ssize_t
    made: Log = blank(2 * log.entries + 1, log.width)
    for i in range(log.entries * log.stride):
        made.data[i] = log.data[i]
    made.entries = log.entries
    return made


@cython.ccall
def read_log(reader: Reader) -> Log:
    """Read what `write` wrote; raise `PeerError` for invalid bytes."""
    width: cython.Py_ssize_t = width_of(reader.size)
    return _read(reader, blank((reader.end - reader.at) // (2 + width), width), -1, None, None)


@cython.ccall
def read_needs(reader: Reader, me: cython.Py_ssize_t, sources: list, counts: list) -> object:
    """Read a log and keep nothing of it but the messages that are on their way to a position, none if that is -1."""
    _read(reader, None, me, sources, counts)
    return None


@cython.cfunc
def _read(
    reader: Reader, log: Log | None, me: cython.Py_ssize_t, sources: list | None, counts: list | None
) -> Log | None:
    """Read groups whose senders ascend; nothing is taken on trust.

    Counts stand newest first and sets oldest first, so the counts of a group wait in an array of the reader.
    """
    last: cython.longlong = -1
    sender: cython.longlong
    head: cython.longlong
    length: cython.longlong
    i: cython.longlong
    _g: cython.longlong
    words: Words
    for _g in range(reader.length()):
        sender = reader.varint()
        head = reader.varint()
        length = (head >> 1) + (head & 1)
        if sender <= last or sender >= reader.size or length < 1 or 2 * length - (head & 1) > reader.end - reader.at:
            raise PeerError(f"{length} entries of sender {sender} after {last} before byte {reader.at} are impossible")
        last = sender
        reader.falling(length)
        for i in range(length - (head & 1)):
            words = reader.set()
            if log is not None:
                if log.entries == log.place:
                    log = _grown(log)
                log.head(sender, reader.counts[i])
                log.words(words)
            elif me >= 0 and words.has(me):
                sources.append(sender)
                counts.append(reader.counts[i])
            if i + 1 == length and words.empty():
                raise PeerError(f"the last entry before byte {reader.at} is empty but not marked so")
        if log is not None and head & 1:
            if log.entries == log.place:
                log = _grown(log)
            log.head(sender, reader.counts[length - 1])
    return None if log is None else log.trimmed()
