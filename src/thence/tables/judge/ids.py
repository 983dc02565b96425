"""Messages that are sent twice in a run, which a chunk cannot know: its summary does not name every message it sends.

Invariant: Equal ids have equal hashes, so a message sent in two chunks is always noticed. Two ids with one hash are
noticed too, wrongly; the run is then judged whole, by the ids themselves. So hashes only decide which runs are judged
a second time.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from thence.tables.contract.numpy_types import Hashes
from thence.tables.judge.coded_rows import buffers
from thence.tables.judge.order_cy import hash_names


def hashes_of(names: pa.StringArray) -> Hashes:
    """Return a 64-bit hash of each name; none is null."""
    hashes = np.zeros(len(names), np.uint64)
    if len(names):
        offsets, letters = buffers(names)
        hash_names(offsets, memoryview(letters), hashes)  # type: ignore[arg-type]
    return hashes


def buckets(hashes: Hashes, count: int) -> list[bytes]:
    """Divide hashes into `count` buckets by their leading bits."""
    ordered = np.sort(hashes)
    ends = np.searchsorted(ordered, [np.uint64((b << 64) // count) for b in range(1, count)])
    return [chunk.tobytes() for chunk in np.split(ordered, ends)]


def repeated(lists: Iterable[bytes]) -> bool:
    """Return whether a hash stands twice in the lists of one bucket."""
    whole = np.sort(np.concatenate([np.zeros(0, np.uint64), *(np.frombuffer(p, np.uint64) for p in lists)]))
    return bool(np.any(whole[1:] == whole[:-1]))
