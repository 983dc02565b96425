"""Properties of recorded traffic: is it causal, and which needs of the registry's protocols does it meet?

Invariant: a finding is met, not met, or not shown by a trace at all (None), and says why in a few words, with a
witness. The verdict is that of the audit (`thence.core.model.verdict`) on the rows of one label: the members of `ks`,
fed with the deliveries as recorded, hold a copy if and only if a cause of it that is addressed there has not been
delivered. Where it was never delivered, and a row of that process is missing or was set aside by then, the violation is
only possible. Beyond the sample nothing is delivered.

- broadcast only: every message goes to all others of the run. unicast only: every message goes to one process.
- serialized sends: the sends form a chain; each process that sends has sent or delivered the message sent before.
- fifo: copies of each channel are received in the order of their sends; only `receive` rows can tell.
- fixed membership: no process crashes; the trace table has no rows for joining and leaving.
- topology: the processes that talk to each other form a connected graph with at least one separator, a process
  without which it falls apart.
- coordinator, groups, failure detector: what a deployment provides, not what traffic shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from thence.core.model.events import Event
from thence.core.model.message import Copy
from thence.core.model.plain import Row
from thence.core.model.roster import Roster
from thence.core.model.verdict import Verdict, verdict_of
from thence.core.protocols.effects import Hold, Sent
from thence.core.protocols.ks import KS
from thence.core.protocols.registry import NEEDS, Need
from thence.tables.costing.separators import components_without, separating, traffic_graph


class NeedFinding(NamedTuple):
    """Whether a need is met, None where a trace cannot show it, and why."""

    met: bool | None
    why: str


Early = tuple[str, str, str]
"""a destination, a message delivered there, and a cause of it that was not"""


class Hidden(NamedTuple):
    """Properties that these rows alone cannot show."""

    doubts: Mapping[str, int] = {}
    """by process the first index at which a row is missing or was set aside"""
    set_aside: int = 0
    gaps: int = 0
    why: str | None = None


@dataclass(slots=True)
class Profile:
    """One run under one label, as far as it was looked at."""

    processes: int = 0
    messages: int = 0
    copies: int = 0
    deliveries: int = 0
    verdict: Verdict = "causal"
    reason: str | None = None
    """why it is not causal, or why that cannot be determined"""
    basis: str = "deliveries"
    """where copies arrive in a replay: at their `receive` rows, or at their `deliver` rows"""
    sampled: bool = False
    """only a causally closed prefix was looked at"""
    held: int = 0
    """copies that were received and not delivered by the next row of their process"""
    held_rows: int = 0
    held_seconds: float | None = 0.0
    findings: dict[Need, NeedFinding] = field(default_factory=dict)

    def row(self) -> Row:
        """Return it as plain data."""
        row = asdict(self)
        row["findings"] = {need: found._asdict() for need, found in self.findings.items()}
        return row


def profile(
    rows: Sequence[Event], roster: Roster, *, crashes: int = 0, hidden: Hidden | None = None, sampled: bool = False
) -> Profile:
    """Return the profile of the usable rows of one run and one label, causes first."""
    from thence.tables.costing.replay import has_arrivals

    hidden = hidden or Hidden()
    sends = [event for event in rows if event.kind == "send"]
    found = Profile(len(roster), len(sends), sum(len(e.destinations or ()) for e in sends), sampled=sampled)
    found.deliveries = sum(event.kind == "deliver" for event in rows)
    found.basis = "arrivals" if has_arrivals(rows) else "deliveries"
    violation, possible = first_early(rows, roster, hidden.doubts)
    found.verdict = verdict_of(violation is not None, possible is not None, hidden.set_aside, hidden.gaps)
    if violation is not None:
        destination, message, missing = violation
        found.reason = f"{destination} delivered {message} before {missing}, a cause of it"
    elif possible is not None:
        destination, message, missing = possible
        found.reason = f"{destination} delivered {message}, perhaps before {missing}, a cause of it; {hidden.why}"
    else:
        found.reason = hidden.why
    if found.basis == "arrivals":
        _recorded(rows, found)
    found.findings = findings(rows, roster, crashes=crashes)
    return found


def first_early(rows: Sequence[Event], roster: Roster, doubts: Mapping[str, int]) -> tuple[Early | None, Early | None]:
    """Return the first violation of rows, causes first, and, if there is none, the first possible one."""
    members = [KS(roster, place) for place in range(len(roster))]
    delivered = {(event.message, event.process) for event in rows if event.kind == "deliver"}
    names: dict[tuple[str, int], str] = {}
    copies: dict[tuple[str | None, str], Copy] = {}
    possible: Early | None = None
    for event in rows:
        here = event.process
        if event.kind == "send" and event.destinations and event.message is not None:
            sent = members[roster.position(here)].send(event.destinations)
            assert isinstance(sent, Sent)
            names[here, sent.message.count] = event.message
            for copy in sent.copies:
                copies[event.message, roster.name(copy.destination)] = copy
        elif event.kind == "deliver" and (arrived := copies.pop((event.message, here), None)) is not None:
            member = members[roster.position(here)]
            held = any(isinstance(effect, Hold) for effect in member.receive(arrived))
            while held and (waiting := member.pending()):
                cause = waiting[0].waits_for[0]
                missing = names[cause.sender, cause.count]
                early = here, event.message or "", missing
                if (missing, here) in delivered or doubts.get(here, event.index + 1) > event.index:
                    return early, None
                possible = possible or early
                member.receive(copies.pop((missing, here)))  # a hidden row may have delivered it: go on as if it had
    return None, possible


def _recorded(rows: Iterable[Event], found: Profile) -> None:
    """Measure the waiting in the trace itself: from `receive` to `deliver`, in rows of the process and in seconds."""
    count: dict[str, int] = {}
    arrived: dict[tuple[str | None, str], tuple[int, float | None]] = {}
    timed = True
    for event in rows:
        count[event.process] = now = count.get(event.process, 0) + 1
        key = (event.message, event.process)
        if event.kind == "receive":
            arrived.setdefault(key, (now, event.time))
        elif event.kind == "deliver" and key in arrived:
            place, time = arrived.pop(key)
            if now > place + 1:
                found.held += 1
                found.held_rows += now - place - 1
                if event.time is None or time is None:
                    timed = False
                else:
                    found.held_seconds = (found.held_seconds or 0.0) + max(0.0, event.time - time)
    if not timed:
        found.held_seconds = None


def findings(rows: Sequence[Event], roster: Roster, *, crashes: int = 0) -> dict[Need, NeedFinding]:
    """Return, for each need of the registry, whether this traffic meets it."""
    sends = [event for event in rows if event.kind == "send" and event.destinations]
    crashed = f"{crashes} crashes" if crashes else ""
    found: dict[Need, NeedFinding] = {
        "broadcast only": _each(_not_broadcast(sends, roster), "every message goes to all others"),
        "unicast only": _each(_not_unicast(sends), "every message goes to one process"),
        "serialized sends": _each(_not_serialized(rows), "each sender knew the message sent before its own"),
        "fixed membership": _each(crashed, "no process crashes"),
        "own sends at the receiver": NeedFinding(True, "processes know their own sends"),
        "fifo": _fifo(rows),
        "topology": _topology(sends, roster),
    }
    return {
        need: found.get(need, NeedFinding(None, f"no trace shows whether there are {_plural(need)}")) for need in NEEDS
    }


def _plural(need: Need) -> str:
    return need if need.endswith("s") else f"{need}s"


def _each(against: str, otherwise: str) -> NeedFinding:
    return NeedFinding(False, against) if against else NeedFinding(True, otherwise)


def _not_broadcast(sends: Sequence[Event], roster: Roster) -> str:
    for event in sends:
        left_out = set(roster.names) - {event.process} - set(event.destinations or ())
        if left_out:
            return f"{event.message} does not go to {min(left_out)}"
        if event.process in (event.destinations or ()):
            return f"{event.message} goes to its own sender too"
    return ""


def _not_unicast(sends: Sequence[Event]) -> str:
    for event in sends:
        if event.destinations is not None and len(event.destinations) != 1:
            return f"{event.message} goes to {len(event.destinations)} processes"
    return ""


def _not_serialized(rows: Iterable[Event]) -> str:
    """Check the chain of sends: the next sender must know the message sent last.

    As long as the sends form a chain, a process has the latest in its past only by sending or delivering it itself.
    """
    last: Event | None = None
    knows: set[str] = set()
    for event in rows:
        if event.kind == "send" and event.destinations:
            if last is not None and event.process not in knows:
                return f"{event.process} sent {event.message} without knowing {last.message}"
            last, knows = event, {event.process}
        elif event.kind == "deliver" and last is not None and event.message == last.message:
            knows.add(event.process)
    return ""


def _fifo(rows: Iterable[Event]) -> NeedFinding:
    number: dict[str | None, tuple[int, str]] = {}
    latest: dict[tuple[str, str], tuple[int, str | None]] = {}
    for event in rows:
        if event.kind == "send":
            number[event.message] = (len(number), event.process)
        elif event.kind == "receive":
            sent, sender = number[event.message]
            before, other = latest.get((sender, event.process), (-1, None))
            if sent < before:
                return NeedFinding(False, f"{event.process} received {event.message} after {other}")
            latest[sender, event.process] = (sent, event.message)
    if not latest:
        return NeedFinding(None, "without receive rows no trace shows whether channels are FIFO")
    return NeedFinding(True, "every channel keeps the order of sends")


def _topology(sends: Iterable[Event], roster: Roster) -> NeedFinding:
    near = traffic_graph(sends, roster)
    if len(components_without(near)) != 1:
        return NeedFinding(False, "the processes that talk to each other form no connected graph")
    cuts = separating(near)
    if not cuts:
        return NeedFinding(False, "no single process separates the others")
    return NeedFinding(True, f"{', '.join(cuts[:3])}{', ...' if len(cuts) > 3 else ''} part the others")
