"""Figures of audits at scale, of sessions, sweeps, Kafka and the soaks, as sentences say them; from their results.

*Invariant.*
As in measured.py: every figure of `SCALE` stands in its page as its function gives it.
"""

from __future__ import annotations

from functools import partial
from statistics import median

from pages import result
from sentence import Figures, Sentence

SAFE = 1.5e-6
"""seconds of CPU an event that the estimate takes"""
EXECUTORS = 400
"""cores of the estimate"""


# -- audit.md, environment.md ------------------------------------------------------------------------------------------


def kernel(processes: int) -> Figures:
    found = result(f"audit/results/kernel-{processes}-5m-1000k.json")
    chunks, spent = found["chunks"], found["ns_per_event"]
    return {
        "judge": f"{spent['summarise']:,.0f}", "compose": f"{spent['compose']:,.0f}",
        "ms": f"{1e3 * found['cpu_seconds']['compose'] / chunks:.0f}",
        "seconds": f"{found['cpu_seconds']['compose'] / chunks:.1f}",
        "summary": f"{found['found']['summary_bytes'] / chunks / 1e6:.2f}",
        "summaries": f"{found['found']['summary_bytes'] / chunks / 1e6:.0f}",
        "crossing": f"{found['found']['exports'] / chunks:,.0f}", "peak": f"{found['peak_rss_mb'] / 1e3:.1f}",
    }  # fmt: skip


def many_processes() -> Figures:
    few, many = (result(f"audit/results/kernel-{n}-5m-1000k.json")["ns_per_event"]["summarise"] for n in (64, 1000))
    return kernel(1000) | {"times": f"{many / few:.0f}"}


def on_paper() -> Figures:
    """The estimate for ten billion events: what was measured, and what follows from it."""
    found = result("audit/results/kernel-64-5m-1000k.json")
    whole = result("audit/results/files-10m.json")
    cpu, events = median(whole["audit_cpu_seconds"]), whole["verdict"]["events"]
    made: Figures = {
        "kernels": f"{sum(found['ns_per_event'].values()) / 1e3:.2f}", "whole": f"{cpu / events * 1e6:.1f}",
        "cpu": f"{cpu:.0f}", "events": f"{events // 10**6}", "safe": f"{SAFE * 1e6:.1f}",
        "all": f"{1e10 * SAFE:,.0f}", "spread": f"{1e10 * SAFE / EXECUTORS:.0f}",
    }  # fmt: skip
    return made


def start() -> Figures:
    found = result("audit/results/start.json")
    without, with_archive = median(found["seconds_without"]), median(found["seconds_with"])
    return {
        "mb": f"{found['archive_bytes'] / 1e6:.0f}", "ratio": f"{found['ratio']:.1f}", "without": f"{without:.1f}",
        "with": f"{with_archive:.1f}",
    }  # fmt: skip


# -- sweep.md, kafka.md ------------------------------------------------------------------------------------------------


def sweep() -> Figures:
    found = result("sweep/results/sweep.json")
    assert len(found["rounds"]["local[1]"]) == 9
    return {
        "scenarios": found["scenarios"], "one": f"{found['seconds']['local[1]']:.1f}",
        "two": f"{found['seconds']['local[2]']:.1f}", "faster": f"{found['speedup']:.2f}",
        "held": f"{found['speedup_over_one_held_to_one_core']:.2f}",
    }  # fmt: skip


def readers() -> Figures:
    found = result("kafka/results/run.json")
    spark, rate = found["spark"]["events a second"], found["consumer"]["events a second"]
    return {
        "alone": f"{spark['alone']:,}", "ordered": f"{spark['ordered']:,}",
        "fields": f"{rate['fields, processor']:,}", "consumer": f"{rate['ordered, processor']:,}",
    }  # fmt: skip


def fetched() -> Figures:
    found = result("kafka/results/fetch.json")
    size = {row["bytes"]: row for row in found["sizes"]}
    small, large = size[64 * 1024], size[1024 * 1024]
    return {
        "small": f"{small['held']:,}", "large": f"{large['held']:,}", "of": f"{found['events']:,}",
        "soon": f"{small['seconds']:.1f}", "late": f"{large['seconds']:.1f}",
    }  # fmt: skip


def killed() -> Figures:
    found = result("kafka/results/soak.json")
    assert set(found["kills"].values()) == {10}
    assert found["events"] == 10**6
    again = {found[name]["known duplicates"] for name in ("consumer", "spark")}
    for name in ("consumer", "spark"):
        assert (found[name]["delivered"], found[name]["twice"], found[name]["before a cause"]) == (10**6, 0, 0)
    return {"minutes": f"{found['seconds'] / 60:.0f}", "kills": found["killed"], "again": f"{again.pop():,}"}


# -- deliver.md, lying-peers.md ----------------------------------------------------------------------------------------


def alike() -> Figures:
    found = result("soak/results/deliver.json").values()
    (messages,) = {row["messages_a_run"] for row in found}
    runs, rows = (sum(row[name] for row in found) for name in ("runs", "rows"))
    return {"runs": f"{runs:,}", "messages": messages, "rows": f"{rows:,}"}


def sets() -> Figures:
    found = result("soak/results/sets.json").values()
    assert len({row["zone"] for row in found}) == 5
    first, last = min(row["seeds"][0] for row in found), max(row["seeds"][1] for row in found)
    return {"sets": f"{sum(row['sets'] for row in found):,}", "first": f"{first:,}", "last": f"{last:,}"}


def hostile() -> Figures:
    rows = result("soak/results/hostile.json")
    times = [row["snapshot"] + row["stamp"] for name, row in rows.items() if name.endswith(", compiled")]
    return {"least": f"{min(times):,}", "most": f"{max(times):,}"}


SCALE = (
    Sentence(
        "explanation/audit.md",
        "{judge} ns an event to judge a chunk, {compose} ns to put chunks together",
        partial(kernel, 64),
    ),
    Sentence(
        "explanation/audit.md", "takes {ms} ms of CPU and {summary} MB of summary a chunk here", partial(kernel, 64)
    ),
    Sentence(
        "explanation/audit.md",
        "more messages that cross a cut (here {crossing} at each, on the mean)",
        partial(kernel, 64),
    ),
    Sentence(
        "explanation/audit.md",
        "64 -> 1,000 processes makes judging {times} times more expensive ({judge} ns an event) "
        "and a summary {summaries} MB",
        many_processes,
    ),
    Sentence("explanation/audit.md", "composition takes {seconds} s a chunk (it grows with", many_processes),
    Sentence(
        "explanation/audit.md", "5 million events of 1,000 processes pass in {peak} GB in one process", many_processes
    ),
    Sentence(
        "explanation/audit.md",
        "{kernels} us of CPU an event in the kernels; {whole} us with reading Parquet, starting tasks and moving "
        "summaries ({cpu} CPU seconds for {events} million events measured end to end); {safe} us to be safe. 10^10 "
        "events x {safe} us = {all} CPU seconds; on 100 executors of 4 cores, {spread} s if nothing is in the way",
        on_paper,
    ),
    Sentence("reference/environment.md", "the classes that Spark loads, {mb} MB in that cache directory", start),
    Sentence(
        "reference/environment.md",
        "Later sessions start in about {ratio} of the time ({with} s in place of {without}, one round on a busy "
        "machine",
        start,
    ),
    Sentence(
        "laboratory/sweep.md",
        "{scenarios} short scenarios take {one} s with `local[1]` and {two} s with `local[2]`: {faster} times faster "
        "(median of nine rounds; {held} times faster than `local[1]` held to one core)",
        sweep,
    ),
    Sentence("reference/kafka.md", "writes {alone} events a second to Parquet, and {ordered} in causal order", readers),
    Sentence("reference/kafka.md", "fields of each record read in Python | {fields} |", readers),
    Sentence("reference/kafka.md", "`CausalConsumer`, a commit every 5,000 | {consumer} |", readers),
    Sentence(
        "reference/kafka.md",
        "{small} in place of {large} of {of} with a megabyte, and {soon} s in place of {late} s, in one run",
        fetched,
    ),
    Sentence("reference/kafka.md", "a million events with explicit causes in {minutes} minutes, in one go", killed),
    Sentence("reference/kafka.md", "{kills} kills, ten each of producer, either consumer, driver and broker", killed),
    Sentence("reference/kafka.md", "the {again} that a killed producer sent again", killed),
    Sentence(
        "explanation/delivery-rule.md",
        "(`benchmarks/soak/results/deliver.json`) {runs} runs of {messages} messages, {rows} rows: reordered",
        alike,
    ),
    Sentence(
        "explanation/delivery-rule.md", "row for row, on {sets} random sets (`benchmarks/soak/results/sets.json`", sets
    ),
    Sentence("explanation/delivery-rule.md", "five kinds of policy, five time zones, seeds {first} to {last})", sets),
    Sentence(
        "explanation/lying-peers.md", "the soak does it {least} to {most} times for each and keeps the counts", hostile
    ),
)
