"""A commit says which records are settled; a restart from any commit handles each of the others."""

from __future__ import annotations

from random import Random

import pytest

from thence.tables.sources.kafka_progress import Committed, Progress, read_commit


@pytest.mark.parametrize("seed", range(100))
def test_any_commit_is_read_back_and_nothing_settled_is_forgotten(seed: int) -> None:
    """Runs that crash at random moments; offsets have holes, as compaction and transactions leave them."""
    random = Random(seed)
    offsets = sorted(random.sample(range(400), random.randint(1, 200)))
    settled, committed = set[int](), None
    for _ in range(4):
        progress = Progress(committed, 4096)
        open_, done = list[int](), {o for o in offsets if committed is not None and committed.settled(o)}
        assert done <= settled
        settled = set(done)  # what was not committed is handled again
        start = 0 if committed is None else committed.first
        for offset in [o for o in offsets if o >= start][: random.randint(0, 200)]:
            if progress.take(offset):
                assert offset not in done
                assert committed is None or progress.repeated(offset) == (offset < committed.ceiling)
                open_.append(offset)
            else:
                assert offset in done
            if open_ and random.random() < 0.7:
                each = open_.pop(random.randrange(len(open_)))
                progress.settle(each)
                settled.add(each)
            if progress.next >= 0 and random.random() < 0.2:
                progress.ceiling = max(progress.ceiling, progress.next)
                made = progress.commit()
                committed = read_commit(made.first, made.metadata)
                assert committed == made
                assert {o for o in offsets if made.settled(o)} == settled


def test_metadata_that_is_too_long_names_fewer_records_and_says_that_it_is_full() -> None:
    progress = Progress(None, 100)
    for offset in range(400):
        assert progress.take(offset)
        if offset % 2:
            progress.settle(offset)
    made = progress.commit()
    assert progress.full
    assert 50 < len(made.metadata) <= 100
    assert made.first == 0
    assert made.settled(1)
    assert not made.settled(399)
    assert all(offset % 2 for offset in range(400) if made.settled(offset))
    for offset in range(0, 400, 2):
        progress.settle(offset)
    assert progress.commit() == Committed(400, 400, ())
    assert not progress.full


@pytest.mark.parametrize("limit", range(0, 60))
def test_as_many_spans_are_named_as_there_is_room_for(limit: int) -> None:
    progress, whole = Progress(None, limit), Progress(None, 10_000)
    for each in (progress, whole):
        for offset in range(0, 9000, 150):
            each.take(offset)
            if offset % 300:
                each.settle(offset)
    made, spans = progress.commit(), whole.commit().spans
    assert made.spans == spans[: len(made.spans)]
    assert len(made.metadata) <= limit or not made.spans
    assert len(made._replace(spans=spans[: len(made.spans) + 1]).metadata) > limit
    assert progress.full


def test_a_commit_of_another_tool_says_where_to_begin() -> None:
    assert read_commit(7, "") == read_commit(7, None) == read_commit(7, "theirs") == Committed(7, 7, ())


def test_an_offset_without_a_record_divides_no_run() -> None:
    progress = Progress(None, 4096)
    for offset in (0, 1, 3, 5):
        progress.take(offset)
    for offset in (1, 3, 5):
        progress.settle(offset)
    assert progress.commit().spans == ((1, 6),)
