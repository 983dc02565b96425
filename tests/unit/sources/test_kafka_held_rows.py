"""What a commit writes of held rows: each is packed once, and the state is the one that packing all of them gives."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from thence import Orderer
from thence.tables.sources import kafka
from thence.tables.sources.kafka_state import pack_row, unpack_row


def row(number: int, causes: list[int]) -> dict[str, Any]:
    return {
        "run": None, "destination": "sink", "message": f"m{number}", "sender": "a", "note": None, "stamp": None,
        "depends_on": [f"m{cause}" for cause in causes], "topic": "t", "partition": 0, "offset": number,
        "key": None, "value": b"%d" % number, "time": float(number),
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_a_commit_writes_the_rows_that_are_held_then(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows leave and others take their memory: none may be written as one that was there before."""
    random, packed = Random(seed), list[int]()

    def counted(each: Any) -> bytes:
        packed.append(each["offset"])
        return pack_row(each)

    monkeypatch.setattr(kafka, "pack_row", counted)
    consumer = kafka.CausalConsumer.__new__(kafka.CausalConsumer)
    consumer.orderer, consumer._packed = Orderer("depends_on"), {}
    numbers = sorted(range(600), key=lambda number: number + random.randrange(60))
    held_at_a_commit = set()
    for start in range(0, len(numbers), 20):
        consumer.orderer.push_all(
            [row(number, [number - 1] if number else []) for number in numbers[start : start + 20]]
        )
        written = consumer._snapshot()
        assert written == consumer.orderer.snapshot(pack_row)
        again = Orderer("depends_on").restore(written, unpack_row)
        assert again.held() == consumer.orderer.held()
        held_at_a_commit |= {each["offset"] for rows in consumer.orderer.held().values() for each in rows}
    assert sorted(packed) == sorted(held_at_a_commit)
    assert len(packed) > 100
    assert not consumer.orderer.held()


@pytest.mark.parametrize("seed", range(5))
def test_held_rows_as_columns_are_those_row_by_row(seed: int) -> None:
    """Also where rows have left and their places are used again, with labels, times and several causes."""
    random, orderer, checked = Random(seed), Orderer("depends_on", key=["partition"]), 0
    numbers = sorted(range(400), key=lambda number: number + random.randrange(80))
    for number in numbers:
        causes = sorted({random.randrange(max(0, number - 9), number) for _ in range(3)}) if number else []
        orderer.push(row(number, causes))
        (rule,) = orderer.keys.values()
        rows, columns = rule.rows_held(), rule.arrays_held()
        assert list(columns.ticket) == [each.ticket for each in rows]
        assert repr(list(columns.since)) == repr([each.since for each in rows])
        assert repr(list(columns.ahead)) == repr([each.ahead for each in rows])
        assert list(columns.came) == [each.came for each in rows]
        assert columns.labels == [each.label for each in rows]
        own = [each for each in rows if each.code >= 0]
        assert list(zip(columns.own_code, columns.own_number, columns.own_needs, strict=True)) == [
            (each.code, each.number, len(each.needs)) for each in own
        ]
        needs = list(zip(columns.need_code, columns.need_number, columns.need_waited, strict=True))
        assert needs == [(*need, waited) for each in own for need, waited in zip(each.needs, each.waited, strict=True)]
        checked += len(needs)
    assert checked > 1000
