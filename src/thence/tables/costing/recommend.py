"""The recommended protocol: the cheapest whose needs the trace meets, with reasons against the others.

Invariant: a protocol can be recommended if it guarantees causal order, the trace shows that every one of its needs is
met, its replay was measured, and it adds no waiting: no send is deferred, and no more copies are held, nor left over at
the end, than under the protocols that wait for causes only.

They are ranked by the bytes for each message, over all copies and protocol messages, in the *second half* of each run:
the first half is warm-up, in which stamps fill. A protocol whose bytes and entries a copy in the last quarter are both
above those of the quarter before by more than `GROWTH` still grows, and what it will cost is not known; bytes alone
grow with the width of numbers, in every protocol. So nothing is recommended if more than `MARGIN` of the messages are
in runs and labels with fewer than `ENOUGH` messages or deliveries, however long the others are, nor while a protocol
that still grows is the cheapest so far. Of those within `MARGIN` of the cheapest, which is noise, the first in the
registry is taken.

`NEVER` holds the protocols that are measured and never recommended, each with its reason. For
every other one that guarantees causal order and whose needs a trace can show, there is a trace on which it wins
(tests/unit/costing/test_recommend.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import inf

from thence.core.model.plain import Row
from thence.core.protocols.registry import REGISTRY, Need, ProtocolEntry, lookup
from thence.errors import MisuseError
from thence.tables.costing.replay import ENOUGH, Cost
from thence.tables.costing.traffic import NeedFinding

NEVER: dict[str, str] = {
    "history": "its stamps grow with the run",
    "bounded": "it can deadlock",
    "gossip": "its 2n² numbers are never fewer bytes than the n² of rst",
    "epochs": "its 2n² numbers are never fewer bytes than the n² of rst",
    "ks-hardware": "its stamps hold what those of ks hold and more; it is for networks that multicast one stamp to all",
    "ci-dc": "it carries the facts of ks in a longer form",
    "prs": "it is reconstructed, and where it costs least, among pairs that speak to no other process, it is by a byte",
    "ses": "ks, ech or rst cost less on every trace known here",
    "synchronous": "acked costs the same and blocks no sender",
}
GROWTH = 0.1
MARGIN = 0.05
UNSHOWN: frozenset[Need] = frozenset({"coordinator", "groups", "overlay", "failure detector"})
"""needs that no trace shows to be met"""


def recommendable() -> list[str]:
    """Return the protocols that can be recommended for some trace, in the order of the registry."""
    return [
        name
        for name, entry in REGISTRY.items()
        if name not in NEVER and entry.guarantee == "causal" and not UNSHOWN & set(entry.needs)
    ]


SLOW = ("history", "gossip", "epochs", "bounded")
"""n² numbers or more on each copy, to be built and read: replayed only when asked for"""


def asked_for(protocols: Sequence[str] | None, options: Iterable[str], sample: int) -> list[str]:
    """Return the protocols to replay: those named, else those that can be recommended or are quick to rule out."""
    usual = (*recommendable(), *(name for name in NEVER if name not in SLOW))
    names = list(dict.fromkeys(usual if protocols is None else protocols))
    for name in [*names, *options]:
        lookup(name)
    if not names:
        raise MisuseError("no protocols to replay; name at least one")
    if sample < 1:
        raise MisuseError(f"a sample of {sample} deliveries; 1 or more is accepted")
    return names


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The protocol to take (None if none can be recommended), a sentence why, the ranking, and the ones passed over."""

    protocol: str | None
    reason: str
    ranking: tuple[tuple[str, float], ...] = ()
    """those that can be recommended with their bytes for each message once warm, cheapest first"""
    passed_over: tuple[tuple[str, str], ...] = ()
    """the others, each with its reason"""

    @property
    def advice(self) -> str:
        """The text after "recommended: ", also if nothing can be recommended."""
        return self.reason if self.protocol else f"nothing: {self.reason}"

    def row(self) -> Row:
        """Return it as plain data."""
        row = asdict(self)
        row["ranking"] = [{"protocol": name, "bytes_per_message": size} for name, size in self.ranking]
        row["passed_over"] = dict(self.passed_over)
        return row


def total_cost(costs: Iterable[Cost]) -> Cost:
    """Add up the costs of one protocol over runs and labels; refused for one, it counts as refused."""
    parts = list(costs)
    bad = next((part for part in parts if part.status != "measured"), None)
    if bad is not None:
        return bad
    whole = Cost(parts[0].protocol)
    for part in parts:
        for field in fields(Cost):
            so_far, its = getattr(whole, field.name), getattr(part, field.name)
            if field.name in ("bytes_max", "log_max"):
                setattr(whole, field.name, max(so_far, its))
            elif field.name not in ("protocol", "status", "reason"):
                setattr(whole, field.name, None if so_far is None or its is None else so_far + its)
        whole.reason = whole.reason or part.reason
    return whole


def together(findings: Iterable[Mapping[Need, NeedFinding]]) -> dict[Need, NeedFinding]:
    """Combine the findings of several runs: a need is met if every run meets it; else the first reason is kept."""
    found: dict[Need, NeedFinding] = {}
    for each in findings:
        for need, finding in each.items():
            before = found.get(need)
            if before is None or _rank(finding) < _rank(before):
                found[need] = finding
    return found


def _rank(finding: NeedFinding) -> int:
    return {False: 0, None: 1, True: 2}[finding.met]


def recommend(findings: Mapping[Need, NeedFinding], costs: Mapping[str, Cost]) -> Recommendation:
    """Choose among the protocols that were replayed."""
    least = _least(costs)
    able: list[Cost] = []
    passed_over: list[tuple[str, str]] = []
    for name in [known for known in REGISTRY if known in costs]:
        why = _against(REGISTRY[name], findings, costs[name], least)
        if why:
            passed_over.append((name, why))
        else:
            able.append(costs[name])
    ranked = sorted(able, key=when_warm)
    ranking = tuple((cost.protocol, when_warm(cost)) for cost in ranked)
    chosen, reason = _choice(ranked)
    if chosen is not None:
        reason += _needs(chosen.protocol, findings)
    return Recommendation(None if chosen is None else chosen.protocol, reason, ranking, tuple(passed_over))


def _choice(ranked: list[Cost]) -> tuple[Cost | None, str]:
    """Return the protocol to take, or None, and why; the cheapest comes first."""
    if not ranked:
        return None, "each of the protocols replayed is passed over, for its own reason"
    if too_few := _too_few(ranked[0]):
        return None, too_few
    growing = [cost for cost in ranked if growth(cost) > GROWTH]
    if growing and growing[0] is ranked[0]:
        return None, f"{_grows(growing[0])}, so this trace is too short to tell what it will cost; record more messages"
    order = list(REGISTRY)
    near = [cost for cost in ranked if when_warm(cost) <= (1 + MARGIN) * when_warm(ranked[0]) and cost not in growing]
    chosen = min(near, key=lambda cost: order.index(cost.protocol))
    return chosen, _sentence(chosen, ranked) + "".join(f"; {_grows(cost)}" for cost in growing)


def _too_few(cost: Cost) -> str:
    """Describe what a replay lacks; None if it is complete."""
    messages, short = cost.messages, cost.short_messages
    if messages < ENOUGH:
        return f"{messages} messages are too few to recommend from; record {ENOUGH} or more"
    if cost.runs == 1 and short:
        both = f"{messages} messages with {cost.deliveries} deliveries"
        return f"{both} are too few to recommend from; record {ENOUGH} or more of both"
    if short > MARGIN * messages:
        those = f"{short} of {messages} messages are in runs and labels, of {cost.runs}, too short to recommend from"
        return f"{those}, for stamps start empty in each; record {ENOUGH} or more messages and deliveries in each"
    return ""


def _grows(cost: Cost) -> str:
    third, last = _late(cost)
    return f"the stamps of {cost.protocol} still grow ({third:.1f} bytes a copy, then {last:.1f} in the last quarter)"


def _sentence(chosen: Cost, ranked: list[Cost]) -> str:
    text = f"{chosen.protocol}: {when_warm(chosen):.1f} bytes a message once warm"
    if chosen is not ranked[0]:
        return f"{text}; {ranked[0].protocol} has {when_warm(ranked[0]):.1f}, which is within {MARGIN:.0%}"
    if len(ranked) > 1:
        text += f", the least of the {len(ranked)} protocols that can be recommended for this trace"
        text += f"; next is {ranked[1].protocol} with {when_warm(ranked[1]):.1f}"
    return text


def _needs(name: str, findings: Mapping[Need, NeedFinding]) -> str:
    shown = "; ".join(findings[need].why for need in REGISTRY[name].needs)
    return f" (its needs are met: {shown})" if shown else " (it needs nothing)"


def when_warm(cost: Cost) -> float:
    """Return the bytes of all stamps and protocol messages for each message, in the second half of the runs."""
    return (cost.third_bytes + cost.last_bytes) / max(1, cost.warm_messages)


def growth(cost: Cost) -> float:
    """Return the growth from the third to the last quarter, of bytes or of entries a copy, whichever is smaller."""
    third, last = _late(cost)
    some, more = cost.third_entries / max(1, cost.third_copies), cost.last_entries / max(1, cost.last_copies)
    if not third or not more:
        return 0.0
    return min(last / third, more / some if some else inf) - 1


def _late(cost: Cost) -> tuple[float, float]:
    return cost.third_bytes / max(1, cost.third_copies), cost.last_bytes / max(1, cost.last_copies)


def _unmet(entry: ProtocolEntry, findings: Mapping[Need, NeedFinding]) -> list[Need]:
    return [need for need in entry.needs if not findings.get(need, NeedFinding(None, "")).met]


def _against(entry: ProtocolEntry, findings: Mapping[Need, NeedFinding], cost: Cost, least: tuple[int, int]) -> str:
    """Return the first reason why a protocol cannot be recommended."""
    if entry.guarantee != "causal":
        return f"it guarantees {entry.guarantee} order, not causal order" if entry.guarantee != "none" else "no order"
    if unmet := _unmet(entry, findings):
        return "; ".join(f"it needs {need}: {findings[need].why}" for need in unmet if need in findings)
    if cost.status != "measured":
        return cost.reason or cost.status
    if entry.name in NEVER:
        return NEVER[entry.name]
    if cost.deferred:
        return f"it holds {cost.deferred} sends back"
    held, stuck = least
    if cost.stuck > stuck:
        return f"{cost.stuck - stuck} copies wait at the end that no cause holds: {cost.reason}"
    if cost.held > held:
        return f"it holds {cost.held - held} copies that no cause holds"
    return ""


def _least(costs: Mapping[str, Cost]) -> tuple[int, int]:
    """Return how many copies must wait for their causes, and how many still wait at the end."""
    able = [
        cost
        for name, cost in costs.items()
        if cost.status == "measured" and not cost.deferred
        and REGISTRY[name].guarantee == "causal" and REGISTRY[name].waits == "causes only"
    ]  # fmt: skip
    return min((cost.held for cost in able), default=0), min((cost.stuck for cost in able), default=0)
