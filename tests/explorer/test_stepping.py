"""One execution by hand, the state graph, and which steps of a protocol an exploration went through."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from thence.cli import main
from thence.errors import MisuseError
from thence.lab.explorer.graph import StateGraph, state_graph
from thence.lab.explorer.moves import Moves
from thence.lab.explorer.search import explore, promised
from thence.lab.explorer.setting import Setting, Start
from thence.lab.explorer.step_coverage import count_steps, steps_of
from thence.lab.explorer.stepping import Stepper, flying_words, in_words
from thence.lab.papers.variants import setting_of
from thence.protocols import REGISTRY

CAUSAL = frozenset({"causal order"})


def take(walk: Stepper, text: str) -> None:
    walk.take(next(step for step in walk.choices() if in_words(step, walk.moves.roster) == text))


def test_an_execution_by_hand_breaks_what_it_breaks() -> None:
    walk = Stepper(Setting("fifo", 3, 3), CAUSAL)
    for text in ("a sends to b", "a sends to c", "c receives a2", "c sends to b"):
        take(walk, text)
        assert walk.problem is None
    take(walk, "b receives c1")
    assert walk.problem is not None
    assert walk.choices() == []
    assert walk.witness().notation() == "a!1>b a!2>c c?a2 c!1>b b?c1"
    walk.back()
    take(walk, "b receives a1")
    take(walk, "b receives c1")
    assert walk.problem is None


def test_what_waits_is_told_and_going_back_is_exact() -> None:
    walk = Stepper(Setting("ks", 3, 3))
    before = walk.system
    for text in ("a sends to b", "a sends to c", "c receives a2", "c sends to b", "b receives c1"):
        take(walk, text)
    assert walk.waiting() == ["b holds c1, waiting for a1"]
    for _ in range(5):
        walk.back()
    assert walk.system == before
    with pytest.raises(MisuseError, match="nothing was done yet"):
        walk.back()


def test_a_step_that_is_not_possible_is_refused() -> None:
    walk = Stepper(Setting("ks", 3, 1))
    step = walk.choices()[0]
    walk.take(step)
    with pytest.raises(MisuseError, match="not possible here: a sends to b"):
        walk.take(step)
    with pytest.raises(MisuseError, match="no execution of the setting starts"):
        Stepper(Setting("ks", 3, 1), start=Start(faulty=1))


def test_what_a_step_led_to_is_told() -> None:
    walk = Stepper(Setting("ks", 3, 3))

    def told(text: str) -> list[str]:
        return walk.take(next(step for step in walk.choices() if in_words(step, walk.moves.roster) == text))

    assert told("a sends to b") == ["a1 is on its way to b"]
    told("a sends to c")
    assert told("c receives a2") == ["c delivers a2"]
    told("c sends to b")
    assert told("b receives c1") == []
    assert told("b receives a1") == ["b delivers a1", "b delivers c1"]


def test_stamps_and_changes_of_the_log_are_shown() -> None:
    walk = Stepper(Setting("ks", 3, 3))
    take(walk, "a sends to b")
    assert walk.notes == ["stamp of a1 to b: no causes", "log of a adds a1 for b: 1 fact now"]
    take(walk, "a sends to c")
    assert walk.notes == ["stamp of a2 to c: a1 for b", "log of a adds a2 for c: 2 facts now"]
    take(walk, "c receives a2")
    assert walk.notes == ["log of c adds a1 for b: 1 fact now"]
    walk.back()
    assert walk.notes == []
    matrix = Stepper(Setting("rst", 3, 3))
    take(matrix, "a sends to b")
    assert matrix.notes == ["stamp of a1 to b: 9 entries"]


def test_crashes_losses_and_detectors_have_words() -> None:
    walk = Stepper(Setting("a-causal", 2, 1, crashes=1, detector="falling"), start=Start(1, (1 << 62, 1 << 62)))
    words = {in_words(step, walk.moves.roster) for step in walk.choices()}
    assert {"a crashes", "b now trusts b", "a sends to b"} <= words


def follow(made: StateGraph, walk: Stepper, node: int, seen: set[int]) -> None:
    """Take every step of the graph by hand: what the graph says of a state is what is there, under its own names."""
    if node in seen:
        return
    seen.add(node)
    ways = {step: target for source, target, step in made.edges if source == node}
    choices = {in_words(step, walk.moves.roster): step for step in walk.choices()}
    assert ways.keys() == choices.keys()
    for words, step in choices.items():
        flight = [flying_words(each.copy, walk.moves.roster) for each in walk.system.flight]
        assert sorted(made.nodes[node]["in flight"]) == sorted(flight)
        walk.take(step)
        target = made.nodes[ways[words]]
        assert target["left to send"] == walk.system.left
        assert walk.problem is None or walk.problem.property == target["breaks"]
        if walk.problem is None:
            follow(made, walk, ways[words], seen)
        else:
            seen.add(ways[words])
        walk.back()


@pytest.mark.parametrize("protocol", ["ks", "fifo"])
def test_the_graph_is_the_whole_system(protocol: str) -> None:
    """Every path of the graph is an execution that can be made by hand; what breaks, breaks in both."""
    setting = Setting(protocol, 3, 2)
    made = state_graph(setting, properties=CAUSAL)
    assert made.roots == [0]
    seen: set[int] = set()
    follow(made, Stepper(setting, CAUSAL), 0, seen)
    assert seen == set(range(len(made.nodes)))
    assert any(node["breaks"] for node in made.nodes) == (explore(setting, properties=CAUSAL).verdict == "fails")
    assert sum(node["at rest"] for node in made.nodes) >= 1
    drawn = made.dot()
    assert drawn.count(" -> ") == len(made.edges)
    assert drawn.count("[label=") == len(made.edges) + len(made.nodes)


def test_the_graph_tells_messages_from_oks_and_says_who_is_gone() -> None:
    made = state_graph(Setting("a-causal", 2, 1, "any", crashes=1))
    seen: set[int] = set()
    for start, root in zip(starts_in_order(made.setting), made.roots, strict=True):
        follow(made, Stepper(made.setting, start=start), root, seen)
    assert seen == set(range(len(made.nodes)))
    flight = {words for node in made.nodes for words in node["in flight"]}
    assert {"a1 to b", "the ok of a1 from b to a"} <= flight
    assert "crashed: a" in made.dot()
    assert "will crash: a" in made.dot()
    assert "a trusts b\\n" in made.dot()


def starts_in_order(setting: Setting) -> list[Start]:
    moves = Moves(setting, promised(setting))
    return [Start(system.faulty, system.trust) for system in moves.roots()]


def test_the_graph_shows_sends_that_wait() -> None:
    made = state_graph(Setting("bounded", 2, 2, options={"bound": 1}))
    assert any("a send at a" in node["held"] for node in made.nodes)


@pytest.mark.parametrize(
    ("name", "size", "broken"),
    [
        ("rst-plus-one", {"destinations": "any", "to_self": True, "messages": 2}, "liveness"),
        ("bounded", {"messages": 4, "options": {"bound": 1}}, "progress"),
    ],
)
def test_the_graph_shows_what_is_broken_at_rest(name: str, size: dict, broken: str) -> None:
    """Nothing is in flight and something waits forever: no step breaks that, and the graph says so all the same."""
    setting = setting_of(name, 2, **size)
    made = state_graph(setting, properties=frozenset({"causal order", broken}))
    assert explore(setting, properties=frozenset({"causal order", broken})).verdict == "fails"
    assert broken in {node["breaks"] for node in made.nodes}
    assert "color=red" in made.dot()


def test_a_graph_that_helps_nobody_is_refused() -> None:
    with pytest.raises(MisuseError, match="more than 10 states"):
        state_graph(Setting("ks", 3, 3), most=10)


def test_steps_of_the_protocol_are_counted() -> None:
    """In three unicasts all of SND and RCV is run; a system of one message has no facts to leave out."""
    with count_steps(REGISTRY["ks"].protocol) as steps:
        explore(Setting("ks", 3, 3))
    times = {step.text: step.times for step in steps}
    assert len([text for text in times if text.startswith(("SND", "RCV"))]) >= 5
    assert all(times[text] > 0 for text in times if text.startswith(("SND", "RCV")))
    with count_steps(REGISTRY["ks"].protocol) as fewer:
        explore(Setting("ks", 3, 1))
    assert {step.text: step.times for step in fewer}["SND(2)"] == 0
    assert [step.text for step in steps_of(REGISTRY["ci-dc"].protocol)][1:6] == ["S1", "S2", "S3", "S4", "S5"]


def test_steps_are_those_of_the_protocol_and_no_others() -> None:
    """Its receiver's are; remarks, and what it has overridden, are not."""
    steps = {name: [step.text for step in steps_of(entry.protocol)] for name, entry in REGISTRY.items()}
    assert {"line 12", "lines 13, 15", "line 18", "line 19"} <= set(steps["a-fifo"])
    assert "R9: return whether" in " ".join(steps["ech-r9"])
    assert "SND(2)" in steps["ks"]
    assert "SND(2)" not in steps["ks-hardware"]
    for name, texts in steps.items():
        assert len(texts) >= 2, name
        assert not [text for text in texts if text[0].islower() and not text.startswith("line")], name


EXPLORED = {
    "hierarchy": {"options": {"zones": "ab|c"}},
    "ech-r9": {"options": {"separators": "a:b|c;a:c|b"}},
    "bounded": {"options": {"bound": 1}},
    "pc-broadcast": {"messages": 2, "fifo": True, "links": 1, "options": {"overlay": "a:b;b:c"}},
    "a-fifo": {"messages": 2, "crashes": 1},
    "a-causal": {"messages": 2, "crashes": 1},
    "ks-ft": {"messages": 2, "crashes": 1},
}
NEVER_HELD = ["Hold what needs more than is delivered", "Deliver what was held"]
"""acknowledged transports and safe links deliver on arrival"""


@pytest.mark.parametrize("name", REGISTRY)
def test_small_explorations_run_every_step(name: str) -> None:
    entry = REGISTRY[name]
    size = {"messages": 3, "destinations": "broadcast" if "broadcast only" in entry.needs else "unicast"}
    with count_steps(entry.protocol) as steps:
        explore(Setting(name, 3, **(size | EXPLORED.get(name, {}))), properties=frozenset({"no duplicates"}))
    never = NEVER_HELD if name in ("acked", "synchronous", "pc-broadcast") else []
    assert [step.text for step in steps if not step.times] == never


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    saved = tmp_path / "mine.json"
    monkeypatch.setattr("sys.stdin", io.StringIO("1\n99\nd\nb\n2\nq\n"))
    assert main(["explore", "--protocol", "fifo", "--step", "--save", str(saved)]) == 0
    shown = capsys.readouterr().out
    assert "b receives a1" in shown
    assert "'99' is not a choice" in shown
    assert "a1 is on its way to b" in shown
    assert "o sent a1 to b" in shown
    assert f"replay it with: thence explore --replay {saved}" in shown
    assert main(["explore", "--replay", str(saved)]) == 0
    dot, data = tmp_path / "graph.dot", tmp_path / "graph.json"
    for target in (dot, data):
        assert main(["explore", "--protocol", "unordered", "--messages", "2", "--graph", str(target)]) == 1
    assert "color=red" in dot.read_text()
    assert any(node["breaks"] == "causal order" for node in json.loads(data.read_text())["nodes"])
    assert main(["explore", "--graph", str(tmp_path / "graph.pdf")]) == 2
    capsys.readouterr()
    report = tmp_path / "report.json"
    assert main(["explore", "--messages", "2", "--cover", "--json", str(report)]) == 0
    assert "steps of the protocol: 9 of 9 run" in capsys.readouterr().out
    assert json.loads(report.read_text())["steps"][1]["step"] == "SND(1)"


def by_hand(monkeypatch: pytest.MonkeyPatch, typed: str, *words: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    return main(["explore", "--step", *words])


def test_who_crashes_is_chosen_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("--protocol", "a-causal", "--processes", "2", "--messages", "1", "--crashes", "1")
    report = tmp_path / "report.json"
    assert by_hand(monkeypatch, "7\n2\n1\nq\n", *asked, "--json", str(report)) == 0
    shown = capsys.readouterr().out
    assert "first choose the crashing processes" in shown
    assert "'7' is not a choice; a number from 1 to 3" in shown
    assert "a crashes" in shown
    row = json.loads(report.read_text())
    assert (row["faulty"], len(row["steps"]), row["breaks"]) == (["a"], 1, None)
    assert by_hand(monkeypatch, "q\n", *asked) == 0


def test_the_end_and_a_missing_file_are_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert by_hand(monkeypatch, "1\ns\n1\n", "--protocol", "ks", "--processes", "2", "--messages", "1") == 0
    shown = capsys.readouterr().out
    assert "s needs a file to write" in shown
    assert "nothing more can happen, and no property is broken" in shown


def test_after_a_break_one_can_go_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("--protocol", "unordered", "--processes", "2", "--messages", "2")
    assert by_hand(monkeypatch, "1\n1\n2\nb\n1\nq\n", *asked) == 0
    shown = capsys.readouterr().out
    assert "breaks causal order: b delivered a2 before a1" in shown
    assert "no step is possible from here; b goes back, d draws, s FILE saves, q ends" in shown
    unwritten = tmp_path / "nothing.json"
    assert by_hand(monkeypatch, "q\n", *asked, "--save", str(unwritten)) == 0
    assert f"no step was taken: {unwritten} is not written" in capsys.readouterr().out
    assert not unwritten.exists()


def test_what_waits_for_ever_is_told_though_more_may_be_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever ends there is told what a replay says."""
    saved, report = tmp_path / "mine.json", tmp_path / "report.json"
    size = ("--variants", "--protocol", "rst-plus-one", "--processes", "2", "--messages", "3", "--self")
    files = ("--save", str(saved), "--json", str(report))
    assert by_hand(monkeypatch, "1\n1\n1\n1\nq\n", *size, *files) == 1
    assert "breaks liveness, unless a process sends: a never delivers a2" in capsys.readouterr().out
    assert json.loads(report.read_text())["breaks"] == "liveness"
    assert main(["explore", "--replay", str(saved)]) == 1
