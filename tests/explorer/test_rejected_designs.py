"""What does not work instead of the repair of A_causal: counterexamples as executions, and what works at what price."""

from __future__ import annotations

import pytest
from papers.multicast import FOUND, MEASURE

from thence.lab.explorer.search import explore, promised
from thence.lab.explorer.setting import CopyName, Start, Step
from thence.lab.explorer.shrink import find, shrunk
from thence.lab.explorer.witness import Witness
from thence.lab.papers.variants import setting_of

A, B, C, D = range(4)
JUDGED = ("causal order", "no duplicates", "uniform agreement", "validity")


def send(process: int, *to: int) -> Step:
    return Step("send", process, sum(1 << d for d in to))


def gets(process: int, sender: int, number: int, source: int, kind: str = "message", verb: str = "receive") -> Step:
    return Step(verb, process, copy=CopyName(source, sender, number, kind))


def crash(process: int) -> Step:
    return Step("crash", process)


def witness(protocol: str, *steps: Step) -> Witness:
    """Faulty a and b, every process trusts the correct c and d only, from the start."""
    setting = setting_of(protocol, 4, 3, "any", crashes=2)
    return Witness(setting, JUDGED, Start(0b0011, (0b1100,) * 4), steps)


def test_waiting_only_behind_disjoint_destinations_is_not_enough() -> None:
    """a1 to b and c and a2 to b and d overlap in b, but b crashes too: d's message to c waits for a1, which is lost."""
    shown = witness(
        "a-causal-disjoint",
        send(A, B, C),
        send(A, B, D),
        crash(A),
        crash(B),
        gets(D, A, 2, A),
        send(D, C),
        gets(C, A, 1, A, verb="lose"),
        gets(C, D, 1, D),
        gets(D, D, 1, C, "ok"),
    )
    print(shown.notation(), shown.sentence(), shown.diagram(), sep="\n")
    problem = shown.run().problem
    assert problem is not None
    assert (problem.property, problem.process) == ("validity", C)


def test_carrying_only_ones_own_messages_is_not_enough() -> None:
    """b gets a2 with a1 aboard, hands a1 on, sends b1, and crashes: a1 is lost a second time, b1 is not."""
    shown = witness(
        "a-causal-carry-own",
        send(A, C),
        send(A, B),
        crash(A),
        gets(B, A, 2, A),
        send(B, C, D),
        crash(B),
        gets(C, A, 1, A, verb="lose"),
        gets(C, A, 1, B, verb="lose"),
        gets(C, B, 1, B),
        gets(D, B, 1, B),
        gets(D, B, 1, C, "ok"),
        gets(C, B, 1, D, "ok"),
    )
    print(shown.notation(), shown.sentence(), shown.diagram(), sep="\n")
    problem = shown.run().problem
    assert problem is not None
    assert (problem.property, problem.process) == ("uniform agreement", C)


def test_carrying_everything_at_risk_works_and_what_it_costs() -> None:
    """No failure, no send waits; but outsiders take part, and messages carry others' payloads."""
    found = MEASURE["carrying"]()
    assert found == FOUND["a-causal-carry"], "the page quotes these"
    assert found["failed"] == 0
    assert found["with outsiders"]
    assert found["carried at most"] > 1


def test_numbers_modulo_three_fail() -> None:
    """A process that nobody trusts for a while falls two behind, and a late OK is taken for a new one's."""
    found = MEASURE["modulo"]()
    assert found == FOUND["a-fifo-modulo"], "the page quotes these"
    assert found["failed"]


def test_waiting_for_all_addressees_blocks_after_a_crash() -> None:
    coverage, smallest = find(setting_of("a-fifo-modulo-all", 2, 2, crashes=1))
    assert coverage.verdict == "fails"
    assert smallest is not None
    print(smallest.witness.notation(), smallest.witness.sentence(), sep="\n")
    problem = smallest.witness.run().problem
    assert problem is not None
    assert problem.property == "validity"


@pytest.mark.soak
def test_numbers_modulo_three_explored() -> None:
    setting = setting_of("a-fifo-modulo", 3, 3, groups="a|bc", crashes=1)
    properties = promised(setting) | {"no duplicates", "fifo order"}
    found = explore(setting, properties=properties)
    assert found.verdict == "fails"
    shown = shrunk(found.failures[0], properties)
    print(shown.notation(), shown.sentence(), shown.diagram(), sep="\n")
