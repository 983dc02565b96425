"""The texts of a row in one: a row crosses from Java to Python at a price for each column, whatever it holds.

Law. `split` returns what was joined, whatever the texts hold: the marks are bytes that no UTF-8 text has. A row whose
texts are no UTF-8, so that marks stand where none can, is said to be odd.

    process END message END destinations [LABEL label ODD reason [INDEX index]]

`destinations` are names with NEXT between them, or NOBODY, or UNADDRESSED for null; NULL is a name that is null.
`index` is there if it is missing (NULL), or no number that goes with the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from thence.kernels.arrays import Flags, Ints, Letters
from thence.kernels.interning import FEW, PRIME, SEED, buffers, code_of, enter, gathered, grown, longer

MARKS = END, NEXT, NULL, UNADDRESSED, NOBODY, ODD, LABEL, INDEX = 0xFE, 0xFF, 0xFD, 0xFC, 0xFB, 0xFA, 0xF9, 0xF8
"""All of them beyond `LAST`, the greatest byte of UTF-8 texts."""
LAST = 0xF7
NO_TEXT = "its texts are not UTF-8"


class Split(NamedTuple):
    """The columns of some rows; names are dictionaries, since there are few."""

    process: pa.DictionaryArray
    message: pa.StringArray
    destinations: pa.ListArray
    label: pa.Array
    odd: pa.Array
    indexes: dict[int, int | None]
    """Rows whose index came as a text."""


def split(texts: pa.BinaryArray | pa.StringArray) -> Split:
    """Return the columns that were joined into one."""
    offsets, data = buffers(texts)
    process, message, addressed, ends, destinations, label, odd, digits_at, names = _split(offsets, data)
    nameless = process < 0
    known = gathered(data, names)
    values = pa.DictionaryArray.from_arrays(pa.array(destinations, mask=_some(destinations < 0)), known)
    mask = None if addressed.all() else pa.array(~addressed)
    labels: pa.Array = pa.nulls(len(texts), pa.string())
    if bool(np.any(label >= 0)):
        labels = pa.DictionaryArray.from_arrays(pa.array(label, mask=label < 0), known)
    return Split(
        pa.DictionaryArray.from_arrays(pa.array(process, mask=_some(nameless)), known),
        gathered(data, message),
        pa.ListArray.from_arrays(pa.array(ends), values, mask=mask),
        labels,
        _reasons(data, odd),
        {int(row): _number(bytes(data[digits_at[row] : offsets[row + 1]])) for row in np.flatnonzero(digits_at >= 0)},
    )


def _number(digits: bytes) -> int | None:
    return None if digits == bytes([NULL]) else int(digits)


def _some(mask: Flags) -> Flags | None:
    return mask if mask.any() else None


@njit(cache=True, nogil=True)
def _split(offsets: Ints, data: Letters) -> tuple[Ints, Ints, Flags, Ints, Ints, Ints, Ints, Ints, Ints]:
    rows = len(offsets) - 1
    process = np.full(rows, -1, np.int32)
    message = np.full((rows, 2), -1, np.int32)
    addressed = np.zeros(rows, np.bool_)
    ends = np.zeros(rows + 1, np.int32)
    label = np.full(rows, -1, np.int32)
    odd = np.full((rows, 2), -1, np.int32)
    digits_at = np.full(rows, -1, np.int32)
    destinations = np.empty(max(16, rows), np.int32)
    table = np.full(2 * FEW, -1, np.int32)
    names = np.empty((FEW, 2), np.int32)
    hashes = np.empty(FEW, np.uint64)
    known = count = 0
    for row in range(rows):
        i, last = np.int64(offsets[row]), np.int64(offsets[row + 1])
        field = 0  # process, message, destinations, label
        good = True
        while True:
            null = i < last and data[i] == NULL
            i += np.int64(null)
            start = i
            h = SEED
            while i < last and data[i] <= LAST:
                h = (h ^ np.uint64(data[i])) * PRIME
                i += 1
            mark = np.int64(data[i]) if i < last else np.int64(-1)
            if field < 2:
                good = mark == END
            elif field == 2:
                good = mark in (-1, LABEL, NEXT)
                if mark in (NOBODY, UNADDRESSED):
                    good = i == start and not null and ends[row + 1] == 0
                    good = good and (i + 1 == last or data[i + 1] == LABEL)
            else:
                good = mark == ODD
            if not good or (null and i > start):
                good = False
                break
            if field == 1:
                if not null:
                    message[row, 0], message[row, 1] = start, i
            elif mark not in (NOBODY, UNADDRESSED):
                code = -1
                if not null:
                    h ^= h >> np.uint64(32)
                    code = code_of(table, names, hashes, data, h, start, i)
                    if code < 0:
                        enter(table, names, hashes, known, code, h, start, i)
                        code = known
                        known += 1
                        if known == len(names):
                            table, names, hashes = grown(table, names, hashes)
                if field == 0:
                    process[row] = code
                elif field == 2:
                    if count == len(destinations):
                        destinations = longer(destinations)
                    destinations[count] = code
                    count += 1
                    ends[row + 1] += 1
                    addressed[row] = True
                else:
                    label[row] = code
            else:
                addressed[row] = mark == NOBODY
                i += 1
                mark = np.int64(LABEL) if i < last else np.int64(-1)
            i += 1
            if mark == -1:
                break
            if mark == ODD:
                digits = last  # the index stands last: a reason may hold any bytes
                while digits > i and (data[digits - 1] in (NULL, 45) or 48 <= data[digits - 1] <= 57):
                    digits -= 1
                if i < digits < last and data[digits - 1] == INDEX:
                    digits_at[row] = digits
                    last = digits - 1
                if i < last:
                    odd[row, 0], odd[row, 1] = i, last
                break
            if mark == END:
                field += 1
            elif mark == LABEL:
                field = 3
        if not good:
            count -= ends[row + 1]
            process[row] = label[row] = message[row, 0] = message[row, 1] = -1
            ends[row + 1] = 0
            addressed[row] = False
            odd[row, 0] = -2
    for row in range(rows):
        ends[row + 1] += ends[row]
    return process, message, addressed, ends, destinations[:count], label, odd, digits_at, names[:known]


def _reasons(data: Letters, odd: Ints) -> pa.Array:
    """Return the reason why a row is odd, where one is."""
    rows = np.flatnonzero(odd[:, 0] != -1).tolist()
    if not rows:
        return pa.nulls(len(odd), pa.string())
    texts: list[str | None] = [None] * len(odd)
    for row in rows:
        start, end = odd[row].tolist()
        texts[row] = NO_TEXT if start < 0 else bytes(data[start:end]).decode(errors="replace")
    return pa.array(texts, pa.string())
