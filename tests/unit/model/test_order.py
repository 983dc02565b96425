"""The judge, on executions small enough to check by eye."""

from __future__ import annotations

import pytest
from support.definition import needless
from support.recorded import judge_runs

from thence.core.model.events import Event, parse, render
from thence.core.model.order import Execution, Violation, judge
from thence.errors import TraceError


def kinds(text: str, guarantee: str = "causal") -> list[tuple[str, str, str]]:
    return [(v.destination, v.early, v.missing) for v in judge(parse(text), guarantee).violations]


@pytest.mark.parametrize(
    "text",
    [
        "a!1>bc b?a1 c?a1",
        "a!1>bc b?a1 b!1>c c?b1 c?a1 b. a#",
        "aa!1>b,cc b?aa1 cc<aa1 cc?aa1",
        "a!1>b/red b?a1/red a!2>b b?a2",
    ],
)
def test_notation_round_trips(text: str) -> None:
    assert render(parse(text)) == text


def test_notation_counts_rows_of_a_process() -> None:
    events = parse("a!1>b b?a1 b. a!2>b")
    assert [(e.process, e.index, e.kind, e.order) for e in events] == [
        ("a", 1, "send", 0),
        ("b", 1, "deliver", 1),
        ("b", 2, "internal", 2),
        ("a", 2, "send", 3),
    ]


def test_notation_names_the_token_it_cannot_read() -> None:
    with pytest.raises(TraceError, match=r"token 2 'b=a1' is not one of a!1>bc"):
        parse("a!1>b b=a1")


def test_triangle() -> None:
    assert kinds("a!1>c a!2>b b?a2 b!1>c c?b1 c?a1") == [("c", "b1", "a1")]
    assert kinds("a!1>c a!2>b b?a2 b!1>c c?a1 c?b1") == []


def test_concurrent_messages_may_come_in_any_order() -> None:
    assert kinds("a!1>cd b!1>cd c?a1 c?b1 d?b1 d?a1") == []


def test_one_violation_for_each_missing_message_and_the_first_successor() -> None:
    assert kinds("a!1>b a!2>b a!3>b b?a2 b?a3 b?a1") == [("b", "a2", "a1")]
    assert kinds("a!1>b a!2>b a!3>b b?a3 b?a2 b?a1") == [("b", "a3", "a1"), ("b", "a3", "a2")]


def test_a_message_never_delivered_whose_successor_was() -> None:
    result = judge(parse("a!1>b a!2>b b?a2"))
    assert result.violations == [Violation("run", "b", "a2", "a1")]
    assert [(c.message, c.destination) for c in result.undelivered] == [("a1", "b")]
    assert judge(parse("a!1>b a!2>b b?a1")).violations == []


def test_self_addressed_copies_count() -> None:
    assert kinds("a!1>ab b?a1 b!1>a a?b1 a?a1") == [("a", "b1", "a1")]


def test_receipts_carry_no_causality() -> None:
    assert kinds("a!1>c a!2>b b<a2 b!1>c c?b1 c?a1") == []


def test_labels_do_not_mix() -> None:
    assert kinds("a!1>c/red a!2>b b?a2 b!1>c/red c?b1/red c?a1/red") == []
    assert kinds("a!1>c/red a!2>b/red b?a2/red b!1>c/red c?b1/red c?a1/red") == [("c", "b1", "a1")]


def test_a_crash_is_no_violation_by_itself() -> None:
    result = judge(parse("a!1>b a# b."))
    assert result.verdict == "causal"
    assert judge(parse("a!1>b a!2>c a# c?a2 c!1>b b?c1")).violations == [Violation("run", "b", "c1", "a1")]


def test_duplicates_and_misdeliveries() -> None:
    result = judge(parse("a!1>b b?a1 b?a1 c?a1"))
    assert [(c.message, c.destination) for c in result.duplicates] == [("a1", "b")]
    assert [(c.message, c.destination) for c in result.misdelivered] == [("a1", "c")]


def test_weaker_guarantees() -> None:
    late = "a!1>c a!2>b b?a2 b!1>c c?b1 c?a1"
    assert kinds(late, "fifo") == []
    assert kinds(late, "two-hop") == [("c", "b1", "a1")]
    assert kinds(late, "none") == []
    longer = "a!1>d a!2>b b?a2 b!1>c c?b1 c!1>d d?c1 d?a1"
    assert kinds(longer, "two-hop") == []
    assert kinds(longer) == [("d", "c1", "a1")]
    assert kinds("a!1>b a!2>b b?a2 b?a1", "fifo") == [("b", "a2", "a1")]


def test_rows_that_cannot_be_used_are_set_aside_with_a_reason() -> None:
    rows = parse("a!1>b b?a1 b?z9 a!1>c")
    rows.append(Event("run", "b", 1, "internal"))
    rows.append(Event("run", "c", 1, "send", "c1"))
    rows.append(Event("run", "c", 2, "deliver"))
    result = judge(rows)
    assert result.verdict == "unknown"
    assert sorted(r.reason for r in result.quarantine) == [
        "a deliver row needs a message",
        "a send row needs destinations",
        "index 1 of process b stands twice",
        "message a1 is sent twice",
        "message z9 was never sent",
    ]


def test_a_delivery_under_another_label_than_its_send_is_set_aside() -> None:
    result = judge(parse("a!1>b/red b?a1/blue"))
    assert [r.reason for r in result.quarantine] == ["message a1 was sent under label red, not blue"]


def test_a_gap_bars_the_verdict_causal() -> None:
    rows = [e for e in parse("a!1>b b. b?a1 b.") if not (e.process == "b" and e.index == 1)]
    result = judge(rows)
    assert result.gaps == [("b", 2)]
    assert result.verdict == "unknown"


def test_a_cycle_is_set_aside_where_it_closes() -> None:
    rows = [
        Event("run", "a", 1, "deliver", "b1"),
        Event("run", "a", 2, "send", "a1", ("b",)),
        Event("run", "b", 1, "deliver", "a1"),
        Event("run", "b", 2, "send", "b1", ("a",)),
        Event("run", "c", 1, "send", "c1", ("a",)),
    ]
    result = judge(rows)
    assert {(r.event.process, r.event.index) for r in result.quarantine} == {("a", 1), ("b", 1)}
    assert result.verdict == "unknown"
    assert result.messages == 3


def test_runs_are_judged_apart() -> None:
    rows = parse("a!1>b b?a1", run="one") + parse("a!1>b a!2>b b?a2 b?a1", run="two")
    assert {run: j.verdict for run, j in judge_runs(rows).items()} == {"one": "causal", "two": "violated"}


def test_happened_before_is_what_lamport_says() -> None:
    execution = Execution(parse("a!1>b b?a1 b!1>c c?b1 a!2>c"))
    assert execution.before(0, 3)
    assert not execution.before(3, 0)
    assert not execution.before(4, 3)
    assert not execution.before(3, 4)


def test_needless_waiting_is_seen() -> None:
    assert needless(parse("a!1>b b<a1 b?a1")) == []
    assert [c.message for c in needless(parse("a!1>b b<a1 b. b?a1"))] == ["a1"]
    assert needless(parse("a!1>b a!2>b b<a2 b. b<a1 b?a1 b?a2")) == []
    assert [c.message for c in needless(parse("a!1>b a!2>b b<a2 b. b<a1 b?a1 b. b?a2"))] == ["a2"]
