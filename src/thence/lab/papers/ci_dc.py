"""Claims of the ci-dc paper on figures 2 (dependents) and 3 (bytes per message), compared with our runs.

4 bytes a timestamp, 2 bytes a process id, as there. The pictures are lost; the sentences about them are judged.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from thence.core.model.plain import Row
from thence.lab.papers.ci_dc_runs import CI_DC_PROTOCOLS, CI_DC_SIZES, DELAY, MODES, OTHER_NETWORKS, grid, measure
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
from thence.lab.papers.claims import estimate_text as text
from thence.lab.papers.estimates import curve, exact, growth, quotient, rows_with
from thence.lab.papers.paper import Drawing, Paper
from thence.lab.simulator.confidence import Estimate
from thence.tables.result_table import Cell, ResultTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINEAR = 1.25
LARGE = 30
"""processes from which a bound counts as approached"""
BOUND = 2 / 3
"""of n²: with 6 bytes an entry, this many cost what n² of 4 bytes do"""


NETWORKS: tuple[Row, ...] = ({"delay": DELAY, "fifo": False}, *({"fifo": False} | other for other in OTHER_NETWORKS))
"""the chosen one first; how long messages travel, and whether in order, is open"""
NetworkJudge = Callable[[DataSets, Row], tuple[list[ClaimAnswer], str]]
"""answers and our values for one network"""


def of(data: DataSets, network: Row) -> DataRows:
    """Return the runs with one network; RST, whose size no network changes, is run with the first alone."""
    chosen = rows_with(data["runs"], **network)
    sizes = {row["processes"] for row in chosen}
    if network == NETWORKS[0]:
        return chosen
    return [
        *chosen,
        *(row for row in rows_with(data["runs"], **NETWORKS[0], protocol="rst") if row["processes"] in sizes),
    ]


def lines(data: DataSets, measure: str, mode: str, network: Row = NETWORKS[0]) -> dict[str, dict[int, Estimate]]:
    """Return a measure over n for each protocol."""
    return {name: curve(of(data, network), measure, protocol=name, fanout=MODES[mode]) for name in CI_DC_PROTOCOLS}


def _everywhere(judge: NetworkJudge) -> Callable[[DataSets], ClaimJudgement]:
    """Judge each measured network by itself; return the answer that all share, else None."""

    def judged(data: DataSets) -> ClaimJudgement:
        first, text = judge(data, NETWORKS[0])
        answers = {words_of(NETWORKS[0]): every(first)}
        for network in NETWORKS[1:]:
            with suppress(NoDataError):
                answers[words_of(network)] = every(judge(data, network)[0])
        other = [name for name, answer in answers.items() if answer != every(first)]
        return found(
            [several(list(answers.values()))], text + (f"; otherwise with {', '.join(other)}" if other else "")
        )

    return judged


def words_of(network: Row) -> str:
    """Return a network in words."""
    return f"{network['delay']} s" + (" on FIFO channels" if network["fifo"] else "")


def _ordered(measure: str, mode: str, order: tuple[tuple[str, str], ...]) -> NetworkJudge:
    def judge(data: DataSets, network: Row) -> tuple[list[ClaimAnswer], str]:
        by = lines(data, measure, mode, network)
        answers = [less(by[one][n], by[other][n]) for one, other in order for n in by[one]]
        most = max(by["ci-dc"])
        return answers, f"at n = {most}: " + words({name: by[name][most] for name in CI_DC_PROTOCOLS})

    return judge


def _squares(data: DataSets) -> ClaimJudgement:
    by = [(n, value) for mode in MODES for n, value in lines(data, "entries_per_copy", mode)["rst"].items()]
    return found([interval_within(v, n * n, n * n) for n, v in by], words(dict(by)))


def _per_sender(data: DataSets, network: Row) -> tuple[list[ClaimAnswer], str]:
    by = {mode: lines(data, "entries_per_copy", mode, network)["ci-dc"] for mode in MODES}
    answers: list[ClaimAnswer] = []
    for points in by.values():
        answers += [interval_within(v, n, n * n) for n, v in points.items()]
    least = (f"{mode}: at least {min(v.mean / n for n, v in points.items()):.2f} n" for mode, points in by.items())
    return answers, ", ".join(least)


def _linear(measure: str, mode: str) -> NetworkJudge:
    def judge(data: DataSets, network: Row) -> tuple[list[ClaimAnswer], str]:
        rows = of(data, network)
        grown = {p: growth(rows, measure, protocol=p, fanout=MODES[mode]) for p in CI_DC_PROTOCOLS}
        return [interval_within(grown["ci-dc"], 0.0, LINEAR)], "exponent of n, " + words(grown)

    return judge


def _savings(data: DataSets, network: Row) -> tuple[list[ClaimAnswer], str]:
    multi, uni = (lines(data, "paper_bytes_per_copy", mode, network) for mode in MODES)
    answers, shown = [], {}
    for n in multi["ci-dc"]:
        one, other = (quotient(by["ci-dc"][n], by["rst"][n]) for by in (multi, uni))
        answers.append(less(one, other))
        shown[n] = f"{100 * one.mean:.0f} % against {100 * other.mean:.0f} %"
    return answers, "of the bytes of RST, " + ", ".join(f"n = {n}: {text}" for n, text in shown.items())


def shares_of_square(data: DataSets, mode: str, network: Row = NETWORKS[0]) -> dict[int, Estimate]:
    """Return the dependents of PRS as a share of n²."""
    points = lines(data, "entries_per_copy", mode, network)["prs"]
    return {n: quotient(value, Estimate(n * n, 0.0, value.values)) for n, value in points.items()}


def _approaches(mode: str) -> NetworkJudge:
    def judge(data: DataSets, network: Row) -> tuple[list[ClaimAnswer], str]:
        share = shares_of_square(data, mode, network)
        large = [share[n] for n in share if n >= LARGE]
        if len(large) < 2:
            raise NoDataError(f"two sizes of {LARGE} or more")
        return [near(each, BOUND, 0.15) for each in large], words(share)

    return judge


def _crosses(data: DataSets, network: Row) -> tuple[list[ClaimAnswer], str]:
    by = lines(data, "paper_bytes_per_message", "unicast", network)
    answers = [less(by["prs"][n], by["rst"][n]) for n in by["prs"] if n <= 20]
    after = [less(by["rst"][n], by["prs"][n]) for n in by["prs"] if n >= 30]
    if not answers or not after:
        raise NoDataError("sizes on both sides of 25")
    shown = {n: f"{by['prs'][n].mean / by['rst'][n].mean:.2f}" for n in by["prs"]}
    return [*answers, *after], "PRS over RST, " + ", ".join(f"n = {n}: {text}" for n, text in shown.items())


def _worst(data: DataSets) -> ClaimJudgement:
    share = {row["processes"]: exact([row["dependents"] / row["processes"] ** 2]) for row in data["worst case"]}
    return found([interval_within(value, 0.5, 1.0) for value in share.values()], "share of n², " + words(share))


ABOVE = "the 95 % intervals lie so at every n; differs if at one n they lie the other way round"
GROWS = f"log-log slope over n, fitted for each seed: the 95 % interval at or below {LINEAR}; differs if above"
EACH = "; so with 10, 50 and 200 ms, and with 50 ms on FIFO channels, each by itself"


def _claim(name: str, where: str, published: str, threshold: str, judge: NetworkJudge, *, prs: bool = False) -> Claim:
    """Return a claim that is asked of every network; what it says of PRS is said of a fitted reconstruction."""
    return Claim(name, where, published, threshold + EACH, _everywhere(judge), fitted=prs)


CLAIMS = (
    Claim("rst-square", "figure 2", "RST: n² dependents", "exactly n² on every copy", _squares),
    *(
        _claim(f"dependents-{mode}", f"figure 2, {mode}", "dependents per message: ci-dc fewest, PRS between, RST most",
            ABOVE, _ordered("entries_per_copy", mode, (("ci-dc", "prs"), ("prs", "rst"))), prs=True)
        for mode in MODES
    ),
    _claim("per-sender", "section 6.3", "ci-dc keeps at least one dependent for each sender",
        "mean dependents from n to n² at every n, interval included", _per_sender),
    *(
        _claim(f"linear-dependents-{mode}", f"section 6.1, {mode}", "the average case is nearly O(n)", GROWS,
            _linear("entries_per_copy", mode))
        for mode in MODES
    ),
    *(
        _claim(f"bytes-{mode}", f"figure 3, {mode}", "bytes of control information per message: ci-dc least", ABOVE,
            _ordered("paper_bytes_per_message", mode, (("ci-dc", "prs"), ("ci-dc", "rst"))), prs=True)
        for mode in MODES
    ),
    *(
        _claim(f"linear-bytes-{mode}", f"figure 3, {mode}", "ci-dc grows slowly, nearly linearly, with n",
            f"of the bytes per copy: {GROWS}", _linear("paper_bytes_per_copy", mode))
        for mode in MODES
    ),
    _claim("multicast-saves-more", "section 6.3", "ci-dc saves more in multicast than in unicast",
        "bytes as a share of RST's are less in multicast at every n, intervals apart", _savings),
    *(
        _claim(f"prs-bound-{mode}", f"section 6.3, {mode}", "PRS approaches 2/3 n² dependents",
            f"at every n from {LARGE} on, of which there are two at least, within 15 % of 2/3 n²", _approaches(mode),
            prs=True)
        for mode in MODES
    ),
    _claim("unicast-crossing", "figure 3, unicast", "PRS costs more than RST when n exceeds 25",
        "intervals apart: PRS cheaper at every n up to 20, costlier at every n from 30; differs if one is the other "
        "way", _crosses, prs=True),
    Claim("worst-case", "section 6.1", "worst case O(n²) dependents",
        "every process unicasts to every other concurrently: between n²/2 and n² facts on one copy", _worst),
)  # fmt: skip


# -- shown -----------------------------------------------------------------------------------------------------------


FIGURES = {
    "ci-dc-figure-2": ("Figure 2: dependents per copy", "entries_per_copy", "dependents per copy"),
    "ci-dc-figure-3": ("Figure 3: bytes per message, over all its copies", "paper_bytes_per_message",
                       "bytes per message"),
}  # fmt: skip


def tables(data: DataSets) -> list[ResultTable]:
    """Return both figures as tables, and what other networks would have given."""
    shown: list[ResultTable] = []
    for title, size, _ in FIGURES.values():
        rows: list[tuple[Cell, ...]] = []
        for mode in MODES:
            by = lines(data, size, mode)
            rows += [(mode, n, *(text(by[name][n]) for name in CI_DC_PROTOCOLS)) for n in by["ci-dc"]]
        shown.append(
            ResultTable(title, ("mode", "n", *CI_DC_PROTOCOLS), tuple(rows), "± is half a 95 % interval over the runs")
        )
    return [*shown, _sensitivity(data)]


def _sensitivity(data: DataSets) -> ResultTable:
    rows: list[tuple[Cell, ...]] = []
    sizes = sorted({row["processes"] for row in rows_with(data["runs"], **NETWORKS[1])})
    for other in NETWORKS:
        for mode, fanout in MODES.items():
            chosen = rows_with(data["runs"], **other, fanout=fanout)
            ours, prs = (curve(chosen, "entries_per_copy", protocol=p) if sizes else {} for p in CI_DC_PROTOCOLS[:2])
            for n in sizes:
                size = (ours[n].mean, prs[n].mean, prs[n].mean / n**2)
                rows.append((other["delay"], "yes" if other["fifo"] else "no", mode, n, *size))
    note = "The paper says neither how long messages travel nor whether channels are FIFO. First our choice."
    return ResultTable("How much the network matters: dependents per copy",
                 ("delay", "fifo", "mode", "n", "ci-dc", "prs", "prs / n²"), tuple(rows), note)  # fmt: skip


def plots(data: DataSets, draw: Drawing) -> dict[str, Figure]:
    """Return figures 2 and 3, both modes side by side."""
    made: dict[str, Figure] = {}
    for name, (_, size, label) in FIGURES.items():
        drawn, panels = draw.figure(9.0, 3.8, columns=2)
        for panel, mode in zip(panels, MODES, strict=True):
            draw.curves(panel, lines(data, size, mode), x="n", y=label, log=True)
            panel.set_title(mode, loc="left", fontsize=10)
        draw.legend(drawn, panels[0])
        made[name] = drawn
    return made


PAPER = Paper(
    "ci-dc",
    "An efficient causal order algorithm (ci-dc)",
    (
        "Network delay and FIFO are open. Chosen: exponential delays of 50 ms on the mean, not FIFO; the last table "
        "shows 10 ms, 200 ms and FIFO.",
        "PRS is reconstructed from what this paper and KS98 say of it, and its two prunings were chosen to come near "
        "the figures of this paper (core/protocols/prs.py): claims that rest on it are fitted, not reproduced.",
        "That PRS costs fewer bytes than RST only below 2/3 n² dependents is not judged: with 6 bytes an entry against "
        "4 it is arithmetic, and no run could refute it.",
    ),
    CLAIMS,
    tables,
    plots,
    grid,
    measure,
    CI_DC_SIZES,
)
