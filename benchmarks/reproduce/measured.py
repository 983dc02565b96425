"""Sentences and rows of tables that say how long something took: their figures, from the results of benchmarks.

Law. Every figure of `MEASURED` stands in its page as its function gives it; stated.py writes and checks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any

from pages import result
from sentence import Figures, Sentence

FIRST, SECOND = 0, 1


def in_words(count: float) -> str:
    """Return a count in millions, to a tenth."""
    return f"{count / 1e6:.1f}"


# -- live.md -----------------------------------------------------------------------------------------------------------


def live() -> Figures:
    found = result("live/results/live.json")
    cpu = {
        row["protocol"]: row["busy"]["cpu us a copy"]
        for row in found["rows"]
        if (row["processes"], row["journal"], row["connection"], row["loop"]) == (8, "normal", "plain", "uvloop")
    }
    bare = found["bare socket, us CPU a frame there and back"]
    return {"ratio": f"{cpu['ks'] / cpu['unordered']:.1f}", "bare": f"{bare:.0f}"}


def fleets() -> Figures:
    found = result("soak/results/live.json")
    runs = [row for name, row in found.items() if name.startswith("fleet of 8, ks, TLS") and "1250 sends" in name]
    sums = {name: sum(run[name] for run in runs) for name in ("multicasts", "kills", "stops", "cuts")}
    return {name: f"{count:,}" for name, count in sums.items()} | {
        "fleets": len(runs), "after": f"{max(run['all delivered after (s)'] for run in runs):.0f}",
        "events": in_words(found["fleet of 8, judged on Spark"]["events"]),
    }  # fmt: skip


# -- audit.md ----------------------------------------------------------------------------------------------------------


def violations() -> Figures:
    found = result("audit/results/violations.json")
    names = {"verdict": "verdict alone", "proofs": "a hundred proofs", "json": "JSON", "parquet": "Parquet"}
    made: Figures = {"violations": in_words(found["violations"])}
    for short, name in names.items():
        made |= {f"{short}-cpu": f"{found[name]['cpu_seconds']:.1f}", f"{short}-mb": found[name]["peak_mb"]}
    return made


def cores() -> Figures:
    found = result("audit/results/cores.json")
    one, two = found["median_seconds"].values()
    ratios = found["ratios"]
    return {
        "one": f"{one:.1f}", "two": f"{two:.1f}", "faster": f"{found['speedup']:.2f}",
        "least": f"{min(ratios):.2f}", "most": f"{max(ratios):.2f}",
    }  # fmt: skip


def growth() -> Figures:
    found = result("audit/results/growth.json")
    made = dict(
        zip(("five", "ten", "twenty"), (f"{each:.1f}" for each in found["median_seconds"].values()), strict=True)
    )
    for what, key in (("wall", "seconds"), ("cpu", "cpu_seconds")):
        first, then = found[f"{key}_per_further_million"].values()
        made |= {f"{what}-first": f"{first:.2f}", f"{what}-then": f"{then:.2f}"}
    return dict(made)


def before_and_after() -> Figures:
    found = result("audit/results/routes.json")
    names = {
        "files": "files", "hosts": "files by process", "frame": "a DataFrame", "none": "no order",
        "scattered": "a DataFrame, scattered",
    }  # fmt: skip
    return {short: f"{found[f'before and after: {name}']['seconds ratio']:.2f}" for short, name in names.items()}


def route(name: str) -> Figures:
    row = result("audit/results/routes.json")[name]
    sides = [f"{median(seconds[side] for seconds in row['seconds']):.1f}" for side in (FIRST, SECOND)]
    made: Figures = {"with": sides[FIRST], "without": sides[SECOND], "ratio": f"{row['seconds ratio']:.2f}"}
    made["lines"] = row["lines"]
    if "peak_mb" in row:
        made |= {"with-mb": row["peak_mb"][FIRST], "without-mb": row["peak_mb"][SECOND]}
    return made


def routes() -> Iterator[Sentence]:
    """The table of routes."""
    here, spark = "route in this process", "route"
    sizes = "{with}, {with-mb} MB | {without}, {without-mb} MB"
    for key, text in (
        (f"{here}: row groups", "| row groups, in this process | {lines} | whole | " + sizes),
        (f"{here}: scratch", "| scratch | {lines} | whole | " + sizes),
        (
            f"{spark}: row groups",
            "| row groups, on Spark | (the same {lines}) | packed from row groups | {with} | {without}",
        ),
    ):
        yield Sentence("explanation/audit.md", text + " | {ratio} | stays", partial(route, key))


def layout(name: str) -> Figures:
    row = result(f"audit/results/{name}.json")
    yardstick, audit = row["yardstick_seconds"], row["audit_seconds"]
    rounds = [ours / theirs for ours, theirs in zip(audit, yardstick, strict=True)]
    return {
        "yardstick": f"{median(yardstick):.1f}", "audit": f"{median(audit):.1f}", "ratio": f"{row['ratio']:.2f}",
        "least": f"{min(rounds):.2f}", "most": f"{max(rounds):.2f}", "cpu": f"{row['cpu_ratio']:.2f}",
        "mb": f"{row['peak_rss_mb']['worker']:,}",
    }  # fmt: skip


def layouts() -> Iterator[Sentence]:
    """The table of layouts."""
    figures = " | {yardstick} s | {audit} s | {ratio} | {least} to {most} | {cpu} | {mb} MB |"
    for name, text in (
        ("files-10m", "| files that the workers open"),
        ("files-10m-random", "over all files (`generate.py --layout random`)"),
        ("files-10m-hosts", "files by process (`--layout hosts`), each with all of `order`"),
        ("frame-10m", "| a DataFrame with `order`, a range of it in each partition"),
        ("frame-10m-overlapping", "| the same files in Spark's default partitions, several in each"),
        ("frame-10m-random", "| a DataFrame, rows scattered at random"),
        ("frame-10m-hosts", "| a DataFrame, files by process"),
        ("plain-10m", "| no `order`"),
    ):
        yield Sentence("explanation/audit.md", text + figures, partial(layout, name))


# -- deliver.md --------------------------------------------------------------------------------------------------------


def batch(kind: str, digits: int) -> Figures:
    found = result("deliver/results/batch.json")[kind]
    identity, ours = (sorted(found["seconds"][name]) for name in ("identity", "deliver"))
    ends = {"least": identity[0], "most": identity[-1], "ours-least": ours[0], "ours-most": ours[-1]}
    ratio = found["median ratio to identity"]["deliver"]
    return {name: f"{value:.{digits}f}" for name, value in ends.items()} | {"ratio": f"{ratio:.2f}"}


def stream(kind: str) -> Figures:
    found = result("deliver/results/stream.json")[kind]
    turns = found["median ms of a micro-batch, turn by turn"]
    theirs, ours = (sorted(turns[name]) for name in ("passing through", "delivering"))
    ends = {"one": theirs[0], "two": theirs[-1], "ours-one": ours[0], "ours-two": ours[-1]}
    return {name: f"{value:.0f}" for name, value in ends.items()} | {"ratio": f"{found['ratio']:.2f}"}


def many_keys() -> Figures:
    found = result("deliver/results/stream.json")["many keys"]
    turns = found["median ms of a micro-batch, turn by turn"]
    (theirs,), (ours,) = turns["passing through"], turns["delivering"]
    return {"theirs": f"{theirs / 1000:.1f}", "ours": f"{ours / 1000:.1f}", "ratio": f"{found['ratio']:.2f}"}


def state(kind: str) -> Figures:
    """What micro-batches write of state; the last leaves nothing held, and writes less."""
    sizes: Sequence[int] = result("deliver/results/stream.json")[kind]["state bytes written by each micro-batch"]
    least, most = min(sizes[:-1]), max(sizes[:-1])
    return {
        "batches": len(sizes), "least": f"{least / 1e3:.0f}", "most": f"{most / 1e3:.0f}",
        "least-mb": f"{least / 1e6:.1f}", "most-mb": f"{most / 1e6:.1f}",
    }  # fmt: skip


def rival(name: str) -> Figures:
    row: dict[str, Any] = result("deliver/results/rivals.json")[name]
    rate, held = row["rows a second"], row["held, micro-batches"]
    made: Figures = {
        "rate": f"{round(rate, 3 - len(str(rate))):,}", "early": f"{row['violations']:,}",
        "half": f"{held['p50']:.0f}", "most": f"{held['p99']:.0f}",
    }  # fmt: skip
    if "state bytes written in all" in row:
        made["state"] = f"{row['state bytes written in all'] / 1e6:.1f}"
        made["last"] = f"{row['state bytes written by the last micro-batch'] / 1e6:.1f}"
    return made


def by_hand() -> Figures:
    return rival("a buffer by cause, by hand") | {"ours": rival("deliver")["last"]}


ROW = " | {rate} | {early} | {half}, {most} | {state} |"
MEASURED = (
    Sentence(
        "reference/live.md",
        "a copy with `ks` takes {ratio} times the CPU of a copy with `unordered`. A frame of 200 bytes over a bare "
        "socket, there and back, takes {bare} us",
        live,
    ),
    Sentence(
        "reference/live.md",
        "{fleets} fleets of 8 processes over TLS: {multicasts} multicasts, {kills} `kill -9`, {stops} processes "
        "suspended, {cuts} links cut",
        fleets,
    ),
    Sentence("reference/live.md", "at most {after} s after the last torment everything was delivered", fleets),
    Sentence("reference/live.md", "The traces, {events} million events", fleets),
    Sentence(
        "explanation/audit.md",
        "Two million events with {violations} million violations (`violations.py`): {verdict-cpu} s of CPU and "
        "{verdict-mb} MB for the verdict, {proofs-cpu} s with a hundred proofs, {json-cpu} s and {json-mb} MB with all "
        "findings as JSON, {parquet-cpu} s and {parquet-mb} MB as Parquet",
        violations,
    ),
    Sentence(
        "explanation/audit.md",
        "one run takes {one} s on one pinned core and {two} s on two: {faster} times faster (`cores.py`; median of "
        "seven rounds, {least} to {most})",
        cores,
    ),
    Sentence(
        "explanation/audit.md",
        "5, 10 and 20 million events take {five}, {ten} and {twenty} s: each further million costs {wall-first} s, "
        "then {wall-then} s ({cpu-first}, then {cpu-then} s of CPU)",
        growth,
    ),
    Sentence(
        "explanation/audit.md",
        "files {files}, files by process {hosts}, a DataFrame in `order` {frame}, without `order` {none}, and a "
        "DataFrame with rows scattered at random {scattered} times the seconds it took then",
        before_and_after,
    ),
    *routes(),
    *layouts(),
    Sentence(
        "explanation/delivery-rule.md",
        "the same job with an identity function: {least} to {most} s | {ours-least} to {ours-most} s | {ratio} |",
        partial(batch, "explicit causes", 0),
    ),
    Sentence(
        "explanation/delivery-rule.md",
        "1 million rows | the identity function: {least} to {most} s | {ours-least} to {ours-most} s | {ratio} |",
        partial(batch, "stamps", 1),
    ),
    Sentence(
        "explanation/delivery-rule.md",
        "passing rows through: {one} and {two} ms a micro-batch | {ours-one} and {ours-two} ms | {ratio} |",
        partial(stream, "stamps"),
    ),
    Sentence(
        "explanation/delivery-rule.md",
        "| stream, explicit causes, the same | {one} and {two} ms | {ours-one} and {ours-two} ms | {ratio} |",
        partial(stream, "explicit causes"),
    ),
    Sentence(
        "explanation/delivery-rule.md",
        "rows released after 500 later ones | {one} and {two} ms | {ours-one} and {ours-two} ms | {ratio} |",
        partial(stream, "after a forced release"),
    ),
    Sentence("explanation/delivery-rule.md", "explicit causes | {theirs} s | {ours} s | {ratio}, one round", many_keys),
    Sentence(
        "explanation/delivery-rule.md", "wrote {least-mb} to {most-mb} MB of state", partial(state, "explicit causes")
    ),
    Sentence(
        "explanation/delivery-rule.md",
        "In the stream with stamps, each of the {batches} micro-batches writes {least} to {most} kB of state, the "
        "last less",
        partial(state, "stamps"),
    ),
    Sentence("explanation/delivery-rule.md", "| `deliver`" + ROW, partial(rival, "deliver")),
    Sentence(
        "explanation/delivery-rule.md",
        "written by hand | {rate} | {early} | {half}, {most} | {state}, the last micro-batch {last} and growing "
        "(ours {ours})",
        by_hand,
    ),
    Sentence(
        "explanation/delivery-rule.md",
        "| a watermark of 2 s and a sort" + ROW,
        partial(rival, "watermark of 2 s and sort"),
    ),
    Sentence(
        "explanation/delivery-rule.md",
        "| a watermark of 10 s and a sort" + ROW,
        partial(rival, "watermark of 10 s and sort"),
    ),
    Sentence(
        "explanation/delivery-rule.md",
        "once all has come | {rate} | {early} | {half}, {most} | - |",
        partial(rival, "global sort by time"),
    ),
)
