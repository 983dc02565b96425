"""Who waits for what: held rows, found by what they wait for and by what they are.

Law. A held row watches one unmet need. The watchers of a source form a pairing heap by the number they wait for, so a
delivery touches only rows that it may set free. The held rows of a source form another one by their own number, and a
hash table finds them by source and number. For explicit causes (*cyclic*), where every row is a source of its own, the
needs of a source are linked instead, and there is no table.
"""

from __future__ import annotations

import numpy as np

from thence.kernels.arrays import Longs, Number, Records
from thence.kernels.arrival_rows import NONE, Status
from thence.kernels.compiling import part


@part
def _meld(one: Number, two: Number, nodes: Records) -> Number:
    if one == NONE:
        return two
    if two == NONE:
        return one
    if nodes[two].key < nodes[one].key:
        one, two = two, one
    nodes[two].sibling = nodes[one].child
    nodes[one].child = two
    return one


@part
def popped(root: Number, nodes: Records) -> Number:
    """Return the heap without its root: children paired left to right, then melded right to left."""
    node = nodes[root].child
    nodes[root].child = NONE
    pairs: Number = np.int64(NONE)
    while node != NONE:
        other = nodes[node].sibling
        nodes[node].sibling = NONE
        following = NONE
        if other != NONE:
            following = nodes[other].sibling
            nodes[other].sibling = NONE
        pair = _meld(node, other, nodes)
        nodes[pair].sibling = pairs
        pairs = pair
        node = following
    result: Number = np.int64(NONE)
    while pairs != NONE:
        following = nodes[pairs].sibling
        nodes[pairs].sibling = NONE
        result = _meld(result, pairs, nodes)
        pairs = following
    return result


@part
def entered(heap: Number, node: Number, key: Number, nodes: Records) -> Number:
    """Return the heap with a node that is in none."""
    nodes[node].key, nodes[node].child, nodes[node].sibling = key, NONE, NONE
    return _meld(heap, node, nodes)


@part
def first_unmet(row: Number, rows: Records, needs: Records, sources: Records) -> int:
    """Return the place of the first need that is not met, or NONE."""
    for i in range(rows[row].start, rows[row].start + rows[row].length):
        if sources[needs[i].source].level < needs[i].number:
            return i
    return NONE


@part
def _watch(row: Number, rows: Records, nodes: Records, needs: Records, sources: Records) -> bool:
    """Let a row watch its first unmet need; tell whether it has one."""
    need = first_unmet(row, rows, needs, sources)
    if need == NONE:
        return False
    s = needs[need].source
    sources[s].heap = entered(sources[s].heap, 2 * row, needs[need].number, nodes)
    return True


@part
def _slot(table: Longs, source: int, number: int) -> Number:
    mixed = (np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)) ^ (np.uint64(source) * np.uint64(0xC2B2AE3D27D4EB4F))
    mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed & np.uint64(len(table) - 1))


@part
def hold(
    row: int, rows: Records, nodes: Records, needs: Records, sources: Records, table: Longs | None, tally: Records
) -> None:
    """Note a row as held; entries of the hash table stay, and are stale once the row has left."""
    _watch(row, rows, nodes, needs, sources)
    s = rows[row].source
    tally[0].held += 1
    if table is None:
        sources[s].own = row
        for i in range(rows[row].start, rows[row].start + rows[row].length):
            if needs[i].waited:
                wanted = needs[i].source
                needs[i].want_row, needs[i].want_next = row, sources[wanted].want
                sources[wanted].want = i
        return
    slot = _slot(table, s, rows[row].number)
    while table[slot] != 0:
        slot = (slot + 1) & (len(table) - 1)
    table[slot] = row + 1
    sources[s].own = entered(sources[s].own, 2 * row + 1, rows[row].number, nodes)


@part
def is_held(s: int, n: int, rows: Records, sources: Records, table: Longs | None) -> bool:
    """Tell whether this number of this source is held."""
    if table is None:
        return bool(sources[s].own != NONE)
    slot = _slot(table, s, n)
    while table[slot] != 0:
        other = table[slot] - 1
        if rows[other].source == s and rows[other].number == n and rows[other].status == Status.HELD:
            return True
        slot = (slot + 1) & (len(table) - 1)
    return False


@part
def wake(s: int, rows: Records, nodes: Records, needs: Records, sources: Records, tally: Records) -> None:
    """Set free what watched a source, or let it watch its next need."""
    while sources[s].heap != NONE and nodes[sources[s].heap].key <= sources[s].level:
        top = sources[s].heap
        sources[s].heap = popped(top, nodes)
        row = top >> 1
        if rows[row].status == Status.HELD and not _watch(row, rows, nodes, needs, sources):
            tally[0].ready = entered(tally[0].ready, top, row, nodes)


@part
def lowest(s: int, rows: Records, nodes: Records, sources: Records) -> int:
    """Return the held row of a source with the lowest number above its level, or NONE."""
    while sources[s].own != NONE:
        row = sources[s].own >> 1
        if rows[row].status == Status.HELD and rows[row].number > sources[s].level:
            return int(row)
        sources[s].own = popped(sources[s].own, nodes)
    return NONE
