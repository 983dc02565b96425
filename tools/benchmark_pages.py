"""Writes docs/benchmarks/ from benchmarks/*/results/*.json: one page per area.

    python tools/benchmark_pages.py            write the pages
    python tools/benchmark_pages.py --check    exit code 1 if a page is not what the results say

A new figure is a new row of one of the functions in `PAGES`. A result that lacks a key is left out of its table, so a
benchmark may be reshaped before its page is.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import log
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks"
DOCS = ROOT / "docs" / "benchmarks"
Result = Any
Rows = Iterator[tuple[object, ...]]

GROWING = 1.05
FULL = 0.95
"""factor from one quarter of a run to the next above which stamps have not settled"""
CONDITIONS = """# Benchmarks

Each page lists what was measured, what it is compared with, and the ratio: ours divided by the other, so below 1 is
faster or smaller than the other. The pages are written from the JSON results by `tools/benchmark_pages.py`.

Conditions, the same for all pages unless a table says otherwise:

- x86_64, two shared cores, Python 3.11, pyspark 4.x, compiled modules. The machine was often loaded: trust ratios
  measured in turns more than absolute times. The JSON files record load and rounds where a script notes them.
- "before" is release 0.1.0 or the version that the script was given.
- Medians of the rounds in the JSON.
- `make bench` runs the scripts and rewrites their JSON. The audit and Kafka need data or a broker and are run by hand.

"""


def result(path: str) -> Result:
    """Return one result file."""
    return json.loads((RESULTS / path).read_text(encoding="utf-8"))


def shown(value: object) -> str:
    """Return a value for people: three significant digits, thousands separated."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def table(heads: tuple[str, ...], rows: Rows) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [f"| {' | '.join(map(shown, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def compared(rows: Rows) -> str:
    """Return the table of most sections."""
    return table(("what", "ours", "compared with", "theirs", "ratio"), rows)


RIVALS = ("", "rows a second", "rows before a cause", "held, micro-batches, p50 and p99", "state written, MB")
RATIO = "median ratio of deliver, by CPU a row"
KILLED = ("what", "rounds", "kills", "micro-batches of killed processes", "cut between micro-batches",
          "cut before the sink had written", "cut after that, before the commit", "rows compared")  # fmt: skip


def deliver() -> str:
    """Return the page about delivery."""

    def tables() -> Rows:
        found = result("deliver/results/by_hand.json")
        for name, called in (("sort", "Polars' sort of the same table"), ("loop", "a loop written by hand")):
            for ids in ("ids are whole numbers", "ids are texts"):
                with suppress(KeyError):
                    ours, theirs = found[ids]["thence"]["cpu"], found[ids][name]["cpu"]
                    what = f"`thence.deliver`, {found['rows']:,} rows, {ids}, CPU seconds"
                    yield what, ours, called, theirs, ours / theirs

    def spark() -> Rows:
        called = {"identity": "an identity in `mapInArrow`", "identity, applyInArrow": "an identity in `applyInArrow`"}
        for name, of in result("deliver/results/batch.json").items():
            cpu = {way: median(each) for way, each in of["CPU seconds"].items()}
            for way, other in called.items():
                few = way != "identity" and of["keys of applyInArrow"] < of["keys"]
                scale = of["keys of applyInArrow"] / of["keys"] if few else 1.0
                what = f"batch, {name}, {of['rows']:,} rows, us of CPU a row"
                theirs = 1e6 * cpu[way] / (of["rows"] * scale)
                other += f", with {of['keys of applyInArrow']:,} of the keys" if few else ""
                yield what, 1e6 * cpu["deliver"] / of["rows"], other, theirs, of[RATIO][way]

    def streams() -> Rows:
        found = result("deliver/results/stream.json")
        with suppress(KeyError):
            starts = found["the worker beside the driver"]["CPU seconds of imports"]
            ours, theirs = starts["with ours"], starts["Spark's own"]
            yield "imports of the worker beside the driver", ours, "those of pyspark alone", theirs, ours / theirs
        called = {
            "by hand": "a buffer written by hand",
            "no rule": "the same pipeline without a rule",
            "before": "state by key, as in 0.1.0",
            "without state": "the same micro-batch without state",
        }
        for name, of in found.items():
            with suppress(KeyError):
                cpu, rows = of["CPU seconds by way and micro-batches"], of["rows"]
                whole = f"deliver, {of['micro-batches']}"
                others = [title for title in cpu if not title.startswith("deliver")]
                for title in others:
                    way, batches = title.rsplit(", ", 1)
                    ours = cpu[f"deliver, {batches}"]
                    what = f"{name}, {rows:,} rows, {batches} of {of['micro-batches']} micro-batches"
                    yield what, ours, called[way], cpu[title], ours / cpu[title]
                if not others:
                    other = "10,000 keys" if of["keys"] > 10_000 else "64 keys"
                    first = found[other]["CPU seconds by way and micro-batches"]
                    theirs = first[f"deliver, {found[other]['micro-batches']}"] * rows / found[other]["rows"]
                    yield f"{name}, {rows:,} rows", cpu[whole], f"{other}, as many rows", theirs, cpu[whole] / theirs

    def visits() -> Rows:
        for name, of in result("deliver/results/visits.json").items():
            with suppress(KeyError, TypeError):
                yield name, of["us a row"], of["rows a key visit"], of["us a key visit"]

    def state() -> Rows:
        for name, of in result("deliver/results/state.json").items():
            with suppress(KeyError):
                yield name, of["bytes in memory"], of["bytes in the state store"]

    def rivals() -> Rows:
        for traffic, ways in result("deliver/results/rivals.json").items():
            for name, of in ways.items():
                with suppress(KeyError, TypeError):
                    held = of["held, micro-batches"]
                    state = of.get("state bytes written in all", 0) / 1e6
                    waits = f"{held['p50']:.0f}, {held['p99']:.0f}"
                    yield f"{traffic}, {name}", of["rows a second"], of["violations"], waits, state

    def rule() -> Rows:
        found = result("deliver/results/rule.json")
        for case, times in found.get("microseconds of CPU a row, unless seconds are named", {}).items():
            if "now" in times and "before" in times:
                now, before = median(times["now"]), median(times["before"])
                yield case, now, "0.1.0", before, now / before

    def kills() -> Rows:
        counted: dict[str, Counter[str]] = {}
        for key, row in (result("soak/results/stream_kills.json") | result("soak/results/lake_kills.json")).items():
            streams = key.startswith("round")
            of = counted.setdefault("streams" if streams else f"tables, {key.split(',')[0].capitalize()}", Counter())
            of.update(rounds=1, **{what: n for what, n in row.items() if isinstance(n, int)})
            if not streams:  # one table by append, one by MERGE
                of["rows compared"] += 2 * row["tables"]["rows"]
        for what, of in counted.items():
            cuts = {
                "between micro-batches": ("stage: between micro-batches",),
                "before the sink": (
                    "stage: before state is written", "stage: state partly written", "stage: state written, sink not",
                    "append: table not committed", "merge: table not committed",
                ),
                "after the sink": (
                    "stage: sink written, micro-batch not committed",
                    "append: table committed, micro-batch not", "merge: table committed, micro-batch not",
                ),
            }  # fmt: skip
            where = (sum(of[stage] for stage in stages) for stages in cuts.values())
            committed = of["micro-batches committed by killed processes"]
            yield what, of["rounds"], of["kills"], committed, *where, of["rows compared"]

    clocks = result("deliver/results/by_time.json")["violations"]
    return f"""# Delivery

## Tables in this process

{compared(tables())}
Scripts: `benchmarks/deliver/by_hand.py`.

## On Spark

64 destinations, a roster of 64, 20 entries a stamp, a quarter to a half of the rows held for a while.

{compared(spark())}
Script: `batch.py`.

## Streams on Spark

CPU seconds of JVM and Python together, after a small stream in the same process.

{compared(streams())}
Microseconds of CPU in the visits of shards alone, without Spark, one round on a loaded machine. 64 keys unless a
number is named. A key visit is a key in a micro-batch. A row costs a microsecond or two, and a key visit some ten more,
however many keys there are: that is what a stream with few rows to a key pays for. "Cold restart" is the first
micro-batch of a worker that has to read its shards. Script: `visits.py`.

{table(("what", "us a row", "rows a key visit", "us a key visit"), visits())}
A buffer by hand and a pipeline without a rule do less: no duplicates, no cycles, no lost causes, no reasons. Script:
`stream.py`.

## State of a stream

Bytes that each adds to the memory of a worker and to the state store, before Spark compresses it. Ids are UUIDs as
texts (36 characters); a held row has an id, a cause, a key and a text of 100 characters. Script: `state.py`.

{table(("what", "memory, bytes", "state store, bytes"), state())}
## Streams that are killed

Processes of two or four streams are killed (SIGKILL) until their input is exhausted. Each kill cuts each of its streams
somewhere in or between micro-batches. Then the sinks are compared with an undisturbed run; a table must hold every row
once, in causal order by position. A difference ends the soak, so the table has rounds without one. Scripts:
`tests/soak/test_stream_kills.py`, which has fifteen rounds, and `tests/soak/test_lake_kills.py`.

{table(KILLED, kills())}
## What people use instead

Streams with explicit causes, 2,500 rows in each of 64 keys; half of the rows have a cause from
another sender, and the senders' clocks differ.

{table(RIVALS, rivals())}
The buffer by hand keeps order and nothing else: no duplicates, no cycles, no lost causes, no reasons. Script:
`rivals.py`.

Sorting by time is right only while clocks agree. Of {result("deliver/results/by_time.json")["copies at sinks"]:,}
copies, sorted by time:

{table(("order", "violations"), iter(clocks.items()))}
## The rule alone

Microseconds of CPU a row in one process, 200,000 rows; rows of the command line in seconds.

{compared(rule())}
Script: `rule.py`.
"""


def audit() -> str:
    """Return the page about audits."""
    ways = {
        "local, one core": "thence, one core",
        "local, two cores": "thence, two cores",
        "Spark, cold": "thence on Spark, cold",
        "Spark, warm": "thence on Spark, second audit of a session",
        "a loop by hand": "a loop by hand (39 lines, no proofs, trusts its input)",
        "Polars": "Polars (25 lines)",
    }
    traces = {
        "5k": "5 thousand events", "500k": "500 thousand", "10m": "10 million", "100m": "100 million",
        "chains": "chains, 500 thousand",
    }  # fmt: skip
    found = result("audit/results/table.json")

    def cell(trace: str, way: str) -> str:
        row = found.get(f"{trace}: {way}")
        if row is None:
            return "not measured"
        what = "seconds" if way == "Spark, warm" else "cpu_seconds"  # the session's start is in its CPU time
        best = min(row["rounds"], key=lambda each: float(each[what]))
        missed = row["missed"] or 0
        return f"{best[what]:.1f} s, {best['peak_mb']:,} MB" + (
            f", misses {missed:,} of {row['violations'] + missed:,}" if missed else ""
        )

    def layouts() -> Rows:
        names = {
            "files-10m": "files that the workers open",
            "files-10m-random": "the same, rows scattered at random",
            "files-10m-hosts": "the same, one file per process",
            "frame-10m": "a DataFrame with `order`, a range in each partition",
            "frame-10m-overlapping": "the same in Spark's default partitions",
            "frame-10m-random": "a DataFrame, rows scattered at random",
            "frame-10m-hosts": "a DataFrame, files by process",
            "plain-10m": "a DataFrame without `order`",
        }
        for name, what in names.items():
            of = result(f"audit/results/{name}.json")
            with suppress(KeyError):
                ours, theirs = median(of["audit_seconds"]), median(of["yardstick_seconds"])
                yield f"{what}, seconds", ours, "reading and sorting the same files", theirs, of["ratio"]

    def chunks() -> Rows:
        for count in (10, 100):
            with suppress(KeyError, FileNotFoundError):
                of = result(f"audit/results/files-100m-{count}-chunks.json")
                seconds, busy, memory = of["audit_seconds"], of["audit_cpu_seconds"], of["peak_rss_mb"]["worker"]
                yield f"{of['verdict']['events']:,}", count, median(seconds), median(busy), memory

    def many() -> Rows:
        of = result("audit/results/violations.json")
        for name in ("verdict alone", "a hundred proofs", "JSON", "Parquet"):
            with suppress(KeyError):
                yield name, of[name]["cpu_seconds"], of[name]["peak_mb"]

    growth = result("audit/results/growth.json")["median_seconds"]
    rows = ((called, *(cell(trace, way) for trace in traces)) for way, called in ways.items())
    by_chunks = ""
    if chunked := list(chunks()):
        by_chunks = f"""The summaries of chunks are merged along a tree, 16 to a task. One audit each, busy machine:

{table(("events", "chunks", "seconds", "CPU seconds", "peak MB of a worker"), chunked)}
"""
    violations = result("audit/results/violations.json")
    return f"""# Audit

64 processes, two copies a message, one delivery in a thousand late, Parquet.

## Against what one would write instead

CPU seconds of the command and its children (the least of the rounds), peak memory, violations missed. The second audit
of a session is in seconds of time, on two cores. In `chains` every late message is overtaken over five relays.

{table(("", *traces.values()), rows)}
Script: `benchmarks/audit/table.py`.

## On Spark, by layout, 10 million events

{compared(layouts())}
Script: `run.py`.

## Growth on Spark

{table(("events", "seconds"), ((f"{int(size):,}", seconds) for size, seconds in growth.items()))}
{by_chunks}## Many violations

{violations["events"]:,} events with {violations["violations"]:,} violations.

{table(("output", "CPU seconds", "peak MB"), many())}
Script: `violations.py`.
"""


def live() -> str:
    """Return the page about live endpoints."""
    found = result("live/results/live.json")

    def rows() -> Rows:
        for row in found["rows"]:
            busy, calm = row["busy"], row["calm"]
            connection = row["connection"] + (", asyncio" if row["loop"] == "asyncio" else "")
            delivered = busy["copies a second"] / min(3, row["processes"] - 1)
            yield (
                row["processes"],
                row["journal"],
                connection,
                row["protocol"],
                round(min(delivered, busy["multicasts a second"])),
                busy["cpu us a copy"],
                f"{calm['p50 ms']:.1f}, {calm['p99 ms']:.0f}",
            )

    def ratios() -> Rows:
        cpu = {
            (row["processes"], row["journal"], row["protocol"]): row["busy"]["cpu us a copy"]
            for row in found["rows"]
            if row["connection"] == "plain" and row["loop"] != "asyncio"
        }
        for (processes, journal, protocol), ours in cpu.items():
            if protocol == "ks" and (theirs := cpu.get((processes, journal, "unordered"))):
                what = f"`ks`, {processes} processes, journal {journal}, us of CPU a copy"
                yield what, ours, "delivery on arrival", theirs, ours / theirs

    def before() -> Rows:
        for setting, row in result("live/results/before.json")["rows"].items():
            processes, journal, connection = setting.split("/")
            then, now = row["cpu us a copy"]
            what = f"`ks`, {processes} processes, journal {journal}, {connection}, us of CPU a copy"
            yield what, now, "0.1.0", then, 1 / row["ratio of cpu"]

    brokered = result("live/results/nats.json")

    def beside() -> Rows:
        for rate, of in brokered["rows"].items():
            for way, row in of.items():
                server, delays = row.get("cpu us a copy at the server", ""), f"{row['p50 ms']:.1f}, {row['p99 ms']:.0f}"
                yield rate, way, row["copies a second"], row["cpu us a copy"], server, delays

    heads = ("processes", "journal", "connection", "protocol", "multicasts a second", "CPU us a copy", "p50, p99 ms")
    ways = ("multicasts a second", "", "copies delivered a second", "CPU us a copy", "at the server", "p50, p99 ms")
    socket = found["bare socket, us CPU a frame there and back"]
    return f"""# Live endpoints

Every process by itself on one machine, each multicast goes to three others, payloads of 100 bytes, 8 sends in flight.
Latencies are from `send` to delivery at a quarter of the full rate. A frame of 200 bytes over a bare socket, there and
back, takes {socket} us of CPU.

## What causal order costs

{compared(ratios())}
## Beside the release before

Both versions in turn, by the same interpreter, one round on an otherwise idle machine. With journal `full` figures vary
with how commits gather: on loaded machines the ratio was anything from 0.5 to 1.04.
Script: `benchmarks/live/before.py`.

{compared(before())}
## Beside `nats-py` with JetStream

{brokered["processes"]} processes send the same multicasts at the same moments. Everything is on disk before it counts:
the journal is `full`, the server has `sync_interval: always`. `nats-py` alone publishes the same copies and waits for
the same acknowledgements, without causal order and without a journal. CPU is that of the processes; the server's
stands beside it.

{table(ways, beside())}
Script: `benchmarks/live/beside_nats.py`.

## All runs

`recorded` also writes a trace of every event.

{table(heads, rows())}
Script: `benchmarks/live/run.py`.
"""


def protocols() -> str:
    """Return the page about protocols."""
    rows = result("protocols/results/log.json")["rows"]

    def sizes() -> Rows:
        of = {(row["protocol"], row["n"], row["traffic"]): row for row in rows}
        for (name, n, traffic), row in of.items():
            other = of.get(("rst", n, traffic))
            if name == "ks" and other:
                for what in ("bytes", "send_us", "receive_us"):
                    words = f"`ks`, {n} processes, {traffic}, {what.replace('_us', ', us')}"
                    yield words, row[what], "`rst` (a full matrix)", other[what], row[what] / other[what]

    def literal() -> Rows:
        for row in result("protocols/results/literal.json")["rows"]:
            for step in ("send", "receive"):
                ours, theirs = row[f"ks_{step}_us"], row[f"literal_{step}_us"]
                what = f"`ks`, {row['n']} processes, {row['traffic']}, {step}, us"
                yield what, ours, "the paper's text, line by line", theirs, ours / theirs

    def every() -> Rows:
        for row in sorted(rows, key=lambda row: (row["n"], row["traffic"], row["protocol"])):
            names = ("protocol", "n", "traffic", "send_us", "receive_us", "encode_us", "decode_us", "bytes")
            yield tuple(row[name] for name in names)

    def broadcast() -> Rows:
        for row in result("protocols/results/broadcast.json")["rows"]:
            overlay = "none" if not row["degree"] else f"{row['degree']} neighbours"
            opened = f", {row['opened']} links opened" * bool(row["opened"])
            sizes = (row["bytes a copy"], row["copies"], row["bytes a message"], row["delay"], f"{row['held']:.0%}")
            yield row["protocol"], row["n"], overlay + opened, *sizes

    heads = ("protocol", "processes", "traffic", "send us", "receive us", "encode us", "decode us", "bytes a copy")
    flooded = (*heads[:2], "overlay", "bytes a copy", "copies a message", "bytes a message", "delay ms", "held")
    return f"""# Protocols

In steady state, one process.

## `ks` against a matrix

{compared(sizes())}
## `ks` against the paper's text

{compared(literal())}
## Broadcast with constant stamps

Every message goes to all others; copies travel 50 ms on the mean over FIFO channels. `bss` and `ks` send each copy
straight to its destination, `pc-broadcast` floods an overlay. Bytes are those of stamps, pings and pongs; a payload
crosses the network as often as there are copies. `ks` is still growing at 100 processes. Simulated: the same
on any machine.

{table(flooded, broadcast())}
## Every protocol

{table(heads, every())}
Scripts: `benchmarks/protocols/run.py`, `literal.py`, `broadcast.py`.
"""


def scale() -> str:
    """Return the page about sizes up to 1,000 processes."""
    rows = result("protocols/results/scale.json")["rows"]

    def every() -> Rows:
        for row in rows:
            fanout = "broadcast" if row["fanout"] == row["n"] - 1 else row["fanout"]
            if "not run" in row:
                yield f"`{row['protocol']}`", row["n"], fanout, "", "", "", "", "", "", f"not run: {row['not run']}"
                continue
            facts = "" if row["facts"] is None else row["facts"]
            sizes = (row["entries"], facts, row["bytes"], row["us_a_copy"], f"{row['held']:.0%}", row["on_network"])
            note = f"still growing, {row['growth']:.2f}" if row["growth"] > GROWING else ""
            note = "too short" if row["protocol"].startswith("ks") and row["messages"] < row["n"] else note
            yield f"`{row['protocol']}`", row["n"], fanout, *sizes, note

    def full() -> Rows:
        for row in rows:
            if row["protocol"] == "ks" and "curve" in row and row["growth"] <= GROWING:
                came_to, messages = full_after(row)
                fanout = "broadcast" if row["fanout"] == row["n"] - 1 else row["fanout"]
                yield row["n"], fanout, row["messages"], came_to, messages / row["n"], round(messages)

    grown = ("processes", "fan-out", "messages", "entries in the last half", "full after, a process", "in all")
    heads = (
        "protocol",
        "processes",
        "fan-out",
        "entries",
        "facts",
        "bytes",
        "CPU us a copy",
        "held",
        "on the network",
        "",
    )
    return f"""# From 10 to 1,000 processes

Every process sends ten messages a second on the mean; copies travel 50 ms, in any order; destinations are drawn evenly.
Figures are those of one copy. *On the network* counts copies and acknowledgements for each message. CPU is what the
members take, measured on a loaded machine: compare rows with each other.

![Bytes a copy](../pictures/scale-bytes.svg)

![CPU a copy](../pictures/scale-us.svg)

## Where each stops being practical

{practical(rows)}
## When logs are full

Entries of `ks`, counted in twentieths of a run. *Full* is the end of the first twentieth with {FULL:.0%} of the entries
of the last half.

![Entries of ks, over what they come to](../pictures/scale-growth.svg)

{table(grown, full())}
{larger(rows)}
## All rows

Where a row is *still growing*, entries rose by that factor from the third quarter of the run to the last: its sizes
are lower bounds. Where it is *too short*, fewer messages were sent than there are processes, so logs are nearly empty.
The plots leave out both, up to a growth of a fifth.

{table(heads, every())}
Script: `benchmarks/protocols/scale.py`, which goes on where it was stopped.
"""


def larger(rows: list[Result]) -> str:
    """Say up to which size `ks` was run into its steady state, and what it would take at 1,000 processes."""
    of = {(row["n"], row["fanout"]): row for row in rows if row["protocol"] == "ks"}

    def seconds(row: Result) -> float:
        return float(row["cpu_s"] / row["messages"] / row["fanout"])

    parts, reached = [], []
    for name, at_100, at_300, at_1000 in (("n/10", 10, 30, 100), ("n/2", 50, 150, 500), ("broadcast", 99, 299, 999)):
        small, middle = of[100, at_100], of[300, at_300]
        steady = middle["messages"] >= 300 and middle["growth"] <= GROWING
        reached.append(f"{300 if steady else 100} ({name})")
        messages = 10 * full_after(small)[1]
        text = f"{name} about {messages:,.0f} messages ({messages * at_1000 / 1e6:.1f} million copies"
        if steady:  # as long again for measuring, at a cost that goes on growing as it did
            each = seconds(middle) * (seconds(middle) / seconds(small)) ** (log(1000 / 300) / log(3))
            text += f"; measured for as long again, {2 * messages * at_1000 * each / 3600:.1f} hours of CPU"
        parts.append(text + ")")
    alone = sorted(full_after(of[n, 1])[1] / n for n in (10, 30, 100, 300, 1000))
    most, cases = ", ".join(reached), "".join(f"- {part}\n" for part in parts)
    return f"""With unicasts that takes each process {alone[0]:.0f} to {alone[-1]:.0f} messages, at any n, and 1,000
processes are in a steady state here. With larger fan-outs the most that are is {most}. By what each process needs at
100, and what a copy costs at 100 and 300, measures included, 1,000 would be in a steady state after

{cases}"""


def full_after(row: Result) -> tuple[float, float]:
    """Return the entries in the last half of a run, and after how many messages logs are full."""
    curve = row["curve"]
    came_to = sum(curve[len(curve) // 2 :]) / (len(curve) - len(curve) // 2)
    parts = next(part for part, value in enumerate(curve, 1) if value >= FULL * came_to)
    return came_to, parts * row["messages"] / len(curve)


def practical(rows: list[Result]) -> str:
    """Say from which size on each protocol asks too much, in the figures of the rows."""
    of = {(row["protocol"], row["n"], row["fanout"]): row for row in rows}

    def bytes_of(name: str, *cells: tuple[int, int]) -> str:
        return ", ".join(f"{of[name, n, fanout]['bytes']:,.0f} at {n:,}" for n, fanout in cells)

    alone = bytes_of("ks", (30, 1), (100, 1), (300, 1), (1000, 1))
    some = bytes_of("ks", (30, 3), (100, 10), (300, 30))
    half = bytes_of("ks", (30, 15), (100, 50), (300, 150))
    matrix = bytes_of("rst", (10, 1), (30, 1), (100, 1), (300, 1))
    vector = bytes_of("bss", (100, 99), (300, 299), (1000, 999))
    okays = ", ".join(
        f"{of['ks-ft', n, fanout]['on_network']:,.0f} for a fan-out of {fanout}" for n, fanout in ((30, 15), (100, 50))
    )
    spent = max(of["ks", 300, fanout]["us_a_copy"] for fanout in (1, 30, 150))
    most = of["ks", 1000, 1]["us_a_copy"]
    slow = of["rst", 100, 1]["us_a_copy"]
    return f"""- `ks` and `ks-hardware`: to some hundred processes. Bytes a copy grow about as n with unicasts
  ({alone}) and faster with fan-outs of n/10 ({some}) and n/2 ({half}), where a stamp outweighs most payloads;
  CPU a copy is {spent:.0f} us at most at 300, and {most:.0f} us with unicasts at 1,000. Beyond that, divide the
  processes: `hierarchy`, separators, labels.
- `rst`: to some thirty processes. Its n² numbers take {matrix} processes, and {slow:,.0f} us a copy at 100; at
  1,000 all matrices together would hold a thousand million numbers.
- `bss`: to 1,000 and beyond, if everything is broadcast ({vector}).
- `ks-ft`: where messages go to few groups. Its messages on the network grow with the square of the fan-out: {okays}.
- `fifo`: everywhere, without causal order; what grows is the set of destinations in each stamp.
"""


def handlers() -> str:
    """Return the page about gates and Kafka."""
    gate, kafka, offline = (
        result("gate/results/run.json"),
        result("kafka/results/run.json"),
        result("kafka/results/offline.json"),
    )

    def turns() -> Rows:
        times = gate["processor microseconds a row"]
        bare = times["tasks without a gate"]
        for name, ours in times.items():
            if name != "tasks without a gate":
                yield f"{name}, us of CPU a row", ours, "tasks without a gate", bare, ours / bare

    def slow() -> Rows:
        times = gate["handlers of 5 ms"]["seconds"]
        for name, theirs in times.items():
            if name != "gate":
                yield "handlers of 5 ms on a real graph, seconds", times["gate"], name, theirs, times["gate"] / theirs

    def consumed() -> Rows:
        for name, of in kafka.items():
            if isinstance(of, dict):
                ours, theirs = of["seconds"]["ordered"], of["seconds"]["alone"]
                what = f"{of.get('events', kafka['events']):,} events, {name}, seconds"
                yield what, ours, "without ordering", theirs, of["ratio"]

    def alone() -> Rows:
        for case in ("even", "one partition behind"):
            found = offline[f"{case}, now"]
            yield case, found["held"], found["records a CPU second, median"], found["share of commits"]

    return f"""# Gate and Kafka

## Gate

{compared(turns())}
{compared(slow())}
Script: `benchmarks/gate/run.py`.

## Kafka

{compared(consumed())}
Script: `benchmarks/kafka/run.py`.

Without a broker, the client's own threads left out; a commit for every 5,000 records:

{table(("partitions", "records held", "records a CPU second, median", "share of commits"), alone())}
Script: `benchmarks/kafka/offline.py`.
"""


def page() -> str:
    """Return the page about the space-time page."""
    found = result("page/results/page.json")

    def rows() -> Rows:
        for way, size in dict.fromkeys((row["way"], row["events"]) for row in found["rows"]):
            mine = [row for row in found["rows"] if (row["way"], row["events"]) == (way, size)]
            firsts = [row["first_picture_ms"] for row in mine]
            first = f"not in {found['limit_s']:.0f} s" if None in firsts else f"{median(firsts) / 1000:.2f} s"
            windows = [name for name in mine[0] if name.startswith("frames_")]
            worst = [median(row[name]["p95_ms"] for row in mine if row[name]) for name in windows]
            frames = f"{max(worst):.0f} ms" if worst else "not panned"
            yield size, way, first, frames, f"{mine[0]['bytes'] / 1e6:.2f} MB"

    heads = ("events", "way", "first picture", "p95 of frames, worst window", "file")
    return f"""# The page of `thence show`

Time to the first picture and of frames while panning, against an SVG with every arrow and Mermaid's sequence diagrams;
{found["processes"]} processes, Chromium without a GPU.

{table(heads, rows())}
Script: `benchmarks/page/run.py`.
"""


def ci_dc_experiment() -> str:
    """Return what was run of the whole experiment of ci-dc, and what would make it faster."""
    ran, tried = result("sim/results/ci_dc_whole.json"), result("sim/results/ci_dc_tried.json")
    protocols = ("ks", "ci-dc", "prs", "rst")

    def text(found: Result) -> str:
        half = found["ci95"]
        interval = "" if half is None else f" ± {half:.0f}" if half >= 10 else f" ± {half:.2g}"
        return f"{found['mean']:.4g}{interval}"

    def sizes() -> Rows:
        by = {(row["mode"], row["n"], row["protocol"]): row for row in ran["table"]}
        for mode, n in sorted({key[:2] for key in by}):
            each = [text(by[mode, n, name]["dependents"]) if (mode, n, name) in by else "" for name in protocols]
            yield mode, n, *each, round(2 / 3 * n * n), n * n

    def claims() -> Rows:
        for row in ran["claims"]:
            yield f"`{row['claim']}`: {row['published']}", row["ours"], row["verdict"]

    def factors() -> Rows:
        for row in tried["rows"]:
            what = f"`{row['protocol']}`, {row['mode']}"
            yield what, row["recording_off"], row["free_queue"], row["batches_of_copies"]

    def rates() -> Rows:
        for row in ran["rates"]:
            yield f"`{row['protocol']}`, {row['mode']}", row["messages"], *row["messages_per_s"].values(), row["hours"]

    heads = ("sending", "n", *(f"`{name}`" for name in protocols), "paper: PRS tends to", "paper: RST")
    hours = ran["core_hours_whole"]
    whole = "all of it" if hours <= 6 else f"{6 / hours:.0%} of it"
    return f"""The paper's own counts, for `ks`, `ci-dc`, `rst` and `prs`: {ran["whole"]:,} messages. Messages a second
of one core, with sizes measured, and the core hours that follow, at the pace of the fastest part of each kind:

{table(("runs", "messages", "n = 10", "n = 30", "n = 50", "core hours"), rates())}
That is {hours} core hours. One hour on two cores falls short by a factor of {hours / 2:.1f}; three hours on two idle
cores would do for {whole}.

`thence reproduce ci-dc --full` runs `ci-dc`, `prs` and `rst` in parts, one for each run, and goes on where it was
stopped. The longest run takes {ran["longest_run_minutes"]} minutes of one core.

#### What was run of it

{ran["messages"]:,} messages, {100 * ran["share"]:.2f} % of the whole, in {ran["parts"]} parts of at most
{ran["longest_part_s"]:.0f} seconds of one core ({60 * ran["core_hours"]:.0f} minutes in all). In a part every process
receives {ran["received"]} messages, a third of them to settle; the paper has five runs of 60,000, so 500 replications
are the whole. `sim/ci_dc_whole.py` goes on from there. Deliveries before a cause: {ran["early"]}; copies left
undelivered: {ran["stuck"]}.

Dependents on a copy, with 95 % intervals over replications. The paper's pictures are lost; the last two columns are
what its sentences say of PRS and RST.

{table(heads, sizes())}
The paper's sentences, judged on the complete replications as `thence reproduce ci-dc` judges its own runs:

{table(("sentence", "ours", "verdict"), claims())}
#### What was tried to make it faster

How many times faster a run would be at n = {tried["n"]}: without measuring; with an event queue that costs nothing,
which no queue can beat; with one event in the queue for each message instead of each copy. The time goes into the
protocols and the measures, not into the queue. `prs` took half of the whole as long as its pairs stood in dicts; packed
by ascending process they are merged without a look into a table.

{table(("runs", "recording off", "free event queue", "batches of copies"), factors())}"""


def laboratory() -> str:
    """Return the page about the simulator, the explorer and sweeps."""
    sweep = result("sweep/results/sweep.json")

    def simulated() -> Rows:
        for row in result("sim/results/sim.json")["simpy"]:
            what = f"simulator, `{row['protocol']}`, {row['n']} processes, messages a second"
            yield what, row["ours_per_s"], "SimPy, stores", row["simpy_store_per_s"], row["ratio"]

    def explored() -> Rows:
        for row in result("explore/results/speed.json")["rows"]:
            with suppress(KeyError, TypeError):
                setting = ", ".join(f"{key} {value}" for key, value in row["setting"].items())
                ours, theirs = row["reduced"]["states"], row["naive"]["states"]
                yield f"{setting}, states", ours, "without reduction", theirs, ours / theirs

    def earlier() -> Rows:
        for row in result("sim/results/before.json")["rows"]:
            size = f"{row['processes']} processes, {row['messages']} messages"
            what = f"{row['what']} `{row['protocol']}`, {size}, CPU seconds"
            yield what, row["cpu_seconds"], "0.1.0", row["before"], row["cpu_seconds"] / row["before"]

    seconds = sweep["seconds"]
    swept = iter([(f"{sweep['scenarios']} scenarios, seconds, two cores", seconds["local[2]"], "one core",
                   seconds["local[1]"], seconds["local[2]"] / seconds["local[1]"])])  # fmt: skip
    return f"""# Laboratory

## Simulator

For messages a second a ratio above 1 is faster.

{compared(simulated())}
### The whole experiment of ci-dc

{ci_dc_experiment()}
## Explorer

{compared(explored())}
## Simulator and explorer beside 0.1.0

CPU seconds of the same work in both versions, in turn; a ratio below 1 is faster.

{compared(earlier())}
## Sweep on Spark

{compared(swept)}
Scripts: `benchmarks/sim/run.py`, `sim/before.py`, `sim/ci_dc_whole.py`, `sim/ci_dc_tried.py`,
`explore/speed.py`, `sweep/run.py`.
"""


def first() -> str:
    """Return the page about the first answer and sizes."""

    def starts() -> Rows:
        for row in result("first/results/first.json")["rows"]:
            now, before = row["cpu_seconds_now"], row["cpu_seconds_before"]
            yield f"{row['what']}, CPU seconds", now, "before", before, now / before

    extras = result("install/results/sizes.json")["extras"]
    return f"""# First answer and size

## CPU until the first answer

{compared(starts())}
Script: `benchmarks/first/run.py`.

## Disk, with everything an extra needs

{table(("extra", "MB"), ((f"`{name}`" if name else "(none)", of["MB"]) for name, of in extras.items()))}
Script: `benchmarks/install/run.py`.
"""


PAGES: dict[str, tuple[str, Callable[[], str]]] = {
    "deliver": ("Delivery", deliver),
    "audit": ("Audit", audit),
    "live": ("Live endpoints", live),
    "protocols": ("Protocols", protocols),
    "scale": ("From 10 to 1,000 processes", scale),
    "handlers": ("Gate and Kafka", handlers),
    "page": ("The page of `thence show`", page),
    "laboratory": ("Laboratory", laboratory),
    "first": ("First answer and size", first),
}


def pages() -> dict[Path, str]:
    """Return every page with its text."""
    listed = "\n".join(f"- [{title}]({name}.md)" for name, (title, _) in PAGES.items())
    return {DOCS / "index.md": f"{CONDITIONS}{listed}\n"} | {
        DOCS / f"{name}.md": make() for name, (_, make) in PAGES.items()
    }


def main() -> int:
    """Write or check the pages."""
    made = pages()
    stale = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what the results say; run python tools/benchmark_pages.py")
        return 1 if stale else 0
    DOCS.mkdir(exist_ok=True)
    for path in stale:
        path.write_text(made[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
