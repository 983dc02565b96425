"""Distinct values of a column, numbered as a dict would number them."""

from __future__ import annotations

import subprocess
import sys
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from thence.tables.delivery import numbering_cy
from thence.tables.delivery.numbering_cy import Numbering, id_flags
from thence.tables.delivery.reading_cy import nested


def numbers(values: list[bytes | None], slots: int) -> tuple[list[int], list[int]]:
    """Return the number of each value, and the place where each number stands first."""
    data = b"".join(value or b"" for value in values)
    offsets = np.cumsum([0, *(len(value or b"") for value in values)])
    valid = bytes(value is not None for value in values) if None in values else b""
    codes, first = np.empty(len(values), np.int32), np.empty(len(values), np.int32)
    count = Numbering(offsets, data, valid, np.zeros(slots, np.int32), first).codes(codes)
    return codes.tolist(), first[:count].tolist()


def expected(values: list[bytes | None]) -> tuple[list[int], list[int]]:
    """Say the same by a dict."""
    places: dict[bytes, int] = {}
    for place, value in enumerate(values):
        if value is not None:
            places.setdefault(value, place)
    known = {value: number for number, value in enumerate(places)}
    return [-1 if value is None else known[value] for value in values], list(places.values())


@pytest.mark.parametrize("seed", range(40))
def test_values_are_numbered_as_they_come_first(seed: int) -> None:
    """Short and long, empty, alike but for the last byte or the length, few and many; null or not."""
    rng = Random(seed)
    alphabet, longest = rng.choice([b"a", b"ab", bytes(range(256))]), rng.choice([1, 3, 8, 9, 40])
    values: list[bytes | None] = [
        bytes(rng.choice(alphabet) for _ in range(rng.randint(0, longest))) for _ in range(rng.choice([0, 1, 64, 700]))
    ]
    if seed % 2:
        values = [None if rng.random() < 0.2 else value for value in values]
    assert numbers(values, 2 << len(values).bit_length()) == expected(values)


@pytest.mark.parametrize("seed", range(20))
def test_numbers_do_not_depend_on_the_secrets(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes have two secrets and give one answer; so do the worst of secrets."""
    rng = Random(seed)
    values: list[bytes | None] = [str(rng.randrange(300)).encode() * rng.choice([1, 4]) for _ in range(500)]
    for secrets in (tuple(rng.getrandbits(64) | 1 for _ in range(2)), (0, 1)):
        monkeypatch.setattr(numbering_cy, "SECRETS", secrets)
        assert numbers(values, 1024) == expected(values)


@pytest.mark.parametrize(("where", "length"), [(0, 2), (0, 8), (3, 5), (6, 8), (0, 16), (8, 16), (14, 24), (22, 24)])
def test_hashes_of_ids_that_differ_in_two_bytes_are_spread(where: int, length: int) -> None:
    """Ids that differ in few places, wherever these are, do not fall into few slots of the table."""
    values = [bytes(where) + pair.to_bytes(2) + bytes(length - where - 2) for pair in range(0, 1 << 16, 16)]
    offsets = np.arange(len(values) + 1) * length
    first, slots = np.empty(len(values), np.int32), np.zeros(8192, np.int32)
    table = Numbering(offsets, b"".join(values), b"", slots, first)
    used = {table.hashed(place) % 8192 for place in range(len(values))}
    assert len(values) == 4096
    assert len(used) > 2800  # 3,220 on the mean; the hash before this one left 32 for some


def test_another_process_has_other_hashes() -> None:
    program = """
from array import array
from thence.tables.delivery.numbering_cy import Numbering
room = array("i", bytes(16))
print(Numbering(array("q", [0, 3]), b"abc", b"", room, room).hashed(0))
"""
    found = {subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout for _ in range(2)}
    assert len(found) == 2


def test_a_full_table_has_still_a_place_for_each() -> None:
    """One slot is free: every walk through the table ends there."""
    values: list[bytes | None] = [str(number).encode() for number in range(127)] * 2
    assert numbers(values, 128) == expected(values)


def test_texts_that_are_no_ids_are_found() -> None:
    texts = ["a", "", "[1]", "{", '{"a": 1}', "[x", "b", '["b"]']
    column = pa.array(texts, pa.large_string())
    offsets = np.frombuffer(column.buffers()[1], np.int64)
    data = np.frombuffer(column.buffers()[2], np.uint8)
    places = np.arange(len(texts), dtype=np.int32)
    flags = [1 if not text else 2 if nested(text) is not None else 0 for text in texts]
    assert set(flags) == {0, 1, 2}
    found = id_flags(offsets, data, places)
    assert found is not None
    assert found.tolist() == flags
    assert id_flags(offsets, data, places[:1]) is None
