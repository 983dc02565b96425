"""`thence demo`: a shop whose payments overtake their orders: found, proved, repaired on Spark, run live, and counted.

A demo is a list of steps over one `Demo`; each step prints what it found and adds to the result and to the page.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from thence.cli._common import CORES, JsonFile, SparkCores, console, finish, working, write_json
from thence.cli._console import Console
from thence.cli._packages import require_packages
from thence.core.model.plain import Row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from thence.show.results_page import Part, Section

EXAMPLE = "thence demo --out demo"
BINS = ((0.5, "up to 0.5 s"), (1.0, "0.5 to 1 s"), (2.0, "1 to 2 s"), (4.0, "2 to 4 s"), (float("inf"), "above 4 s"))
COMPARED = {
    "unordered": "delivers on arrival: what the shop did",
    "fifo": "orders each pair of processes only; a payment still overtakes",
    "central": "correct, but all messages take a detour through one process",
    "rst": "correct, but always carries n² numbers",
    "ses": "correct, but carries a vector for each destination",
    "ks": "correct, and carries only what a destination may still lack",
}
LIVE_ORDERS = 200


@dataclass(slots=True)
class Demo:
    """State shared by the steps: output folder, results of each step, and whether all checks passed."""

    out: Path
    console: Console
    seed: int = 1
    orders: int = 12_500
    cores: int = 2
    result: Row = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    spark: SparkSession | None = None

    @property
    def trace(self) -> Path:
        """The recorded trace of the shop's day."""
        return self.out / "monday.parquet"

    def session(self) -> SparkSession:
        """Return the embedded Spark session, started on first use."""
        from thence.cli._common import start_spark

        if self.spark is None:
            self.spark = start_spark(self.cores, quick=True)
        return self.spark

    @contextmanager
    def timed(self, what: str, shown: str) -> Iterator[Callable[[str], None]]:
        """Show a step as in progress, and record its duration."""
        began = monotonic()
        with working(shown) as report:
            yield report
        self.seconds[what] = monotonic() - began

    def tell(self, title: str, *parts: Part | str) -> None:
        """Print sentences, diagrams and tables under a heading, and keep them for the page."""
        from thence.cli.simulate import print_table
        from thence.show.results_page import Links, Paragraph, Section
        from thence.tables.result_table import ResultTable

        kept = [Paragraph(part) if isinstance(part, str) else part for part in parts]
        self.sections.append(Section(title, kept))
        self.console.print(f"\n{len(self.sections)}. {title}\n")
        for part in kept:
            if isinstance(part, Paragraph):
                self.console.print(part.text if part.plain else part.text.replace("`", ""))
            elif isinstance(part, ResultTable):
                print_table(part, self.console)
            elif isinstance(part, Links):
                self.console.print("\n".join(f"{text}: {self.out / file}" for text, file in part.to))


def command(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for traces and pages.")] = Path("demo"),
    orders: Annotated[int, typer.Option(help="Number of orders; each makes 8 events.", min=20)] = 12_500,
    seed: Annotated[int, typer.Option(help="Seed of the traffic.")] = 1,
    cores: SparkCores = CORES,
    json_file: JsonFile = None,
) -> None:
    """Run a story on your machine: a shop whose payments overtake their orders; found, proved, repaired, run live.

    Exit code 1 if a verdict or an order is wrong, or a message is lost.
    """
    require_packages("pyspark", "pyarrow", "numpy")
    for earlier in ("stream", "live"):
        shutil.rmtree(out / earlier, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    made = Demo(out, console(json_file), seed, orders, cores)
    try:
        for step in DEMO_STEPS:
            step(made)
    finally:
        if made.spark is not None:
            made.spark.stop()
    made.result |= {"seconds": made.seconds, "failures": made.failures}
    write_json(json_file, made.result)
    for failure in made.failures:
        made.console.print(f"FAILED: {failure}")
    finish(1 if made.failures else 0)


def open_the_shop(made: Demo) -> None:
    """Record a day of the shop."""
    import pyarrow.parquet as pq

    from thence.lab.shop.traffic import shop_trace

    with made.timed("shop", "The shop has a busy Monday"):
        trace = shop_trace(made.orders, made.seed)
        pq.write_table(trace, made.trace)
    made.tell(
        "A shop on a busy Monday",
        "`web` takes orders and notifies `billing` and the `ledger`. `billing` takes the money and notifies the "
        "`depot` and the ledger. The depot ships and notifies the ledger. A message takes about a second, sometimes "
        "more, and the ledger books each one as it arrives.",
        f"{made.orders:,} orders made {len(trace):,} events, recorded in {made.trace}.",
    )
    made.result["shop"] = {"orders": made.orders, "events": len(trace)}


def what_went_wrong(made: Demo) -> None:
    """Count the violations on Spark, prove one, and draw its page; this process must find the same."""
    from thence.show.page import show
    from thence.show.results_page import Links, Paragraph
    from thence.tables.engines.local.audit import audit
    from thence.tables.engines.spark.audit import audit as audit_on_spark
    from thence.tables.judge.explain import explanation

    session = made.session()
    with made.timed("audit", "Auditing on Spark"), audit_on_spark(session.read.parquet(str(made.trace))) as judged:
        (run,) = judged.run_rows
    with working("Proving one violation"), audit([made.trace]) as here:
        rows = here.listed("violations")
        overtaken = (place for place, row in enumerate(rows, 1) if str(row["early"]).startswith("payment-"))
        number = next(overtaken, 1)
        sentence, _, drawn = explanation(here, number).partition("\n\n") if rows else ("", "", "")
    if len(rows) != run["violations"] or not rows:
        made.failures.append(f"Spark counts {run['violations']} violations, this process {len(rows)}")
        return
    with working("Drawing its page"):
        show(made.trace, made.out / "violation.html", violation=number)
    made.tell(
        "What went wrong",
        f"The audit on Spark finds {run['violations']:,} messages that the ledger delivered too late: one of their "
        f"effects was there before. Messages that never came: {run['undelivered']}. One violation, with its proof:",
        Paragraph(sentence),
        Paragraph(drawn, plain=True),
        Links([("The same violation, event by event", "violation.html")]),
    )
    made.result["audit"] = {**run, "shown": number}


def deliver_the_batch(made: Demo) -> None:
    """Put the ledger's arrivals into causal order on Spark, and audit the result."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from thence.lab.shop.traffic import ledger_arrivals, repaired_trace
    from thence.show.results_page import Picture, bars
    from thence.tables.engines.local.audit import audit
    from thence.tables.engines.spark.deliver import deliver

    trace = pq.read_table(made.trace)
    arrivals = made.out / "arrivals.parquet"
    pq.write_table(ledger_arrivals(trace), arrivals)
    with made.timed("deliver", "Delivering on Spark"):
        table = made.session().read.parquet(str(arrivals))
        ordered = deliver(table, id="event_id", causes="parent_id", key="customer").toArrow()
    pq.write_table(ordered, made.out / "ordered.parquet")
    with working("Auditing the result"), audit(repaired_trace(trace, ordered)) as after:
        verdict = after.verdict
    if verdict != "causal":
        made.failures.append(f"the delivered order is {verdict}")
    placed = ordered.filter(pc.is_valid(pc.field("position")))
    seconds = placed.filter(pc.field("held_for") > 0)["held_seconds"].to_pylist()
    counts = _binned(seconds)
    blocked = len(ordered) - len(placed)
    made.tell(
        "Delivered in causal order",
        f'`deliver(arrivals, id="event_id", causes="parent_id", key="customer")` puts {len(ordered):,} rows in order. '
        f"{len(seconds):,} rows ({100 * len(seconds) / len(ordered):.0f} %) were held until their cause came; audited "
        f"again, the ledger is `{verdict}`. {blocked} rows wait for a cause that never came. How long rows were held:",
        Picture(bars([(name, count, f"{count:,} rows") for name, count in counts]), "How long rows were held"),
    )
    longest = max(1, *(count for _, count in counts))
    for name, count in counts:
        made.console.print(f"{name:>12}  {'#' * round(40 * count / longest)} {count:,}")
    median = sorted(seconds)[len(seconds) // 2] if seconds else 0.0
    made.result["deliver"] = {
        "rows": len(ordered), "held": len(seconds), "blocked": blocked, "median_seconds": median, "verdict": verdict,
        "held_seconds": dict(counts),
    }  # fmt: skip


def _binned(seconds: Sequence[float]) -> list[tuple[str, int]]:
    """Count the seconds in each of `BINS`."""
    counts, below = list[tuple[str, int]](), 0.0
    for limit, name in BINS:
        counts.append((name, sum(below < each <= limit or (each == 0.0 == below) for each in seconds)))
        below = limit
    return counts


def deliver_the_stream(made: Demo) -> None:
    """Deliver the same rows as a stream, name what it waits for, and give that up."""
    import pyarrow.parquet as pq

    from thence.lab.shop.traffic import lost_order
    from thence.tables.engines.spark.give_up import give_up
    from thence.tables.engines.spark.waiting import waiting_in_stream

    session, folder = made.session(), (made.out / "stream").resolve()
    incoming, checkpoint = folder / "incoming", folder / "checkpoint"
    incoming.mkdir(parents=True)
    arrivals = pq.read_table(made.out / "arrivals.parquet")
    share = -(-len(arrivals) // 4)
    for place in range(4):
        pq.write_table(arrivals.slice(place * share, share), incoming / f"{place}.parquet")
    with made.timed("stream", "Delivering as a stream, in four micro-batches"):
        _run_stream(session, folder)
    batch, stream = (_by_customer(pq.read_table(path)) for path in (made.out / "ordered.parquet", folder / "ordered"))
    if batch != stream:
        made.failures.append("the stream and the batch gave different orders")
    with made.timed("waiting", "What does it wait for?"):
        held = [row.asDict() for row in waiting_in_stream(session, checkpoint).collect()]
    lost = f"order-{lost_order(made.orders)}"
    causes = {row["blocker"] for row in held}
    with made.timed("give up", f"Giving up {lost}"):
        give_up(session, checkpoint, lost)
        _run_stream(session, folder)
    left = waiting_in_stream(session, checkpoint).count()
    rows = pq.read_table(folder / "ordered", columns=["event_id", "outcome", "reason"]).to_pylist()
    released = [row for row in rows if row["outcome"] == "released"]
    if causes != {lost} or left or len(rows) != len(arrivals) or len(released) != 1:
        made.failures.append(f"{causes} were waited for, {len(released)} rows released, {left} still wait")
        return
    names = " and ".join(sorted(row["message"] for row in held))
    made.tell(
        "The same as a stream, and a lost cause",
        f"A stream over the same rows, in four micro-batches, gives each customer the same order. It still holds "
        f"{names}: `thence waiting CHECKPOINT` names the cause, {lost}, which was lost.",
        f"`thence give-up CHECKPOINT {lost}` gives it up. {released[0]['event_id']} leaves as `released`, with the "
        "reason "
        f'"{released[0]["reason"]}", and what waited for it follows. Nothing waits any more.',
    )
    made.result["stream"] = {"rows": len(rows), "waited_for": lost, "held": len(held), "released": len(released)}


def _run_stream(session: SparkSession, folder: Path) -> None:
    """Process the files that are there, one per micro-batch, and stop."""
    from thence.tables.engines.spark.deliver import deliver

    schema = session.read.parquet(str(folder / "incoming")).schema
    source = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "incoming"))
    commands = folder / "checkpoint" / "give-up"
    ordered = deliver(source, id="event_id", causes="parent_id", key="customer", commands=commands, shards=2)
    sink = ordered.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    sink.trigger(availableNow=True).start(str(folder / "ordered")).awaitTermination()


def _by_customer(ordered: pa.Table) -> dict[str, list[str]]:
    """Return the delivered ids of each customer, in order."""
    found: dict[str, list[str]] = {}
    for row in ordered.select(["customer", "position", "event_id"]).sort_by("position").to_pylist():
        if row["position"] is not None:
            found.setdefault(row["customer"], []).append(row["event_id"])
    return found


def run_it_live(made: Demo) -> None:
    """Run the shop as three live processes, kill one, and audit what they recorded."""
    from thence.lab.shop.live import live_shop
    from thence.tables.engines.local.audit import audit

    folder = made.out / "live"
    with made.timed("live", "Starting three processes") as report:
        shop = live_shop(folder, LIVE_ORDERS, report)
    with audit([folder]) as judged:
        verdict, (run,) = judged.verdict, judged.run_rows
    lost = 2 * LIVE_ORDERS - len(set(shop.delivered))
    if verdict != "causal" or shop.early() or lost or run["undelivered"] or run["duplicates"]:
        made.failures.append(f"live: {verdict}, {len(shop.early())} payments too early, {lost} messages lost")
    made.tell(
        "Live, with a process killed",
        f"The shop again, as three processes that send through `thence`: {LIVE_ORDERS} orders, {LIVE_ORDERS} payments. "
        f"No message names its cause; a stamp does. After {shop.killed_after} messages the ledger is killed with "
        "SIGKILL and started again.",
        f"It delivered all {len(shop.delivered)} messages, no payment before its order, none lost. After the kill "
        f"{shop.repeated} came again, marked as redelivered. The audit of the recorded trace: `{verdict}`.",
    )
    made.result["live"] = {
        "messages": len(shop.delivered), "killed_after": shop.killed_after, "repeated": shop.repeated,
        "verdict": verdict, "early": len(shop.early()), "lost": lost, "seconds": shop.seconds,
    }  # fmt: skip


def what_it_costs(made: Demo) -> None:
    """Print what each part took, and compare six protocols on one traffic."""
    from thence.cli.protocols import scenario_for
    from thence.lab.simulator import simulate
    from thence.show.results_page import Picture, bars
    from thence.tables.engines.local.audit import audit_events
    from thence.tables.result_table import Cell, ResultTable

    rows, sizes = list[tuple[Cell, ...]](), dict[str, float]()
    with made.timed("protocols", "Simulating six protocols"):
        for name, remark in COMPARED.items():
            scenario = scenario_for(name, made.seed)
            assert scenario is not None
            run = simulate(replace(scenario, processes=12, messages=300), trace=True)
            assert run.measures is not None
            with audit_events([event for event in run.events if event.run == name]) as judged:
                early = sum(row["violations"] for row in judged.run_rows)
            if bool(early) == (scenario.entry.guarantee == "causal"):
                made.failures.append(f"{name} promises {scenario.entry.guarantee} order; {early} violations were found")
            sizes[name] = run.measures.mean("bytes_per_copy") or 0.0
            latency = 1000 * (run.measures.mean("latency_per_copy") or 0.0)
            rows.append((name, early, round(sizes[name]), round(latency), remark))
    events, arrived = made.result["shop"]["events"], made.result["deliver"]["rows"]
    took = [
        ("audit", events, "audit"),
        ("delivery, batch", arrived, "deliver"),
        ("delivery, stream", arrived, "stream"),
    ]
    spent = tuple((what, count, round(made.seconds[key], 1)) for what, count, key in took)
    held = f"Half of the held rows waited less than {made.result['deliver']['median_seconds']:.1f} s for their cause."
    made.tell(
        "What it costs, and why ks",
        ResultTable("On Spark, on this machine", ("what", "rows", "seconds"), spent, held),
        ResultTable(
            "Six protocols on the same traffic: 12 processes, 300 messages",
            ("protocol", "too early", "bytes", "latency ms", "in short"),
            tuple(rows),
            "bytes: of the stamp of one copy. `thence protocols --measure` compares all protocols.",
        ),
        Picture(bars([(n, size, f"{size:.0f} bytes") for n, size in sizes.items()], lit="ks"), "Bytes of a stamp"),
        "Live endpoints use `ks` unless you choose another: of those that keep causal order with direct messages, it "
        "carries the least.",
    )
    columns = ("protocol", "violations", "bytes", "latency_ms")
    made.result["protocols"] = [dict(zip(columns, row, strict=False)) for row in rows]
    if sizes["ks"] >= min(sizes["rst"], sizes["ses"]):
        made.failures.append(f"stamps of ks have {sizes['ks']:.0f} bytes, more than those of rst or ses")


def write_page(made: Demo) -> None:
    """Write everything that was shown as one HTML page."""
    from thence.show.results_page import results_page

    target = made.out / "index.html"
    lead = f"{made.orders:,} orders, seed {made.seed}. Everything below was computed by `thence demo` on this machine."
    target.write_text(
        results_page("A shop whose payments overtake their orders", made.sections, lead=lead), encoding="utf-8"
    )
    made.console.print(f"\nThe page with pictures: {target}")


DEMO_STEPS: tuple[Callable[[Demo], None], ...] = (
    open_the_shop,
    what_went_wrong,
    deliver_the_batch,
    deliver_the_stream,
    run_it_live,
    what_it_costs,
    write_page,
)
