"""Chunks put together say what the whole run says, wherever the cuts fall."""

from __future__ import annotations

import numpy as np
import pytest
from support.soak import first
from support.tables import as_found, by_definition, normal
from support.traces import Knobs, random_trace, spoil
from unit.judge.chunked import cuts_of, in_chunks

from thence.core.model.order import judge
from thence.tables.judge import findings
from thence.tables.judge.chunk import summarise, summary_of
from thence.tables.judge.chunk_clocks import stacked
from thence.tables.judge.stored_rows import TableRows, chunks_of_stored


def test_a_summary_may_take_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    table = normal(random_trace(3))
    (alone,) = [row["payload"] for row in summarise("run", 4, table).to_pylist() if row["tag"] == "summary"]
    monkeypatch.setattr(findings, "PAYLOAD_BYTES", len(alone) // 3)
    rows = [row for row in summarise("run", 4, table).to_pylist() if row["tag"] == "summary"]
    assert [(row["chunk"], row["index"]) for row in rows] == [(4, place) for place in range(len(rows))]
    assert len(rows) in (3, 4)
    assert b"".join(row["payload"] for row in rows) == alone
    assert summary_of(row["payload"] for row in rows).processes == summary_of([alone]).processes


def test_small_runs_share_chunks_of_a_bounded_size() -> None:
    """A chunk takes runs until it has too many rows; the parts of a run stay together."""
    table = normal(random_trace(3)).slice(0, 20)
    stored = [TableRows(f"r{number % 12}", table) for number in range(24)]
    chunks = list(chunks_of_stored(stored, 100))
    assert [sorted({some.run for some in chunk.stored}) for chunk in chunks] == [
        ["r0", "r1", "r2"], ["r3", "r4", "r5"], ["r6", "r7", "r8"], ["r10", "r11", "r9"],
    ]  # fmt: skip
    assert [chunk.rows for chunk in chunks] == [120] * 4


@pytest.mark.parametrize("start", first(1, range(0, 300, 100)))
def test_equal_to_the_definition(start: int) -> None:
    for seed in range(start, start + 100):
        events = random_trace(seed)
        if len(events) < 2:
            continue
        shuffled = seed % 3 == 0
        found = in_chunks(events, cuts_of(len(events), seed), [None, 1, 2, 7][seed % 4], shuffled)
        assert not isinstance(found, str), f"seed {seed}: {found}"
        assert as_found(found) == by_definition(judge(events)), f"seed {seed}, shuffled: {shuffled}"


@pytest.mark.parametrize("start", first(1, range(0, 300, 100)))
def test_spoilt_rows_are_found_or_said_to_be_trouble(start: int) -> None:
    judged = 0
    for seed in range(start, start + 100):
        events = spoil(random_trace(seed), seed)
        if len(events) < 2:
            continue
        found = in_chunks(events, cuts_of(len(events), seed))
        if not isinstance(found, str):
            judged += 1
            assert as_found(found) == by_definition(judge(events)), f"seed {seed}"
    assert judged > 20


@pytest.mark.parametrize("start", first(1, range(0, 2000, 100)))
def test_any_tree_gives_what_the_sequence_gives(start: int) -> None:
    judged = 0
    for seed in range(start, start + 100):
        events = random_trace(seed) if seed % 2 else spoil(random_trace(seed), seed)
        if len(events) < 2:
            continue
        cuts = cuts_of(len(events), seed)
        found = in_chunks(events, cuts, tree=seed)
        if isinstance(found, str):
            assert isinstance(in_chunks(events, cuts), str), f"seed {seed}: {found}"
            continue
        judged += 1
        assert as_found(found) == by_definition(judge(events)), f"seed {seed}"
    assert judged > 50


@pytest.mark.parametrize("seed", range(5))
def test_long_flights_cross_many_chunks(seed: int) -> None:
    knobs = Knobs(processes=9, steps=700, fanout=4, late=0.3, slow=0.8, lost=0.1, again=0.05, astray=0.05)
    events = random_trace(seed, knobs)
    for tree in (None, 2 * seed, 2 * seed + 1):
        found = in_chunks(events, list(range(50, len(events), 50)), tree=tree)
        assert not isinstance(found, str), found
        assert as_found(found) == by_definition(judge(events)), f"seed {seed}, tree {tree}"


@pytest.mark.parametrize("seed", range(20))
def test_what_processes_knew_stands_one_row_below_the_other(seed: int) -> None:
    """Against a loop over the imports."""
    random = np.random.default_rng(seed)
    processes, imports = int(random.integers(1, 6)), int(random.integers(0, 12))
    known, carried = (random.integers(0, 50, (count, processes)) for count in (processes, imports))
    at, index = random.integers(0, processes, imports).astype(np.int32), np.arange(1, imports + 1)
    expected: list[list[tuple[int, int, list[int]]]] = [[(0, -1, known[p].tolist())] for p in range(processes)]
    for i in range(imports):
        own = expected[at[i]]
        own.append((i + 1, i, np.maximum(own[-1][2], carried[i]).tolist()))
    found = stacked(known, at, index, carried, np.arange(processes, dtype=np.int32))
    assert found.starts.tolist() == [0, *np.cumsum([len(own) for own in expected]).tolist()]
    rows = zip(found.since.tolist(), found.origin.tolist(), found.rows.tolist(), strict=True)
    assert list(rows) == [row for own in expected for row in own]
