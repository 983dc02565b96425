"""Every verdict follows from rows: alter them, and it flips; take them away, and nothing can be told."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from support.some import some

from thence.cli.reproduce import _Runner
from thence.lab.papers.ci_dc_runs import MODES
from thence.lab.papers.claims import Claim, found, interval_within, less, near, several
from thence.lab.papers.estimates import quotient
from thence.lab.papers.genuine import PROPERTIES, property_of
from thence.lab.papers.ks98 import degree_of
from thence.lab.papers.paper import Scale
from thence.lab.papers.run import PAPERS, Reproduced, reproduce
from thence.lab.simulator.confidence import Estimate

Alteration = Callable[[dict[str, list[dict[str, Any]]]], None]
SPECIAL = {"broadcast": "bss"} | {
    name: name for name in ("serial-broadcast", "serial-multicast", "synchronous", "acked", "two-hop", "central")
}


def put(name: str, values: dict[str, Any], **where: Any) -> Alteration:
    """Give the rows of a data set other values; a function gets the row."""

    def alter(data: dict[str, list[dict[str, Any]]]) -> None:
        chosen = [row for row in data[name] if all(row[key] == value for key, value in where.items())]
        assert chosen, f"no row of {name} with {where}"
        for row in chosen:
            row.update({key: value(row) if callable(value) else value for key, value in values.items()})

    return alter


def both(*alterations: Alteration) -> Alteration:
    def alter(data: dict[str, list[dict[str, Any]]]) -> None:
        for each in alterations:
            each(data)

    return alter


def square(row: dict[str, Any]) -> float:
    return float(row["processes"] ** 2)


def flips() -> dict[tuple[str, str], tuple[Alteration, str]]:
    """For each claim, rows altered so that its verdict becomes another one."""
    made: dict[tuple[str, str], tuple[Alteration, str]] = {}

    def flip(paper: str, claim: str, alteration: Alteration, verdict: str = "differs") -> None:
        made[paper, claim] = (alteration, verdict)

    flip("ks98", "minimum-copies", put("exact", {"copies off": 1}))
    flip("ks98", "minimum-logs", put("exact", {"logs off": 1}))
    flip("ks98", "square", put("exact", {"largest": 1000}))
    flip("ks98", "lower-bound", put("worst case", {"facts": 1}))
    for claim, protocol in SPECIAL.items():
        flip("ks98", claim, put("special", {"entries": 99}, protocol=protocol))
    for claim, column in (
        ("snd-processing", "snd"), ("rcv-processing", "rcv"),
        ("snd-hardware", "hardware snd"), ("rcv-hardware", "hardware rcv"),
    ):  # fmt: skip
        flip("ks98", claim, put("processing", {column: lambda row: row["processes"] ** 4}))
    flip("ks98", "rcv-printed", put("processing", {"pairs": 1}), "reproduced")
    flip("ks98", "hierarchy", put("special", {"hop facts": 999}, protocol="hierarchy"))

    flip("ci-dc", "rst-square", put("runs", {"entries_per_copy": 7.0}, protocol="rst"))
    for mode, fanout in (("multicast", "uniform"), ("unicast", "unicast")):
        ours: dict[str, Any] = {"protocol": "ci-dc", "fanout": fanout}
        prs: dict[str, Any] = {"protocol": "prs", "fanout": fanout}
        flip("ci-dc", f"dependents-{mode}", put("runs", {"entries_per_copy": 0.1}, **prs))
        flip("ci-dc", f"linear-dependents-{mode}", put("runs", {"entries_per_copy": square}, **ours))
        flip("ci-dc", f"bytes-{mode}", put("runs", {"paper_bytes_per_message": 1e9}, **ours))
        flip("ci-dc", f"linear-bytes-{mode}", put("runs", {"paper_bytes_per_copy": square}, **ours))
        large = put("runs", {"processes": lambda row: {8: 30, 10: 40, 12: 50}[row["processes"]]})
        flip("ci-dc", f"prs-bound-{mode}", both(large, put("runs", {"entries_per_copy": 0.1}, **prs)))
    flip("ci-dc", "per-sender", put("runs", {"entries_per_copy": 0.5}, protocol="ci-dc"))
    dear = put("runs", {"paper_bytes_per_copy": lambda row: 3.9 * square(row)}, protocol="ci-dc", fanout="uniform")
    cheap = put("runs", {"paper_bytes_per_copy": 1.0}, protocol="ci-dc", fanout="unicast")
    flip("ci-dc", "multicast-saves-more", both(dear, cheap))
    larger = put("runs", {"processes": lambda row: {8: 10, 10: 20, 12: 30}[row["processes"]]})
    crossing = put(
        "runs", {"paper_bytes_per_message": lambda row: 1e9 if row["processes"] > 25 else 1.0}, protocol="prs"
    )
    flip("ci-dc", "unicast-crossing", both(larger, crossing), "fitted")
    flip("ci-dc", "worst-case", put("worst case", {"dependents": 1}))

    for n in (6, 10):
        for scheme in ("matrix clock", "vector clocks"):
            flip("separators", f"{scheme.replace(' ', '-')}-{n}", put("fixed", {scheme: 1}, processes=n))
        for name, scenario in (("none", "no R9"), ("s2", "R9 at S2"), ("all", "R9 at S1, S2, S3")):
            far = 99.0 if (name, n) != ("none", 10) else 3.46
            flip("separators", f"{name}-{n}", put("table 7.1", {"elements": far}, processes=n, scenario=scenario),
                 "differs" if far == 99.0 else "reproduced")  # fmt: skip
        small, large = (
            put("table 7.1", {"stamps": sizes}, processes=n, scenario=scenario)
            for sizes, scenario in (({"1": 9}, "no R9"), ({"9": 9}, "R9 at S2"))
        )
        flip("separators", f"stamps-{n}", both(small, large))
    flip("separators", "falling", put("table 7.1", {"elements": 0.01}, scenario="no R9"))
    flip("separators", "improves", put("table 7.1", {"elements": 0.01}, scenario="R9 at S2", processes=6))
    flip("separators", "grows-less", put("table 7.1", {"elements": 99.0}, processes=10))
    flip("separators", "delays", put("delays", {"elements": 2.0}), "reproduced")
    heavy = put("table 7.1", {"history pc": {"99": 1}}, scenario="R9 at S1, S2, S3")
    flip("separators", "histories", heavy)
    flip("separators", "gateway-without", put("figure 7.5", {"elements": 32.0}, separators="without"), "reproduced")
    flip("separators", "gateway-with", put("figure 7.5", {"elements": 32.0}, separators="with"))
    apart = {"history": lambda row: 1.0 if row["separators"] == "with" else 9.0}
    flip("separators", "networks-histories", put("figure 7.7", apart), "reproduced")
    larger_with = {"elements": lambda row: 9.0 if row["separators"] == "with" else 1.0}
    flip("separators", "networks-stamps", put("figure 7.7", larger_with))

    flip("genuine", "latency-a-fifo", put("steps", {"steps": 3}, protocol="A_fifo", addressed="others only"))
    flip("genuine", "latency-a-causal", put("steps", {"steps": 1}, protocol="A_causal", addressed="own group"))
    flip("genuine", "open-group", put("steps", {"steps": 0}, addressed="others only"))
    flip("genuine", "optimal", put("one step", {"disagreements": 1}, protocol="a-causal"))
    for name in PROPERTIES:
        flip("genuine", name, put("crashes", {name: 1}, protocol="A_causal", processes=5))
    for name, protocol in (("RST [14]", "rst"), ("KS [9]", "ks"), ("acknowledged unicast [12]", "acked")):
        flip("genuine", f"latency-{protocol}", put("others", {"steps": 2}, protocol=name))
    flip("genuine", "lower-bound", put("lower bound", {"views left": 0}), "reproduced")
    flip("genuine", "lower-bound-repaired", put("lower bound", {"others left": 1}))
    flip("genuine", "a-causal-printed", put("printed", {"validity": 0, "agreement": 0}), "reproduced")

    flip("bounded", "square", put("sizes", {"entries": 9.0}))
    flip("bounded", "three-epochs", put("three epochs", {"violations": 1}))
    flip("bounded", "three-epochs-printed", put("as printed", {"violations": 0, "deadlock": False}), "reproduced")
    flip("bounded", "log-b", put("bounds", {"largest": 999}, bound=8))
    flip("bounded", "any-length", put("lengths", {"bytes": lambda row: float(row["messages"])}, protocol="bounded"))
    flip("bounded", "never-longer", put("long", {"bytes_max": 99}, protocol="bounded", messages=1000))
    flip("bounded", "b-sends", put("one too many", {"largest": 3}), "reproduced")
    return made


FLIPS = flips()
RESULTS = Path(__file__).parents[3] / "benchmarks" / "reproduce" / "results" / "default" / "reproduce.json"
DEFAULT = json.loads(RESULTS.read_text(encoding="utf-8"))["papers"]


@pytest.mark.parametrize("name", PAPERS)
def test_alter_the_rows_and_the_verdict_flips(name: str, tmp_path: Path) -> None:
    """One test for each paper: its rows are measured once, at the quick scale."""
    made = reproduce(PAPERS[name], Scale("quick"), _Runner(1), tmp_path)
    assert not made.broken
    for claim, before in made.findings:
        alteration, expected = FLIPS[name, claim.id]
        data = deepcopy({key: [dict(row) for row in rows] for key, rows in made.data.items()})
        alteration(data)
        after = claim.find(data)
        assert (before.verdict != expected, after.verdict) == (True, expected), f"{claim.id}: {before}, then {after}"
    _nothing_can_be_told_without_rows(made)
    _agrees_with_the_default_scale(made)
    if name == "separators":
        _one_run_alone_decides_nothing_that_chance_has_a_part_in(made)


def _nothing_can_be_told_without_rows(made: Reproduced) -> None:
    for claim, _ in made.findings:
        assert claim.find({key: [] for key in made.data}).verdict == "not determinable", claim.id


def _agrees_with_the_default_scale(made: Reproduced) -> None:
    """Fewer runs may decide less than the committed ones, which docs/reference/coverage shows, but nothing else."""
    committed = {c["claim"]: c["verdict"] for p in DEFAULT if p["paper"] == made.paper.name for c in p["claims"]}
    for claim, judged in made.findings:
        assert judged.verdict in (committed[claim.id], "not determinable"), f"{claim.id}: {judged}"


def _one_run_alone_decides_nothing_that_chance_has_a_part_in(made: Reproduced) -> None:
    alone = {name: [row for row in rows if row.get("seed", 1) == 1] for name, rows in made.data.items()}
    decided = {claim.id for claim in made.paper.claims if claim.find(alone).verdict != "not determinable"}
    assert decided == {f"{kind}-{n}" for kind in ("matrix-clock", "vector-clocks") for n in (6, 10)}


def test_a_fitted_reconstruction_confirms_nothing() -> None:
    """PRS was fitted to what the ci-dc paper says of it, so that no claim about it can be reproduced."""
    fitted = {claim.id for claim in PAPERS["ci-dc"].claims if claim.fitted}
    assert fitted == {f"{what}-{mode}" for what in ("dependents", "bytes", "prs-bound") for mode in MODES} | {
        "unicast-crossing"
    }
    yes, no = (Claim("x", "", "", "", lambda _, answer=answer: found([answer], ""), True) for answer in (True, False))
    assert (yes.find({}).verdict, no.find({}).verdict) == ("fitted", "differs")


def test_stamps_that_are_as_small_without_a_separator_do_not_show_what_it_does() -> None:
    claim = next(claim for claim in PAPERS["separators"].claims if claim.id == "gateway-with")

    def verdict(without: float) -> str:
        sizes = {"with": 2.0, "without": without}
        rows = [{"network": "x", "separators": s, "seed": k, "elements": sizes[s]} for s in sizes for k in (1, 2)]
        return claim.find({"figure 7.5": rows}).verdict

    assert [verdict(4.0), verdict(32.0)] == ["differs", "reproduced"]


def test_every_claim_has_rows_that_flip_it() -> None:
    claims = [(name, claim.id) for name, paper in PAPERS.items() for claim in paper.claims]
    assert sorted(claims) == sorted(FLIPS)
    assert len(set(claims)) == len(claims)


def test_every_claim_says_what_it_is_held_to() -> None:
    for claim in some(claim for paper in PAPERS.values() for claim in paper.claims):
        assert claim.where
        assert claim.published
        assert claim.threshold


# -- the questions -----------------------------------------------------------------------------------------------------


def about(mean: float, half: float | None = 1.0) -> Estimate:
    return Estimate(mean, half, 3)


def test_less_needs_intervals_apart() -> None:
    assert less(about(1), about(4)) is True
    assert less(about(4), about(1)) is False
    assert less(about(1), about(2)) is None
    assert less(about(1, None), about(9)) is less(about(1), about(9, None)) is None, "one run alone has no interval"


def test_near_needs_the_whole_interval() -> None:
    assert near(about(10, 0.5), 10, 0.1) is True
    assert near(about(10, 2), 10, 0.1) is None
    assert near(about(20, 2), 10, 0.1) is False
    assert interval_within(about(0), 0, 5) is None
    assert near(about(10, None), 10, 0.1) is interval_within(about(99, None), 0, 5) is None
    assert near(about(10, 0.0), 10, 0.1) is True, "a count, which chance has no part in"


def test_one_no_differs_and_one_unknown_cannot_be_told() -> None:
    assert found([True, True], "").verdict == "reproduced"
    assert found([True, None, False], "").verdict == "differs"
    assert found([True, None], "").verdict == "not determinable"
    assert found([], "").verdict == "not determinable"
    assert [several(answers) for answers in ([True, True], [False, False], [True, False], [])] == [
        True,
        False,
        None,
        None,
    ]


def test_what_is_measured_is_shown_with_its_interval() -> None:
    """The largest of several quotients of means over seeds is no more certain than those means."""
    scenarios = ("no R9", "R9 at S2", "R9 at S1, S2, S3")
    rows = [
        {"processes": n, "placement": "p", "reading": "apart", "scenario": scenario, "seed": seed, "elements": elements}
        for scenario in scenarios
        for n, sizes in ((6, (2.0, 2.2)), (10, (2.4, 2.6)))
        for seed, elements in enumerate(sizes)
    ]
    for row in list(rows):
        rows += [row | {"reading": reading} for reading in ("together", "apart, letter", "together, letter")]
    claim = next(claim for claim in PAPERS["separators"].claims if claim.id == "grows-less")
    finding = claim.find({"table 7.1": rows})
    assert "no R9: 1.19 ± 0.94" in finding.ours
    assert finding.verdict == "not determinable"


def test_a_quotient_has_the_interval_of_both() -> None:
    assert quotient(Estimate(4.0, 0.5, 5), Estimate(2.0, 0.0, 4)) == Estimate(2.0, 0.25, 4)
    both_wide = quotient(Estimate(6.0, 0.3, 5), Estimate(3.0, 0.2, 5))
    assert both_wide.half == pytest.approx(2 * (0.05**2 + (0.2 / 3) ** 2) ** 0.5)
    assert quotient(Estimate(6.0, None, 1), Estimate(3.0, 0.2, 5)) == Estimate(2.0, None, 1)


def test_a_claim_without_rows_cannot_be_told() -> None:
    from thence.lab.papers.estimates import curve

    claim = Claim("x", "here", "1", "equal", lambda data: found([bool(curve(data["runs"], "y", protocol="ks"))], ""))
    finding = claim.find({"runs": []})
    assert finding.verdict == "not determinable"
    assert "protocol ks" in finding.ours


def test_problems_are_counted_under_their_property() -> None:
    said = [
        "integrity: a1 at b",
        "validity: b never gets to send",
        "agreement: c never delivers a1",
        "genuine: c took part",
    ]
    assert [property_of(text) for text in said] == ["integrity", "validity", "agreement", "genuineness"]
    assert property_of("b delivered a2 without a1") == "order"


@pytest.mark.parametrize(
    ("count", "degree"),
    [(lambda n: 7, 0), (lambda n: 5 * n * n - 8 * n + 3, 2), (lambda n: n**3, 3), (lambda n: n * n + n**4, 4)],
)
def test_the_degree_of_exact_counts(count: Callable[[int], int], degree: int) -> None:
    assert degree_of({n: count(n) for n in (5, 6, 8, 10, 20, 40)}) == degree


def test_counts_on_no_polynomial_have_no_degree() -> None:
    assert degree_of({n: 2**n for n in (5, 6, 8, 10)}) is None
    assert degree_of({5: 1, 6: 2}) is None
