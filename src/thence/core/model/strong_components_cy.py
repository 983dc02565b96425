# mypy: disable-error-code="valid-type,misc,no-redef,type-arg,index,assignment,arg-type"
"""The strongly connected components of rows and their causes: a row that is alone in its own is on no cycle."""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

ALONE = -1
"""The group of a row that is on no cycle."""


def number_components(
    start: cython.longlong[::1],
    causes: cython.longlong[::1],
    at: cython.longlong[::1],
    number: cython.longlong[::1],
    low: cython.longlong[::1],
    under: cython.longlong[::1],
    groups: cython.longlong[::1],
) -> bool:
    """Give the rows of each component of more than one row a number of their own; return whether there is one.

    The causes of row r, which are rows, are `causes[start[r]:start[r + 1]]`. Given: `at` is a copy of `start`, `number`
    is 0 and `groups` is `ALONE` throughout. This is Tarjan's search, as a loop: `low` is the lowest number of a row in
    reach that is not closed; `under` leads back to where a row was met from and, once done, to the row done before it.
    """
    count: cython.longlong = 0
    closed: cython.longlong = len(groups) + 1
    done: cython.longlong = -1
    found: cython.bint = False
    first: cython.longlong
    here: cython.longlong
    cause: cython.longlong
    for first in range(closed - 1):
        if number[first]:
            continue
        here = first
        count += 1
        under[here] = -1
        number[here] = low[here] = count
        while here != -1:
            if at[here] < start[here + 1]:
                cause = causes[at[here]]
                at[here] += 1
                if number[cause] == 0:
                    count += 1
                    under[cause] = here
                    number[cause] = low[cause] = count
                    here = cause
                elif number[cause] < low[here]:
                    low[here] = number[cause]
                continue
            back: cython.longlong = under[here]
            if low[here] < number[here]:
                under[here], done = done, here
            else:  # the first of its component: it leads back to nothing before it
                while done != -1 and number[done] > number[here]:
                    groups[done] = groups[here] = here
                    number[done] = closed
                    done = under[done]
                    found = True
                number[here] = closed
            if back != -1 and low[here] < low[back]:
                low[back] = low[here]
            here = back
    return found
