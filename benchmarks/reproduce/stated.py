"""Figures that stand in the middle of a sentence, taken from results or from the code that they speak of.

    python benchmarks/reproduce/stated.py            write them anew
    python benchmarks/reproduce/stated.py --check    say whether they are current (exit code 1 if not)

*Invariant.*
A sentence of `SENTENCES` stands once in its page, whatever its line breaks, with every figure that its function
gives. What a page says beyond that in figures is a definition (2n², B), a number of a section or an erratum, or what a
reader types.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from measured import MEASURED
from measured_scale import SCALE
from pages import result
from prose import claims, numbers
from sentence import Figures, Sentence, current

from thence.lab.papers.paper import Scale
from thence.lab.papers.separators_runs import messages_of, seeds_of

ROOT = Path(__file__).parents[2]


def costing() -> Figures:
    from thence.tables.costing.recommend import GROWTH, MARGIN
    from thence.tables.costing.replay import ENOUGH, LOOK
    from thence.tables.engines.local.cost import SAMPLED

    shares = {"growth": round(100 * GROWTH), "margin": round(100 * MARGIN)}
    return {"sample": f"{SAMPLED:,}", "look": LOOK, "enough": ENOUGH} | shares


@cache
def first_exploration() -> Figures:
    from thence.lab.explorer.search import explore
    from thence.lab.explorer.setting import Setting

    setting = Setting("ks", 3, 4)
    found = explore(setting)
    assert found.complete
    size = {"processes": setting.processes, "messages": setting.messages, "changes": setting.changes}
    return size | {"states": found.states, "executions": found.executions, "depth": found.depth}


def drawn() -> Figures:
    from thence.lab.explorer.graph import MOST_STATES

    return {"most": f"{MOST_STATES:,}"}


def scales() -> Figures:
    """The counts of each level, from the runs that they make for n = 50."""
    from thence.lab.papers import ci_dc_runs, separators_runs
    from thence.lab.papers.paper import Scale

    made: Figures = {}
    for level in ("default", "full"):
        scale = Scale(level, (50,))
        runs = [each.scenario for each in ci_dc_runs.grid(scale).scenarios]
        main = [run for run in runs if run.protocol == "prs" and run.delay == ci_dc_runs.DELAY and not run.fifo]
        seeds = {run.seed for run in main}
        multi, uni = (max(run.messages for run in main if run.fanout == fanout) for fanout in ("uniform", "unicast"))
        made |= {f"{level}-seeds": len(seeds), f"{level}-multi": multi // 50, f"{level}-uni": uni // 50**2}
        made |= {f"{level}-received": f"{uni // 50:,}"}
        made |= {
            f"{level}-chapter": separators_runs.messages_of(scale),
            f"{level}-again": len(separators_runs.seeds_of(scale)),
        }
    return made


def long_runs() -> Figures:
    return {"messages": f"{result('multicast/results/multicast.json')['messages']:,}"}


def chapter_7() -> Figures:
    return {"messages": messages_of(Scale()), "seeds": len(seeds_of(Scale()))}


def least() -> Figures:
    found = result("multicast/results/multicast.json")
    groups, ours, matrix = found["groups"], found["stamps"]["ks-ft"], found["stamps"]["a-causal"]
    assert len(set(groups)) == 1
    return {
        "groups": len(groups), "of": groups[0],
        "entries": ours["entries"], "facts": ours["group facts"], "bytes": ours["bytes"],
        "numbers": matrix["entries"], "all": matrix["bytes"],
    }  # fmt: skip


def carried() -> Figures:
    found = result("multicast/results/multicast.json")["a-causal-carry"]
    assert found["failed"] == 0
    return {
        "runs": found["runs"], "mean": f"{found['carried']:.1f}", "most": found["carried at most"],
        "longest": found["longest run"], "outsiders": found["with outsiders"],
    }  # fmt: skip


def modulo() -> Figures:
    return dict(result("multicast/results/multicast.json")["a-fifo-modulo"])


def printed() -> Figures:
    broken, of = numbers(claims()["genuine"]["a-causal-printed"]["ours"])[:2]
    return {"broken": broken, "of": of}


def limits() -> Figures:
    from thence.live.config import Limits
    from thence.live.core import HELD_LIMIT, LABEL_LIMIT
    from thence.live.process import INBOX_LIMIT, SNAPSHOT_EVERY

    known = Limits()
    return {
        "payload": known.payload_bytes >> 20, "credit": known.credit_bytes >> 20, "outbox": f"{known.outbox_items:,}",
        "journal": known.journal_bytes >> 30, "record": known.record_bytes >> 30,
        "transaction": f"{known.transaction_seconds:g}", "handshake": f"{known.handshake_seconds:g}",
        "stop": f"{known.stop_seconds:g}", "heartbeat": f"{known.heartbeat_seconds:g}",
        "suspect": f"{known.suspect_after:g}", "silence": f"{known.silence_seconds:g}",
        "held": f"{HELD_LIMIT:,}", "inbox": f"{INBOX_LIMIT:,}",
        "labels": f"{LABEL_LIMIT:,}", "every": f"{SNAPSHOT_EVERY:,}",
    }  # fmt: skip


GENUINE = "explanation/paper-genuine-multicast.md"
SENTENCES = (
    *MEASURED,
    *SCALE,
    Sentence("reference/live-configuration.md", "| `payload_bytes` | {payload} MiB |", limits),
    Sentence("reference/live-configuration.md", "| `credit_bytes` | {credit} MiB |", limits),
    Sentence("reference/live-configuration.md", "| `outbox_items` | {outbox} |", limits),
    Sentence("reference/live-configuration.md", "| `journal_bytes` | {journal} GiB |", limits),
    Sentence("reference/live-configuration.md", "| `record_bytes` | {record} GiB |", limits),
    Sentence("reference/live-configuration.md", "| `transaction_seconds` | {transaction} |", limits),
    Sentence("reference/live-configuration.md", "| `handshake_seconds` | {handshake} |", limits),
    Sentence("reference/live-configuration.md", "| `stop_seconds` | {stop} |", limits),
    Sentence(
        "reference/live-configuration.md", "| `heartbeat_seconds`, `silence_seconds` | {heartbeat}, {silence} |", limits
    ),
    Sentence("reference/live-configuration.md", "| `suspect_after` | {suspect} |", limits),
    Sentence("reference/live-configuration.md", "Held messages ({held}), labels ({labels}) and", limits),
    Sentence("reference/live-configuration.md", "the inbox ({inbox} not done)", limits),
    Sentence("how-to/live-endpoints.md", "A snapshot is taken every {every} inputs", limits),
    Sentence("laboratory/cost.md", "Above `--sample` deliveries ({sample} unless you say otherwise)", costing),
    Sentence("laboratory/cost.md", "at every {look}th delivery, at the end", costing),
    Sentence("laboratory/cost.md", "the trace has fewer than {enough} messages", costing),
    Sentence("laboratory/cost.md", "more than {margin} % of the", costing),
    Sentence("laboratory/cost.md", "with fewer than {enough} messages or deliveries, in which", costing),
    Sentence("laboratory/cost.md", "both more than {growth} % higher in the last quarter", costing),
    Sentence("laboratory/cost.md", "Among protocols within {margin} % of the cheapest", costing),
    Sentence(
        "laboratory/explore.md",
        "covered: all of it; {states} states, {executions} executions, depth {depth}",
        first_exploration,
    ),
    Sentence(
        "laboratory/explore.md", "system: {processes} processes, up to {messages} messages (unicast)", first_exploration
    ),
    Sentence("laboratory/explore.md", "`--changes` of them ({changes} by default)", first_exploration),
    Sentence("laboratory/explore.md", "a system of at most {most} states", drawn),
    Sentence(
        "laboratory/reproduce.md",
        "{default-multi} messages a process (multicast), {default-uni} n² (unicast), {default-seeds} seeds; "
        "{default-chapter} messages and {default-again} seeds for separators",
        scales,
    ),
    Sentence(
        "laboratory/reproduce.md",
        "each process receives {full-received} messages, {full-seeds} runs; {full-chapter} messages and {full-again} "
        "seeds for separators",
        scales,
    ),
    Sentence(
        GENUINE,
        "With {groups} groups of {of} and messages to one group each, stamps hold {entries} entries with {facts} facts "
        "about groups, {bytes} bytes in all, where the matrix has {numbers} numbers in {all} bytes",
        least,
    ),
    Sentence(GENUINE, "({messages} messages, six processes in three groups", long_runs),
    Sentence("explanation/paper-separators.md", "{messages} messages and {seeds} seeds for each cell", chapter_7),
    Sentence(GENUINE, "no failure in {runs} random executions with up to two crashes", carried),
    Sentence(GENUINE, "({mean} carried messages on the mean, up to {most}, in runs of at most {longest})", carried),
    Sentence(GENUINE, "(in {outsiders} of {runs} runs)", carried),
    Sentence(GENUINE, "breaks integrity or validity in {failed} of {runs} random executions", modulo),
    Sentence(GENUINE, "The printed A_causal fails in {broken} of {of} such executions", printed),
)


def main() -> None:
    """Write or check every sentence."""
    for sentence in SENTENCES:
        path = ROOT / "docs" / sentence.page
        page = path.read_text(encoding="utf-8")
        wanted = current(sentence, page)
        if "--check" in sys.argv and wanted != page:
            sys.exit(f"docs/{sentence.page} is not what the results say: {sentence.text}")
        if wanted != page:
            path.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
