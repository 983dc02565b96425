"""Chapter 7 of the separators paper: table 7.1 and figures 7.2 to 7.7.

Who sits where was in a figure that is lost: every placement that fits the text is run, and a value counts as
reproduced, or as different, only if every placement says so, and every reading of what else is open: hop messages apart
or together, R6.3 to the letter or as `ech-r9`, which delays were tried, how often the small group speaks. See
docs/explanation/paper-separators.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from typing import TYPE_CHECKING, TypeVar

from thence.core.model.plain import Row
from thence.lab.papers.chapter7.experiments import PUBLISHED, PUBLISHED_7_5, mean
from thence.lab.papers.claims import (
    Claim,
    ClaimAnswer,
    ClaimJudgement,
    DataRows,
    DataSets,
    NoDataError,
    every,
    found,
    interval_within,
    less,
    near,
    several,
    words,
)
from thence.lab.papers.estimates import curve, exact, quotient, rows_with
from thence.lab.papers.paper import Drawing, Paper
from thence.lab.papers.separators_runs import (
    CHOSEN,
    DELAYS,
    OTHER_DELAYS,
    READINGS,
    SCENARIO_NAMES,
    SEPARATOR_SIZES,
    USUAL,
    WATCHED,
    cells,
    chosen_runs,
    everywhere,
    histogram,
    measure,
    placements_of,
    sizes_of,
)
from thence.lab.simulator.confidence import Estimate, estimate
from thence.tables.result_table import Cell, ResultTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CLOSE, SAME, MUCH = 0.15, 0.05, 2.0
At = TypeVar("At")
"""What estimates are given for."""


def _range(values: Mapping[At, Estimate]) -> str:
    means = [value.mean for value in values.values()]
    return f"{min(means):.2f} to {max(means):.2f}"


def _computed(scheme: str, n: int) -> Callable[[DataSets], ClaimJudgement]:
    def judge(data: DataSets) -> ClaimJudgement:
        sizes = [row[scheme] for row in rows_with(data["fixed"], processes=n)]
        return found([size == PUBLISHED[scheme][n] for size in sizes], ", ".join(map(str, sorted(set(sizes)))))

    return judge


def _cell(scenario: str, n: int) -> Callable[[DataSets], ClaimJudgement]:
    def judge(data: DataSets) -> ClaimJudgement:
        by = everywhere(data, n, scenario)
        answer = several([near(value, PUBLISHED[scenario][n], CLOSE) for value in by.values()])
        return found([answer], _two_ranges(data, cells(data, n, scenario), by))

    return judge


def _two_ranges(data: DataSets, ours: Mapping[str, Estimate], of_all: Mapping[tuple[str, str], Estimate]) -> str:
    places = len(placements_of(data))
    return f"{_range(ours)} over {places} placements as `ech-r9`, {_range(of_all)} over {len(READINGS)} readings too"


def _falls(steps: Sequence[DataRows], size: Callable[[Row], float]) -> ClaimAnswer:
    """Return whether each step is smaller than the one before, over pairs of runs with the same traffic."""
    answers: list[ClaimAnswer] = []
    for more, fewer in pairwise(steps):
        before = {row["seed"]: size(row) for row in more}
        change = estimate([size(row) - before[row["seed"]] for row in fewer])
        answers.append(None if change is None else less(change, exact([0.0])))
    return every(answers)


def _falling(data: DataSets) -> ClaimJudgement:
    answers: list[ClaimAnswer] = []
    for n, place, reading in product(sizes_of(data), placements_of(data), READINGS):
        some = rows_with(data["table 7.1"], processes=n, placement=place, reading=reading)
        answers.append(
            _falls([rows_with(some, scenario=scenario) for scenario in SCENARIO_NAMES], lambda row: row["elements"])
        )
    return found([several(answers)], f"in {answers.count(True)} of {len(answers)} placements and readings")


def _improves(data: DataSets) -> ClaimJudgement:
    none, some = (everywhere(data, 6, scenario) for scenario in SCENARIO_NAMES[:2])
    shares = {key: quotient(some[key], none[key]) for key in none}
    saved = {key: Estimate(1 - share.mean, share.half, share.values) for key, share in shares.items()}
    answer = several([interval_within(value, 0.15, 0.30) for value in saved.values()])
    ours = {place: value for (reading, place), value in saved.items() if reading == CHOSEN}
    return found([answer], _two_ranges(data, ours, saved))


def _grows_less(data: DataSets) -> ClaimJudgement:
    answers, shown = [], {}
    for scenario in SCENARIO_NAMES:
        few, many = (everywhere(data, n, scenario) for n in (6, 10))
        grown = [quotient(many[key], few[key]) for key in few]
        shown[scenario] = max(grown, key=lambda value: value.mean)
        answers += [interval_within(value, 0, 14 / 10) for value in grown]
    return found([several(answers)], "largest factor from 6 to 10, " + words(shown))


def _steady(data: DataSets) -> ClaimJudgement:
    """Judge each choice of other delays in each placement by itself: how different they were is open."""
    placements = sorted({row["placement"] for row in data["delays"]})
    if not placements:
        raise NoDataError("other delays")
    answers, parts = [], []
    for name, pair in OTHER_DELAYS.items():
        by = [_changes([r for r in rows_with(data["delays"], placement=p) if r["delay"] in (USUAL, *pair)])
              for p in placements]  # fmt: skip
        answers += [every([interval_within(change, -SAME, SAME) for change in changes]) for changes in by]
        most = [100 * max(abs(change.mean) for change in changes) for changes in by]
        parts.append(f"{name}: by {min(most):.0f} % to {max(most):.0f} %")
    return found([several(answers)], f"largest change over {len(placements)} placements, {'; '.join(parts)}")


def _changes(rows: DataRows) -> list[Estimate]:
    """Return by which share each other delay changes each value, over pairs of runs with the same traffic."""
    made = []
    for n, scenario, delay in sorted({(row["processes"], row["scenario"], row["delay"]) for row in rows}):
        if delay != USUAL:
            other, usual = (rows_with(rows, processes=n, scenario=scenario, delay=d) for d in (delay, USUAL))
            base = {row["seed"]: row["elements"] for row in usual}
            change = estimate([row["elements"] / base[row["seed"]] - 1 for row in other])
            if change is None:
                raise NoDataError("other delays")
            made.append(change)
    return made


def _histories(data: DataSets) -> ClaimJudgement:
    answers, shown = [], []
    for place in placements_of(data):
        steps = [chosen_runs(data, 6, scenario, place) for scenario in (SCENARIO_NAMES[0], SCENARIO_NAMES[2])]
        answers.append(every([_falls(steps, partial(_mean_of, f"history {at}")) for at in WATCHED]))
    for at, name in WATCHED.items():
        none, all_three = (
            mean(histogram(chosen_runs(data, 6, s), f"history {at}")) for s in (SCENARIO_NAMES[0], SCENARIO_NAMES[2])
        )
        shown.append(f"{name}: {none:.1f} to {all_three:.1f}")
    return found([several(answers)], ", ".join(shown))


def _small_stamps(n: int) -> Callable[[DataSets], ClaimJudgement]:
    def judge(data: DataSets) -> ClaimJudgement:
        answers = [
            _falls(
                [chosen_runs(data, n, s, place) for s in SCENARIO_NAMES],
                lambda row: -_small(histogram([row], "stamps")),
            )
            for place in placements_of(data)
        ]
        part = [_small(histogram(chosen_runs(data, n, scenario), "stamps")) for scenario in SCENARIO_NAMES]
        text = ", ".join(f"{name}: {100 * share:.0f} %" for name, share in zip(SCENARIO_NAMES, part, strict=True))
        return found([several(answers)], f"stamps of at most 2 elements, {text}")

    return judge


def _mean_of(column: str, row: Row) -> float:
    return mean(histogram([row], column))


def _small(sizes: Counter[int]) -> float:
    """Return the share of stamps of at most two elements."""
    return sum(seen for size, seen in sizes.items() if size <= 2) / max(1, sizes.total())


def _without_gateway(data: DataSets) -> ClaimJudgement:
    by = _small_group(data, "without")
    return found([several([near(value, PUBLISHED_7_5["without"], CLOSE) for value in by.values()])], words(by))


def _with_gateway(data: DataSets) -> ClaimJudgement:
    """Stamps below 5 elements are the separator's doing only where they are not below 5 without it."""
    few, bound = _small_group(data, "with"), exact([PUBLISHED_7_5["with"]])
    without = _small_group(data, "without")
    answers = [every([less(few[name], bound), less(bound, without[name])]) for name in few]
    return found([several(answers)], words(few) + "; without: " + words(without))


def _small_group(data: DataSets, separators: str) -> dict[str, Estimate]:
    """Return the elements of the small group's stamps in figure 7.5, for each traffic and reading."""
    rows = rows_with(data["figure 7.5"], separators=separators)
    if not rows:
        raise NoDataError("figure 7.5")
    return curve(rows, "elements", "network")


def _networks(column: str, factor: float) -> Callable[[DataSets], ClaimJudgement]:
    def judge(data: DataSets) -> ClaimJudgement:
        rows, answers, shown = data["figure 7.7"], [], []
        for name in sorted({row["network"] for row in rows}):
            by = curve(rows, column, "separators", network=name)
            answers.append(less(_difference(rows, name, column, factor), exact([0.0])))
            shown.append(f"{name}: {by['without']} without, {by['with']} with")
        return found([several(answers)], "; ".join(shown))

    return judge


def _difference(rows: DataRows, network: str, column: str, factor: float) -> Estimate:
    """Return this many times the size with separators, less that without, over pairs of runs with the same traffic."""
    pairs = (rows_with(rows, network=network, seed=seed) for seed in sorted({row["seed"] for row in rows}))
    by = [{row["separators"]: row[column] for row in pair} for pair in pairs]
    found = estimate([factor * pair["with"] - pair["without"] for pair in by])
    if found is None:
        raise NoDataError(network)
    return found


CLAIMS = (
    *(
        Claim(f"{scheme.replace(' ', '-')}-{n}", f"table 7.1, n = {n}", f"{scheme}: {PUBLISHED[scheme][n]:g}",
            "equal", _computed(scheme, n))
        for scheme in ("matrix clock", "vector clocks")
        for n in (6, 10)
    ),
    *(
        Claim(f"{name}-{n}", f"table 7.1, n = {n}", f"{scenario}: {PUBLISHED[scenario][n]:g} elements",
            "95 % interval within 15 % in every placement and reading; differs if further off in every one",
            _cell(scenario, n))
        for scenario, name in zip(SCENARIO_NAMES, ("none", "s2", "all"), strict=True)
        for n in (6, 10)
    ),
    Claim("falling", "table 7.1", "no R9 > R9 at S2 > R9 at S1, S2, S3",
        "by the 95 % intervals of the differences between runs with the same traffic, in every placement and reading; "
        "differs if out of order in every one", _falling),
    Claim("improves", "section 7, n = 6", "R9 at S2 improves by approximately 20 %",
        "95 % interval within 15 to 30 % in every placement and reading; differs if outside in every one", _improves),
    Claim("grows-less", "section 7", "from 6 to 10 processes stamps grow less than with vector or matrix clocks",
        "95 % interval of the factor below 1.4, that of vector clocks, in every placement, reading and row; differs if "
        "above in every one", _grows_less),
    Claim("delays", "section 7", "other network delays change the values by less than 5 %",
        "at 45 and 55 ms, and at 25 and 100 ms, against 50 ms: 95 % interval of every change within 5 %, for either "
        "pair in every placement; differs if one is outside for either pair in every placement", _steady),
    Claim("histories", "figure 7.2", "histories at p3, d2, d3 in three scenarios (picture lost)",
        "read as: each mean is smaller with R9 everywhere than without, by the 95 % interval of the difference between "
        "runs with the same traffic, in every placement; differs if in none", _histories),
    *(
        Claim(f"stamps-{n}", f"figure 7.{figure_number}", f"stamp sizes in three scenarios, n = {n} (picture lost)",
            "read as: the share of stamps of at most 2 elements grows with each step of R9, by the 95 % interval of "
            "the difference between runs with the same traffic, in every placement; differs if in none",
            _small_stamps(n))
        for n, figure_number in ((6, 3), (10, 4))
    ),
    Claim("gateway-without", "figure 7.5", "stamps of the small group, no separator: 32 elements",
        "within 15 %, whether the small group speaks as often as the large or a twentieth as often, R6.3 to the letter "
        "or not; differs if further off in every one", _without_gateway),
    Claim("gateway-with", "figure 7.5", "stamps of the small group, gateway as separator: less than 5 elements",
        "intervals included, below 5 with the separator and above 5 without it, in all of these; differs if not so in "
        "every one", _with_gateway),
    Claim("networks-histories", "figures 7.6, 7.7", "the history of p1 is much larger without separators",
        "at least twice as large, by the 95 % interval of the difference, for pairs of gateways and for a ring; "
        "differs if for neither", _networks("history", MUCH)),
    Claim("networks-stamps", "figures 7.6, 7.7", "stamps in G1 are smaller with separators",
        "by the 95 % interval of the difference between runs with the same traffic, for pairs and for a ring; "
        "differs if for neither", _networks("elements", 1.0)),
)  # fmt: skip

# -- shown -----------------------------------------------------------------------------------------------------------


def tables(data: DataSets) -> list[ResultTable]:
    """Return table 7.1 under every reading, the delays, and figures 7.5 and 7.7 in numbers."""
    rows: list[tuple[Cell, ...]] = []
    for n in sizes_of(data):
        for scheme in ("matrix clock", "vector clocks"):
            value = rows_with(data["fixed"], processes=n)[0][scheme]
            rows.append((n, scheme, PUBLISHED[scheme][n], *[str(value)] * len(READINGS)))
        for name in SCENARIO_NAMES:
            spread = ([v.mean for v in cells(data, n, name, reading).values()] for reading in READINGS)
            rows.append((n, name, PUBLISHED[name][n], *(f"{min(each):.2f} to {max(each):.2f}" for each in spread)))
    note = (
        "Ranges are over placements. Apart: one hop message for each link; together: one for all next hops; letter: "
        "R6.3 as printed."
    )
    shown = [ResultTable("Table 7.1: elements of a stamp", ("n", "scheme", "published", *READINGS), tuple(rows), note)]
    slow: list[tuple[Cell, ...]] = [
        (n, name, *(str(v) for v in curve(data["delays"], "elements", "delay", processes=n, scenario=name).values()))
        for n in sizes_of(data) for name in SCENARIO_NAMES
    ]  # fmt: skip
    titles = tuple(f"{1000 * delay:g} ms" for delay in DELAYS)
    shown.append(ResultTable("Other network delays, over all placements", ("n", "scheme", *titles), tuple(slow)))
    beside: list[tuple[Cell, ...]] = []
    for row in rows_with([*data["figure 7.5"], *data["figure 7.7"]], separators="with"):
        name, same = row["network"], (data["figure 7.5"], data["figure 7.7"])["broadcasts" in row["network"]]
        by = [curve(same, column, "separators", network=name) for column in ("elements", "history")]
        line = (name, *(str(each[where]) for each in by for where in ("without", "with")))
        beside += [line] if line not in beside else []
    columns = ("network", "stamps without", "stamps with", "history without", "history with")
    return [*shown, ResultTable("Figures 7.5 to 7.7: elements, without and with separators", columns, tuple(beside))]


def plots(data: DataSets, draw: Drawing) -> dict[str, Figure]:
    """Return the histograms of figures 7.2, 7.3, 7.4 and 7.7."""
    made: dict[str, Figure] = {}
    if 6 in sizes_of(data):
        drawn, panels = draw.figure(10.0, 3.4, columns=3)
        for panel, (place, name) in zip(panels, WATCHED.items(), strict=True):
            by = {s: dict(histogram(chosen_runs(data, 6, s), f"history {place}")) for s in SCENARIO_NAMES}
            draw.shares(panel, by, x=f"elements in the history of {name}")
        draw.legend(drawn, panels[0])
        made["separators-figure-7-2"] = drawn
    drawn, panels = draw.figure(9.0, 3.4, columns=len(sizes_of(data)))
    for panel, n in zip(panels, sizes_of(data), strict=True):
        draw.shares(
            panel,
            {s: dict(histogram(chosen_runs(data, n, s), "stamps")) for s in SCENARIO_NAMES},
            x=f"elements of a stamp, n = {n}",
        )
    draw.legend(drawn, panels[0])
    made["separators-figures-7-3-and-7-4"] = drawn
    if data["figure 7.7"]:
        drawn, panels = draw.figure(9.0, 3.4, columns=2)
        pairs = [row for row in data["figure 7.7"] if "pairs" in row["network"]]
        for panel, column, label in zip(
            panels, ("stamps", "histories"), ("a stamp in G1", "the history of p1"), strict=True
        ):
            by = {s: dict(histogram(rows_with(pairs, separators=s), column)) for s in ("without", "with")}
            draw.shares(panel, by, x=f"elements of {label}")
        draw.legend(drawn, panels[0], "separators")
        made["separators-figure-7-7"] = drawn
    return made


PAPER = Paper(
    "separators",
    "Causal separators and topological timestamping, chapter 7",
    (
        "Who sits where was in a lost figure: eight placements that fit the text are run; a verdict needs all of them.",
        "Hop messages apart or together, and R6.3 to the letter or not, are open: what table 7.1 says needs all four.",
        "Delays are exponential. How different the other delays were is open: a tenth, and half and twice.",
        "The sizes of figures 7.5 to 7.7 are open: 4 beside 32, and three networks of 8. So is the traffic of figure "
        "7.5: the small group speaks as often as the large, or a twentieth as often, for then more is new to it.",
    ),
    CLAIMS,
    tables,
    plots,
    measure=measure,
    sizes=SEPARATOR_SIZES,
)
