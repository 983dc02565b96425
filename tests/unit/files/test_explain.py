"""Paths, sentences and diagrams, by golden text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.causal_walks import path

from thence.core.model.events import Event, parse
from thence.core.model.order import Violation, judge
from thence.tables.explain.diagram import diagram
from thence.tables.explain.scene import scene_of, shown_by, violated
from thence.tables.explain.sentence import PathStep, sentence


def proof(text: str, place: int = 0) -> tuple[list[Event], Violation, list[PathStep] | None]:
    events = parse(text)
    violation = judge(events).violations[place]
    return events, violation, path(events, violation)


def brief(steps: list[PathStep] | None) -> str:
    marks = {"send": "!", "deliver": "?"}
    return " ".join(f"{s.process}{s.index}{marks[s.kind]}{s.message}" for s in steps or ())


@pytest.mark.parametrize(
    ("trace", "chain", "words"),
    [
        (
            "a!1>bc b?a1 b!1>c c?b1 c?a1",
            "a1!a1 b1?a1 b2!b1",
            "c delivered b1 before a1, though a1 happened before b1: b delivered a1, then sent b1",
        ),
        (
            "a!1>b a!2>b b?a2 b?a1",
            "a1!a1 a2!a2",
            "b delivered a2 before a1, though a1 happened before a2: a sent a1, then sent a2",
        ),
        (
            "a!1>d a!2>b b?a2 b!1>c c?b1 c!1>d d?c1 d?a1",
            "a1!a1 a2!a2 b1?a2 b2!b1 c1?b1 c2!c1",
            "d delivered c1 before a1, though a1 happened before c1: a sent a1, then sent a2; "
            "b delivered a2, then sent b1; c delivered b1, then sent c1",
        ),
        (  # of two ways the one with fewer messages, though its rows come later
            "a!1>d a!2>b a!3>c b?a2 b!1>c c?b1 c?a3 c!1>d d?c1 d?a1",
            "a1!a1 a3!a3 c2?a3 c3!c1",
            "d delivered c1 before a1, though a1 happened before c1: a sent a1, then sent a3; "
            "c delivered a3, then sent c1",
        ),
        (  # sent to itself too: the way through the own copy is no shorter than staying
            "a!1>ab a?a1 a!2>b b?a2 b?a1",
            "a1!a1 a3!a2",
            "b delivered a2 before a1, though a1 happened before a2: a sent a1, then sent a2",
        ),
        (  # receive rows carry nothing
            "a!1>bc b<a1 b?a1 b. b!1>c c<b1 c?b1 c?a1",
            "a1!a1 b2?a1 b4!b1",
            "c delivered b1 before a1, though a1 happened before b1: b delivered a1, then sent b1",
        ),
        (
            "a!1>bc/red b?a1/red b!1>c/red c?b1/red c?a1/red",
            "a1!a1 b1?a1 b2!b1",
            "c delivered b1 before a1, though a1 happened before b1: b delivered a1, then sent b1",
        ),
    ],
)
def test_paths_and_sentences(trace: str, chain: str, words: str) -> None:
    _, violation, steps = proof(trace)
    assert brief(steps) == chain
    assert sentence(steps, violation) == words


def test_what_never_came() -> None:
    _, violation, steps = proof("a!1>b a!2>b b?a2")
    assert sentence(steps, violation, never=True) == (
        "b delivered a2 and never a1, though a1 happened before a2: a sent a1, then sent a2"
    )


def test_no_path_no_proof() -> None:
    events = parse("a!1>c b!1>c c?b1 c?a1")
    violation = Violation("run", "c", "b1", "a1")
    assert path(events, violation) is None
    assert path(events, Violation("run", "c", "b1", "x9")) is None
    assert path(events, Violation("run", "c", "x9", "a1")) is None
    assert sentence(None, violation) == "c delivered b1 before a1, though a1 happened before b1"


def test_labels_do_not_carry_each_other() -> None:
    events = parse("a!1>bc/red b?a1/red b!1>c/blue c?b1/blue c?a1/red")
    assert path(events, Violation("run", "c", "b1", "a1")) is None


def test_a_step_as_a_row() -> None:
    assert PathStep("a", 1, "send", "a1").row() == {"process": "a", "index": 1, "kind": "send", "message": "a1"}


def test_the_diagram_of_a_violation() -> None:
    events, violation, steps = proof("a!1>bc a. b?a1 b!1>c c?b1 c?a1 b!2>a")
    drawn = diagram(scene_of(events).showing(violated(violation, steps)))
    assert drawn == (
        "a                   b                c\n"
        "|                   |                |\n"
        "* sent a1 to b, c   |                |\n"
        "|                   * delivered a1   |\n"
        "|                   * sent b1 to c   |\n"
        "|                   |                o delivered b1   <- too early: a1 is missing\n"
        "|                   |                o delivered a1   <- too late\n"
    )


def test_the_diagram_of_a_whole_run() -> None:
    assert diagram(scene_of(parse("alpha!1>b,c,d,e b<alpha1 b?alpha1 b. alpha# b!1>"))) == (
        "alpha                          b\n"
        "|                              |\n"
        "o sent alpha1 to 4 processes   |\n"
        "|                              o received alpha1\n"
        "|                              o delivered alpha1\n"
        "|                              o internal\n"
        "o crashed                      |\n"
        "|                              o sent b1 to no process\n"
    )


def test_a_long_diagram_says_what_it_leaves_out() -> None:
    events = parse(" ".join(f"a!{n}>b" for n in range(1, 21)))
    lines = diagram(scene_of(events), limit=4).splitlines()
    below = diagram(scene_of(events), limit=4, width=1).splitlines()
    assert below == [
        "a   o sent a1 to b",
        "a   o sent a2 to b",
        "a   o sent a3 to b",
        "a   o sent a4 to b",
        "... and 16 more",
    ]
    assert len(lines) == 2 + 4 + 1
    assert lines[-1] == "... and 16 more"


def test_a_scene_is_in_causal_order_whatever_the_rows_come_in() -> None:
    events, violation, steps = proof("a!1>bc b?a1 b!1>c c?b1 c?a1")
    shuffled = [Event(e.run, e.process, e.index, e.kind, e.message, e.destinations) for e in reversed(events)]
    assert [(e.process, e.index) for e in shown_by(shuffled, violated(violation, steps))] == [
        ("a", 1),
        ("b", 1),
        ("b", 2),
        ("c", 1),
        ("c", 2),
    ]


def test_names_cannot_reach_the_terminal_as_they_are() -> None:
    names = {"a": "a", "b": "\x1b[2Jb", "c": "c"}
    events = [
        replace(
            event,
            process=names[event.process],
            message=f"\x9b{event.message}",
            destinations=None if event.destinations is None else tuple(names[name] for name in event.destinations),
        )
        for event in parse("a!1>bc b?a1 b!1>c c?b1 c?a1")
    ]
    (violation,) = judge(events).violations
    steps = path(events, violation)
    said = sentence(steps, violation)
    assert said.startswith(r"c delivered \x9bb1 before \x9ba1")
    assert r"\x1b[2Jb delivered" in said
    drawn = diagram(scene_of(events, [violated(violation, steps)]))
    assert "\x1b" not in drawn
    assert "\x9b" not in drawn
