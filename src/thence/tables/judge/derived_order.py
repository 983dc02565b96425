"""An order in which causes come first, from the order of each process and from sends before deliveries.

Invariant. `derived_order` returns a permutation of the rows in which each row follows the previous row of its process
and each delivery follows its send; if there is a cycle, it returns only the rows that could be placed. `on_cycles`
marks the deliveries from which their own send can be reached, as `core.model.order` defines them.
"""

from __future__ import annotations

import numpy as np

from thence.core.model.strong_components_cy import ALONE, number_components
from thence.tables.contract.numpy_types import Flags, Ints, Longs
from thence.tables.judge import order_cy


def grouped(keys: Ints, count: int) -> tuple[Longs, Longs]:
    """Return (rows by key, those of one key in order; where each key starts); a key below 0 is left out."""
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(keys[keys >= 0], minlength=count), out=starts[1:])
    rows = np.empty(starts[-1], np.int64)
    order_cy.group(keys, starts[:-1].copy(), rows)
    return rows, starts


def by_process(process: Ints, index: Longs, processes: int) -> tuple[Longs, Flags]:
    """Return the rows sorted by process and index, and for each but the first whether it has the process before it."""
    rows, _ = grouped(process, processes)
    same = process[rows[1:]] == process[rows[:-1]]
    if bool(np.any(same & (index[rows[1:]] < index[rows[:-1]]))):
        rows = np.lexsort((index, process))
    return rows, same


def _following(process: Ints, index: Longs, processes: int) -> Longs:
    rows, same = by_process(process, index, processes)
    following = np.full(len(process), -1, np.int64)
    following[rows[:-1][same]] = rows[1:][same]
    return following


def _deliveries(sends: Flags, message: Ints, messages: int) -> tuple[Longs, Longs]:
    return grouped(np.where(sends, np.int32(-1), message), messages)


def derived_order(sends: Flags, process: Ints, index: Longs, message: Ints, processes: int, messages: int) -> Longs:
    """Return the rows in an order in which causes come first; fewer than all if there is a cycle."""
    following = _following(process, index, processes)
    deliveries, starts = _deliveries(sends, message, messages)
    waits = (~sends).astype(np.int8)
    waits[following[following >= 0]] += 1
    queue = np.empty(len(process), np.int64)
    placed = order_cy.causes_first(sends.view(np.uint8), message, following, deliveries, starts, waits, queue)
    return queue[:placed]


def on_cycles(sends: Flags, process: Ints, index: Longs, message: Ints, processes: int, messages: int) -> Flags:
    """Mark each delivery that lies in one strongly connected component with its send."""
    count, every = len(process), np.arange(len(process))
    following = _following(process, index, processes)
    before, sent = (np.full(count, -1, np.int64) for _ in range(2))
    before[following[following >= 0]] = every[following >= 0]
    send_row = np.full(messages, -1, np.int64)
    send_row[message[sends]] = every[sends]
    sent[~sends] = send_row[message[~sends]]
    causes = np.stack([before, sent], axis=1)  # the components of effects are those of causes
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.count_nonzero(causes >= 0, axis=1), out=starts[1:])
    number, low, under = (np.zeros(count, np.int64) for _ in range(3))
    groups = np.full(count, ALONE, np.int64)
    number_components(starts, causes[causes >= 0], starts.copy(), number, low, under, groups)
    marked: Flags = ~sends & (groups != ALONE) & (groups == groups[sent])
    return marked
