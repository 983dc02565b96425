"""What is drawn of a log with vector clocks: exactly the order that its clocks have."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from thence.core.model.events import Event
from thence.core.model.order import Execution, by_run, usable
from thence.tables.explain.clock_events import drawn_log
from thence.tables.explain.clock_findings import executions
from thence.tables.files.read import open_trace
from thence.tables.files.shiviz import ClockEvent

LOGS = sorted((Path(__file__).parents[2] / "data" / "shiviz").glob("*.log"))


def random_log(seed: int, hosts: int = 4, steps: int = 40) -> list[ClockEvent]:
    """Events of hosts that send each other their clocks; some receive several at once."""
    rng = Random(seed)
    clocks: dict[str, dict[str, int]] = {f"h{n}": {} for n in range(hosts)}
    flying: list[tuple[str, dict[str, int]]] = []
    made = []
    for line in range(1, steps + 1):
        host = rng.choice(sorted(clocks))
        own = clocks[host]
        for _ in range(rng.randrange(3)):
            arriving = [each for each in flying if each[0] == host]
            if arriving:
                flying.remove(taken := rng.choice(arriving))
                for name, count in taken[1].items():
                    own[name] = max(own.get(name, 0), count)
        own[host] = own.get(host, 0) + 1
        made.append(ClockEvent("x.log", line, None, host, dict(own), f"step {line}"))
        flying += [(to, dict(own)) for to in clocks if to != host and rng.random() < 0.4]
    return made


def compare(log: list[ClockEvent]) -> None:
    """Compare the order of the clocks with happened-before over the drawn rows, for every pair of events."""
    drawn = drawn_log(log)
    (run,) = drawn.verdicts
    good, refused = usable(drawn.events)
    assert not refused
    execution = Execution(good)
    lines = {drawn.origins[run][e.process, e.index]: e for e in drawn.events}  # the last row of each line

    def place(event: Event) -> int:
        return execution.events.index(event)

    at = {event: place(lines[event.file, event.line]) for event in map(Key, log)}
    for one in at:
        for two in at:
            known = two.event.clock.get(one.event.host, 0) >= one.event.own
            before = one is not two and known
            assert execution.before(at[one], at[two]) == before, (one.event, two.event)


class Key:
    """A log's event as a key of a dictionary: its clock is one itself."""

    def __init__(self, event: ClockEvent) -> None:
        self.event, self.file, self.line = event, event.file, event.line


@pytest.mark.parametrize("seed", range(20))
def test_the_drawn_order_is_that_of_the_clocks(seed: int) -> None:
    print(f"seed {seed}")
    compare(random_log(seed))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_every_event_of_a_real_log_is_drawn(path: Path) -> None:
    log = list(open_trace([str(path)]).clocks())
    assert log
    drawn = drawn_log(log)
    assert len(drawn.verdicts) == len(executions(log))
    there = {place for rows in drawn.origins.values() for place in rows.values()}
    assert there == {(event.file, event.line) for event in log}
    for rows in by_run(drawn.events).values():
        assert not usable(rows)[1]


def test_a_cause_that_the_log_does_not_hold_is_not_drawn() -> None:
    log = [ClockEvent("x.log", 1, None, "a", {"a": 1, "gone": 4}, "one")]
    drawn = drawn_log(log)
    assert [(e.kind, e.message) for e in drawn.events] == [("internal", "one (a:1)")]
    assert drawn.verdicts == {"x.log": "unknown"}
    assert [found.rows for _, found in drawn.findings] == [(("a", 1),)]
