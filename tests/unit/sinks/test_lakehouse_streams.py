"""Who may write lakehouse tables: checkpoints that follow each other, cut off at any statement, or at once.

The table of positions is a list here. tests/versions has the same on Delta and Iceberg.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Row

from thence.errors import MisuseError
from thence.tables.engines.spark import into_lakehouse as lakehouse

NAMES = list(lakehouse.POSITIONS)


class Cut(Exception):
    """The writer is cut off here."""


class Positions:
    """The table of positions, with its three statements."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[dict[str, Any]] = []
        self.left = 10**9
        """statements until the writer is cut off"""
        monkeypatch.setattr(lakehouse, "_streams", self.streams)
        monkeypatch.setattr(lakehouse, "_merge", self.merge)

    def streams(self, _: Any, table: str, source: str) -> list[Row]:
        rows = sorted(
            (row for row in self.rows if row["thence_source"] == source), key=lambda row: row["thence_number"]
        )
        return [Row(*NAMES)(*(row[name] for name in NAMES)) for row in rows]

    def merge(self, _: Any, table: str, row: Any, action: str, on: str = "thence_stream") -> None:
        if not self.left:
            raise Cut
        self.left -= 1
        same = [each for each in self.rows if all(each[name] == row[name] for name in ("thence_source", on))]
        if "INSERT" in action:
            self.rows += [] if same else [dict(row)]
            return
        for each in same:
            if each["thence_position"] == row["thence_position"]:
                each["thence_closed"] = True

    def claim(self, stream: str, since: int | str | None = None) -> int:
        return lakehouse.claimed(None, "positions", "shop", stream, since)  # type: ignore[arg-type]

    def advance(self, stream: str, position: int, id: str) -> bool:
        """Commit as the writer does; return whether the table took it."""
        for each in self.rows:
            if each["thence_stream"] == stream and not each["thence_closed"] and position > each["thence_position"]:
                each |= {"thence_position": position, "thence_since": id}
                return True
        return False


@pytest.fixture
def positions(monkeypatch: pytest.MonkeyPatch) -> Positions:
    return Positions(monkeypatch)


def test_a_checkpoint_goes_on_and_another_one_is_told_the_ways_on(positions: Positions) -> None:
    assert positions.claim("one") == 0
    assert positions.advance("one", 7, "600:1000")
    assert positions.claim("one") == 0
    for since in (None, 999, 1001, "0/3E9"):
        with pytest.raises(
            MisuseError, match=r"up to 600:1000; .* Continue with that checkpoint. Or stop .*since='600:1000'"
        ):
            positions.claim("two", since)
    assert positions.advance("one", 9, "601:1010")  # what was refused changed nothing


@pytest.mark.parametrize("since", [1000, "1000", "0/3E8", "600:1000"])
@pytest.mark.parametrize("cuts", range(3))
def test_a_checkpoint_that_follows_begins_behind_the_earlier_one(positions: Positions, since: Any, cuts: int) -> None:
    positions.claim("one")
    positions.advance("one", 7, "600:1000")
    positions.left = cuts
    if cuts < 2:
        with pytest.raises(Cut):
            positions.claim("two", since)
    positions.left = 10**9
    assert positions.claim("two", since) == 7
    assert positions.claim("two", since) == 7  # also when it starts again
    assert not positions.advance("one", 9, "601:1010")
    with pytest.raises(MisuseError, match="a stream with another checkpoint goes on with shop"):
        positions.claim("one")
    assert positions.advance("two", 12, "602:1020")
    assert positions.claim("three", 1020) == 12


def test_a_commit_that_comes_between_is_not_passed_over(positions: Positions, monkeypatch: pytest.MonkeyPatch) -> None:
    positions.claim("one")
    positions.advance("one", 7, "600:1000")
    plain = positions.merge

    def late(*arguments: Any, **more: Any) -> None:
        positions.advance("one", 9, "601:1010")  # after the other looked, before it closes the row
        plain(*arguments, **more)

    monkeypatch.setattr(lakehouse, "_merge", late)
    with pytest.raises(MisuseError, match="up to 601:1010"):
        positions.claim("two", 1000)
    assert [row["thence_stream"] for row in positions.rows] == ["one"]
    assert positions.claim("one") == 0


def test_a_stream_that_committed_nothing_is_followed_by_one_that_reads_the_same(positions: Positions) -> None:
    positions.claim("one", 500)
    for since in (None, 400):
        with pytest.raises(MisuseError, match="up to 500"):
            positions.claim("two", since)
    assert positions.claim("two", 500) == 0
    assert positions.advance("two", 3, "510:600")


def test_a_place_in_one_of_several_logs_does_not_say_what_was_read(positions: Positions) -> None:
    positions.claim("one")
    positions.advance("one", 7, "0-1-42")
    with pytest.raises(MisuseError, match=r"up to 0-1-42; .* checkpoint. Or delete the rows of positions"):
        positions.claim("two", "0-1-42")


def test_two_new_checkpoints_at_once_do_not_both_write(positions: Positions, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = positions.merge

    def first_another(_: Any, table: str, row: Any, action: str, on: str = "thence_stream") -> None:
        if not positions.rows:
            plain(_, table, {**row, "thence_stream": "other"}, action, on)
        plain(_, table, row, action, on)

    monkeypatch.setattr(lakehouse, "_merge", first_another)
    with pytest.raises(MisuseError, match="one at a time may write"):
        positions.claim("one")
    assert positions.claim("other") == 0
