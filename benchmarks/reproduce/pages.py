"""Write the figures that pages quote from results other than those of `thence reproduce` (prose.py does these).

    python benchmarks/reproduce/pages.py            write the sections anew
    python benchmarks/reproduce/pages.py --check    say whether they are current (exit code 1 if not)

*Invariant.*
A section stands between two marks that name it, and every figure in it is taken from the JSON it names.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from thence.lab.papers.chapter7.experiments import PUBLISHED, SCENARIOS
from thence.lab.papers.separators_runs import READINGS

ROOT = Path(__file__).parents[2]
READERS = (
    "ks", "ks-hardware", "ci-dc", "ech", "rst", "bss", "fifo", "prs", "ses", "history", "gossip", "serial-multicast",
    "serial-broadcast", "a-causal", "ks-ft",
)  # fmt: skip
WIDER = (
    ("a-causal", "a-causal-3-2-any-1", ""),
    ("ks-ft", "ks-ft-3-2-any-1-no-counts", ", without delivery counts and spent OKs"),
)
TRAFFIC = ("unicast", "n/2", "broadcast")


def result(path: str) -> Any:
    """Return the data of a result."""
    return json.loads((ROOT / "benchmarks" / path).read_text(encoding="utf-8"))


def decoding() -> str:
    """How many times cheaper it has become to read a stamp."""
    rows = {(r["protocol"], r["n"], r["traffic"]): r for r in result("protocols/results/protocols.json")["rows"]}
    lines = ["| protocol | n = 8 | n = 32 | n = 128 |", "|---|---|---|---|"]
    for name in READERS:
        cells = [f"`{name}`"]
        for n in (8, 32, 128):
            here = TRAFFIC[:2] if (name, n, "unicast") in rows else TRAFFIC[2:]
            ratios = [rows[name, n, traffic]["decode_us_ratio"] for traffic in here if (name, n, traffic) in rows]
            cells.append(", ".join(f"{ratio:.1f}" for ratio in ratios) or "-")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def rows_of(name: str) -> list[dict[str, str]]:
    """Return the rows of a data set of `thence reproduce`, as text."""
    path = ROOT / "benchmarks" / "reproduce" / "results" / "default" / "data" / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _means(rows: list[dict[str, str]], by: str, column: str, **where: str) -> dict[str, float]:
    """Return the mean of a column over seeds, for each value of `by`; in the order of the rows."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if all(row[key] == value for key, value in where.items()):
            found.setdefault(row[by], []).append(float(row[column]))
    return {key: sum(values) / len(values) for key, values in found.items()}


def _table(rows: list[dict[str, str]], n: int) -> str:
    lines = [f"| n = {n} | published | {' | '.join(READINGS)} |", "|---" * (2 + len(READINGS)) + "|"]
    for scenario in SCENARIOS:
        cells = [scenario, f"{PUBLISHED[scenario][n]:.2f}"]
        for reading in READINGS:
            spread = _means(rows, "placement", "elements", processes=str(n), scenario=scenario, reading=reading)
            cells.append(f"{min(spread.values()):.2f} to {max(spread.values()):.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def chapter_7() -> str:
    """The tables and figures of the chapter, from the rows of `thence reproduce`."""
    rows, nets = rows_of("separators.table-7.1"), rows_of("separators.figure-7.5") + rows_of("separators.figure-7.7")
    late = _means(rows_of("separators.delays"), "delay", "elements", processes="6", scenario="no R9")
    delays = " / ".join(f"{late[delay]:.2f}" for delay in ("0.025", "0.05", "0.1"))

    def against(column: str, name: str) -> str:
        by = _means(nets, "separators", column, network=name)
        return f"{by['without']:.4g} against {by['with']:.4g}"

    seldom = "gateway 4|32, small group a twentieth as often, R6.3 to the letter"
    return f"""{_table(rows, 6)}

{_table(rows, 10)}

- No reading gives all six values. That one of four readings fits three numbers confirms nothing.
- Whether other delays change values by "less than 5 %" depends on how different they are, which the paper does not say:
  without R9, six processes, mean over the placements, {delays} at 25 / 50 / 100 ms.
- Figure 7.5, a group of 4 beside one of 32: stamps within the small group carry {against("elements", "gateway 4|32")}
  elements with the gateway as a separator ("less than 5") where all speak as often: there they are below 5 without a
  separator, too, so that the separator is not what keeps them small, and the published 32 without is not reached. Where
  the small group speaks a twentieth as often and R6.3 is taken to the letter, {against("elements", seldom)}. Which
  traffic the paper had is open. Histories show the effect in both: {against("history", "gateway 4|32")} elements in the
  first.
- Figures 7.6 and 7.7, three networks of 8, pairs of gateways or a ring: histories at p1
  {against("history", "broadcasts pairs 8")}, or {against("history", "broadcasts ring 8")}; stamps in G1
  {against("elements", "broadcasts pairs 8")}, or {against("elements", "broadcasts ring 8")}."""


def tried() -> str:
    """How the multicasts that survive crashes were tried."""
    explored, crashes = result("soak/results/explore.json"), result("soak/results/crashes.json")

    def states(key: str) -> str:
        row = explored[key]
        assert (row["verdict"], row["covered"]) == ("holds", "all"), key
        return f"{row['states']:,}"

    drawn, fallen = (sum(row[key] for row in crashes.values()) for key in ("executions", "crashes"))
    assert not any(row["failures"] for row in crashes.values())
    wider = "".join(
        f";\n  `{name}` in all of 3 processes with 2 messages to any and one crash ({states(key)}{how})"
        for name, key, how in WIDER
        if explored.get(key, {}).get("covered") == "all"
    )
    return f"""- Exhaustively, `eager` failure detector: 3 processes with 3 unicasts and one crash, all executions, hold
  for `a-causal` ({states("a-causal-3-3-1")} states) and `ks-ft` ({states("ks-ft-3-3-1")}), with a detector that falls
  late too ({states("a-causal-3-3-1-falling")} and {states("ks-ft-3-3-1-falling")}){wider}.
  The printed A_causal fails with three messages, and no fewer.
- At random, judged by definition (integrity, validity, uniform agreement, uniform order, genuineness): hundreds of
  executions of each protocol in every test run, up to n - 1 crashes. The soak drew {drawn:,} with
  {fallen:,} crashes: none fails."""


def records() -> str:
    """What the multicasts keep of messages, over the quarters of long runs with crashes."""
    kept = result("multicast/results/multicast.json")
    found, each = kept["records"], kept["messages"] // 4
    columns = [(name, counts) for name in ("a-fifo", "a-causal", "ks-ft") for counts in ("counts", "no counts")]
    once, spread = (
        [found[f"{name}, {how}, crashes {when}"] for name, how in columns] for when in ("at once", "spread")
    )

    def line(title: str, cells: Iterable[object]) -> str:
        return f"| {title} | {' | '.join(map(str, cells))} |"

    def joined(values: list[int]) -> str:
        return ", ".join(map(str, values))

    head = [f"`{name}`" if counts == "counts" else counts for name, counts in columns]
    return "\n".join((
        line("", head), "|---" * (len(head) + 1) + "|",
        line("three of six processes crash at the start: most records, first quarter", (r["records"][0] for r in once)),
        line("last quarter", (row["records"][3] for row in once)),
        line("bytes of the living members' snapshots, second quarter (mean)", (row["bytes"][1] for row in once)),
        line("last quarter", (row["bytes"][3] for row in once)),
        line(f"one crash after each {each} messages: most records by quarter", (joined(r["records"]) for r in spread)),
        line("bytes of snapshots in each quarter (means)", (joined(row["bytes"]) for row in spread)),
    ))  # fmt: skip


def system(setting: dict[str, Any]) -> str:
    """Return a setting of the explorer in words."""
    messages, kind = setting["messages"], setting.get("destinations", "unicast")
    what = "message" if messages == 1 else "messages"
    words = [f"`{setting['protocol']}`", f"{setting['processes']} processes"]
    words.append(f"{messages} {what} to any" if kind == "any" else f"{messages} {kind}s")
    words += ["self too"] * bool(setting.get("to_self")) + ["FIFO"] * bool(setting.get("fifo"))
    if setting.get("groups"):
        words.append(f"groups {setting['groups']}".replace("|", "\\|"))
    crashes = setting.get("crashes", 0)
    words += [f"{crashes} crash{'es' * (crashes > 1)}"] * bool(crashes)
    if "detector" in setting:
        words.append(f"detector `{setting['detector']}`")
    for name, value in setting.get("options", {}).items():  # Python's Markdown shows the backslash of a bar in code
        bars = "|" in str(value)
        words.append(f"<code>{name}={value}</code>".replace("|", "&#124;") if bars else f"`{name}={value}`")
    return ", ".join(words)


def reduction() -> str:
    """The reduced search beside the naive one."""
    lines = ["| system | states | naive | executions | naive |", "|---|---|---|---|---|"]
    for row in result("explore/results/speed.json")["rows"]:
        if "naive" in row:
            cells = [system(row["setting"])]
            for what in ("states", "executions"):
                ours, naive = row["reduced"][what], row["naive"][what]
                cells += [f"{ours:,}", f"{naive:,} ({row['reduction'][what]}x)"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def complete() -> str:
    """Complete explorations, of the benchmark and of the soak."""
    lines = ["| system | states | executions | processor seconds |", "|---|---|---|---|"]
    for row in result("explore/results/speed.json")["rows"]:
        if "naive" not in row:
            lines.append(_explored(row["setting"], row["reduced"], row["reduced"]["seconds"]))
    lines += ["", "And in the soak (`benchmarks/soak/results/explore.json`):", "", *lines[:2]]
    soak = result("soak/results/explore.json").values()
    for row in soak:
        assert row["verdict"] == ("holds" if row["covered"] == "all" else "unknown"), row
        if row["covered"] == "all":
            lines.append(_explored(row["setting"], row, round(row.get("processor_seconds", row.get("seconds")))))
    cut = [row for row in soak if row["covered"] != "all"]
    if cut:
        lines += ["", "Not to the end, and nothing failed in what was visited:", "", "| system | states | seconds |"]
        lines += ["|---|---|---|"]
        lines += [f"| {system(r['setting'])} | {r['states']:,} | {round(r['processor_seconds']):,} |" for r in cut]
    return "\n".join(lines)


def long_runs() -> str:
    """Bytes of a stamp over the length of the run, with bounded and with unbounded numbers."""
    rows = {(row["protocol"], int(row["messages"])): row for row in rows_of("bounded.long")}
    lines = [
        "| messages, n = 4 | `bounded`, B = 100: bytes of a stamp | longest | `gossip`, unbounded | longest |",
        "|---|---|---|---|---|",
    ]
    for size in sorted({messages for _, messages in rows}):
        of = [rows[name, size] for name in ("bounded", "gossip")]
        cells = [f"{float(row['bytes']):.1f} | {row['bytes_max']}" for row in of]
        lines.append(f"| {size:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _explored(setting: dict[str, Any], found: dict[str, Any], seconds: float) -> str:
    left_out = f", without {found['left out']}" if "left out" in found else ""
    return f"| {system(setting)}{left_out} | {found['states']:,} | {found['executions']:,} | {seconds:,} |"


def wire() -> str:
    """Bytes of a stamp in both wire versions, beside other codecs."""
    rows = result("wire/results/wire.json")["rows"]
    codecs = list(rows[0]["bytes"])
    lines = [f"| n, traffic | entries | facts | {' | '.join(codecs)} | CPU |", "|---" * (len(codecs) + 4) + "|"]
    for row in rows:
        sizes = (f"{row['bytes'][codec]:.0f}" for codec in codecs)
        cells = (f"{row['n']}, {row['fanout']}", row["entries"], row["facts"], *sizes, row["cpu_ratio"])
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def wire_aims() -> str:
    """Bytes of version 2 beside the entropy that was the aim, in runs whose version 1 is nearest to that of the aim."""
    cases: dict[tuple[int, str], list[Any]] = {}
    for row in result("wire/results/wire.json")["aims"]:
        cases.setdefault((row["n"], row["fanout"]), []).append(row)
    heads = (
        "n, traffic", "messages", "version 1: aim", "ours", "entropy: aim", "ours (adaptive model)", "version 2",
        "over the aim's", "over ours",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |"]
    lines.append("|---" + "|--:" * 8 + "|")
    for (n, fanout), rows in cases.items():
        aim = rows[0]["aim"]
        row = min(rows, key=lambda row: abs(row["bytes"]["version 1"] - aim["version 1"]))
        one, two, model = (row["bytes"][name] for name in ("version 1", "version 2", "adaptive model"))
        sizes = f"{aim['version 1']} | {one:.0f} | {aim['entropy']} | {model:.0f} | {two:.0f}"
        ratios = f"{two / aim['entropy']:.2f} | {two / model:.2f}"
        lines.append(f"| {n}, {fanout} | {row['messages']:,} | {sizes} | {ratios} |")
    return "\n".join(lines)


SECTIONS: dict[str, tuple[str, Callable[[], str]]] = {
    "decoding": ("reference/protocols.md", decoding),
    "chapter-7": ("explanation/paper-separators.md", chapter_7),
    "tried": ("explanation/paper-genuine-multicast.md", tried),
    "records": ("explanation/paper-genuine-multicast.md", records),
    "reduction": ("explanation/explorer.md", reduction),
    "complete": ("explanation/explorer.md", complete),
    "wire": ("reference/wire.md", wire),
    "wire-aims": ("reference/wire.md", wire_aims),
    "long-runs": ("explanation/paper-bounded.md", long_runs),
}


def current(name: str, page: str) -> str:
    """Return the page with a section as it should be."""
    begin, end = f"<!-- {name}: made by benchmarks/reproduce/pages.py -->\n", f"<!-- end of {name} -->\n"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    assert found, f"no section {name}"
    assert closed, f"no end of section {name}"
    return f"{before}{begin}\n{SECTIONS[name][1]()}\n\n{end}{after}"


def main() -> None:
    """Write or check every section."""
    for name, (file, _) in SECTIONS.items():
        path = ROOT / "docs" / file
        page = path.read_text(encoding="utf-8")
        wanted = current(name, page)
        if "--check" in sys.argv and wanted != page:
            sys.exit(f"docs/{file} is not what the results say: {name}")
        if wanted != page:
            path.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
