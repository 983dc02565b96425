"""Which runs are judged again, and which are judged whole, whatever the engine finds in its rounds."""

from __future__ import annotations

from collections.abc import Sequence

from thence.tables.judge.rounds_over_chunks import Round, judged


class Scripted:
    """An engine that finds in each round what it was given."""

    def __init__(self, *rounds: Round[str]) -> None:
        self.rounds, self.asked = list(rounds), list[object]()

    def round(self, wanting: set[str] | None) -> Round[str]:
        self.asked.append(wanting)
        return self.rounds.pop(0)

    def whole(self, runs: Sequence[str]) -> str:
        self.asked.append(list(runs))
        return "whole"


def test_one_round_is_enough_where_nothing_is_wanted() -> None:
    engine = Scripted(Round("first"))
    assert judged(engine) == (["first"], set())
    assert engine.asked == [None]


def test_runs_in_trouble_after_either_round_are_judged_whole() -> None:
    engine = Scripted(Round("first", {"c"}, {"a", "b"}), Round("second", {"a"}))
    assert judged(engine) == (["first", "second", "whole"], {"a", "c"})
    assert engine.asked == [None, {"a", "b"}, ["a", "c"]]
