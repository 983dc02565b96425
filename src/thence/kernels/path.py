"""The causal chain that proves a violation: the shortest in messages from one send to another.

Law. The path is a chain of rows from the send of `missing` to the send of `early`: from one row to the next,
either both are of one process and `index` grows, or the second delivers the message that the first sends. No
chain has fewer messages. Only rows where the chain turns are named. One pass in an order in which causes come
first finds it: reaching a process by fewer messages, later or sooner, is all that can matter to what follows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

from thence.kernels.lane import lane_of
from thence.kernels.rows import DELIVER, as_they_come, code
from thence.kernels.sift import GOOD, NEVER_SENT, sift
from thence.kernels.whole import in_order

STEPS = pa.list_(
    pa.struct([("process", pa.string()), ("index", pa.int64()), ("kind", pa.string()), ("message", pa.string())])
)


@njit(cache=True)
def _walk(sends: Any, process: Any, message: Any, processes: int, messages: int, start: int, goal: int) -> Any:
    """Return the delivery by which each message's sender was best reached when it sent, and whether the goal was."""
    far = len(process) + 1
    hops = np.full(processes, far, np.int64)
    via = np.full(processes, -1, np.int64)
    carried = np.full(messages, far, np.int64)
    from_delivery = np.full(messages, -1, np.int64)
    for row in range(start, goal + 1):
        p, m = process[row], message[row]
        if row == start:
            hops[p], via[p] = 0, -1
        if sends[row]:
            if hops[p] < far:
                carried[m], from_delivery[m] = hops[p], via[p]
        elif carried[m] + 1 < hops[p]:
            hops[p], via[p] = carried[m] + 1, row
    return from_delivery, hops[process[goal]] < far


def shortest(table: pa.Table, missing: str, early: str) -> list[dict[str, Any]] | None:
    """Return the steps of the path between two messages of one run, from a normal table that holds all rows between."""
    table = as_they_come(table)
    rows = code(table)
    fate = sift(rows)
    names = rows.messages.to_pylist()
    ends = {name: place for place, name in enumerate(names) if name in (missing, early)}
    sends = np.flatnonzero((fate == GOOD) & (rows.kind == 0))
    if len(ends) < 2 or not {ends[missing], ends[early]} <= set(rows.message[sends].tolist()):
        return None
    label = int(rows.label[sends[rows.message[sends] == ends[missing]][0]])
    mine = np.flatnonzero((fate == GOOD) & (rows.kind <= DELIVER) & (rows.label == label))
    assert not np.any(fate[mine] == NEVER_SENT)
    lane, _ = in_order(lane_of(rows, label, mine, compact=False))
    send_row = np.full(len(names), -1, np.int64)
    places = np.flatnonzero(lane.sends)
    send_row[lane.message[places]] = places
    start, goal = int(send_row[ends[missing]]), int(send_row[ends[early]])
    via, reached = _walk(lane.sends, lane.process, lane.message, lane.width, len(names), start, goal)
    if start < 0 or goal < start or not reached:
        return None
    steps = [goal]
    at = int(via[lane.message[goal]])
    while at >= 0:
        sent = int(send_row[lane.message[at]])
        steps += [at, sent]
        at = int(via[lane.message[sent]])
    if steps[-1] != start:
        steps.append(start)
    return [_step(rows, lane, row) for row in reversed(steps)]


def _step(rows: Any, lane: Any, row: int) -> dict[str, Any]:
    return {
        "process": rows.processes[int(lane.process[row])].as_py(),
        "index": int(lane.index[row]),
        "kind": "send" if lane.sends[row] else "deliver",
        "message": rows.messages[int(lane.message[row])].as_py(),
    }
