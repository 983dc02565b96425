"""The three rules of clocks, and what is only a note."""

from __future__ import annotations

from pathlib import Path

import pytest

from thence.tables.explain.clock_findings import ClockAudit, audit_clocks, executions
from thence.tables.files.shiviz import ClockEvent, read_shiviz

LOGS = Path(__file__).parents[2] / "data" / "shiviz"


def log(*clocks: str, file: str = "f", run: str | None = None) -> list[ClockEvent]:
    """Read clocks written as `a a2 b1`: the host, then the counts it knows."""
    found = []
    for line, text in enumerate(clocks, 1):
        host, *counts = text.split()
        found.append(ClockEvent(file, line, run, host, {c[0]: int(c[1:]) for c in counts}, ""))
    return found


def told(audit: ClockAudit) -> list[tuple[int, str, str, str]]:
    return [(each.line, each.host, each.rule, each.found) for each in audit.findings]


def test_a_good_log() -> None:
    audit = audit_clocks(log("a a1", "b b1", "b a1 b2", "a a2", "b a2 b3", "a a3 b3"))
    assert (audit.events, audit.executions, audit.hosts, audit.findings, audit.notes) == (6, 1, 2, [], [])


@pytest.mark.parametrize(
    ("clocks", "found"),
    [
        (["a a2", "a a3"], [(1, "a", "step", "its first event has 2; 1 is expected")]),
        (["a a1", "a a3"], [(2, "a", "step", "3 follows 1 of line 1")]),
        (["a a1", "a a2", "a a2"], [(3, "a", "step", "2 stands twice, on line 2 too")]),
        (["a a1", "b a2 b1"], [(2, "b", "ahead", "it knows 2 events of a, which has done 1")]),
        (["b a1 b1"], [(1, "b", "ahead", "it knows 1 events of a, which has no event")]),
        (["a a1", "b a1 b1", "b b2"], [(3, "b", "backwards", "a goes back from 1 of line 2 to 0")]),
    ],
)
def test_each_rule_names_its_line(clocks: list[str], found: list[tuple[int, str, str, str]]) -> None:
    assert told(audit_clocks(log(*clocks))) == found


def test_knowing_more_of_a_host_without_events_proves_nothing() -> None:
    """One host's log alone names hosts whose logs are elsewhere."""
    assert audit_clocks(log("b a1 b1", "b a2 b2")).verdict == "unknown"
    assert audit_clocks(log("b a1 b1", "b a2 b3")).verdict == "violated", "a step left out is proof"
    assert audit_clocks(log("a a1", "b a2 b1")).verdict == "violated", "a has done less than b knows"
    assert audit_clocks(log("a a1", "b a1 b1")).verdict == "causal"


def test_one_line_can_break_several_rules() -> None:
    audit = audit_clocks(log("a a1", "b a1 b1", "b b3 c1"))
    assert [(each.line, each.rule) for each in audit.findings] == [(3, "step"), (3, "ahead"), (3, "backwards")]


def test_the_order_in_the_file_alone_is_a_note() -> None:
    audit = audit_clocks(log("a a1", "a a3", "a a2", "a a4"))
    assert audit.findings == []
    assert [each.row() for each in audit.notes] == [
        {"file": "f", "line": 3, "host": "a", "rule": "order", "found": "2 stands after 3 of line 2"}
    ]


def test_a_count_of_zero_is_no_knowledge() -> None:
    assert audit_clocks(log("a a1 b0", "a a2")).findings == []


def test_executions_do_not_mix() -> None:
    events = log("a a1", run="p") + log("a a1", run="q") + log("a a1", file="g", run="p")
    assert [len(each) for each in executions(events)] == [1, 1, 1]
    assert audit_clocks(events).findings == []


def test_a_file_for_each_process_is_one_execution() -> None:
    parts = log("a a1", "a a2 b1", file="a.log") + log("b b1", "b a2 b2", file="b.log")
    audit = audit_clocks(parts)
    assert (audit.executions, audit.findings) == (1, [])
    audit = audit_clocks(parts + log("a a1", file="c.log"))
    assert (audit.executions, audit.findings) == (2, [])


def test_rows_say_where_in_another_file() -> None:
    events = log("a a1", run="x")
    assert str(audit_clocks(log("a a2", file="g", run="x") + events).findings[0]) == (
        "g:1: step: its first event has 2; 1 is expected"
    )


@pytest.mark.parametrize(
    ("name", "notes"),
    [
        (
            "chord.log.gz",
            [("kv-node-60", "25 stands after 26 of line 1827"), ("kv-node-60", "136 stands after 137 of line 2049")],
        ),
        ("simpledb.log.gz", []),
        ("facebook-multiple.log", []),
        ("reliable-broadcast.log", []),
        ("simple-reliable-broadcast.log", []),
    ],
)
def test_real_logs_keep_the_rules(name: str, notes: list[tuple[str, str]]) -> None:
    audit = audit_clocks(read_shiviz(LOGS / name, []))
    assert audit.findings == []
    assert [(each.host, each.found) for each in audit.notes] == notes


def test_a_real_log_with_an_event_taken_out_breaks_them() -> None:
    events = list(read_shiviz(LOGS / "simple-reliable-broadcast.log", []))
    gone = next(event for event in events if event.host == "node0" and event.own == 3)
    audit = audit_clocks(event for event in events if event is not gone)
    assert [(each.host, each.rule, each.found) for each in audit.findings] == [
        ("node0", "step", "4 follows 2 of line 2")
    ]
    last = next(event for event in events if event.host == "node1" and event.own == 12)
    cut = audit_clocks(event for event in events if event.host != "node1" or event is last)
    assert {each.rule for each in cut.findings} == {"step"}
