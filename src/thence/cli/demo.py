"""`thence demo`: a shop whose payments overtake their orders, from the finding to the repair, in a few minutes.

A demo is a list of steps over one `Demo`; each step prints what it found and adds to the result and to the page. A new
part is one function more in `STEPS`. The data of the shop is made by `demo_shop.py`, its live part by `demo_live.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from thence.cli._common import CORES, JsonFile, SparkCores, console, finish, working, write_json
from thence.cli._console import Console
from thence.cli._packages import needs
from thence.core.model.plain import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from thence.show.results_page import Section

EXAMPLE = "thence demo --out demo"


@dataclass(slots=True)
class Demo:
    """What the steps share: where files go, what came of it, and whether all is as it should be."""

    out: Path
    console: Console
    seed: int
    cores: int = 2
    orders: int = 33_334
    result: Row = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    spark: SparkSession | None = None

    def session(self) -> SparkSession:
        """Return the embedded Spark session, started when it is first asked for."""
        from thence.cli._common import start_spark

        if self.spark is None:
            self.spark = start_spark(self.cores)
        return self.spark

    def say(self, sentence: str) -> str:
        """Print a sentence, and return it for the page."""
        self.console.print(sentence)
        return sentence

    def expect(self, fact: bool, otherwise: str) -> None:
        """Note a failure unless something is as it should be."""
        if not fact:
            self.failures.append(otherwise)


def command(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where data and the page go.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of the shop's delays.")] = 1,
    orders: Annotated[
        int, typer.Option(help="Orders of the shop; each has a payment and a shipment.", min=10)
    ] = 33_334,
    cores: SparkCores = CORES,
    json_file: JsonFile = None,
) -> None:
    """Show the main job end to end: a shop on Spark whose payments overtake their orders, found and repaired.

    Exit code 1 means that something did not come out as it should.
    """
    from shutil import rmtree

    needs("pyspark", "pyarrow")
    for each in ("ordered", "incoming", "checkpoint", "streamed", "live"):
        rmtree(out / each, ignore_errors=True)  # what an earlier demo has left
    out.mkdir(parents=True, exist_ok=True)
    made = Demo(out, console(json_file), seed, cores, orders)
    try:
        for number, (title, step) in enumerate(STEPS, 1):
            made.console.print(f"\n{number}. {title}")
            began = monotonic()
            step(made)
            made.seconds[title] = round(monotonic() - began, 1)
    finally:
        if made.spark is not None:
            made.spark.stop()
    made.result |= {"failures": made.failures, "seconds": made.seconds}
    write_json(json_file, made.result)
    if made.failures:
        for failure in made.failures:
            made.console.print(f"FAILED: {failure}")
        finish(1)


def open_the_shop(made: Demo) -> None:
    """Record a day of the shop: what every program sends and delivers, and what reaches the ledger in which order."""
    from thence.cli.demo_shop import record

    with working("Recording a day of the shop"):
        events, rows = record(made.out, made.orders, made.seed)
    made.say(
        f"Web, billing, depot and ledger handle {made.orders:,} orders. {rows:,} messages reach the ledger, as soon "
        f"as the network has carried each; one order is lost on the way. Recorded: {events:,} events."
    )
    made.result["shop"] = {"orders": made.orders, "events": events, "arrivals": rows}


def what_went_wrong(made: Demo) -> None:
    """Audit the day on Spark: count, one proof, the page."""
    from thence.cli._pages import recorded, write_pages
    from thence.cli.audit import audited
    from thence.show.page import Wanted
    from thence.show.results_page import Links, Section, Words
    from thence.tables.files.read import open_trace
    from thence.tables.judge.explain import explanation

    made.session()
    opened = open_trace([str(made.out / "shop.parquet")])
    with audited(opened, "spark", made.cores) as (result, choice):
        (run,) = result.run_rows
        count = run["violations"]
        sentence = made.say(
            f"The audit on Spark: {result.verdict}. {count:,} messages came before their cause. One of them:"
        )
        drawn = explanation(result, 1)
        made.console.print(drawn)
        wanted = Wanted(violation=1)
        pages = write_pages(
            recorded(opened, result, choice, wanted, "what went wrong", cores=made.cores, paths=1),
            wanted,
            made.out / "violation.html",
        )
    made.expect(run["verdict"] == "violated", f"the shop's day is {run['verdict']}")
    links = Links([("this violation, event by event", pages[0][0].name)])
    made.sections.append(Section("What went wrong", [Words(sentence), Words(drawn, plain=True), links]))
    made.result["audit"] = {"verdict": run["verdict"], "violations": count, "events": run["events"]}


def deliver_the_batch(made: Demo) -> None:
    """Put the ledger's messages into causal order as a batch, and show what was held and for how long."""
    from thence.cli.demo_shop import KEY, bars, bars_picture
    from thence.show.results_page import Picture, Section, Words
    from thence.spark import deliver

    arrivals = made.session().read.parquet(str(made.out / "arrivals.parquet"))
    with working("Delivering the batch"):
        began = monotonic()
        ordered = deliver(arrivals, id="event", causes="parent", key=KEY)
        ordered.write.mode("overwrite").parquet(str(made.out / "ordered"))
        took = monotonic() - began
        began = monotonic()
        plain = arrivals.repartition(KEY).sortWithinPartitions(KEY, "arrival")
        plain.write.mode("overwrite").parquet(str(made.out / "sorted"))
        alone = monotonic() - began
    written = made.session().read.parquet(str(made.out / "ordered"))
    counts = _outcomes(written)
    held = [float(row["held_seconds"]) for row in written.where("held_for > 0 and position is not null").collect()]
    sentence = made.say(
        f"thence.spark.deliver(arrivals, id='event', causes='parent', key='{KEY}'): {_listed(counts)}. "
        f"{len(held):,} rows were held until their cause was there:"
    )
    bins = bars(held)
    for name, count in bins.items():
        made.console.print(f"  {name:>14} {'█' * round(40 * count / max(1, *bins.values()))} {count:,}")
    made.expect(early(written) == 0, "a delivered row came before its cause")
    made.expect(counts.get("blocked") == 2, f"rows blocked by the lost order: {counts.get('blocked')}, not 2")
    picture = Picture(bars_picture(bins), "How long rows were held, in seconds of the shop's time")
    made.sections.append(Section("Delivered in causal order", [Words(sentence), picture]))
    made.result["batch"] = {"outcomes": counts, "held": len(held), "seconds": took, "sorted by arrival": alone}


def early(ordered: DataFrame) -> int:
    """Count delivered rows whose cause has a later position or none."""
    from thence.cli.demo_shop import KEY

    placed = ordered.where("outcome = 'delivered'").select(KEY, "event", "parent", "position")
    causes = placed.select(KEY, placed["event"].alias("parent"), placed["position"].alias("before"))
    joined = placed.where("parent is not null").join(causes, [KEY, "parent"], "left")
    return joined.where("before is null or before > position").count()


def deliver_the_stream(made: Demo) -> None:
    """The same rows as a stream in four files; the lost cause is named, and given up."""
    from thence.cli.demo_shop import KEY, cut
    from thence.show.results_page import Section, Words
    from thence.spark import deliver, waiting
    from thence.tables.engines.spark.give_up import give_up

    session, checkpoint, target = made.session(), made.out / "checkpoint", str(made.out / "streamed")
    schema = cut(made.out, parts=4)

    def run() -> dict[str, int]:
        read = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        ordered = deliver(
            read.parquet(str(made.out / "incoming")),
            id="event", causes="parent", key=KEY, give_up=checkpoint / "give-up",
        )  # fmt: skip
        sink = ordered.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        sink.trigger(availableNow=True).start(target).awaitTermination()
        return _outcomes(session.read.parquet(target))

    with working("Delivering the stream"):
        before = run()
        held = [row.asDict() for row in waiting(session, checkpoint).collect()]
    blocker = held[0]["blocker"] if held else None
    first = made.say(
        f"In four micro-batches: {_listed(before)}. {len(held)} rows wait, all for {blocker}, which is lost."
    )
    with working("Giving the lost cause up"):
        give_up(session, checkpoint, blocker, None, None)
        after = run()
    second = made.say(
        f"thence give-up checkpoint {blocker}: {_listed(after)}. The released row names what it went without."
    )
    batch = made.result["batch"]["outcomes"]
    made.expect(
        before.get("delivered") == batch.get("delivered"), "batch and stream delivered different numbers of rows"
    )
    made.expect({row["blocker"] for row in held} == {blocker} and len(held) == 2, "the lost order is not the only root")
    made.expect(after.get("released", 0) >= 1, "nothing was released")
    made.sections.append(Section("As a stream; a lost cause", [Words(first), Words(second)]))
    made.result["stream"] = {"before": before, "waiting": len(held), "blocker": blocker, "after": after}


def live_trio(made: Demo) -> None:
    """Three processes talk through endpoints; billing is killed in the middle and comes back."""
    from thence.cli.demo_live import trio
    from thence.show.results_page import Section, Words

    with working("Three processes, one is killed"):
        found = trio(made.out / "live", orders=200)
    sentence = made.say(
        f"Web, billing and ledger as three processes: {found['orders']} orders, billing killed with kill -9 after "
        f"{found['killed after']} payments and started again. The ledger received {found['received']} messages, "
        f"{found['twice']} twice, {found['early']} before their cause; the audit of their records: {found['verdict']}."
    )
    made.expect(found["early"] == 0 and found["twice"] == 0, "the live ledger received a message early or twice")
    made.expect(found["received"] == 2 * found["orders"], "the live ledger lacks messages")
    made.expect(found["verdict"] == "causal", f"the live trio is {found['verdict']}")
    made.sections.append(Section("Live, one of three killed", [Words(sentence)]))
    made.result["live"] = found


def what_it_cost(made: Demo) -> None:
    """The price of order: the batch beside a plain sort, and six protocols on the same traffic."""
    from thence.cli.simulate import print_table
    from thence.core.protocols.registry import FOR_USE
    from thence.lab.simulator import Scenario, simulate
    from thence.show.results_page import Section, Words
    from thence.show.simulation import costs_table
    from thence.tables.costing import profile, recommend, replay

    batch = made.result["batch"]
    ratio = batch["seconds"] / batch["sorted by arrival"]
    first = made.say(
        f"On Spark the batch took {batch['seconds']:.1f} s, a shuffle and sort of the same rows "
        f"{batch['sorted by arrival']:.1f} s: {ratio:.1f} times (first run of a fresh session)."
    )
    run = simulate(Scenario(protocol="ks", processes=6, messages=150, seed=made.seed, run="ks"), trace=True)
    events, roster = run.events, run.scenario.roster
    costs = {name: replay(events, name, roster) for name in FOR_USE}
    choice = recommend(profile(events, roster).findings, costs)
    priced = costs_table(list(costs.values()), choice)
    print_table(priced, made.console)
    second = made.say(f"Of the protocols for use, on six processes that send to any others: {choice.advice}.")
    made.sections.append(Section("What it cost", [Words(first), priced, Words(second)]))
    made.result["cost"] = {"ratio": round(ratio, 2), "recommended": choice.row()}


def write_page(made: Demo) -> None:
    """Write what was shown as one HTML page."""
    from thence.show.results_page import page

    target = made.out / "index.html"
    lead = f"A shop whose payments overtake their orders: {made.orders:,} orders, seed {made.seed}."
    target.write_text(page("thence demo", made.sections, lead=lead), encoding="utf-8")
    made.console.print(f"Open {target}.")


def _outcomes(ordered: DataFrame) -> dict[str, int]:
    return {row["outcome"]: row["count"] for row in ordered.groupBy("outcome").count().orderBy("outcome").collect()}


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items())


STEPS: tuple[tuple[str, Callable[[Demo], None]], ...] = (
    ("A shop", open_the_shop),
    ("What went wrong", what_went_wrong),
    ("Delivered in causal order, as a batch", deliver_the_batch),
    ("Delivered as a stream; a cause is lost", deliver_the_stream),
    ("Live: three processes, one is killed", live_trio),
    ("What it cost", what_it_cost),
    ("The page", write_page),
)
