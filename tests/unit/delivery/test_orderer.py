"""The engine against the protocols' own receivers, against the definition, and against itself after a restore."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support.arrivals import PROTOCOLS, Arrivals, Row, arrivals

from thence import Orderer, Policy
from thence.core.model.roster import Roster
from thence.core.protocols.wire import decode
from thence.errors import MisuseError, TraceError
from thence.protocols import Deliver, Duplicate, create, lookup

KINDS = [*(("stamp", p) for p in (*PROTOCOLS, "prs", "ech", "ses")), ("clock", "rst"), ("depends_on", "ks")]
SEEDS = range(8)


def orderer(made: Arrivals, by: str, **policy: object) -> Orderer:
    return Orderer(by, roster=made.roster if by == "stamp" else None, **policy)  # type: ignore[arg-type]


def test_a_stream_of_rows_in_causal_order() -> None:
    rows = [{"destination": "d", "message": m, "depends_on": on} for m, on in (("c", ["b"]), ("b", ["a"]), ("a", []))]
    out = list(Orderer(by="depends_on").deliver(rows))
    assert [(r["message"], r["position"], r["waited_for"], r["held_for"]) for r in out] == [
        ("a", 1, [], 0),
        ("b", 2, ["a"], 1),
        ("c", 3, ["b"], 2),
    ]


@pytest.mark.parametrize(("by", "protocol"), KINDS)
def test_everything_comes_in_causal_order(by: str, protocol: str) -> None:
    for seed in SEEDS:
        made = arrivals(protocol, seed, messages=150, by=by)
        out = list(orderer(made, by).deliver(made.rows))
        judged = made.judge(out)
        wrong = [v for v in judged.violations if v.destination in ("e", "f")]
        assert not wrong, f"{wrong[0]} in {made.about}"
        assert not [c for c in judged.undelivered if c.destination in ("e", "f")], made.about
        assert {r["outcome"] for r in out} <= {"delivered", "duplicate"}, made.about
        assert sorted(map(_place, out)) == sorted(map(_place, made.rows)), made.about


@pytest.mark.parametrize(("by", "protocol"), KINDS)
def test_losses_block_effects_and_nothing_else(by: str, protocol: str) -> None:
    for seed in SEEDS:
        made = arrivals(protocol, seed, messages=150, lost=0.05, by=by)
        out = list(orderer(made, by).deliver(made.rows))
        assert not made.judge(out).violations, made.about
        assert sorted(map(_place, out)) == sorted(map(_place, made.rows)), made.about
        come = {(r["destination"], r["message"]) for r in made.rows}
        blocked = [r for r in out if r["outcome"] == "blocked"]
        for row in blocked:
            here = row["destination"]
            assert (here, made.cause(row["blocker"], here)) not in come or protocol == "ses", f"{row} in {made.about}"
            assert row["missing"]
        positions = [r["position"] for r in out if r["destination"] == "e" and r["position"]]
        assert positions == list(range(1, len(positions) + 1))


@pytest.mark.parametrize("protocol", [*PROTOCOLS, "prs", "ech", "fifo"])
def test_the_rule_is_the_receivers_own(protocol: str) -> None:
    entry = lookup(protocol).protocol
    for seed in SEEDS:
        made = arrivals(protocol, seed, messages=120, lost=0.02)
        for here in ("e", "f"):
            member = create(protocol, made.roster, here)
            own: list[tuple[str, str]] = []
            mine = [row for row in made.rows if row["destination"] == here]
            for row in mine:
                for effect in member.receiver.receive(decode(entry, row["stamp"], made.roster, destination=member.me)):
                    if isinstance(effect, Deliver | Duplicate):
                        name = made.run.name(effect.copy.sender, effect.copy.count)
                        own.append((name, "delivered" if isinstance(effect, Deliver) else "duplicate"))
            engine = orderer(made, "stamp")
            ours = [(r["message"], r["outcome"]) for row in mine for r in engine.push(row)]
            assert ours == own, made.about


@pytest.mark.parametrize(
    ("by", "protocol", "policy"),
    [(*kind, policy) for kind in KINDS for policy in ({}, {"policy": "release", "after_rows": 9})
     if not (kind[1] == "ses" and policy)],  # refused; see below
)  # fmt: skip
def test_a_snapshot_at_any_point_changes_nothing(by: str, protocol: str, policy: dict[str, object]) -> None:
    for seed in SEEDS[:3]:
        made = arrivals(protocol, seed, messages=60, lost=0.05, by=by)
        rng = Random(seed)
        straight, restored = orderer(made, by, **policy), orderer(made, by, **policy)
        for row in made.rows:
            if rng.random() < 0.3:
                restored = orderer(made, by, **policy).restore(restored.snapshot())
            assert restored.push(row) == straight.push(row), made.about
            assert restored.waiting() == straight.waiting(), made.about
        assert restored.finish() == straight.finish(), made.about


@pytest.mark.parametrize(("by", "protocol"), [kind for kind in KINDS if kind[1] != "ses"])
def test_released_rows_name_exactly_the_violations(by: str, protocol: str) -> None:
    """A violation is a named gap, or stands causally before one and had not come either."""
    gaps_seen = 0
    for seed in SEEDS:
        made = arrivals(protocol, seed, messages=120, lost=0.06, by=by)
        out = list(orderer(made, by, policy="release", after_rows=12).deliver(made.rows))
        assert sorted(map(_place, out)) == sorted(map(_place, made.rows)), made.about
        found = {(v.destination, v.missing) for v in made.judge(out).violations}
        named, implied = _gaps(made, out)
        assert named <= found <= implied, f"{found ^ named} in {made.about}"
        gaps_seen += len(named)
        late = {(r["destination"], r["message"]) for r in out if r["outcome"] == "late"}
        assert late <= found, made.about
    assert gaps_seen


def _gaps(made: Arrivals, out: list[Row]) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return the causes that rows were released without, and those with all that precedes them and had not come."""
    execution = made.execution()
    goes_to = {e.message: e.destinations or () for e in made.run.events if e.kind == "send"}
    named: set[tuple[str, str]] = set()
    implied: set[tuple[str, str]] = set()
    there: dict[str, set[str]] = {"e": set(), "f": set()}
    for row in sorted((r for r in out if r["position"]), key=lambda r: r["position"]):
        here = row["destination"]
        for cause in row["missing"]:
            gap = made.cause(cause, here)
            named.add((here, gap))
            implied.add((here, gap))
            for other, names in goes_to.items():
                if here in names and other not in there[here] and other and execution.precedes(other, gap):
                    implied.add((here, other))
        there[here].add(row["message"])
    return named, implied


def test_policies_of_time_limit_and_memory() -> None:
    rows = [{"destination": "d", "message": "b", "depends_on": ["a"], "time": 0.0}]
    rows += [{"destination": "d", "message": f"m{i}", "depends_on": [], "time": float(i)} for i in range(1, 9)]
    rows += [{"destination": "d", "message": "a", "depends_on": [], "time": 1.0}]

    def run(**policy: object) -> dict[str, Row]:
        return {r["message"]: r for r in Orderer("depends_on", **policy).deliver(rows)}  # type: ignore[arg-type]

    out = run(policy="release", after_seconds=3.0)
    assert (out["b"]["outcome"], out["b"]["held_seconds"], out["b"]["missing"]) == ("released", 3.0, ["a"])
    assert out["a"]["outcome"] == "late"
    out = run(held_limit=1, when_full="release")
    assert out["b"]["outcome"] == "delivered"
    with pytest.raises(TraceError, match="after 3 later rows: waits for a; a has not arrived"):
        run(policy="fail", after_rows=3)
    more = [*rows[:1], {"destination": "d", "message": "c", "depends_on": ["a"]}]
    with pytest.raises(TraceError, match="more than 1 rows are held"):
        list(Orderer("depends_on", held_limit=1).deliver(more))
    with pytest.raises(TraceError, match="held at the end"):
        list(Orderer("depends_on", policy="fail").deliver(rows[:1]))


def test_cycles_are_named() -> None:
    edges = {"x": ["y"], "y": ["z"], "z": ["w", "x"], "q": ["x"], "s": ["s"]}
    out = {
        r["message"]: r
        for r in Orderer("depends_on").deliver(
            {"destination": "d", "message": m, "depends_on": on} for m, on in edges.items()
        )
    }
    for m in "xyz":
        assert out[m]["outcome"] == "quarantined"
        assert out[m]["reason"] == "on a cycle of causes: x, y, z"
    assert out["s"]["reason"] == "cycle: s depends on itself"
    assert (out["q"]["outcome"], out["q"]["blocker"]) == ("blocked", "x")


def test_a_clock_that_counts_all_events_is_told() -> None:
    rows = [
        {"destination": "d", "message": "a1", "sender": "a", "clock": {"a": 3, "b": 7}},
        {"destination": "d", "message": "c1", "sender": "c", "clock": {"c": 1}},
        {"destination": "d", "message": "c3", "sender": "c", "clock": {"c": 3}},
    ]
    out = {r["message"]: r for r in Orderer("clock").deliver(rows)}
    assert out["c1"]["outcome"] == "delivered"
    assert "looks like a clock that counts all events" in out["a1"]["reason"]
    assert out["c3"]["reason"] == "waits for c#2; c#2 has not arrived"


def test_rows_that_say_nothing_usable_are_quarantined() -> None:
    roster = Roster.of(3)
    member = create("ks", roster, "a")
    stamp = member.encode(member.send(["b"]).copies[0])  # type: ignore[union-attr]
    base = {"run": "r", "destination": "b", "message": "a1", "sender": "a", "stamp": stamp}
    bad = [
        {**base, "destination": None},
        {**base, "stamp": None},
        {**base, "stamp": b"\x01\x63" + stamp[2:]},
        {**base, "stamp": stamp[:-1]},
        {**base, "stamp": "text"},
        {**base, "sender": "c"},
        {**base, "destination": "c"},
        {**base, "destination": "z"},
    ]
    out = list(Orderer("stamp", roster=roster).deliver([*bad, base]))
    assert [r["outcome"] for r in out] == ["quarantined"] * len(bad) + ["delivered"]
    assert all(r["reason"] and r["position"] is None for r in out[:-1])
    assert "unknown here" in next(iter(Orderer("stamp", roster=["x", "b"]).deliver([base])))["reason"]


def test_misuse_is_refused() -> None:
    with pytest.raises(MisuseError, match="one of stamp, clock, depends_on"):
        Orderer("time")  # type: ignore[arg-type]
    with pytest.raises(MisuseError, match="needs roster="):
        Orderer("stamp")
    with pytest.raises(MisuseError, match="needs the destination in the key"):
        Orderer("clock", key=["tenant"])
    with pytest.raises(MisuseError, match="needs after_rows or after_seconds"):
        Orderer("clock", policy="release")
    made = arrivals("ses", 1)
    with pytest.raises(MisuseError, match="does not share the delivery rule"):
        list(Orderer("stamp", roster=made.roster, policy="release", after_rows=1).deliver(made.rows))
    blob = Orderer("clock").snapshot()
    with pytest.raises(MisuseError, match="snapshot of by='clock'"):
        Orderer("depends_on").restore(blob)


def _place(row: Row) -> tuple[str, int]:
    return row["destination"], row["arrival"]


@pytest.mark.parametrize("name", ["after_rows", "remember", "held_limit", "filter_limit"])
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(MisuseError, match="a whole number from 1 is accepted"):
        Policy("release", **{"after_rows": 1, "remember": 1, name: 0})


def test_a_row_that_is_no_mapping_is_refused_by_name() -> None:
    one: Any = {"message": "a", "depends_on": []}
    with pytest.raises(MisuseError, match="a row is a mapping of columns to values; 'message' is a str"):
        list(Orderer(by="depends_on").deliver(one))  # a dict, where an iterable of dicts belongs


@pytest.mark.parametrize("seed", range(20))
def test_rows_pushed_together_leave_as_one_by_one(seed: int) -> None:
    """Stamps are read by a compiled loop; rows of two destinations, odd stamps and foreign ones among them."""
    from random import Random

    from support.broker import ROSTER

    from thence.protocols import create

    random = Random(seed)
    members = {name: create("ks", ROSTER, name) for name in ROSTER}
    rows: list[dict[str, Any]] = []
    for number in range(60):
        who = random.choice(ROSTER[:3])
        others = [name for name in ROSTER if name != who]
        for copy in members[who].send(others).copies:
            there = members[who].roster.name(copy.destination)
            stamp = members[who].encode(copy)
            rows.append({"message": f"{who}{number}", "sender": who, "destination": there, "run": None, "stamp": stamp})
            if there != "sink" and random.random() < 0.5:
                members[there].receive(copy)
    random.shuffle(rows)
    for odd in (None, b"", b"\x01\x02", "text"):
        rows.insert(random.randrange(len(rows)), {**rows[0], "message": "odd", "stamp": odd})
    rows.insert(random.randrange(len(rows)), {**rows[0], "sender": "nobody"})
    single, together = (Orderer("stamp", roster=ROSTER) for _ in range(2))
    expected = [out for row in rows for out in single.push(row)]
    found, at = list[Any](), 0
    while at < len(rows):
        size = random.choice([0, 1, 2, 30])
        found += together.push_all(rows[at : at + size])
        at += size
        if random.random() < 0.2:  # what a batch leaves behind is what rows one by one go on from
            together = Orderer("stamp", roster=ROSTER).restore(together.snapshot())
            found += [out for row in rows[at : at + 3] for out in together.push(row)]
            at += 3
    assert found == expected
    assert together.waiting() == single.waiting()
