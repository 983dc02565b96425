"""Schiper and Pedone 2009, repaired: the properties by definition under random crashes, and what the protocols cost.

Exhaustive exploration of small systems with crashes is in tests/check; tens of thousands of random ones in
tests/soak.
"""

from __future__ import annotations

import pytest
from papers.multicast import FOUND, MEASURE
from support.some import some

from thence.core.model.faults import groups_of, least, legal, legalise
from thence.core.model.order import Execution
from thence.core.model.roster import Roster, positions
from thence.core.protocols.effects import Deferred, Deliver, Sent, Transmit
from thence.core.protocols.registry import create
from thence.errors import MisuseError, PeerError
from thence.lab.explorer.random_walk import RandomWalk, walk
from thence.lab.explorer.setting import Setting
from thence.lab.papers.variants import setting_of

FT = ["a-fifo", "a-causal", "ks-ft"]
LAYOUTS = [(4, ""), (5, "ab|cd|e"), (6, "abc|def"), (4, "a|bc|d")]
SEEDS = 80
PATIENCE = (0.1, 0.4, 0.7)


@pytest.mark.parametrize("protocol", FT)
@pytest.mark.parametrize(("processes", "groups"), LAYOUTS)
def test_every_property_holds_under_random_crashes(protocol: str, processes: int, groups: str) -> None:
    """Integrity, validity, uniform agreement, uniform order, genuineness: seeds 0..79 for each of three paces."""
    crashed = 0
    for seed in range(SEEDS):
        for patience in PATIENCE:
            setting = Setting(protocol, processes, 8, "any", groups=groups, crashes=processes - 1)
            run = walk(setting, seed, patience=patience)
            assert not run.problems(), f"{run.problems()}\n{run}"
            crashed += run.faulty.bit_count()
    print(f"{SEEDS * len(PATIENCE)} executions, {crashed} crashes, seeds 0..{SEEDS - 1}")
    assert crashed > SEEDS


@pytest.mark.parametrize(
    ("protocol", "setting", "seeds"),
    [
        ("a-causal-printed", {"processes": 3, "messages": 14, "crashes": 1}, 400),
        (
            "a-fifo-printed",
            {"processes": 4, "messages": 12, "destinations": "any", "groups": "a|bc|d", "crashes": 2},
            600,
        ),
        ("a-fifo-theta", {"processes": 4, "messages": 7, "destinations": "any", "crashes": 2}, 400),
    ],
)
def test_the_printed_forms_are_caught_by_random_crashes(protocol: str, setting: dict, seeds: int) -> None:
    for seed in range(seeds):
        run = walk(setting_of(protocol, **setting), seed, patience=PATIENCE[seed % 3])
        if run.problems():
            print(f"seed {seed}: {run.problems()[0]}\n{run}")
            assert any(word in run.problems()[0] for word in ("validity", "agreement"))
            return
    pytest.fail(f"no failure in seeds 0..{seeds - 1}")


# -- cost ----------------------------------------------------------------------------------------------------------


def alone(protocol: str, processes: int, groups: str, sender: int, destinations: int) -> RandomWalk:
    """One message and nothing else."""
    setting = Setting(protocol, processes, 0, "any", groups=groups)
    run = walk(setting, 0)
    members = [setting.member(p) for p in range(processes)]
    sent = members[sender].send(destinations)
    assert isinstance(sent, Sent)
    depth = dict.fromkeys(range(processes), 0)
    flight = [(copy, 1) for copy in sent.copies]
    run.copies = {"m": len(flight)}
    while flight:
        copy, steps = flight.pop(0)
        here = copy.destination
        depth[here] = max(depth[here], steps)
        for effect in members[here].receive(copy):
            if isinstance(effect, Transmit):
                flight += [(c, depth[here] + 1) for c in effect.copies]
                run.copies["m"] += len(effect.copies)
            elif isinstance(effect, Deliver):
                run.degree["m", str(here)] = depth[here]
    return run


@pytest.mark.parametrize("protocol", FT)
@pytest.mark.parametrize("destinations", [0b0011, 0b1111, 0b111100])
def test_an_isolated_message_takes_two_steps(protocol: str, destinations: int) -> None:
    run = alone(protocol, 6, "ab|cd|ef", 0, destinations)
    assert len(run.degree) == destinations.bit_count()
    assert set(run.degree.values()) == {2}


@pytest.mark.parametrize("protocol", FT)
def test_to_a_group_of_one_an_isolated_message_takes_one_step(protocol: str) -> None:
    """Two steps are what it takes to agree (proposition 6.1 speaks of two addressees or more)."""
    assert alone(protocol, 3, "", 0, 0b010).degree == {("m", "1"): 1}


@pytest.mark.parametrize("protocol", FT)
@pytest.mark.parametrize("destinations", [0b0011, 0b1111, 0b111100])
def test_messages_per_multicast(protocol: str, destinations: int) -> None:
    """k copies, k (k - 1) OKs among k addressees; the repair adds k OKs where the sender is not addressed."""
    run = alone(protocol, 6, "ab|cd|ef", 0, destinations)
    k = destinations.bit_count()
    outside = protocol != "a-fifo" and not destinations & 1
    assert run.copies["m"] == k + k * (k - 1) + (k if outside else 0)


@pytest.mark.parametrize("protocol", ["a-causal", "ks-ft"])
def test_back_to_back_sends_to_different_groups_take_four_steps(protocol: str) -> None:
    """The second is deferred until the first is OKed (two steps), then takes two of its own."""
    a, b, c = (create(protocol, "abc", p) for p in "abc")
    first, second = a.send("b"), a.send("c")
    assert isinstance(first, Sent)
    assert isinstance(second, Deferred)
    assert second.waits_for == ("b",)
    assert [p.processes for p in a.pending()] == [("b",)]
    okays = [e for e in b.receive(first.copies[0]) if isinstance(e, Transmit)]
    (gone,) = [e for e in a.receive(okays[0].copies[0]) if isinstance(e, Sent)]
    assert gone.ticket == second.ticket
    assert any(isinstance(e, Deliver) for e in c.receive(gone.copies[0]))
    assert not isinstance(a.send("c"), Deferred), "within the destinations of what is on its way"


def test_no_send_waits_behind_one_addressed_within_its_destinations() -> None:
    a = create("a-causal", "abc", "a")
    a.send("b")
    assert isinstance(a.send("bc"), Sent)


# -- least information per group -----------------------------------------------------------------------------------


def group_facts_by_definition(run: RandomWalk, process: str) -> set[tuple[str, int]]:
    """(message, group) of the causal past that neither PC2 nor, for a group of one, PC1 has ended."""
    roster = run.setting.roster()
    groups = run.setting.group_masks()
    execution = Execution([e for e in run.events if e.kind != "receive"])
    rows = execution.rows[process]
    if not rows:
        return set()
    past = execution.past[rows[-1]]
    addressed = {m: roster.mask(execution.events[at].destinations or ()) for m, at in execution.send.items()}
    found = set()
    for message, at in execution.send.items():
        if not past >> at & 1:
            continue
        for number, group in enumerate(groups):
            if not group & addressed[message]:
                continue
            later = any(
                past >> other & 1 and execution.before(at, other) and addressed[m] & group
                for m, other in execution.send.items()
            )
            ended = group.bit_count() == 1 and any(
                execution.events[place].message == message and past >> place & 1
                for place in execution.deliveries[roster.name(next(positions(group)))]
            )
            if not later and not ended:
                found.add((message, number))
    return found


def test_logs_hold_the_least_facts_per_group() -> None:
    compared = 0
    for seed in range(60):
        run = walk(Setting("ks-ft", 5, 3 + seed % 9, "any", groups=("", "ab|c|de")[seed % 2]), seed, patience=0.3)
        roster, groups = run.setting.roster(), run.setting.group_masks()
        for p, member in some(enumerate(run.members)):
            held = {
                (f"{roster.name(m.sender)}{m.count}", number)
                for m, d in member.log_facts() or ()
                for number, group in enumerate(groups)
                if group >> d & 1
            }
            assert held == group_facts_by_definition(run, roster.name(p)), f"{roster.name(p)} in {run}"
            compared += 1
    print(f"{compared} logs equal the least, seeds 0..59")


def test_the_least_information_is_smaller_than_the_matrix() -> None:
    """8 groups of 3: the matrix has 8 x 24 = 192 numbers on every message."""
    sizes = {protocol: MEASURE["stamps"](protocol) for protocol in ("a-causal", "ks-ft")}
    assert sizes == FOUND["stamps"], "the page quotes these"
    assert sizes["a-causal"]["entries"] == 192
    assert sizes["ks-ft"]["entries"] < 60
    assert sizes["ks-ft"]["bytes"] < sizes["a-causal"]["bytes"]


# -- groups, the detector, refusals --------------------------------------------------------------------------------


def test_groups_as_text() -> None:
    roster = Roster("abcde")
    assert groups_of("ab|cd|e", roster) == (0b00011, 0b01100, 0b10000)
    assert groups_of("", Roster("ab")) == (1, 2)
    assert groups_of("one,two|three", Roster(["one", "two", "three"])) == (3, 4)
    for wrong in ("ab|cd", "ab|bc|de", "ab||cde", "abcdef"):
        with pytest.raises(MisuseError):
            groups_of(wrong, roster)


def test_a_send_addresses_whole_groups() -> None:
    member = create("a-causal", "abcd", "a", groups="ab|cd")
    with pytest.raises(MisuseError, match="whole groups"):
        member.send("bc")


def test_the_detector_is_accurate_per_group() -> None:
    groups = (0b0011, 0b1100)
    assert legal(0b0101, groups, 0b1010)
    assert not legal(0b0001, groups, 0)
    assert legal(0b0001, groups, 0, per_group=False), "the literal restriction lets a whole group go untrusted"
    assert legal(0b0100, groups, 0b0011), "nobody in the first group is correct"
    assert set(least(groups, 0b0001)) == {0b0110, 0b1010}
    for faulty in range(16):
        for wish in range(16):
            assert legal(legalise(wish, groups, faulty), groups, faulty)


def test_snapshots_keep_groups_mails_and_deferred_sends() -> None:
    a = create("ks-ft", "abcd", "a", groups="ab|cd")
    sent = a.send("cd")
    assert isinstance(sent, Sent)
    a.send("ab")
    a.trusted("ac")
    b = create("ks-ft", "abcd", "c", groups="ab|cd")
    b.receive(sent.copies[0])
    for member in (a, b):
        again = type(member).restore(member.snapshot())
        assert again.state() == member.state()
        assert again.pending() == member.pending()
    wire = b.decode(a.encode(sent.copies[0]), source=0)
    assert wire == sent.copies[0]


def test_a_copy_for_somebody_else_is_refused() -> None:
    a = create("a-fifo", "abc", "a")
    sent = a.send("b")
    assert isinstance(sent, Sent)
    with pytest.raises(PeerError):
        create("a-fifo", "abc", "c").receive(sent.copies[0])
