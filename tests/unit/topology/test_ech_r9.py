"""The member of `ech-r9`: what its option may say, whom it may send to, and what it hands over."""

from __future__ import annotations

import pytest
from support.walk import walk

from thence.core.model.message import MessageId
from thence.core.model.roster import Roster
from thence.core.protocols.ech import ECH
from thence.core.protocols.ech_r9 import ECHR9, cuts_of, neighbours, text_of
from thence.errors import MisuseError, PeerError
from thence.lab.papers.variants.topology import Letter
from thence.protocols import REGISTRY, Deliver, create

LINE = "c:ab|de;c:de|ab"


def member(process: str, separators: str = LINE, names: str = "abcde") -> ECHR9:
    made = create("ech-r9", names, process, separators=separators)
    assert isinstance(made, ECHR9)
    return made


def test_the_registry_says_what_it_needs() -> None:
    entry = REGISTRY["ech-r9"]
    assert entry.needs == ("topology",)
    assert entry.guarantee == "causal"
    assert entry.protocol.code == 50


def test_only_neighbours_can_be_addressed() -> None:
    with pytest.raises(MisuseError, match=r"a sends to d, e past a separator of .*; neighbours of a: b, c"):
        member("a").send(["b", "d", "e"])
    member("a").send(["b", "c"])
    member("c").send(["a", "b", "d", "e", "c"])
    assert member("a").count == 0, "a refused send leaves no trace"


def test_a_copy_that_came_past_a_separator_is_refused() -> None:
    stranger = create("ech-r9", "abcde", "e")
    with pytest.raises(PeerError, match="e1 of e came straight to a, past a separator"):
        member("a").receive(stranger.send(["a"]).copies[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("c", "'c' is not MEMBERS:FORWARD|BACKWARD; d:abc|efg is accepted"),
        ("c:ab", "'c:ab' is not MEMBERS:FORWARD"),
        ("c:a|b|de", "is not MEMBERS:FORWARD"),
        ("c:ab|", "'c:ab|' has no backward set"),
        (":ab|de", "has no members"),
        ("c:ab|bde", "names b twice"),
        ("ca:ab|de", "names a twice"),
        ("c:ab|dx", "no process 'x' in the roster"),
    ],
)
def test_a_wrong_separator_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(MisuseError) as error:
        member("a", text)
    assert message in str(error.value)


def test_separators_are_written_as_they_are_read() -> None:
    roster = Roster(["a", "b", "ab", "bc"])
    cuts = cuts_of("ab:a,b|bc;", roster)
    assert text_of(cuts, roster) == "ab:a,b|bc"
    assert cuts_of(text_of(cuts, roster), roster) == cuts
    assert text_of(cuts_of("ab:c|d", Roster("abcd")), Roster("abcd")) == "a,b:c|d"
    grown = Roster([*"abcd", "ab"])
    assert cuts_of(member("a", "ab:c|d", "abcd").separators, grown) == cuts_of("a,b:c|d", grown)


def test_neighbours_are_those_that_no_separator_divides() -> None:
    roster = Roster("abcde")
    near = [roster.members(mask) for mask in neighbours(cuts_of("c:ab|de;d:abc|e", roster), roster)]
    assert near == [tuple("abc"), tuple("abc"), tuple("abcd"), tuple("cde"), tuple("de")]


@pytest.mark.parametrize(("separators", "expected"), [(LINE, []), ("", ["a1"])])
def test_r9_leaves_out_what_concerns_the_other_side(separators: str, expected: list[str]) -> None:
    """a tells b; c hears of it and speaks to d."""
    a, c = member("a", separators), member("c", separators)
    a.send(["b"])
    c.receive(a.send(["c"]).copies[0])
    stamp = ECHR9.dependencies(c.send(["d"]).copies[0])
    assert [f"{c.roster.name(m.sender)}{m.count}" for m, _ in stamp] == expected


def test_one_way_separators_filter_one_way() -> None:
    stamps = []
    for separators in ("c:de|ab", "c:ab|de"):
        a, c = member("a", separators), member("c", separators)
        a.send(["b"])
        c.receive(a.send(["c"]).copies[0])
        stamps.append(ECHR9.entries(c.send(["d"]).copies[0]))
    assert stamps == [0, 1]


def test_its_own_last_send_is_known_to_a_member_of_the_separator() -> None:
    """Departure: c's carbon copy of its own c1 names c only after the next send, but c knows c1."""
    c = member("c")
    c.send(["a"])
    assert ECHR9.entries(c.send(["d"]).copies[0]) == 0


def test_without_separators_it_is_ech_and_forgets_more_than_the_letter() -> None:
    """The same deliveries; fewer elements in all, though on a copy here and there one that was forgotten comes back."""
    totals = [0, 0, 0]
    for seed in range(20):
        runs = [walk(kind, 5, 60, seed, network="random") for kind in (ECHR9, ECH, Letter)]
        assert runs[0].delivered == runs[1].delivered == runs[2].delivered, f"{runs[0]}"
        totals = [total + sum(map(ECHR9.entries, run.copies)) for total, run in zip(totals, runs, strict=True)]
    assert totals[0] == totals[1] < totals[2], totals


def test_carbon_copies_can_be_forced() -> None:
    """Section 4.3: a message to the other members of the separator lets R9 leave out what was not reported to them."""
    roster, square = Roster("abcd"), "ab:d|c;ab:c|d"
    a, b, c, d = (ECHR9(roster, name, separators=square) for name in "abcd")
    late = a.send(["c"]).copies[0]
    assert a.worth_telling(["d"]) == a.worth_telling(roster.mask(["d"])) == ("b",)
    assert a.worth_telling(["d"], label="other") == (), "of that order nothing was sent"
    assert ECHR9.entries(a.fork().send(["d"]).copies[0]) == 1
    b.receive(a.send(["b"]).copies[0])
    assert a.worth_telling(["d"]) == ()
    d.receive(a.send(["d"]).copies[0])
    assert d.log_size() <= 2
    told = d.send(["b"]).copies[0]
    b.receive(told)
    held = c.receive(b.send(["c"]).copies[0])
    assert [type(effect).__name__ for effect in held] == ["Hold"], "b knew of a1, so nothing is lost"
    assert sum(isinstance(effect, Deliver) for effect in c.receive(late)) == 2


def test_carbon_copies_can_be_forced_in_the_order_of_a_label() -> None:
    a = ECHR9(Roster("abcd"), "a", separators="ab:d|c;ab:c|d")
    a.send(["c"], label="x")
    assert (a.worth_telling(["d"]), a.worth_telling(["d"], label="x")) == ((), ("b",))


def test_what_forcing_saves_and_what_it_costs() -> None:
    """With a forced report before each message across, nothing about the backward set leaves, but reports do.

    So forcing pays only where a report speaks for many elements at once.
    """
    sizes, about = [], []
    for forced in (False, True):
        roster, square = Roster("abcd"), "ab:d|c;ab:c|d"
        members = {name: ECHR9(roster, name, separators=square) for name in "abcd"}
        total = behind = 0
        for turn in range(30):
            here = "ab"[turn % 2]
            members["c"].receive(members[here].send(["c"]).copies[0])
            others = members[here].worth_telling(["d"]) if forced else ()
            for copy in members[here].send(others).copies if others else ():
                members[roster.name(copy.destination)].receive(copy)
            sent = members[here].send(["d"]).copies[0]
            total += ECHR9.entries(sent)
            behind += sum(mask == roster.mask(["c"]) for _, mask in ECHR9.dependencies(sent))
            assert any(isinstance(effect, Deliver) for effect in members["d"].receive(sent))
        sizes.append(total)
        about.append(behind)
    assert about[0] > about[1] == 0
    assert sizes[1] > sizes[0], sizes


def test_histories_stay_bounded_where_processes_never_meet() -> None:
    """a and c exchange messages through b, which also speaks to d: what a hears of d must not pile up."""
    members = {name: ECHR9(Roster("abcd"), name) for name in "abcd"}
    for _ in range(60):
        for sender, to in (("b", "d"), ("b", "a"), ("a", "b"), ("b", "c"), ("c", "b")):
            for effect in members[to].receive(members[sender].send([to]).copies[0]):
                assert isinstance(effect, Deliver)
    assert max(m.log_size() for m in members.values()) <= 6


def test_snapshots_keep_the_separators_and_joins_wait_for_a_place() -> None:
    a, c = member("a"), member("c")
    for each in (a, c):
        each.join("f")
        again = ECHR9.restore(each.snapshot())
        assert again.state() == each.state()
        assert again.separators == each.separators == "c:a,b|d,e;c:d,e|a,b"
        with pytest.raises(MisuseError, match="sends to f past a separator"):
            again.send(["f"])
        again.place("c:a,b,f|d,e")
        again.send(["f"])


def test_labels_share_the_separators() -> None:
    a = member("a")
    a.send(["b"], label="red")
    with pytest.raises(MisuseError, match="past a separator"):
        a.send(["e"], label="red")
    a.place("")
    a.send(["e"], label="red")


def test_what_is_handed_over_is_taken_over() -> None:
    a, c = member("a"), member("c")
    a.send(["b"], label="red")
    c.receive(a.send(["c"], label="red").copies[0])
    a.send(["b"])
    c.receive(a.send(["c"]).copies[0])
    grown = "c,f:a,b|d,e;c,f:d,e|a,b"
    c.join("f")
    c.place(grown)
    data = c.hand_over("f")
    f = ECHR9(c.roster, "f", separators=grown)
    f.take_over(data)
    assert f.log_size() == c.log_size() == 1
    assert ECHR9.dependencies(f.send(["b"]).copies[0]) == [(MessageId(0, 1), 0b10)]
    assert ECHR9.entries(f.send(["b"], label="red").copies[0]) == 1
    assert ECHR9.entries(c.send(["f"]).copies[0]) == 0, "f was told by the handing over"
    with pytest.raises(MisuseError, match="f has sent or received already"):
        f.take_over(data)
    with pytest.raises(PeerError, match="history under a roster of 6 was handed to a member that knows 5"):
        member("e").take_over(data)
    with pytest.raises(PeerError):
        ECHR9(c.roster, "f").take_over(data + b"\0")


def test_who_left_needs_no_telling() -> None:
    """Separator {b, c} of a square; when c has left, b alone knowing is enough."""
    b = member("b", "bc:d|a", "abcd")
    b.send(["a"])
    assert ECHR9.entries(b.fork().send(["d"]).copies[0]) == 1
    b.leave("c")
    assert ECHR9.entries(b.send(["d"]).copies[0]) == 0
