"""Compiled loops over counts by process, against one-line definitions."""

from __future__ import annotations

from random import Random

from thence.core.protocols.counts_cy import (
    beyond,
    later,
    later_pairs,
    later_rows,
    newest,
    packed,
    pairs_in,
    put_packed,
    replaced_rows,
)
from thence.core.wire.codec import INT, ByProcess
from thence.core.wire.words_cy import put_pairs, put_varint, put_varints

LARGEST = (1 << 63) - 1
Pairs = dict[int, int]


def pairs_of(rng: Random, size: int = 8) -> Pairs:
    chosen = rng.sample(range(size), rng.randint(0, size))
    return {process: rng.choice((1, 2, 3, 127, 128, LARGEST)) for process in chosen}


def rows_of(rng: Random) -> dict[int, Pairs]:
    return {position: pairs_of(rng) for position in rng.sample(range(8), rng.randint(0, 8))}


def memory(pairs: Pairs) -> bytearray:
    return packed(sorted(pairs.items()))


def memories(rows: dict[int, Pairs]) -> dict[int, bytearray]:
    return {position: memory(pairs) for position, pairs in rows.items()}


def slow_later(pairs: Pairs, more: Pairs, covered: Pairs) -> Pairs:
    new = {p: c for p, c in more.items() if c > pairs.get(p, 0) and c > covered.get(p, 0)}
    return {**pairs, **new}


def slow_beyond(pairs: Pairs, covered: Pairs) -> Pairs:
    return {p: c for p, c in pairs.items() if c > covered.get(p, 0)}


def test_tuples() -> None:
    rng = Random(1)
    for _ in range(500):
        one = tuple(rng.choices((0, 1, 5, LARGEST), k=rng.randint(0, 5)))
        two = tuple(rng.choices((0, 1, 5, LARGEST), k=rng.randint(0, 5)))
        size = max(len(one), len(two))
        padded = [row + (0,) * (size - len(row)) for row in (one, two)]
        found = later(one, two)
        assert found == tuple(map(max, *padded))
        assert later(found, two) is found


def test_pairs() -> None:
    rng = Random(2)
    for _ in range(500):
        pairs, more, covered = pairs_of(rng), pairs_of(rng), pairs_of(rng)
        given = memory(pairs), memory(more), memory(covered)
        assert pairs_in(given[0]) == sorted(pairs.items())
        assert later_pairs(*given) == memory(slow_later(pairs, more, covered))
        assert beyond(given[0], given[2]) == memory(slow_beyond(pairs, covered))
        assert later_pairs(given[0], given[0], given[2]) is given[0]
        assert later_pairs(given[0], memory({}), given[2]) is given[0]
        assert beyond(given[0], memory({})) is given[0]
        assert given == (memory(pairs), memory(more), memory(covered))


def test_rows() -> None:
    rng = Random(3)
    for _ in range(500):
        rows, more, covered, mask = rows_of(rng), rows_of(rng), rows_of(rng), rng.getrandbits(8)
        message = {rng.randrange(8): rng.randint(1, 200)}
        given = memories(rows), memories(more), memories(covered)
        merged = {
            p: slow_later(rows.get(p, {}), row, covered.get(p, {})) for p, row in more.items() if not mask >> p & 1
        }
        assert later_rows(*given, mask) == memories({**rows, **merged})
        chosen = [p for p in range(8) if mask >> p & 1]
        fresh = {
            p: slow_later(slow_beyond(rows.get(p, {}), more.get(p, {})), message, covered.get(p, {})) for p in chosen
        }
        assert replaced_rows(*given[:2], memory(message), given[2], chosen) == memories({**rows, **fresh})
        assert newest(given[0].values(), 3) == max((row.get(3, 0) for row in rows.values()), default=0)


def test_writing_equals_writing_one_number_after_the_other() -> None:
    rng = Random(4)
    for _ in range(500):
        values = rng.choices((0, 1, 127, 128, 16_383, 16_384, LARGEST), k=rng.randint(0, 6))
        pairs = pairs_of(rng, 20)
        slow, fast = bytearray(b"x"), bytearray(b"x")
        for value in values:
            put_varint(slow, value)
        put_varints(fast, values)
        assert fast == slow
        put_varint(slow, len(pairs))
        for position in sorted(pairs):
            put_varint(slow, position)
            put_varint(slow, pairs[position])
        put_pairs(fast, pairs, 20)
        assert fast == slow
        alike = bytearray()
        put_packed(alike, memory(pairs))
        assert slow.endswith(alike)
        out = bytearray()
        ByProcess(INT).write(pairs, out, 20)
        assert slow.endswith(out)
