"""Chapter 7 of the separators paper: table 7.1 and figures 7.2 to 7.7.

Who sits where was in a figure that is lost: every placement that fits the text is run, and a value counts as
reproduced, or as different, only if every placement says so. The reading taken for the verdicts is that of `ech-r9`,
one hop message for each link; the table shows the other three. See docs/paper-separators.md.
"""

from __future__ import annotations

from collections.abc import Callable

from thence.papers.chapter7.experiments import PUBLISHED, PUBLISHED_7_5, mean
from thence.papers.claims import (
    Answer,
    Claim,
    Data,
    Finding,
    NoDataError,
    Rows,
    between,
    found,
    less,
    near,
    several,
    words,
)
from thence.papers.paper import Paper
from thence.papers.rows import choose, curve, exact, joined
from thence.papers.separators_runs import (
    NAMES,
    READINGS,
    SIZES,
    WATCHED,
    cells,
    chosen,
    histogram,
    measure,
    sizes_of,
)
from thence.papers.separators_shown import plots, tables
from thence.sim.stats import Estimate, estimate

CLOSE, SAME, MUCH = 0.15, 0.05, 2.0
USUAL = 0.05
"""seconds of delay on the mean, as published"""


def _range(values: dict[str, Estimate]) -> str:
    means = [value.mean for value in values.values()]
    return f"{min(means):.2f} to {max(means):.2f} over {len(means)} placements"


def _computed(scheme: str, n: int) -> Callable[[Data], Finding]:
    def judge(data: Data) -> Finding:
        value = exact([row[scheme] for row in choose(data["fixed"], processes=n)])
        return found([value.mean == PUBLISHED[scheme][n]], f"{value.mean:g}")

    return judge


def _cell(scenario: str, n: int) -> Callable[[Data], Finding]:
    def judge(data: Data) -> Finding:
        by = cells(data, n, scenario)
        answer = several([near(value, PUBLISHED[scenario][n], CLOSE) for value in by.values()])
        widest = max(value.half or 0.0 for value in by.values())
        return found([answer], f"{_range(by)}, each ± {widest:.2g} at most")

    return judge


def _falling(data: Data) -> Finding:
    answers: list[Answer] = []
    for n in sizes_of(data):
        for reading in READINGS:
            by = [cells(data, n, scenario, reading) for scenario in NAMES]
            answers += [by[0][p].mean > by[1][p].mean > by[2][p].mean for p in by[0]]
    return found(answers, f"in {sum(map(bool, answers))} of {len(answers)} placements and readings")


def _improves(data: Data) -> Finding:
    none, some = cells(data, 6, "no R9"), cells(data, 6, "R9 at S2")
    saved = {name: exact([1 - some[name].mean / none[name].mean]) for name in none}
    return found([several([between(value, 0.15, 0.30) for value in saved.values()])], _range(saved))


def _grows_less(data: Data) -> Finding:
    answers, shown = [], {}
    for scenario in NAMES:
        few, many = cells(data, 6, scenario), cells(data, 10, scenario)
        grown = {name: exact([many[name].mean / few[name].mean]) for name in few}
        shown[scenario] = exact([max(value.mean for value in grown.values())])
        answers += [value.mean < 14 / 10 for value in grown.values()]
    return found(answers, "largest factor from 6 to 10, " + words(shown))


def _steady(data: Data) -> Finding:
    placements = sorted({row["placement"] for row in data["delays"]})
    if not placements:
        raise NoDataError("other delays")
    by = {place: _changes(choose(data["delays"], placement=place)) for place in placements}
    answers = [_all([between(change, -SAME, SAME) for change in changes]) for changes in by.values()]
    most = {place: max(abs(change.mean) for change in changes) for place, changes in by.items()}
    text = f"largest change {100 * min(most.values()):.0f} % to {100 * max(most.values()):.0f} %"
    return found([several(answers)], f"{text} over {len(placements)} placements")


def _changes(rows: Rows) -> list[Estimate]:
    """Return by which share each other delay changes each value, over pairs of runs with the same traffic."""
    made = []
    for n, scenario, delay in sorted({(row["processes"], row["scenario"], row["delay"]) for row in rows}):
        if delay != USUAL:
            other, usual = (choose(rows, processes=n, scenario=scenario, delay=d) for d in (delay, USUAL))
            base = {row["seed"]: row["elements"] for row in usual}
            change = estimate([row["elements"] / base[row["seed"]] - 1 for row in other])
            if change is None:
                raise NoDataError("other delays")
            made.append(change)
    return made


def _all(answers: list[Answer]) -> Answer:
    """Answer for one choice of what is open: no if one says no, yes if all say yes."""
    return False if False in answers else None if None in answers else True


def _histories(data: Data) -> Finding:
    answers, shown = [], []
    for place, name in WATCHED.items():
        none, all_three = (mean(histogram(chosen(data, 6, s), f"history {place}")) for s in (NAMES[0], NAMES[2]))
        answers.append(all_three < none)
        shown.append(f"{name}: {none:.1f} to {all_three:.1f}")
    return found(answers, ", ".join(shown))


def _small_stamps(n: int) -> Callable[[Data], Finding]:
    def judge(data: Data) -> Finding:
        by = [histogram(chosen(data, n, scenario), "stamps") for scenario in NAMES]
        part = [sum(seen for size, seen in each.items() if size <= 2) / max(1, each.total()) for each in by]
        text = ", ".join(f"{name}: {100 * share:.0f} %" for name, share in zip(NAMES, part, strict=True))
        return found([part[0] < part[1], part[1] < part[2]], f"stamps of at most 2 elements, {text}")

    return judge


def _gateway(separators: str) -> Callable[[Data], Finding]:
    def judge(data: Data) -> Finding:
        rows = choose(data["figure 7.5"], separators=separators)
        if not rows:
            raise NoDataError("figure 7.5")
        value, published = joined(rows, "elements"), PUBLISHED_7_5[separators]
        answer = near(value, published, CLOSE) if separators == "without" else less(value, exact([published]))
        return found([answer], str(value))

    return judge


def _networks(column: str, factor: float) -> Callable[[Data], Finding]:
    def judge(data: Data) -> Finding:
        rows, answers, shown = data["figure 7.7"], [], []
        for name in sorted({row["network"] for row in rows}):
            by = curve(rows, column, "separators", network=name)
            answers.append(less(_difference(rows, name, column, factor), exact([0.0])))
            shown.append(f"{name}: {by['without']} without, {by['with']} with")
        return found(answers, "; ".join(shown))

    return judge


def _difference(rows: Rows, network: str, column: str, factor: float) -> Estimate:
    """Return so many times the size with separators, less that without, over pairs of runs with the same traffic."""
    pairs = (choose(rows, network=network, seed=seed) for seed in sorted({row["seed"] for row in rows}))
    by = [{row["separators"]: row[column] for row in pair} for pair in pairs]
    found = estimate([factor * pair["with"] - pair["without"] for pair in by])
    if found is None:
        raise NoDataError(network)
    return found


CLAIMS = (
    *(
        Claim(
            f"{scheme.replace(' ', '-')}-{n}",
            f"table 7.1, n = {n}",
            f"{scheme}: {PUBLISHED[scheme][n]:g}",
            "equal",
            _computed(scheme, n),
        )
        for scheme in ("matrix clock", "vector clocks")
        for n in (6, 10)
    ),
    *(
        Claim(
            f"{name}-{n}",
            f"table 7.1, n = {n}",
            f"{scenario}: {PUBLISHED[scenario][n]:g} elements",
            "95 % interval within 15 % in every placement; differs if further off in every placement",
            _cell(scenario, n),
        )
        for scenario, name in zip(NAMES, ("none", "s2", "all"), strict=True)
        for n in (6, 10)
    ),
    Claim(
        "falling",
        "table 7.1",
        "no R9 > R9 at S2 > R9 at S1, S2, S3",
        "in every placement and reading; differs if one is out of order",
        _falling,
    ),
    Claim(
        "improves",
        "section 7, n = 6",
        "R9 at S2 improves by approximately 20 %",
        "by 15 to 30 % in every placement; differs if outside in every placement",
        _improves,
    ),
    Claim(
        "grows-less",
        "section 7",
        "from 6 to 10 processes stamps grow less than with vector or matrix clocks",
        "by a factor below 1.4, that of vector clocks, in every placement and row",
        _grows_less,
    ),
    Claim(
        "delays",
        "section 7",
        "other network delays change the values by less than 5 %",
        "at 25 and 100 ms against 50 ms, 95 % interval of every change within 5 % in every placement; differs if one "
        "is outside in every placement",
        _steady,
    ),
    Claim(
        "histories",
        "figure 7.2",
        "histories at p3, d2, d3 in three scenarios (picture lost)",
        "read as: each mean is smaller with R9 everywhere than without",
        _histories,
    ),
    *(
        Claim(
            f"stamps-{n}",
            f"figure 7.{figure_number}",
            f"stamp sizes in three scenarios, n = {n} (picture lost)",
            "read as: the share of stamps of at most 2 elements grows with each step of R9",
            _small_stamps(n),
        )
        for n, figure_number in ((6, 3), (10, 4))
    ),
    Claim(
        "gateway-without",
        "figure 7.5",
        "stamps of the small group, no separator: 32 elements",
        "within 15 %",
        _gateway("without"),
    ),
    Claim(
        "gateway-with",
        "figure 7.5",
        "stamps of the small group, gateway as separator: less than 5 elements",
        "below 5, interval included",
        _gateway("with"),
    ),
    Claim(
        "networks-histories",
        "figures 7.6, 7.7",
        "the history of p1 is much larger without separators",
        "at least twice as large, by the 95 % interval of the difference, for pairs of gateways and for a ring",
        _networks("history", MUCH),
    ),
    Claim(
        "networks-stamps",
        "figures 7.6, 7.7",
        "stamps in G1 are smaller with separators",
        "by the 95 % interval of the difference between runs with the same traffic, for pairs and for a ring",
        _networks("elements", 1.0),
    ),
)


PAPER = Paper(
    "separators",
    "Causal separators and topological time-stamping, chapter 7",
    (
        "Who sits where was in a lost figure: eight placements that fit the text are run; a verdict needs all of them.",
        "Hop messages apart or together, and R6.3 to the letter or not, are open: all four readings are in the table.",
        "Delays are exponential. The sizes of figures 7.5 to 7.7 are open: 4 beside 32, and three networks of 8.",
    ),
    CLAIMS,
    tables,
    plots,
    measure=measure,
    sizes=SIZES,
)
