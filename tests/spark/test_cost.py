"""The cost on Spark is that of the plain replay, run by run and label by label; and the command tells it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from thence import cli
from thence.core.model.events import Event, parse
from thence.core.model.order import by_label, judge
from thence.core.model.roster import Roster
from thence.errors import MisuseError
from thence.lab.simulator import Scenario, simulate
from thence.tables.contract.row_validity import row_of
from thence.tables.contract.spark_to_arrow_types import arrow_schema
from thence.tables.costing import prefix, profile, recommend, replay_run
from thence.tables.costing.recommend import together, total_cost
from thence.tables.costing.replay import Cost
from thence.tables.costing.traffic import Hidden
from thence.tables.engines.spark.cost import cost
from thence.tables.files.jsonl import write_jsonl
from thence.tables.files.parquet import write_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ["ks", "rst", "bss", "acked", "serial-multicast", "central"]


def recorded(**what: Any) -> list[Event]:
    result = simulate(Scenario(**what), trace=True, measure=False)
    assert result.recorder is not None
    return result.recorder.events


def runs() -> dict[str, list[Event]]:
    """Causal runs, with labels and with hops; one that is violated; gaps, also where a message was never delivered."""
    found = {
        "plain": recorded(processes=5, messages=120, seed=4, run="plain"),
        "labels": recorded(processes=4, messages=240, labels=2, seed=5, run="labels"),
        "relayed": recorded(protocol="central", processes=4, messages=120, fanout="unicast", seed=6, run="relayed"),
        "violated": recorded(protocol="unordered", processes=5, messages=120, delay="exponential:1", run="violated"),
        "gap": [e for e in parse("a!1>b b. b?a1 a. a!2>b b?a2", run="gap") if e.kind != "internal" or e.process == "a"],
        "never": [e for e in parse("a!1>bc c. a!2>c c?a2 b?a1", run="never") if e.kind != "internal"],
        "late": [e for e in parse("a!1>bc c. a!2>c c?a2 c?a1 b?a1", run="late") if e.kind != "internal"],
    }
    return found


GAPS = {"gap": {"b": 1}, "never": {"c": 1}, "late": {"c": 1}}


def frame(spark: SparkSession, events: list[Event], *, order: bool = True) -> Any:
    table = pa.Table.from_pylist([row_of(event) for event in events], schema=arrow_schema())
    return spark.createDataFrame(table if order else table.drop_columns(["order"]))


def parts(events: dict[str, list[Event]], sample: int) -> dict[tuple[str, str | None], tuple[list[Event], Roster]]:
    """Return what a replay of each run and label gets to see."""
    found = {}
    for run, rows in events.items():
        rows = [event for event in rows if event.run == run]  # hops left out
        names = sorted({e.process for e in rows} | {d for e in rows for d in e.destinations or ()})
        for label, some in by_label(rows).items():
            found[run, label] = (prefix(some, sample)[0], Roster(names))
    return found


def as_cost(row: dict[str, Any]) -> Cost:
    return Cost(**{name: row[name] for name in Cost.__slots__})


@pytest.mark.parametrize(("sample", "order"), [(200_000, True), (50, True), (50, False)])
def test_costs_and_profiles_are_those_of_the_plain_replay(spark: SparkSession, sample: int, order: bool) -> None:
    events = runs()
    wanted = parts(events, sample)
    with cost(frame(spark, [e for rows in events.values() for e in rows], order=order), NAMES, sample=sample) as result:
        costs = {(r["run"], r["label"], r["protocol"]): as_cost(r.asDict()) for r in result.costs.collect()}
        profiles = {(r["run"], r["label"]): r.asDict(recursive=True) for r in result.runs.collect()}
        chosen = result.recommendation
    assert profiles.keys() == wanted.keys()
    expected = {
        (*key, name): replay_run(rows, name, roster) for key, (rows, roster) in wanted.items() for name in NAMES
    }
    assert costs == expected
    for key, (rows, roster) in wanted.items():
        gaps = GAPS.get(key[0], {})
        hidden = Hidden(gaps, 0, len(gaps), "1 processes leave out an index" if gaps else None)
        total_deliveries = sum(e.kind == "deliver" and e.label == key[1] for e in events[key[0]])
        plain = profile(rows, roster, hidden=hidden, sampled=total_deliveries > sample).row()
        said = profiles[key]
        assert {name: said[name] for name in plain} == plain
        assert said["recorded"] == total_deliveries
    causal = sorted((k for k in wanted if profiles[k]["verdict"] == "causal"), key=lambda k: (k[0], k[1] or ""))
    assert {key[0] for key in wanted if key not in causal} == {"violated", *GAPS}
    assert (
        {run: profiles[run, None]["verdict"] for run in GAPS}
        == {run: judge(events[run]).verdict for run in GAPS}
        == {"gap": "unknown", "never": "unknown", "late": "violated"}
    )
    assert chosen == recommend(
        together(profile(*wanted[key]).findings for key in causal),
        {name: total_cost(expected[(*key, name)] for key in causal) for name in NAMES},
    )
    assert (chosen.protocol is None) == (sample == 50), "nothing is recommended from 50 deliveries of each run"


def test_columns_may_have_other_names(spark: SparkSession) -> None:
    events = frame(spark, next(iter(runs().values())))
    with cost(events, ["ks"]) as ours:
        expected = ours.costs.collect()
    renamed = events.withColumnsRenamed({"process": "pid", "label": "colour"})
    with cost(renamed, ["ks"], columns={"process": "pid", "label": "colour"}) as theirs:
        assert theirs.costs.collect() == expected
    with pytest.raises(MisuseError, match="columns names 'pid'"):
        cost(events, ["ks"], columns={"process": "pid"})


def test_both_engines_write_the_same_report(spark: SparkSession, tmp_path: Path) -> None:
    """The same files, once in this process and once on Spark: one JSON."""
    events = runs()
    lines, table = tmp_path / "trace.jsonl", tmp_path / "trace.parquet"
    write_jsonl([e for run in ("plain", "labels", "relayed") for e in events[run]], lines)
    with lines.open("ab") as stream:
        stream.write(b'{"run": 7}\n')
    write_parquet([e for run in ("violated", "gap") for e in events[run]], table)
    reports = {}
    for engine in ("local", "spark"):
        said = tmp_path / f"{engine}.json"
        arguments = ["cost", str(lines), str(table), "--protocols", "ks,rst,bss", "--sample", "100", "--quiet"]
        assert cli.main([*arguments, "--engine", engine, "--json", str(said)]) == 1
        reports[engine] = json.loads(said.read_text())
        assert reports[engine].pop("engine") == engine
    assert reports["local"] == reports["spark"]
