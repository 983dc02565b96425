"""KS98: facts against the propagation-constraint minimum at every event, the bound n², the cases of section 7.1.

The paper has no simulation. What each copy carries and what each dependency log holds is compared, set by set, with the
minimum by definition (`core/model/minimum.py`) in random runs whose copies overtake each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from thence.core.model.roster import Roster
from thence.lab.papers.claims import Claim, ClaimJudgement, DataSets, NoDataError, found
from thence.lab.papers.estimates import exact, rows_with, total
from thence.lab.papers.ks98_runs import KS98_SIZES, SPECIAL, measure
from thence.lab.papers.paper import Drawing, Paper
from thence.tables.result_table import ResultTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENOUGH_COMPARED = 100
DEGREE = "is a polynomial in n of degree at most"
FULL = "where logs are full"
PROCESSED = ("processes", "log", "snd", "rcv", "hardware snd", "hardware rcv", "pairs")


def _exact(what: str) -> Callable[[DataSets], ClaimJudgement]:
    def judge(data: DataSets) -> ClaimJudgement:
        seen, off = total(data["exact"], what), total(data["exact"], f"{what} off")
        return found(
            [False if off else True if seen >= ENOUGH_COMPARED else None], f"{seen - off} of {seen} {what} equal it"
        )

    return judge


def _never_more(data: DataSets) -> ClaimJudgement:
    cases = [(row["processes"], row["largest"]) for row in data["exact"]]
    cases += [(row["processes"], row["facts"]) for row in data["worst case"]]
    share = max((size / n**2 for n, size in cases), default=0.0)
    return found([size <= n**2 for n, size in cases], f"at most {share:.2f} n², the built worst case included")


def _grows(data: DataSets) -> ClaimJudgement:
    share = {
        row["processes"]: row["facts"] / row["processes"] ** 2 for row in data["worst case"] if row["processes"] >= 10
    }
    text = ", ".join(f"n = {n}: {value:.2f} n²" for n, value in share.items())
    return found([value >= 0.5 for value in share.values()], text)


def degree_of(counts: Mapping[int, int]) -> int | None:
    """Return the degree of the polynomial through the counts; None if only one of full degree passes through them.

    The counts are exact, so their divided differences are, and vanish from one order on where a polynomial of lower
    degree passes through all of them.
    """
    sizes = sorted(counts)
    differences, degree = [Fraction(counts[n]) for n in sizes], 0
    for order in range(1, len(sizes)):
        gaps = [sizes[place + order] - sizes[place] for place in range(len(sizes) - order)]
        differences = [(b - a) / gap for a, b, gap in zip(differences, differences[1:], gaps, strict=False)]
        degree = order if any(differences) else degree
    return degree if degree < len(sizes) - 1 else None


def _processed(column: str, power: int) -> Callable[[DataSets], ClaimJudgement]:
    """Judge O(n^power) by the degree of the counts: the paper gives no factor, so none is held against it."""

    def judge(data: DataSets) -> ClaimJudgement:
        by = {row["processes"]: row[column] for row in data["processing"]}
        degree = degree_of(by)
        text = ", ".join(f"n = {n}: {visits / n**power:.2f}" for n, visits in by.items())
        if len(by) < power + 2:
            return found([None], f"too few sizes to tell a degree; over n{'²³'[power - 2]}, {text}")
        shape = f"degree {degree}" if degree is not None else f"degree {len(by) - 1} or more, or no polynomial"
        return found([degree is not None and degree <= power], f"{shape}; over n{'²³'[power - 2]}, {text}")

    return judge


def _entries(protocol: str, most: Callable[[int], int], *, equal: bool = False) -> Callable[[DataSets], ClaimJudgement]:
    def judge(data: DataSets) -> ClaimJudgement:
        rows = rows_with(data["special"], protocol=protocol)
        answers = [
            row["entries"] == most(row["processes"]) if equal else row["entries"] <= most(row["processes"])
            for row in rows
        ]
        answers += [row["wrong"] == 0 for row in rows]
        return found(answers, ", ".join(f"n = {row['processes']}: {row['entries']}" for row in rows))

    return judge


def _hierarchy(data: DataSets) -> ClaimJudgement:
    rows, flat = (rows_with(data["special"], protocol=p) for p in ("hierarchy", "ks"))
    if not rows or not flat:
        raise NoDataError("hierarchy and ks")
    by = {row["processes"]: row for row in flat}
    zones = [(row, zones_of(row["processes"])) for row in rows]
    answers = [row["entries"] <= 1 and row["wrong"] == 0 and row["hop facts"] <= z * z for row, z in zones]
    answers += [row["hops"] < by[row["processes"]]["entries"] for row, _ in zones if row["processes"] >= 20]
    parts = (
        f"n = {r['processes']}: {r['hops']} between {z} zones, flat {by[r['processes']]['entries']}" for r, z in zones
    )
    return found(answers, "most entries of a relay, " + ", ".join(parts))


def zones_of(n: int) -> int:
    """Return how many zones the hierarchy makes of n processes."""
    from thence.core.protocols.hierarchy import read_zones

    return len(set(read_zones(Roster.of(n), "")[0]))


CLAIMS = (
    Claim("minimum-copies", "theorems 3, 6, 7", "facts on a copy equal the propagation-constraint minimum",
        f"as sets, on each of at least {ENOUGH_COMPARED} copies; differs if one is not", _exact("copies")),
    Claim("minimum-logs", "theorems 3, 6, 7", "facts in a log equal the propagation-constraint minimum",
        f"as sets, after each of at least {ENOUGH_COMPARED} events; differs if one is not", _exact("logs")),
    Claim("square", "section 6.2", "never more than n² facts", "on no copy and in no log; differs if one has more",
        _never_more),
    Claim("lower-bound", "theorem 8", "Ω(n²) facts can be needed",
        "a built execution needs at least n²/2, at every n from 10", _grows),
    Claim("snd-processing", "section 6.2", "the processing overhead of SND is O(n³)",
        f"how often `ks` looks at entries at a send to all, {FULL}, {DEGREE} 3; differs if higher",
        _processed("snd", 3)),
    Claim("snd-hardware", "section 6.2", "with hardware multicast that of SND is O(n²)",
        f"how often `ks-hardware` looks at entries at a send to all, {FULL}, {DEGREE} 2; differs if higher",
        _processed("hardware snd", 2)),
    Claim("rcv-hardware", "section 6.2", "with hardware multicast that of RCV is O(n²), too",
        f"how often `ks-hardware` looks at entries at a delivery, {FULL}, {DEGREE} 2; differs if higher",
        _processed("hardware rcv", 2)),
    Claim("rcv-processing", "section 6.2, with logs in order (4.5)", "the processing overhead of RCV is O(n²)",
        f"how often `ks` looks at entries at a delivery, {FULL}, {DEGREE} 2; differs if higher", _processed("rcv", 2)),
    Claim("rcv-printed", "section 6.2, RCV(4) as printed", "the processing overhead of RCV is O(n²)",
        f"the pairs that the first loop of RCV(4) goes through, {FULL}, {DEGREE} 2; differs if higher (erratum 32)",
        _processed("pairs", 2)),
    Claim("broadcast", "section 7.1", "broadcast: n entries",
        "exactly n on the largest copy (bss), nothing out of order", _entries("bss", lambda n: n, equal=True)),
    Claim("serial-broadcast", "section 7.1", "serialized broadcast: 1 entry",
        "at most 1 on every copy, nothing out of order", _entries("serial-broadcast", lambda n: 1)),
    Claim("serial-multicast", "section 7.1", "serialized multicast: n entries",
        "at most n on every copy, nothing out of order", _entries("serial-multicast", lambda n: n)),
    Claim("synchronous", "section 7.1", "synchronous unicast: nothing",
        "0 entries on every copy, nothing out of order", _entries("synchronous", lambda n: 0)),
    Claim("acked", "section 7.1", "acknowledged transport: nothing", "0 entries on every copy, nothing out of order",
        _entries("acked", lambda n: 0)),
    Claim("two-hop", "lemma 8", "chains of length two: O(n)",
        "at most 2n on every copy, nothing out of two-hop order", _entries("two-hop", lambda n: 2 * n)),
    Claim("central", "section 7.1", "centralized: the coordinator multicasts serially",
        "at most 1 entry on a copy, nothing out of order", _entries("central", lambda n: 1)),
    Claim("hierarchy", "section 7.1", "hierarchy: a smaller n between representatives",
        "at most 1 entry on a copy and z² facts between z zones; from n = 20, fewer entries there than without zones",
        _hierarchy),
)  # fmt: skip


# -- shown -----------------------------------------------------------------------------------------------------------


def tables(data: DataSets) -> list[ResultTable]:
    """Return the comparison with the minimum, and the special cases."""
    rows = []
    for fanout in ("uniform", "unicast"):
        for fifo in (False, True):
            some = rows_with(data["exact"], fanout=fanout, fifo=fifo)
            counts = (total(some, column) for column in ("copies", "copies off", "logs", "logs off"))
            rows.append((fanout, "yes" if fifo else "no", len(some), *counts))
    sizes = sorted({row["processes"] for row in data["special"]})
    cases = [
        (p, SPECIAL[p], *(f"{row['entries']}" + (f" (relays {row['hops']})" if row["hops"] > row["entries"] else "")
                          for n in sizes for row in rows_with(data["special"], protocol=p, processes=n)))
        for p in SPECIAL
    ]  # fmt: skip
    columns = ("fan-out", "fifo", "runs", "copies", "not equal", "logs", "not equal")
    note = "3 to 6 processes, 50 messages a run, exponential and adversarial delays"
    head = ("protocol", "traffic", *(f"n = {n}" for n in sizes))
    return [
        ResultTable("Facts against the minimum by definition", columns, tuple(rows), note),
        ResultTable("Special cases: most entries on a copy", head, tuple(cases)),
        ResultTable(
            "Section 6.2: looks at entries where logs are full",
            (
                "n",
                "log",
                "`ks`: SND",
                "`ks`: RCV",
                "`ks-hardware`: SND",
                "`ks-hardware`: RCV",
                "RCV(4), pairs as printed",
            ),
            tuple(tuple(row[key] for key in PROCESSED) for row in data["processing"]),
        ),
    ]


def plots(data: DataSets, draw: Drawing) -> dict[str, Figure]:
    """Return the special cases over n, the worst case beside them."""
    drawn, (panel,) = draw.figure(8.0, 4.4)
    lines = {
        f"{p}, {SPECIAL[p]}": {r["processes"]: exact([r["entries"]]) for r in rows_with(data["special"], protocol=p)}
        for p in ("ks", "two-hop", "bss", "serial-broadcast")
    }  # fmt: skip
    lines["ks, built worst case"] = {row["processes"]: exact([row["facts"]]) for row in data["worst case"]}
    draw.curves(panel, lines, x="n", y="most entries on a copy", log=True)
    draw.legend(drawn, panel)
    return {"ks98-special-cases": drawn}


PAPER = Paper(
    "ks98",
    "KS98: necessary and sufficient conditions on information",
    (
        "No simulation in it: traffic is ours, destinations evenly or one, exponential and adversarial delays.",
        "Sequence numbers for channels that are not FIFO, and initial entries, are not needed: left out (erratum 1).",
    ),
    CLAIMS,
    tables,
    plots,
    measure=measure,
    sizes=KS98_SIZES,
)
