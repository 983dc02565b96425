"""Event time over arrays: what `delivery/event_time.py` does, by index."""

from __future__ import annotations

import numpy as np

from thence.kernels.arrays import Doubles, fixed
from thence.kernels.compiling import loop


@loop
def _clock(
    times: Doubles, now: float, began: float, doubted: float, max_jump: float, key: Doubles, ahead: Doubles
) -> tuple[float, float, float]:
    for row in range(len(times)):
        time = times[row]
        if time == time:
            if time - now <= max_jump or (now != now and max_jump == np.inf):
                now = time if now != now else max(now, time)
                doubted = np.nan
            elif doubted == doubted:
                now = min(time, doubted)
                far = time - now
                doubted = time if far > max_jump else np.nan
                ahead[row] = far if far > max_jump else np.nan
            else:
                doubted = time
                ahead[row] = time - now
            if began != began:
                began = now
        key[row] = now
    return now, began, doubted


def clocked(
    times: Doubles, now: float, began: float, doubted: float, max_jump: float
) -> tuple[Doubles, Doubles, float, float, float]:
    """Let event time move on row by row, as `delivery/event_time.py` does; NaN is none.

    Return the time of the key at each row, by how much each row's own is too far ahead (NaN: it is not), and the three
    numbers as they are at the end. Rows without any time compile nothing.
    """
    key, ahead = np.full(len(times), now), np.full(len(times), np.nan)
    if not np.isnan(times).all():
        now, began, doubted = _clock(fixed(times), now, began, doubted, max_jump, key, ahead)
    return key, ahead, now, began, doubted
