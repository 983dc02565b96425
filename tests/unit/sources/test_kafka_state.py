"""The state of a consumer is whole again from whatever compaction and crashes leave of it."""

from __future__ import annotations

import json
from random import Random

import pytest

from thence.tables.sources.kafka_state import StateRecord, pack_row, state_records, unpack_row, whole_state


def compacted(pieces: list[StateRecord], upto: int) -> list[StateRecord]:
    """Keep of the first `upto` records only the last of each key, as a broker may at any time."""
    last = {piece.key: at for at, piece in enumerate(pieces[:upto])}
    return [piece for at, piece in enumerate(pieces) if at >= upto or last[piece.key] == at]


def test_a_state_is_cut_and_made_whole() -> None:
    data = bytes(range(256)) * 10
    pieces = state_records(data, 1000)
    assert [piece.key for piece in pieces] == [b"0", b"1", b"2"]
    assert whole_state(pieces) == data
    assert whole_state(pieces[:2]) is None
    assert whole_state([]) is None
    assert whole_state(state_records(b"")) == b""


@pytest.mark.parametrize("seed", range(200))
def test_the_last_whole_state_holds_whatever_was_compacted(seed: int) -> None:
    random = Random(seed)
    states = [random.randbytes(random.randint(0, 60)) for _ in range(random.randint(1, 6))]
    records = [piece for state in states for piece in state_records(state, 10)]
    for _ in range(3):
        records = compacted(records, random.randint(0, len(records)))
    assert whole_state(records) == states[-1], f"seed {seed}"


@pytest.mark.parametrize("seed", range(100))
def test_a_state_cut_off_is_not_taken(seed: int) -> None:
    random = Random(seed)
    first, second = random.randbytes(random.randint(0, 60)), random.randbytes(random.randint(11, 60))
    cut = state_records(second, 10)[:-1]
    assert whole_state([*state_records(first, 10), *cut]) == first, f"seed {seed}"


def test_a_held_record_is_packed_and_read_again() -> None:
    row = {
        "run": None, "destination": "d", "message": "m\n1", "sender": None, "depends_on": ["a", "é"], "note": None,
        "topic": "t", "partition": 2, "offset": 1 << 40, "time": 1.5, "stamp": b"\x00\n\xff", "key": None, "value": b"",
    }  # fmt: skip
    assert unpack_row(pack_row(row)) == row
    old = b'{"message": "m", "value": {"$bytes": "AAE="}, "offset": 7}'
    assert unpack_row(old) == {"message": "m", "value": b"\x00\x01", "offset": 7}


@pytest.mark.parametrize("text", ["", '"', "\\", "\x00\x1f\x7f", "\u2028é\U0001f600", "\ud800", "null", "[1, 2]"])
def test_the_head_of_a_packed_record_is_json(text: str) -> None:
    plain = {
        "run": None, "destination": text, "message": text, "sender": text, "depends_on": [text, "b"], "note": text,
        "topic": text, "partition": 0, "offset": (1 << 63) - 1, "time": 1e-7,
    }  # fmt: skip
    packed = pack_row(plain | {"stamp": None, "key": b"", "value": b"\n"})
    assert json.loads(packed.partition(b"\n")[0]) == [*plain.values(), -1, 0, 1]
    assert unpack_row(packed) == plain | {"stamp": None, "key": b"", "value": b"\n"}
