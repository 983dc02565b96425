"""A table in this process: keys apart, rows by arrival, whatever the types of key and arrival."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from thence.core.model.roster import Roster
from thence.core.protocols.registry import create
from thence.errors import TraceError
from thence.tables.delivery import arrow_rows, many_keys, numbering_cy
from thence.tables.engines.local import deliver as local
from thence.tables.engines.local.deliver import deliver_table, terms_of

SETUP = terms_of("depends_on", None, {}, None, {})


def table_of(rows: int) -> pa.Table:
    """Return a chain of causes, of which each pair is swapped."""
    places = [place ^ 1 for place in range(rows)]
    causes = [[f"m{place - 1}"] if place else [] for place in places]
    return pa.table(
        {"run": ["r"] * rows, "destination": ["d"] * rows, "message": [f"m{p}" for p in places], "depends_on": causes}
    )


def test_the_size_of_batches_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(600)
    whole = deliver_table(table, SETUP)
    monkeypatch.setattr(local, "MOST_ROWS", 7)
    assert deliver_table(table, SETUP).equals(whole)


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.large_list(pa.large_string())])
def test_a_batch_with_more_causes_than_can_be_numbered_is_cut(
    monkeypatch: pytest.MonkeyPatch, kind: pa.DataType
) -> None:
    table = table_of(60)
    table = table.set_column(3, "depends_on", table.column("depends_on").cast(kind))
    whole = deliver_table(table, SETUP)
    counted: list[int] = []
    take = many_keys.ManyKeys.take

    def count(self: many_keys.ManyKeys, rows: pa.RecordBatch, *rest: Any, **named: Any) -> pa.RecordBatch:
        counted.append(len(rows))
        return take(self, rows, *rest, **named)

    monkeypatch.setattr(many_keys.ManyKeys, "take", count)
    monkeypatch.setattr(arrow_rows, "MOST_TOGETHER", 20)
    assert deliver_table(table, SETUP).equals(whole)
    assert sum(counted) == 60
    assert len(counted) > 6
    assert max(counted) <= 10


def test_one_row_with_more_causes_than_can_be_numbered_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_rows, "MOST_TOGETHER", 20)
    fields = {"run": ["r"], "destination": ["d"], "message": ["m"], "depends_on": [[f"c{n}" for n in range(20)]]}
    with pytest.raises(TraceError, match="1 rows name 20 causes; a batch holds up to 20 ids"):
        deliver_table(pa.table(fields), SETUP)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_stamps_of_more_bytes_than_are_read_together_are_cut_or_refused(
    monkeypatch: pytest.MonkeyPatch, kind: pa.DataType
) -> None:
    """The entries of stamps are counted in 32 bits, and each takes a byte or more."""
    roster = Roster.of(4)
    members = [create("ks", roster, place) for place in range(2)]
    stamps = [member.encode(copy) for _ in range(30) for member in members for copy in member.send(0b1000).copies]
    fields = {"run": ["r"] * 60, "destination": [roster.name(3)] * 60, "stamp": pa.array(stamps, kind)}
    terms = terms_of("stamp", list(roster.names), {}, None, {})
    whole = deliver_table(pa.table(fields), terms)
    assert whole.column("outcome").to_pylist() == ["delivered"] * 60
    monkeypatch.setattr(arrow_rows, "MOST_TOGETHER", 5 * max(map(len, stamps)))
    batches: list[int] = []
    read = arrow_rows.StampedRows
    monkeypatch.setattr(arrow_rows, "StampedRows", lambda *rows: batches.append(len(rows[-1])) or read(*rows))
    assert deliver_table(pa.table(fields), terms).equals(whole)
    assert sum(batches) == 60
    assert max(batches) <= 5
    monkeypatch.setattr(arrow_rows, "MOST_TOGETHER", 9)
    with pytest.raises(TraceError, match=r"1 rows have stamps of \d+ bytes; a batch holds 9"):
        deliver_table(pa.table(fields), terms)


@pytest.mark.parametrize("seed", range(8))
def test_the_order_does_not_depend_on_the_secrets_of_the_process(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random causes, some that never come and some on cycles, as texts and as numbers far apart."""
    rng = Random(seed)
    far = [rng.getrandbits(62) for _ in range(120)]
    places = rng.sample(range(100), 100)
    for ids in ([f"id {number}" for number in far], far):
        causes = [[ids[rng.randrange(120)] for _ in range(rng.randrange(3))] for _ in places]
        fields = {"run": ["r"] * 100, "destination": ["d"] * 100, "message": [ids[p] for p in places]}
        table = pa.table(fields | {"depends_on": causes})
        found = []
        for secrets in ((0, 1), (rng.getrandbits(64), rng.getrandbits(64) | 1)):
            monkeypatch.setattr(numbering_cy, "SECRETS", secrets)
            found.append(deliver_table(table, SETUP))
        assert found[0].equals(found[1])
        assert len(set(found[0].column("outcome").to_pylist())) > 1


KEYS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["a", "b", None, "c"]),
    (pa.int64(), [3, 1, None, 2]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None, "c"]),
    (pa.struct([("x", pa.int64())]), [{"x": 2}, {"x": None}, None, {"x": 1}]),
    (pa.list_(pa.string()), [["a"], [], None, ["a", "b"]]),
]


@pytest.mark.parametrize(("kind", "values"), KEYS)
def test_keys_of_any_type_are_apart_and_in_order(kind: pa.DataType, values: list[Any]) -> None:
    """Key after key, by the first of its rows; rows by arrival, then message, null first."""
    for seed in range(20):
        random = Random(seed)
        rows = []
        for number in range(random.choice([0, 1, 40])):
            arrival = random.choice([None, 1, 2, 3])
            rows.append({"k": random.choice(values), "arrival": arrival, "message": f"m{number}", "depends_on": []})
            rows[-1] |= {"other": random.choice(["x", "y"])}
        fields = [("k", kind), ("other", pa.string()), ("arrival", pa.int64()), ("message", pa.string())]
        table = pa.Table.from_pylist(rows, pa.schema([*fields, ("depends_on", pa.list_(pa.string()))]))
        terms = terms_of("depends_on", None, {}, ["k", "other"], {})
        taken = sorted(rows, key=lambda row: (row["arrival"] or 0, row["message"]))
        keys = list(dict.fromkeys(repr((row["k"], row["other"])) for row in taken))
        wanted = sorted(taken, key=lambda row: keys.index(repr((row["k"], row["other"]))))
        found = deliver_table(table, terms).to_pylist()
        assert [row["message"] for row in found] == [row["message"] for row in wanted], f"seed {seed}"
        outcomes = {row["outcome"] for row in found if row["k"] is not None}
        assert outcomes <= {"delivered"}
        assert {row["outcome"] for row in found if row["k"] is None} <= {"quarantined"}
