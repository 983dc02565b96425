"""Audit of clocks themselves, for logs that carry vector clocks but no messages.

Invariant: in one execution, with each host's events sorted by its own component:

- `step`: the own component starts at 1 and steps by one from event to event;
- `ahead`: no event knows more of a host than that host has done; of a host that has no event in the log this proves
  nothing, since its part may be elsewhere;
- `backwards`: no component of a host's clock decreases from one of its events to the next.

Each line that breaks a rule is a finding. Where lines of a host stand in another order than its own component
says, and that is all, it is a note: a log need not be written in order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from thence.tables.files.shiviz import ClockEvent

ClockRule = Literal["step", "ahead", "backwards", "order"]


@dataclass(frozen=True, slots=True)
class ClockFinding:
    """A line that breaks a rule, and what was found there."""

    file: str
    line: int
    host: str
    rule: ClockRule
    found: str
    proof: bool = field(default=True, compare=False)
    """Whether it shows that a clock is wrong; else a part of the log may be missing."""

    def row(self) -> dict[str, object]:
        """Return it as `audit --json` writes it."""
        return {"file": self.file, "line": self.line, "host": self.host, "rule": self.rule, "found": self.found}

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.found}"


@dataclass(slots=True)
class ClockAudit:
    """Findings about the clocks of some logs."""

    events: int = 0
    executions: int = 0
    hosts: int = 0
    layouts: list[str] = field(default_factory=list)
    """How the logs are laid out, each way once."""
    findings: list[ClockFinding] = field(default_factory=list)
    notes: list[ClockFinding] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """Violated if a finding proves that a clock is wrong, unknown if there are other findings, else causal."""
        if any(finding.proof for finding in self.findings):
            return "violated"
        return "unknown" if self.findings else "causal"


def executions(events: Iterable[ClockEvent]) -> list[list[ClockEvent]]:
    """Divide events into executions.

    Where a delimiter names them, each name in each file is one. Without a delimiter a file is one, and files
    that share no host are parts of one: GoVector writes a file for each process.
    """
    named: dict[tuple[str, str], list[ClockEvent]] = defaultdict(list)
    plain: dict[str, list[ClockEvent]] = defaultdict(list)
    for event in events:
        if event.run is None:
            plain[event.file].append(event)
        else:
            named[event.file, event.run].append(event)
    joined: list[tuple[set[str], list[ClockEvent]]] = []
    for own in plain.values():
        hosts = {event.host for event in own}
        for taken, members in joined:
            if not taken & hosts:
                taken |= hosts
                members += own
                break
        else:
            joined.append((hosts, list(own)))
    return [*(members for _, members in joined), *named.values()]


def audit_clocks(events: Iterable[ClockEvent]) -> ClockAudit:
    """Audit every execution; findings and notes are sorted by file and line."""
    result = ClockAudit()
    for members in executions(events):
        hosts: dict[str, list[ClockEvent]] = defaultdict(list)
        for event in members:
            hosts[event.host].append(event)
        result.events += len(members)
        result.executions += 1
        result.hosts += len(hosts)
        result.layouts += {event.layout: None for event in members if event.layout not in result.layouts}
        done = {host: max(event.own for event in own) for host, own in hosts.items()}
        for own in hosts.values():
            result.notes += _order(own)
            own.sort(key=lambda event: event.own)
            result.findings += [*_step(own), *_ahead(own, done), *_backwards(own)]
    for found in (result.findings, result.notes):
        found.sort(key=lambda each: (each.file, each.line))
    return result


def _finding(event: ClockEvent, rule: ClockRule, found: str) -> ClockFinding:
    return ClockFinding(event.file, event.line, event.host, rule, found)


def _where(event: ClockEvent, beside: ClockEvent) -> str:
    return f"line {event.line}" if event.file == beside.file else f"{event.file}:{event.line}"


def _step(own: list[ClockEvent]) -> Iterator[ClockFinding]:
    if own[0].own != 1:
        yield _finding(own[0], "step", f"its first event has {own[0].own}; 1 is expected")
    for before, event in pairwise(own):
        if event.own == before.own:
            yield _finding(event, "step", f"{event.own} stands twice, on {_where(before, event)} too")
        elif event.own != before.own + 1:
            yield _finding(event, "step", f"{event.own} follows {before.own} of {_where(before, event)}")


def _ahead(own: list[ClockEvent], done: dict[str, int]) -> Iterator[ClockFinding]:
    for event in own:
        for host, count in event.clock.items():
            if count > done.get(host, 0):
                has = f"has done {done[host]}" if host in done else "has no event"
                found = f"it knows {count} events of {host}, which {has}"
                yield ClockFinding(event.file, event.line, event.host, "ahead", found, proof=host in done)


def _backwards(own: list[ClockEvent]) -> Iterator[ClockFinding]:
    for before, event in pairwise(own):
        for host, count in before.clock.items():
            now = event.clock.get(host, 0)
            if now < count and host != event.host:
                found = f"{host} goes back from {count} of {_where(before, event)} to {now}"
                yield _finding(event, "backwards", found)


def _order(own: list[ClockEvent]) -> Iterator[ClockFinding]:
    for before, event in pairwise(own):
        if event.own < before.own:
            yield _finding(event, "order", f"{event.own} stands after {before.own} of {_where(before, event)}")
