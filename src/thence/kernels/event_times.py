"""Event time over arrays: what `delivery/event_time.py` does, by index."""

from __future__ import annotations

import numpy as np
from numba import njit

from thence.kernels.arrays import Doubles


@njit(cache=True)
def clocked(
    times: Doubles, now: float, began: float, doubted: float, max_jump: float
) -> tuple[Doubles, Doubles, float, float, float]:
    """Let event time move on row by row, as `delivery/event_time.py` does; NaN is none.

    Return the time of the key at each row, by how much each row's own is too far ahead (NaN: it is not), and the three
    numbers as they are at the end.
    """
    key, ahead = np.empty(len(times)), np.full(len(times), np.nan)
    for row in range(len(times)):
        time = times[row]
        if not np.isnan(time):
            if time - now <= max_jump or (np.isnan(now) and np.isinf(max_jump)):
                now = time if np.isnan(now) else max(now, time)
                doubted = np.nan
            elif not np.isnan(doubted):
                now = min(time, doubted)
                far = time - now
                doubted = time if far > max_jump else np.nan
                ahead[row] = far if far > max_jump else np.nan
            else:
                doubted = time
                ahead[row] = time - now
            if np.isnan(began):
                began = now
        key[row] = now
    return key, ahead, now, began, doubted
