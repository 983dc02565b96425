"""Genuine fifo and causal multicast: table 1 (latency in steps) and the properties under crashes.

Executions with crashes are random (`lab/explorer/random_walk.py`): who crashes, when, what is lost and what the failure
detector says are drawn against the protocol, and the record is judged by definition. The protocols are those of the
paper with the repairs of errata 18 to 20; the printed form of A_causal stands beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from thence.core.model.plain import Row
from thence.core.protocols.effects import Deliver, Sent, Transmit
from thence.core.protocols.registry import create
from thence.lab.explorer.random_walk import RandomWalk, walk
from thence.lab.explorer.setting import Setting
from thence.lab.papers.claims import Claim, ClaimJudgement, DataRows, DataSets, NoDataError, found
from thence.lab.papers.estimates import rows_with, total
from thence.lab.papers.lower_bound import possible_views, spared, undecided
from thence.lab.papers.paper import Drawing, Paper, Scale
from thence.lab.papers.variants import setting_of
from thence.lab.simulator import Scenario, simulate
from thence.tables.result_table import Cell, ResultTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GENUINE_PROTOCOLS = {"A_fifo": "a-fifo", "A_causal": "a-causal"}
RELIABLE_PROTOCOLS = {"RST [14]": "rst", "KS [9]": "ks", "acknowledged unicast [12]": "acked"}
"""rows of table 1 that need a reliable network: one step, and no agreement after a crash"""
LAYOUTS = ((4, ""), (5, "ab|cd|e"), (6, "abc|def"), (4, "a|bc|d"))
DETECTOR_DELAYS = (0.1, 0.4, 0.7)
PROPERTIES = {
    "integrity": "uniform integrity: delivered at most once, only if addressed and sent",
    "validity": "validity: what a correct process sends is delivered",
    "agreement": "uniform agreement: what any process delivers, every correct addressee delivers",
    "order": "uniform fifo order (A_fifo), uniform causal order (A_causal)",
    "genuineness": "genuine: only sender and addressees take part",
}
"""what the paper says of each"""
ENOUGH_CRASHES = 20
"""crashes, or nothing was shown"""
UNICAST = {"one other": 0b000010}
ADDRESSED = {"own group": 0b000011, "two groups, own among them": 0b001111, "others only": 0b111100}


def measure(scale: Scale) -> dict[str, DataRows]:
    """Count steps of isolated messages, and what goes wrong under crashes."""
    seeds = scale.seeds(4, 40, 400)
    many = range(scale.seed, scale.seed + scale.pick(150, 400, 2000))
    return {
        "steps": [
            {"protocol": name, "addressed": text, "steps": steps(protocol, mask)}
            for name, protocol in GENUINE_PROTOCOLS.items() for text, mask in ADDRESSED.items()
        ],
        "others": [
            {"protocol": name, "addressed": text, "steps": steps(protocol, mask)}
            for name, protocol in RELIABLE_PROTOCOLS.items()
            for text, mask in (UNICAST if protocol == "acked" else ADDRESSED).items()
        ],
        "lower bound": [
            _views(n, f, mask)
            for n, f in ((3, 2), (4, 2), (4, 3)) for mask in range(1 << n) if mask.bit_count() >= 2
        ],
        "crashes": [
            _crashes(name, protocol, n, groups, seeds)
            for name, protocol in GENUINE_PROTOCOLS.items() for n, groups in LAYOUTS
        ],
        "printed": [{"protocol": "a-causal-printed"} | _counts([_printed(seed) for seed in many])],
        "one step": [_one_step(protocol, seed) for protocol in ("ks", "a-causal") for seed in seeds],
    }  # fmt: skip


def steps(protocol: str, destinations: int) -> int:
    """Send one message of process 0 among six in three groups and nothing else; return the most steps to a delivery."""
    groups = {"groups": "ab|cd|ef"} if protocol in GENUINE_PROTOCOLS.values() else {}
    members = [create(protocol, "abcdef", p, **groups) for p in range(6)]
    sent = members[0].send(destinations)
    assert isinstance(sent, Sent)
    depth, most, left = [0] * 6, 0, destinations.bit_count()
    flight = [(copy, 1) for copy in sent.copies]
    while flight:
        copy, taken = flight.pop(0)
        here = copy.destination
        depth[here] = max(depth[here], taken)
        for effect in members[here].receive(copy):
            if isinstance(effect, Transmit):
                flight += [(passed, depth[here] + 1) for passed in effect.copies]
            elif isinstance(effect, Deliver):
                most, left = max(most, depth[here]), left - 1
    assert left == 0, f"{protocol} did not deliver everywhere"
    return most


def _crashes(name: str, protocol: str, n: int, groups: str, seeds: list[int]) -> Row:
    setting = Setting(protocol, n, 8, "any", groups=groups, crashes=n - 1)
    runs = [walk(setting, seed, patience=patience) for seed in seeds for patience in DETECTOR_DELAYS]
    return {"protocol": name, "processes": n, "groups": groups or "one each"} | _counts(runs)


def _printed(seed: int) -> RandomWalk:
    setting = setting_of("a-causal-printed", 3, 14, crashes=1)
    return walk(setting, seed, patience=DETECTOR_DELAYS[seed % len(DETECTOR_DELAYS)])


def _counts(runs: list[RandomWalk]) -> Row:
    row: Row = {"executions": len(runs), "crashes": sum(run.faulty.bit_count() for run in runs)}
    broken = [{property_of(problem) for problem in run.problems()} for run in runs]
    return row | {name: sum(name in each for each in broken) for name in PROPERTIES}


def property_of(problem: str) -> str:
    """Return which property a problem is about, from the word it begins with; an order is broken without one."""
    word = problem.partition(":")[0]
    return {"genuine": "genuineness", "quarantined": "integrity"}.get(word, word if word in PROPERTIES else "order")


def _views(n: int, f: int, destinations: int) -> Row:
    """Count the views at which an addressee could deliver in the round itself, and those where that breaks nothing."""
    views, left = possible_views(n, f, destinations), undecided(n, f, destinations)
    others = {view for view in views if not spared(view, n, f, destinations)}
    row = {"n": n, "crashes": f, "destinations": destinations}
    return row | {
        "views": len(views),
        "views left": len(left),
        "others": len(others),
        "others left": len(others & left),
    }


def _one_step(protocol: str, seed: int) -> Row:
    """Crash one of six; count the messages that one process delivers and another, correct one never does."""
    options = (("groups", "ab|cd|ef"),) if protocol == "a-causal" else ()
    scenario = Scenario(protocol, 6, 60, crashes=1, options=options, seed=seed)
    result = simulate(scenario, measure=False, trace=True)
    anywhere = {event.message for event in result.events if event.kind == "deliver"}
    verdict = result.judge()
    lost = [c for c in verdict.undelivered if c.destination not in result.outcome.crashed and c.message in anywhere]
    return {"protocol": protocol, "seed": seed, "steps": 1 if protocol == "ks" else 2, "disagreements": len(lost)}


# -- claims ----------------------------------------------------------------------------------------------------------


def _latency(name: str, published: int = 2) -> Callable[[DataSets], ClaimJudgement]:
    def judge(data: DataSets) -> ClaimJudgement:
        rows = rows_with([*data["steps"], *data["others"]], protocol=name)
        return found(
            [row["steps"] == published for row in rows], ", ".join(f"{r['addressed']}: {r['steps']}" for r in rows)
        )

    return judge


def _open(data: DataSets) -> ClaimJudgement:
    rows = rows_with(data["steps"], addressed="others only")
    return found([row["steps"] > 0 for row in rows], "delivered to groups that the sender is not a member of")


def _no_round(kind: str) -> Callable[[DataSets], ClaimJudgement]:
    def judge(data: DataSets) -> ClaimJudgement:
        rows = data["lower bound"]
        tried, left = total(rows, kind), total(rows, f"{kind} left")
        return found([left == 0], f"delivering at {tried - left} of {tried} views breaks agreement in some round")

    return judge


def _holds(data_set: str, *names: str) -> Callable[[DataSets], ClaimJudgement]:
    def judge(data: DataSets) -> ClaimJudgement:
        rows = data[data_set]
        executions, crashes = total(rows, "executions"), total(rows, "crashes")
        broken = sum(total(rows, name) for name in names)
        text = f"broken in {broken} of {executions} executions with {crashes} crashes"
        return found([False if broken else True if crashes >= ENOUGH_CRASHES else None], text)

    return judge


def _optimal(data: DataSets) -> ClaimJudgement:
    one, two = ([row["disagreements"] for row in rows_with(data["one step"], protocol=p)] for p in ("ks", "a-causal"))
    if not one or not two:
        raise NoDataError("one step and two")
    text = (
        f"{sum(map(bool, one))} of {len(one)} runs disagree with one step, {sum(map(bool, two))} of {len(two)} with two"
    )
    return found([False if sum(two) else True if sum(one) else None], text)


NONE = f"no execution breaks it; differs if one does; at least {ENOUGH_CRASHES} crashes must have happened"
CLAIMS = (
    *(
        Claim(f"latency-{protocol}", f"table 1, {name}", "best-case latency: 2 steps",
            "an isolated message to two or more takes exactly 2 steps to every addressee, whichever they are",
            _latency(name))
        for name, protocol in GENUINE_PROTOCOLS.items()
    ),
    *(
        Claim(f"latency-{protocol}", f"table 1, {name}", "latency: 1 step, on a reliable network",
            "an isolated message takes exactly 1 step to every addressee, whichever are addressed", _latency(name, 1))
        for name, protocol in RELIABLE_PROTOCOLS.items()
    ),
    Claim("lower-bound", "proposition 6.1",
        "with f >= 2 nothing is delivered at the end of the round in which it was multicast",
        "for n = 3 and 4, all addressees, every view: delivering there breaks agreement in some round (erratum 29)",
        _no_round("views")),
    Claim("lower-bound-repaired", "proposition 6.1, repaired",
        "nothing is delivered so by another process that misses at most f - 2 and has heard from a third addressee",
        "the same, for these views", _no_round("others")),
    Claim("open-group", "table 1", "open group: the sender need not be a member of what it addresses",
        "messages to others only are delivered", _open),
    Claim("optimal", "section 6", "two steps are optimal where crashes lose messages",
        "with one crash, one step (ks) loses agreement in some run, two (A_causal) in none; shown, not proved",
        _optimal),
    *(
        Claim(name, "sections 4, 5", published,
            f"with the repairs of errata 18 to 20: {NONE}", _holds("crashes", name))
        for name, published in PROPERTIES.items()
    ),
    Claim("a-causal-printed", "section 5", "A_causal as printed: validity and uniform agreement", NONE,
        _holds("printed", "validity", "agreement")),
)  # fmt: skip


# -- shown -----------------------------------------------------------------------------------------------------------


def _table_1(data: DataSets) -> list[tuple[Row, int]]:
    """Return the rows of table 1 that are run here, with the published steps."""
    return [(row, 2) for row in data["steps"]] + [(row, 1) for row in data["others"]]


def tables(data: DataSets) -> list[ResultTable]:
    """Return the steps, and what crashes broke."""
    latency = tuple((row["protocol"], row["addressed"], published, row["steps"]) for row, published in _table_1(data))
    crashed = tuple(_line(row) for row in [*data["crashes"], *data["printed"]])
    return [
        ResultTable("Table 1: steps of an isolated message", ("algorithm", "addressed", "published", "ours"), latency,
              "Six processes in groups ab, cd, ef; a sends. To a group of one, one step is enough: no other has to "
              "agree. With the repair of erratum 20, back-to-back sends to different groups take four steps."),
        ResultTable("Random executions with crashes: how many break a property",
              ("algorithm", "n", "groups", "executions", "crashes", *PROPERTIES), crashed,
              "The last line is the form as printed, with one crash among three processes (erratum 20)."),
    ]  # fmt: skip


def _line(row: Row) -> tuple[Cell, ...]:
    shape = (row.get("processes", 3), row.get("groups", "one each"))
    return (row["protocol"], *shape, row["executions"], row["crashes"], *(row[name] for name in PROPERTIES))


def plots(data: DataSets, draw: Drawing) -> dict[str, Figure]:
    """Return steps, published beside ours, and broken agreements with one step and two."""
    rows = _table_1(data)
    drawn, (left, right) = draw.figure(10.0, 1.2 + 0.32 * max(6, len(rows)), columns=2)
    places = list(range(len(rows)))
    left.barh([p - 0.2 for p in places], [published for _, published in rows], 0.4, color=draw.GREY, label="published")
    left.barh([p + 0.2 for p in places], [row["steps"] for row, _ in rows], 0.4, color=draw.COLORS[0], label="ours")
    left.set_yticks(places, [f"{row['protocol']}: {row['addressed']}" for row, _ in rows], fontsize=8)
    left.set_xlabel("steps of an isolated message")
    left.set_xticks([0, 1, 2])
    left.invert_yaxis()
    draw.legend(drawn, left)
    shown = {"ks, one step": "ks", "A_causal, two steps": "a-causal"}
    part = [rows_with(data["one step"], protocol=p) for p in shown.values()]
    right.bar(list(shown), [100.0 * sum(bool(r["disagreements"]) for r in rows) / max(1, len(rows)) for rows in part],
              0.5, color=[draw.COLORS[1], draw.COLORS[0]])  # fmt: skip
    right.set_ylabel("runs that disagree after a crash, %")
    return {"genuine-table-1": drawn}


PAPER = Paper(
    "genuine",
    "Genuine fifo and causal multicast",
    (
        "The failure detector is accurate in each group (erratum 18); read literally, agreement fails.",
        "The lower bound is tried in the paper's round model, for 3 and 4 processes (lab/papers/lower_bound.py).",
    ),
    CLAIMS,
    tables,
    plots,
    measure=measure,
)
