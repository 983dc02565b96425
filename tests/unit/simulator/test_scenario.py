"""What cannot be run is refused before anything starts, in a sentence that says what would be accepted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from thence.core.protocols.registry import REGISTRY, ProtocolEntry
from thence.errors import MisuseError
from thence.lab.simulator import Scenario, scenario_of, simulate
from thence.lab.simulator.scenario import bears_loss

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"protocol": "nope"}, "no protocol 'nope'; there are "),
    ({"processes": 0}, "0 processes; from 1 to"),
    ({"processes": 1}, "1 process has no other to send to"),
    ({"messages": -1}, "messages -1; 0 or more"),
    ({"rate": 0.0}, "rate 0.0; from 1e-06 to 1e+09 requests a second"),
    ({"rate": 1e-310}, "rate 1e-310"),
    ({"rate": 1e308}, "rate 1e+308"),
    ({"rate": -3.0}, "rate -3.0"),
    ({"rate": float("nan")}, "rate nan"),
    ({"fanout": "8"}, "fan-out 8 is larger than the 7 others"),
    ({"fanout": "9", "to_self": True}, "fan-out 9 is larger than the 8 processes"),
    ({"fanout": "0"}, "no fan-out '0'; uniform, unicast, broadcast or a number from 1 to 7"),
    ({"fanout": "many"}, "no fan-out 'many'"),
    ({"fanout": "9" * 5000}, "a number from 1 to 7 is accepted"),
    ({"delay": "exp:1"}, "no delay policy 'exp'; there are constant, uniform"),
    ({"delay": "exponential"}, "gives 0 numbers; exponential takes 1"),
    ({"delay": "exponential:x"}, "not a number"),
    ({"delay": "exponential:-1"}, "holds -1.0; numbers from 0 to 1e+09 are accepted"),
    ({"delay": "exponential:inf"}, "holds inf"),
    ({"delay": "constant:1e308"}, "holds 1e+308"),
    ({"delay": "lognormal:1,1000"}, "lognormal sigma 1000.0; from 0 to 10"),
    ({"delay": "uniform:2,1"}, "from 2.0 to 1.0"),
    ({"delay": "pareto:1,1"}, "above 1 is accepted"),
    ({"delay": "constant:1;a=constant:2"}, "link 'a' is not SOURCE>DESTINATION"),
    ({"delay": "constant:1;a>z=constant:2"}, "no process 'z'"),
    ({"delay": "constant:1;a>b"}, "names no link"),
    ({"delay": "matrix:constant:1,2/3,4"}, "2 rows and [2] columns; 8 of each"),
    ({"delay": "matrix:pareto:1"}, "matrix of shape 'pareto'"),
    ({"workload": "nope"}, "no workload 'nope'; there are poisson"),
    ({"workload": "poisson:3"}, "takes no arguments"),
    ({"workload": "hotspot:9"}, "HOT from 1 to 8"),
    ({"workload": "hotspot:1.5"}, "HOT from 1 to 8"),
    ({"workload": "bursts:0,1"}, "TALK above 0"),
    ({"workload": "bursts:1e-300,1"}, "SILENCE up to a million times TALK"),
    ({"workload": "bursts", "rate": 1e-6}, "makes 4e-06 requests in a burst; from 0.001 are accepted"),
    ({"workload": "bursts:1,2,3"}, "at most 2 numbers"),
    ({"workload": "groups"}, "names none; groups:4x3 or groups:abc/cd"),
    ({"workload": "groups:2x9"}, "1 to 8 processes"),
    ({"workload": "groups:9999999999999x2"}, "1 to 100000 groups"),
    ({"workload": "groups:a/b"}, "no process has another to send to"),
    ({"workload": "groups:ab/z"}, "no process 'z'"),
    ({"workload": "groups:2x3", "fanout": "2"}, "chooses destinations itself; leave out fan-out 2"),
    ({"workload": "request-reply:8"}, "SERVERS from 1 to 7"),
    ({"workload": "request-reply:1.5"}, "SERVERS from 1 to 7"),
    ({"workload": "request-reply", "to_self": True}, "no process asks itself; leave out --self"),
    ({"workload": "request-reply", "processes": 1}, "with 1 process; 2 or more"),
    ({"workload": "replicated:2,1"}, "COPIES from 2 to 8"),
    ({"workload": "replicated:2.5,2"}, "ITEMS from 1 to 100000"),
    ({"workload": "replicated:1e9,2"}, "ITEMS from 1 to 100000"),
    ({"partitions": ("1-2",)}, "is not FROM-TO:SIDE|SIDE"),
    ({"partitions": ("2-1:a|b",)}, "it must heal"),
    ({"partitions": ("1-" + "9" * 400 + ":a|b",)}, "up to 1e+09 seconds"),
    ({"partitions": ("1-2:a|a",)}, "names a twice"),
    ({"partitions": ("1-2:abcdefgh",)}, "leaves all on one side"),
    ({"loss": 0.1}, "protocol ks does not bear loss"),
    ({"loss": 1.0}, "loss 1.0 is not a share"),
    ({"duplicates": -0.1}, "duplicates -0.1 is not a share"),
    ({"loss": 0.6, "duplicates": 0.6, "protocol": "unordered"}, "together must stay below 1"),
    ({"crashes": 9}, "9 crashes among 8 processes"),
    ({"protocol": "a-fifo", "options": (("groups", "ab|cd"),)}, "groups 'ab|cd' leave out e, f, g, h"),
    ({"protocol": "a-fifo", "options": (("groups", "abcd|efgh"),), "workload": "bursts"}, "does not address whole"),
    ({"protocol": "a-fifo", "options": (("groups", "abcd|efgh"),), "fanout": "3"}, "larger than the 2 groups"),
    ({"protocol": "a-fifo", "options": (("groups", "abcd|efgh"),), "workload": "poisson:1"}, "takes no arguments"),
    ({"protocol": "a-fifo", "options": (("groups", "abcd|efgh"),), "to_self": True}, "leave out --self"),
    ({"protocol": "bounded", "bound": 3, "options": (("bound", 4),)}, "option bound is given more than once"),
    (
        {"options": (("explicit", True), ("explicit", False))},
        "option explicit is given more than once; once is accepted",
    ),
    ({"bound": 3}, "protocol ks has no option 'bound'"),
    ({"protocol": "bss"}, "protocol bss needs broadcast only; it can run with a workload that only broadcasts"),
    ({"protocol": "bss", "fanout": "broadcast", "to_self": True}, "bss needs broadcast only"),
    ({"protocol": "acked"}, "protocol acked needs unicast only"),
]


@pytest.mark.parametrize(("changes", "text"), REFUSED, ids=[str(changes) for changes, _ in REFUSED])
def test_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(MisuseError) as error:
        Scenario(**changes).check()
    assert text in str(error.value)


def test_every_need_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    needy = ProtocolEntry(REGISTRY["ks"].protocol, "x", "x", needs=("fifo", "broadcast only", "topology"))
    monkeypatch.setitem(REGISTRY, "ks", needy)
    with pytest.raises(MisuseError, match=r"ks needs fifo, broadcast only; .*--fifo.*--fanout broadcast"):
        Scenario().check()
    with pytest.raises(MisuseError, match="ks needs broadcast only;"):
        Scenario(fifo=True).check()
    Scenario(fifo=True, fanout="broadcast").check()


TWO_SIDES = (("separators", "c:ab|de;c:de|ab"),)
"""c parts a, b from d, e"""


@pytest.mark.parametrize("to_self", [False, True])
@pytest.mark.parametrize(
    ("workload", "fanout"),
    [
        *(
            (workload, fanout)
            for workload in ("poisson", "hotspot", "bursts:1,1")
            for fanout in ("1", "2", "broadcast")
        ),
        ("poisson", None),
        ("groups:abc/cde/ac", None),
        ("request-reply:3", None),
    ],
)
def test_on_a_topology_processes_send_to_their_neighbours(workload: str, fanout: str | None, to_self: bool) -> None:
    """Whatever the workload, no message goes past the separator, and the order holds.

    Of three servers d and e can ask one, c.
    """
    asking = workload.startswith("request-reply")
    to_self = to_self and not asking
    scenario = Scenario(
        "ech-r9", 5, 200, fanout, workload, delay="adversarial", to_self=to_self, labels=2, options=TWO_SIDES
    )
    result = simulate(scenario, trace=True)
    sent = {(event.process, event.destinations or ()) for event in result.events if event.kind == "send"}
    for process, destinations in sent:
        side = {"a": "abc", "b": "abc", "d": "cde", "e": "cde"}.get(process, "abcde")
        assert set(destinations) <= set(side)
    assert {process for process, _ in sent} == set("cde" if asking else "abcde")
    assert any(process in destinations for process, destinations in sent) == to_self
    if fanout == "broadcast":
        assert ("a", ("a", "b", "c") if to_self else ("b", "c")) in sent
    elif fanout is not None:
        assert {len(destinations) for _, destinations in sent} == {int(fanout)}
    assert sum(event.kind == "send" for event in result.events) == 200
    assert not result.judge().violations
    assert not result.outcome.stuck


def test_hot_spots_of_a_topology_are_hot_for_their_neighbours() -> None:
    scenario = Scenario("ech-r9", 5, 2000, "unicast", "hotspot:1,0.9", options=TWO_SIDES)
    events = simulate(scenario, trace=True).events
    to_a = [event.destinations == ("a",) for event in events if event.kind == "send" and event.process in ("b", "c")]
    assert sum(to_a) / len(to_a) == pytest.approx(0.93, abs=0.03)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"options": (("separators", "nonsense"),)}, "separator 'nonsense' is not MEMBERS:FORWARD|BACKWARD"),
        ({"fanout": "3"}, "fan-out 3 is larger than the 2 that a can send to; .* a number from 1 to 2 is accepted"),
        ({"workload": "poisson:1"}, "takes no arguments"),
        ({"workload": "groups:2x3"}, "draws sets of processes .*; groups:abc/cd, .* and request-reply are accepted"),
        ({"workload": "replicated"}, "draws sets of processes"),
        ({"workload": "groups:abd"}, "a cannot send to d past a separator; .* those of a: b, c"),
        ({"workload": "request-reply", "options": (("separators", "d:a|bce;d:bce|a"),)}, None),
        ({"workload": "request-reply", "options": (("separators", "b:c|de"),)}, "no process can send to a server"),
        ({"workload": "hotspot", "options": (("separators", "b:c|de"),)}, "no process can send to one of the first 1"),
        ({"options": (("separators", "a:b|c;b:a|c;c:a|b"),)}, "no process has a neighbour"),
    ],
    ids=str,
)
def test_what_a_topology_cannot_carry_is_refused(changes: dict[str, Any], text: str | None) -> None:
    """In the last but two, a stands in no separator, and so has no neighbours."""
    scenario = Scenario("ech-r9", 5, 10, **{"options": TWO_SIDES, **changes})
    if text is None:
        scenario.check()
    else:
        with pytest.raises(MisuseError, match=text.replace("|", r"\|")):
            scenario.check()


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol": "bss", "fanout": "broadcast"},
        {"protocol": "bss", "fanout": "7"},
        {"protocol": "bss", "processes": 2},
        {"protocol": "acked", "fanout": "1"},
        {"protocol": "acked", "workload": "request-reply"},
        {"protocol": "acked", "workload": "groups:ab/cd"},
        {"processes": 1, "to_self": True},
        {"labels": 10**18, "messages": 10},
        {"protocol": "unordered", "loss": 0.5},
    ],
    ids=str,
)
def test_accepted(changes: dict[str, Any]) -> None:
    Scenario(**changes).check()


def test_only_what_never_waits_bears_loss() -> None:
    assert [name for name, entry in REGISTRY.items() if bears_loss(entry)] == ["unordered"]


def test_plain_data_and_back() -> None:
    scenario = Scenario(protocol="bounded", bound=5, partitions=("1-2:a|b",), fanout="2", labels=2)
    assert scenario_of(json.loads(json.dumps(scenario.row()))) == scenario
    assert scenario_of({"fanout": 3}).fanout == "3"


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"process": 3}, "a scenario has no 'process'; it has protocol, processes"),
        ({"processes": "3"}, "processes is '3'; int is accepted"),
        ({"processes": True}, "processes is True; int is accepted"),
        ({"fifo": 1}, "fifo is 1; bool is accepted"),
        ({"bound": "x"}, "bound is 'x'; int or null is accepted"),
    ],
)
def test_bad_plain_data(row: dict[str, Any], text: str) -> None:
    with pytest.raises(MisuseError) as error:
        scenario_of(row)
    assert text in str(error.value)


def test_names() -> None:
    assert Scenario().name == "ks-n8-uniform-seed1"
    assert Scenario(workload="groups:2x3", seed=4).name == "ks-n8-groups:2x3-seed4"
    assert Scenario(run="mine").name == "mine"


def test_a_fan_out_may_be_a_number() -> None:
    assert Scenario(fanout=3) == Scenario(fanout="3") == scenario_of({"fanout": 3})
    with pytest.raises(MisuseError, match="no fan-out '0'; uniform, unicast, broadcast or a number from 1 to 7"):
        Scenario(fanout=0).check()
