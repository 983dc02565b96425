"""Write what docs/laboratory/reproduce.md says of its results, and the figures that errata quote.

    python benchmarks/reproduce/prose.py            write the section anew
    python benchmarks/reproduce/prose.py --check    say whether it is current (exit code 1 if not)

*Invariant.*
Every figure of the section is taken from results/default. The words stand in prose.txt, without a figure.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

from thence.lab.papers.costs import COSTED, COSTED_SIZES, TRAFFIC, is_settled

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "default"
PAGE = HERE.parents[1] / "docs" / "laboratory/reproduce.md"
BEGIN, END = "<!-- figures: made by benchmarks/reproduce/prose.py -->\n", "<!-- end of figures -->\n"
NUMBER = r"(\d+(?:\.\d+)?)"
AT = 50
"""processes, for the table of bytes"""
EMPTY_AT = 30
"""processes, for entries that name no destination; an entry of a unicast names one at most"""


def claims() -> dict[str, dict[str, dict[str, str]]]:
    """Return the claims of each paper by name."""
    papers = json.loads((RESULTS / "reproduce.json").read_text(encoding="utf-8"))["papers"]
    return {paper["paper"]: {claim["claim"]: claim for claim in paper["claims"]} for paper in papers}


def numbers(text: str) -> list[str]:
    """Return the numbers of a text."""
    return re.findall(NUMBER, text)


def at(text: str, name: object) -> str:
    """Return the number after `name: `."""
    found = re.search(rf"(?<![\d.]){re.escape(str(name))}: {NUMBER}", text)
    assert found is not None, (name, text)
    return found[1]


def figures() -> dict[str, str]:
    """Return every figure that is quoted, by name."""
    by = claims()
    ours = {paper: {name: claim["ours"] for name, claim in of.items()} for paper, of in by.items()}
    verdicts = {paper: [claim["verdict"] for claim in of.values()] for paper, of in by.items() if of}
    made: dict[str, str] = {}
    for paper, given in verdicts.items():
        made[paper] = f"{given.count('reproduced')} of {len(given)}"
    every = [verdict for given in verdicts.values() for verdict in given]
    made |= {
        "reproduced": f"{every.count('reproduced')} of {len(every)}", "differ": str(every.count("differs")),
        "fitted": str(every.count("fitted")),
        "open": str(every.count("not determinable")),
    }  # fmt: skip
    made |= {"cost-least": str(COSTED_SIZES[1][0]), "cost-most": str(COSTED_SIZES[1][-1])}
    return made | _ks98(ours["ks98"]) | _ci_dc(ours["ci-dc"]) | _separators(ours["separators"], by["separators"]) | (
        _genuine(ours["genuine"]) | _bounded(ours["bounded"])
    )  # fmt: skip


def _ks98(ours: dict[str, str]) -> dict[str, str]:
    flat = numbers(ours["hierarchy"])
    return {
        "copies": f"{int(numbers(ours['minimum-copies'])[0]):,}", "logs": f"{int(numbers(ours['minimum-logs'])[0]):,}",
        "worst": numbers(ours["lower-bound"])[-1], "worst-n": numbers(ours["lower-bound"])[-2],
        "zones-n": flat[-4], "zone-entries": flat[-3], "zones": flat[-2], "flat": flat[-1],
    } | _processed(ours) | _empty()  # fmt: skip


def _processed(ours: dict[str, str]) -> dict[str, str]:
    """Return what a send and a delivery process at the largest n, over n³ or n², and the pairs as printed."""
    with (RESULTS / "data" / "ks98.processing.csv").open(encoding="utf-8", newline="") as stream:
        last = list(csv.DictReader(stream))[-1]
    printed, merged = (numbers(ours[name])[-1] for name in ("rcv-printed", "rcv-processing"))
    made = {"pairs": f"{int(last['pairs']):,}", "pairs-n": last["processes"], "pairs-share": printed, "looks": merged}
    sent = {"snd": "snd-processing", "hardware-snd": "snd-hardware", "hardware-rcv": "rcv-hardware"}
    return made | {name: numbers(ours[claim])[-1] for name, claim in sent.items()}


def _empty() -> dict[str, str]:
    """Return how many entries a stamp of `ks` has on even unicasts, and how many of them name no destination."""
    even = [
        row for row in rows()
        if (row["protocol"], row["workload"], row["fanout"], row["processes"]) == ("ks", "poisson", "unicast", EMPTY_AT)
    ]  # fmt: skip
    entries, facts = (_mean(even, "ks", measure) for measure in ("entries_per_copy", "facts_per_copy"))
    return {"entries": f"{entries:.0f}", "empty": f"{entries - facts:.0f}", "empty-n": str(EMPTY_AT)}


def _ci_dc(ours: dict[str, str]) -> dict[str, str]:
    crossing = ours["unicast-crossing"].removeprefix("PRS over RST, ")
    ratios = {int(n): float(ratio) for n, ratio in re.findall(rf"n = (\d+): {NUMBER}", crossing)}
    return {
        "ci-dc-multicast": at(ours["linear-dependents-multicast"], "ci-dc"),
        "ci-dc-unicast": at(ours["linear-dependents-unicast"], "ci-dc"),
        "ci-dc-worst": at(ours["worst-case"], 50),
        "prs-multicast": at(ours["prs-bound-multicast"], 50), "prs-unicast": at(ours["prs-bound-unicast"], 50),
        "prs-first": at(ours["prs-bound-unicast"], 30),
        "crossing": f"{max(n for n, r in ratios.items() if r < 1)} and {min(n for n, r in ratios.items() if r > 1)}",
    }  # fmt: skip


def _separators(ours: dict[str, str], by: dict[str, dict[str, str]]) -> dict[str, str]:
    cells = [name for name in by if re.fullmatch(r"(none|s2|all)-(6|10)", name)]
    within = [name for name in cells if by[name]["verdict"] == "reproduced"]
    tenth, half = re.findall(rf"by {NUMBER} % to {NUMBER} %", ours["delays"])
    gateways = re.findall(rf"(gateway[^:]*): {NUMBER}", ours["gateway-without"])
    made = {
        "falling": numbers(ours["falling"])[1], "cells": str(len(within)), "cells-all": str(len(cells)),
        "tenth-least": tenth[0], "tenth-most": tenth[1], "half-least": half[0], "half-most": half[1],
        "gateway": gateways[0][1], "gateway-letter": gateways[-1][1],
        "history-without": numbers(ours["networks-histories"])[1],
        "history-with": numbers(ours["networks-histories"])[3],
    }  # fmt: skip
    with (RESULTS / "data" / "separators.figure-7.5.csv").open(encoding="utf-8", newline="") as stream:
        first = [row for row in csv.DictReader(stream) if row["network"] == gateways[0][0]]
    sizes = [float(row["history"]) for row in first if row["separators"] == "without"]
    made["gateway-history"] = f"{sum(sizes) / len(sizes):.1f}"
    for name in cells:
        low, high = numbers(ours[name])[:2]
        made[f"cell-{name}"] = f"{low} to {high}"
        made[f"published-{name}"] = f"{float(numbers(by[name]['published'])[-1]):.2f}"
    return made


def _genuine(ours: dict[str, str]) -> dict[str, str]:
    _, executions, crashes = numbers(ours["validity"])[:3]
    broken, of = numbers(ours["a-causal-printed"])[:2]
    one, runs = numbers(ours["optimal"])[:2]
    return {
        "executions": executions, "crashes": f"{int(crashes):,}", "printed-broken": broken, "printed-of": of,
        "one-step": one, "one-step-of": runs, "views": numbers(ours["lower-bound"])[1],
        "views-broken": numbers(ours["lower-bound"])[0],
    }  # fmt: skip


def _bounded(ours: dict[str, str]) -> dict[str, str]:
    first, last, short, _, long, *_ = numbers(ours["any-length"])
    wrong, runs = numbers(ours["three-epochs-printed"])[:2]
    unbounded = re.search(rf"unbounded {NUMBER}.* and {NUMBER}", ours["any-length"])
    assert unbounded is not None
    return {
        "first": f"{int(first):,}", "last": f"{int(last):,}", "short": short, "long": long, "wrong": wrong,
        "wrong-of": runs, "unbounded-short": unbounded[1], "unbounded-long": unbounded[2],
    }  # fmt: skip


def rows() -> list[dict[str, Any]]:
    """Return the runs behind the table of bytes, as numbers again."""
    with (RESULTS / "data" / "costs.runs.csv").open(encoding="utf-8", newline="") as stream:
        found = [dict(row) for row in csv.DictReader(stream)]
    for row in found:
        for name in ("processes", "messages"):
            row[name] = int(row[name])
        for name in ("bytes_per_copy", "facts_per_copy", "entries_per_copy"):
            row[name] = float(row[name]) if row[name] else None
    return found


def table() -> str:
    """Return bytes of a stamp at n = 50 for each traffic, and the facts that ks carries there."""
    runs = [row for row in rows() if row["processes"] == AT]
    head = "| traffic | facts needed | " + " | ".join(COSTED) + " | vector clock |"
    lines = [head, "|---" * (len(COSTED) + 3) + "|"]
    for traffic in TRAFFIC:
        some = [r for r in runs if r["workload"] == traffic.workload and (r["fanout"] or None) == traffic.fanout]
        cells = [f"{_mean(some, 'ks', 'facts_per_copy'):.1f}"]
        for protocol in (*COSTED, "bss"):
            mine = [row for row in some if row["protocol"] == protocol]
            mark = "" if all(is_settled(row, traffic) for row in mine) else "+"
            cells.append(f"{_mean(mine, protocol, 'bytes_per_copy'):.0f}{mark}" if mine else "")
        lines.append(f"| {traffic.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _mean(runs: list[dict[str, Any]], protocol: str, measure: str) -> float:
    values = [row[measure] for row in runs if row["protocol"] == protocol]
    return float(sum(values) / len(values))


TEXT = (HERE / "prose.txt").read_text(encoding="utf-8")


def filled(text: str, quoted: dict[str, str]) -> str:
    """Return a text with its figures."""
    return re.sub(r"\{([a-z][a-z0-9-]+)\}", lambda match: quoted[match[1]], text)


def section() -> str:
    """Return the section as the results have it."""
    return filled(TEXT, figures() | {"table": table()}).lstrip("\n")


def current(page: str) -> str:
    """Return the page with the section as it should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{section()}\n{END}{after}"


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    wanted = current(page)
    if "--check" in sys.argv:
        sys.exit("docs/laboratory/reproduce.md is not what results/default say" if wanted != page else 0)
    PAGE.write_text(wanted, encoding="utf-8")
