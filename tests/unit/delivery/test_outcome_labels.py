"""What the labels say is true: sharp small cases, each of which once came out wrong."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from unit.delivery.executed_lines import work_of

from thence import Orderer
from thence.errors import MisuseError, TraceError
from thence.tables.delivery import Columns

Row = dict[str, Any]


def causes(*told: tuple[str, list[str] | None], times: list[Any] | None = None) -> list[Row]:
    rows: list[Row] = [{"destination": "d", "message": message, "depends_on": on} for message, on in told]
    for row, time in zip(rows, times or [], strict=False):
        row["time"] = time
    return rows


def deliver(rows: list[Row], by: Any = "depends_on", **options: Any) -> list[Row]:
    return list(Orderer(by, **options).deliver(rows))


def by_message(rows: list[Row]) -> dict[str, Row]:
    return {row["message"]: row for row in rows}


def test_a_cause_that_was_given_up_is_missing_from_whoever_needs_it_later() -> None:
    rows = causes(("b", ["a"]), ("x", []), ("y", []), ("c", ["a", "q"]), ("q", []))
    out = by_message(deliver(rows, policy="release", after_rows=2))
    assert (out["c"]["outcome"], out["c"]["missing"], out["c"]["waited_for"]) == ("released", ["a"], ["q"])
    out = by_message(deliver(rows[:4] + causes(("s", []), ("t", [])), policy="release", after_rows=2))
    assert (out["c"]["outcome"], out["c"]["missing"]) == ("released", ["a", "q"])
    out = by_message(deliver(rows[:4] + causes(("a", []), ("q", [])), policy="release", after_rows=2))
    assert (out["a"]["outcome"], out["c"]["outcome"], out["c"]["missing"]) == ("late", "delivered", [])


@pytest.mark.parametrize("also", [False, True])
def test_a_cause_that_is_given_up_before_others_come_is_waited_for_no_more(also: bool) -> None:
    """Its effect waits for another cause first, so that nothing is blocked by this one yet."""
    orderer = Orderer("depends_on")
    rows = causes(("r", ["x", "y"]), ("s", ["y"]) if also else ("t", []), ("x", []))
    out = [row for each in rows[:2] for row in orderer.push(each)]
    out += orderer.give_up("y", key=(None, "d"))
    assert [row["message"] for row in out] == (["s"] if also else ["t"])
    assert [(row["message"], row["missing"]) for row in orderer.waiting()] == [("r", ["x", "y"])]
    left = orderer.push(rows[2])
    assert [(row["message"], row["outcome"], row["missing"]) for row in left] == [
        ("x", "delivered", []),
        ("r", "released", ["y"]),
    ]
    assert not orderer.waiting()


def test_the_same_for_clocks() -> None:
    told = [("b", 1, {"a": 1}), ("x", 1, {}), ("y", 1, {}), ("c", 1, {"a": 1, "q": 1}), ("q", 1, {})]
    rows = [{"destination": "d", "message": s, "sender": s, "clock": {s: n} | c} for s, n, c in told]
    out = by_message(deliver(rows, "clock", policy="release", after_rows=2))
    assert (out["c"]["outcome"], out["c"]["missing"], out["c"]["waited_for"]) == ("released", ["a#1"], ["q#1"])


def test_a_row_without_time_does_not_stop_the_clock() -> None:
    rows = causes(("b", ["a"]), ("c", ["z"]), ("x", []), ("y", []), times=[None, 0.0, 1.0, 5.0])
    out = by_message(deliver(rows, policy="release", after_seconds=4.0))
    assert (out["b"]["outcome"], out["b"]["held_seconds"]) == ("released", 5.0)
    assert (out["c"]["outcome"], out["c"]["held_seconds"]) == ("released", 5.0)


def test_a_time_far_ahead_is_named_and_moves_nothing() -> None:
    rows = causes(("a", []), ("b", []), ("far", []), ("c", ["z"]), ("x", []), ("y", []), times=[0, 1, 1e9, 2, 3, 8])
    out = by_message(deliver(rows, policy="release", after_seconds=4.0, max_jump=60.0))
    assert out["far"]["outcome"] == "delivered"
    assert out["far"]["reason"] == "its time is 1e+09 s ahead of the key's, more than 60: not counted"
    assert (out["c"]["outcome"], out["c"]["held_seconds"]) == ("released", 6.0)
    rows = causes(("a", []), ("b", ["z"]), ("c", []), ("d", []), ("e", []), times=[0, 1, 1000, 1001, 1002])
    out = by_message(deliver(rows, policy="release", after_seconds=4.0, max_jump=60.0))
    assert out["b"]["outcome"] == "released"  # two rows say so: the gap is true
    assert out["b"]["held_seconds"] == 1000.0
    assert out["c"]["reason"] is not None
    assert out["d"]["reason"] is None


def test_quarantined_causes_are_called_that_and_repeats_are_duplicates() -> None:
    rows = causes(("x", ["y"]), ("y", ["x"]), ("b", ["x"]), ("x", ["y"]), ("s", ["s"]), ("c", ["s"]), ("s", []))
    out = deliver(rows)
    assert [(r["message"], r["outcome"]) for r in out] == [
        ("x", "quarantined"),
        ("y", "quarantined"),
        ("x", "duplicate"),
        ("s", "quarantined"),
        ("s", "duplicate"),
        ("b", "blocked"),
        ("c", "blocked"),
    ]
    assert out[2]["reason"] == "it was quarantined before"
    assert out[5]["reason"] == "waits for x; x was quarantined"
    assert out[6]["reason"] == "waits for s; s was quarantined"


def test_one_arrival_that_closes_two_cycles() -> None:
    out = deliver(causes(("a", ["c"]), ("b", ["c"]), ("c", ["a", "b"])))
    assert {r["outcome"] for r in out} == {"quarantined"}
    assert {r["reason"] for r in out} == {"on a cycle of causes: a, b, c"}
    out = deliver(causes(("a", ["b", "q"]), ("e", ["a"]), ("b", ["a"])))
    assert [(r["message"], r["outcome"]) for r in out] == [("a", "quarantined"), ("b", "quarantined"), ("e", "blocked")]


def test_a_forgotten_id_is_not_waited_for() -> None:
    rows = causes(("a", []), ("b", ["a"]), ("c", ["b"]), ("z", ["a", "c"]), ("d", ["z"]), ("e", ["d"]), ("a", []))
    out = deliver(rows, remember=2)
    assert [(r["message"], r["outcome"]) for r in out[:6]] == [(m, "delivered") for m in "abczde"]
    assert (out[6]["outcome"], out[6]["reason"]) == ("duplicate", "it was delivered before")
    with pytest.raises(TraceError, match="filter_limit is reached"):
        deliver(rows, remember=2, filter_limit=2)
    with pytest.raises(MisuseError, match="goes with by='depends_on'"):
        Orderer("clock", remember=5)


def test_explaining_is_linear() -> None:
    """Lines executed, not seconds: four times the rows, about four times the work."""

    def chain(rows: int) -> int:
        orderer = Orderer("depends_on")
        for n in range(1, rows):
            orderer.push({"destination": "d", "message": str(n), "depends_on": [str(n - 1)]})
        return work_of(lambda: orderer.waiting())

    small, large = chain(200), chain(800)
    assert large < 6 * small, (small, large)


def test_the_number_of_missing_causes_is_the_true_one() -> None:
    rows = [{"destination": "d", "message": "m", "sender": "a", "clock": {"a": 1, "b": 999_999}}]
    out = deliver(rows, "clock")
    assert len(out[0]["missing"]) == 100
    assert "b#8 and 999991 more" in out[0]["reason"]


def test_a_row_that_names_no_cause_has_none() -> None:
    out = deliver([{"destination": "d", "message": "a"}, *causes(("b", None), ("c", []))])
    assert [r["outcome"] for r in out] == ["delivered"] * 3


def test_iso_texts_are_times() -> None:
    start = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
    for form in (lambda t: t, lambda t: t.isoformat(), lambda t: t.timestamp(), lambda t: t.replace(tzinfo=None)):
        times = [form(start + datetime.timedelta(seconds=s)) for s in (0, 1, 5)]
        out = by_message(deliver(causes(("b", ["a"]), ("x", []), ("y", []), times=times), policy="release",
                                 after_seconds=4))  # fmt: skip
        assert (out["b"]["outcome"], out["b"]["held_seconds"]) == ("released", 5.0)


@pytest.mark.parametrize("names", [["b", "a"], ["a", "b"]])
def test_causes_of_a_clock_have_an_order_of_their_own(names: list[str]) -> None:
    rows = [{"destination": "d", "message": "m", "sender": "z", "clock": {"z": 1} | dict.fromkeys(names, 2)}]
    out = deliver(rows, "clock")[0]
    assert out["missing"] == ["a#1", "a#2", "b#1", "b#2"]
    assert out["blocker"] == "a#1"


def test_giving_up_by_hand() -> None:
    orderer = Orderer("depends_on")
    for row in causes(("b", ["a"]), ("c", ["b", "q"])):
        orderer.push(row)
    left = orderer.give_up("a")
    assert [(r["message"], r["outcome"], r["reason"]) for r in left] == [
        ("b", "released", "released without a, given up by hand")
    ]
    assert orderer.give_up("nobody needs it") == []
    assert [r["outcome"] for r in orderer.push(causes(("e", ["nobody needs it"]))[0])] == ["released"]
    assert [r["outcome"] for r in orderer.push(causes(("a", []))[0])] == ["late"]
    assert [w["message"] for w in orderer.waiting()] == ["c"]


def test_giving_up_a_key_releases_all_that_it_holds_and_no_other() -> None:
    orderer = Orderer("depends_on", key=["k"])
    rows = [{"k": k, "message": m, "depends_on": c} for k in "xy" for m, c in (("b", ["a"]), ("c", ["b", "q"]))]
    for row in rows:
        assert orderer.push(row) == []
    left = orderer.give_up(key=["x"])
    assert [(r["k"], r["message"], r["outcome"], r["missing"]) for r in left] == [
        ("x", "b", "released", ["a"]),
        ("x", "c", "released", ["q"]),
    ]
    assert [(w["k"], w["message"]) for w in orderer.waiting()] == [("y", "b"), ("y", "c")]
    assert orderer.give_up("a", key=["z"]) == []  # nothing of this key has come
    with pytest.raises(MisuseError, match="a cause that will not come, a key to release, or both"):
        orderer.give_up()
    with pytest.raises(MisuseError, match=r"key is 'x'; .* as in key=\('x',\)"):
        orderer.give_up("a", key="x")


def test_a_key_is_found_however_it_is_spelled() -> None:
    table = {"who": "WHO", "of": "Of"}
    names = Columns(
        "clock", {"destination": "Who", "sender": "OF"}, ["wHo"], lambda name: table.get(name.lower(), name)
    )
    assert (names.key, names.destination, names.sender) == (("WHO",), "WHO", "Of")
    with pytest.raises(MisuseError, match="needs the destination in the key"):
        Columns("clock", {"destination": "Who"}, ["wHo"])
