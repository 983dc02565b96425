"""What a peer must not be able to say: refused before anything changes, by every protocol."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.walk import Walk, play, walk

from thence.core.model.message import Cause, Copy
from thence.core.model.message_names import name_of
from thence.core.model.roster import Roster
from thence.core.protocols.counts_cy import packed
from thence.core.protocols.receiver import PASSED
from thence.core.protocols.wire import decode
from thence.core.wire.dependency_log_cy import Log
from thence.errors import MisuseError, PeerError
from thence.protocols import REGISTRY, Deliver, Duplicate, GoesWithout, Hold, Member, Sent, create

GROWING = [name for name, entry in REGISTRY.items() if entry.grows]
ABANDONING = [
    name
    for name, entry in REGISTRY.items()
    if not entry.protocol.cannot_abandon
    and entry.waits == "causes only"
    and entry.guarantee == "causal"
    and "unicast only" not in entry.needs
]


def sent(member: Member, *destinations: str, **more: object) -> tuple[Copy, ...]:
    result = member.send(destinations, **more)  # type: ignore[arg-type]
    assert isinstance(result, Sent)
    return result.copies


def refused(member: Member, copy: Copy, text: str) -> None:
    before = member.snapshot()
    with pytest.raises(PeerError, match=text):
        member.receive(copy)
    assert member.snapshot() == before


# -- a stamp that speaks of what I did not send -------------------------------------------------------------------


def test_a_stamp_that_names_me_beyond_my_count_is_refused() -> None:
    a, b = create("ks", "abc", "a"), create("ks", "abc", "b")
    (copy,) = sent(a, "b")
    refused(b, replace(copy, stamp=Log({1: ((900, 1),)})), "message 900 of b, who has sent 0")
    assert [type(effect) for effect in b.receive(copy)] == [Deliver]
    assert type(b).restore(b.snapshot()).state() == b.state()


LIES: dict[str, object] = {
    "ks": Log({1: ((9, 1),)}),
    "ks-hardware": Log({1: ((9, 1),)}),
    "ci-dc": (Log(), {1: 9}),
    "rst": ((0, 0, 0), (9, 0, 0), (0, 0, 0)),
    "ses": ((1, 9, 0), {}),
    "bss": (0, 9, 0),
    "prs": {2: packed([(1, 9)])},
    "ech": (Log({1: ((9, 1),)}), Log()),
    "ech-r9": (Log({1: ((9, 1),)}), Log()),
    "gossip": (((1, 9, 0), (0, 0, 0), (0, 0, 0)), ((0, 0, 0),) * 3),
    "two-hop": ((0, 0, 0), (0, 9, 0)),
    "serial-broadcast": (1, 9),
    "serial-multicast": (3, ((1, 9), None, None)),
    "central": (1, 9),
    "hierarchy": (1, 9),
    "a-causal": {0: (1, 9, 0), 1: (1, 0, 0), 2: (0, 0, 0)},
    "ks-ft": ({1: 1}, Log({1: ((9, 1),)})),
}


@pytest.mark.parametrize("name", LIES)
def test_every_protocol_refuses_what_names_me_beyond_my_count(name: str) -> None:
    b = create(name, "abc", "b")
    destinations = 0b110 if name in ("bss", "serial-broadcast") else 0b010
    refused(b, Copy(0, 1, destinations, 0, 1, LIES[name]), "message 9 of")


@pytest.mark.parametrize("name", REGISTRY)
def test_a_message_of_mine_that_i_did_not_send_is_refused(name: str) -> None:
    run = walk(name, 2, 1, 1) if "failure detector" not in REGISTRY[name].needs else None
    stamp = run.copies[0].stamp if run is not None else {0: 1}
    refused(create(name, "ab", "b"), Copy(1, 5, 0b10, 1, 1, stamp), "no message b5: b has sent 0")


def test_positions_counts_and_kinds_out_of_range() -> None:
    b = create("ks", "ab", "b")
    refused(b, Copy(7, 1, 0b10, 0, 1, Log()), "outside a roster of 2")
    refused(b, Copy(0, 1, 0b10, 7, 1, Log()), "outside a roster of 2")
    refused(b, Copy(-1, 1, 0b10, 0, 1, Log()), "outside a roster of 2")
    refused(b, Copy(0, 0, 0b10, 0, 1, Log()), "count from 1")
    refused(b, Copy(0, 1 << 63, 0b10, 0, 1, Log()), "too large")
    refused(b, Copy(0, 1, 0b110, 0, 1, Log()), "outside a roster of 2")
    refused(b, Copy(0, 1, 0b01, 0, 1, Log()), "is addressed to a")
    refused(b, Copy(0, 1, 0b10, 0, 1, Log(), None, "ok"), "no messages of kind 'ok'")


# -- protocol messages need their source ---------------------------------------------------------------------------


def test_an_ok_without_its_source_is_not_read() -> None:
    a, c = (create("a-causal", "abcd", name, groups="ab|cd") for name in "ac")
    (first, *_) = (copy for copy in sent(a, "c", "d") if copy.destination == 2)
    (told,) = [effect for effect in c.receive(first) if hasattr(effect, "copies")]
    data = c.encode(told.copies[0])
    with pytest.raises(PeerError, match="kind 'ok'; without the source"):
        decode(type(a), data, a.roster, destination=0)
    assert a.decode(data, source="c").source == 2


def test_an_ok_of_somebody_who_was_not_asked_is_refused() -> None:
    c = create("a-causal", "abcd", "c", groups="ab|cd")
    a = create("a-causal", "abcd", "a", groups="ab|cd")
    copy = next(copy for copy in sent(a, "c", "d") if copy.destination == 2)
    refused(c, Copy(0, 1, copy.destinations, 1, 2, (copy.stamp, {}), None, "ok"), "b OKs a1, which is not addressed")


def test_only_whom_it_went_to_can_acknowledge() -> None:
    a, b = create("acked", "abc", "a"), create("acked", "abc", "b")
    (copy,) = sent(a, "b")
    b.receive(copy)
    refused(a, Copy(0, 1, 0b010, 2, 0, (), None, "ack"), "c acknowledges a1")


def test_a_request_comes_from_its_sender_and_a_message_from_the_coordinator() -> None:
    a, b = create("central", "abc", "a"), create("central", "abc", "b")
    (request,) = sent(b, "c")
    refused(a, replace(request, source=2), "c delivered a request of b1; b would have to")
    (passed,) = a.receive(request)[0].copies  # type: ignore[union-attr]
    c = create("central", "abc", "c")
    refused(c, replace(passed, source=1), "b delivered a message of b1; a would have to")
    assert [type(effect) for effect in c.receive(passed)] == [Deliver]


# -- labels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REGISTRY)
def test_a_refused_copy_or_send_leaves_no_label_behind(name: str) -> None:
    member = create(name, "abc", "b")
    before = member.snapshot()
    with pytest.raises(PeerError):
        member.receive(Copy(1, 5, 0b010, 1, 1, None, "red"))
    with pytest.raises(MisuseError):
        member.send(["a", "b", "c"], label="g" * 300)
    assert member.snapshot() == before


def test_a_member_accepts_the_labels_it_was_given() -> None:
    a, b = create("ks", "ab", "a"), create("ks", "ab", "b", labels=["red"])
    (red,), (blue,), (plain,) = sent(a, "b", label="red"), sent(a, "b", label="blue"), sent(a, "b")
    refused(b, blue, "label 'blue' is not accepted here; red are")
    with pytest.raises(MisuseError, match="label 'blue' is not accepted"):
        b.send(["a"], label="blue")
    for copy in (red, plain):
        assert [type(effect) for effect in b.receive(copy)] == [Deliver]
    assert type(b).restore(b.snapshot()).labels == {"red"}
    with pytest.raises(MisuseError, match="longer than the 255 bytes"):
        a.send(["b"], label="x" * 300)


# -- snapshots -----------------------------------------------------------------------------------------------------


def test_names_and_options_of_any_text_come_back() -> None:
    member = create("central", ["o'brien", "zoë"], "zoë", coordinator="o'brien")
    assert type(member).restore(member.snapshot()).coordinator == "o'brien"  # type: ignore[attr-defined]


def test_a_snapshot_over_too_many_processes_is_refused_before_memory_is_taken() -> None:
    member = create("a-causal", "ab", "a")
    data = member.snapshot()
    head = data[: data.index(b"\x02\x01a\x01b")]
    names = b"".join(bytes([3]) + f"{place:03x}".encode() for place in range(4097))
    with pytest.raises(PeerError, match="snapshot over 4097 processes; 1 to 4096"):
        type(member).restore(head + bytes([0x81, 0x20]) + names + bytes(4097))


def test_a_snapshot_of_a_poisoned_log_is_refused() -> None:
    b = create("ks", "ab", "b")
    b.log = Log({1: ((9, 1),)})  # type: ignore[attr-defined]
    with pytest.raises(PeerError, match="names message 9 of a member that has sent 0"):
        type(b).restore(b.snapshot())


def test_the_registry_and_the_protocols_agree_on_who_can_grow() -> None:
    assert {name: entry.grows for name, entry in REGISTRY.items()} == {
        name: entry.protocol.grows for name, entry in REGISTRY.items()
    }


# -- leaving and abandoning ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GROWING)
def test_facts_about_a_leaver_do_not_come_back_with_a_late_message(name: str) -> None:
    a, b = create(name, "abc", "a"), create(name, "abc", "b")
    sent(a, "c")
    (late,) = sent(a, "b")
    b.leave("c")
    b.receive(late)
    assert not any(destination == 2 for _, destination in b.log_facts() or ())
    if name not in ("ech", "ech-r9"):  # their elements keep their whole address; who left counts as told
        (copy,) = sent(b, "a")
        assert not any(mask >> 2 & 1 for _, mask in type(b).dependencies(copy) or ())


@pytest.mark.parametrize("name", ABANDONING)
def test_what_waits_for_somebody_gone_for_good_goes_without(name: str) -> None:
    broadcast = "broadcast only" in REGISTRY[name].needs
    script = "a!1>bc b<a1 b!1>ac c<b1" if broadcast else "a!1>c a!2>b b<a2 b!1>c c<b1"
    run = play(name, 3, script)
    c = run.members[2]
    assert [pending.message for pending in c.pending()] == ["b1"]
    effects = c.abandon("a")
    assert [type(effect) for effect in effects[:2]] == [GoesWithout, Deliver]
    assert isinstance(effects[0], GoesWithout)
    assert {cause.sender for cause in effects[0].causes} == {"a"}
    assert c.pending() == []
    assert type(c).restore(c.snapshot()).state() == c.state()
    late = next(copy for copy in run.copies if copy.sender == 0 and copy.destination == 2)
    refused(c, late, "a1 came after its sender was abandoned")


@pytest.mark.parametrize("name", ["ks", "ks-hardware", "ci-dc", "prs", "ech"])
def test_no_message_of_the_living_is_lost_to_an_abandonment(name: str) -> None:
    """a3 names only b1, which would have named a1; b1 never comes, so a1 comes late: as itself, once, and no repeat."""
    run = play(name, 3, "a!1>c a!2>b b<a2 b!1>ac a<b1 a!3>c a!4>c")
    first, third, fourth = (find(run, 0, count, 2) for count in (1, 3, 4))
    c = run.members[2]
    c.abandon("b")
    assert [type(effect) for effect in c.receive(third)] == [GoesWithout, Deliver]
    c = type(c).restore(c.snapshot()).fork()
    assert c.receive(third) == [Duplicate(third)]
    assert c.fork().receive(first) == [Deliver(first)]  # of which c knows nothing
    came, before = c.fork(), c.state()
    came.receive(first)
    assert came.state() != before == c.state()
    assert c.receive(first) == [Deliver(first)]
    assert c.state() == type(c).restore(c.snapshot()).state()
    for copy in (first, third):
        assert type(c).restore(c.snapshot()).receive(copy) == [Duplicate(copy)]
    assert c.receive(fourth) == [Deliver(fourth)]
    assert c.pending() == []


def test_what_came_late_is_remembered_for_a_while_only() -> None:
    run = play("ks", 3, "a!1>c a!2>b b<a2 b!1>ac a<b1 a!3>c")
    a, c = run.members[0], run.members[2]
    c.abandon("b")
    c.receive(find(run, 0, 3, 2))
    for _ in range(PASSED):
        c.receive(sent(a, "c")[0])
    assert len(c.receiver.passed[0]) == PASSED
    first = find(run, 0, 1, 2)
    assert c.receive(first) == [Duplicate(first)]


def find(run: Walk, sender: int, count: int, destination: int) -> Copy:
    wanted = (sender, count, destination)
    return next(copy for copy in run.copies if (copy.sender, copy.count, copy.destination) == wanted)


def test_held_messages_of_the_abandoned_go_in_their_order() -> None:
    a, c = create("ks", "abc", "a"), create("ks", "abc", "c")
    _, second, third = (sent(a, "c")[0] for _ in range(3))
    for copy in (third, second):
        assert [type(effect) for effect in c.receive(copy)] == [Hold]
    effects = c.abandon("a")
    delivered = [effect.copy.count for effect in effects if isinstance(effect, Deliver)]
    without = {e.copy.count: list(map(str, e.causes)) for e in effects if isinstance(e, GoesWithout)}
    assert delivered == [2, 3]
    assert without == {2: ["a1"]}
    assert c.abandon("a") == []


def test_what_a_fork_goes_without_the_other_goes_without_too() -> None:
    run = play("ks", 4, "a!1>c a!2>d d<a2 b!1>c b!2>d d<b2 d!1>c c<d1")
    c, cause, held = run.members[2], find(run, 1, 1, 2), find(run, 3, 1, 2)
    assert c.abandon("a") == []
    twin = c.fork()
    for each in (c, twin):
        effects = each.receive(cause)
        assert [type(effect) for effect in effects] == [Deliver, GoesWithout, Deliver]
        assert effects[1] == GoesWithout(held, (Cause("a", 1),))


def test_what_comes_after_an_abandonment_goes_without_too() -> None:
    a, b, c = (create("ks", "abc", name) for name in "abc")
    sent(a, "c")
    b.receive(sent(a, "b")[0])
    c.abandon("a")
    (copy,) = sent(b, "c")
    effects = type(c).restore(c.snapshot()).receive(copy)
    assert effects == [GoesWithout(copy, (Cause("a", 1),)), Deliver(copy)]
    with pytest.raises(MisuseError, match="a left"):
        c.send(["a"])


def test_leaving_releases_nothing() -> None:
    a, c = create("ks", "abc", "a"), create("ks", "abc", "c")
    first, second = sent(a, "c")[0], sent(a, "c")[0]
    c.receive(second)
    assert c.leave("a") == []
    assert [pending.message for pending in c.pending()] == ["a2"]
    assert [type(effect) for effect in c.receive(first)] == [Deliver, Deliver]


@pytest.mark.parametrize("name", ["synchronous", "acked"])
def test_sends_go_on_when_nobody_will_acknowledge(name: str) -> None:
    a = create(name, "abc", "a")
    for to in ("b", "c", "b", "c"):
        a.send([to])
    effects = a.abandon("b")
    assert [copy.destination for effect in effects for copy in effect.copies] == [2]  # type: ignore[union-attr]
    more = a.receive(Copy(0, 2, 0b100, 2, 0, (), None, "ack"))
    assert [copy.destination for effect in more for copy in effect.copies] == [1, 2]  # type: ignore[union-attr]
    assert [pending.processes for pending in a.pending()] == []


def test_who_cannot_be_abandoned() -> None:
    with pytest.raises(MisuseError, match="the failure detector reports crashed processes"):
        create("a-causal", "ab", "a").abandon("b")
    with pytest.raises(MisuseError, match="by way of a coordinator"):
        create("central", "ab", "a").abandon("b")
    with pytest.raises(MisuseError, match="times, not messages"):
        create("ses", "ab", "a").abandon("b")
    with pytest.raises(MisuseError, match="every process is known to know"):
        create("bounded", "ab", "a").abandon("b")
    with pytest.raises(MisuseError, match="this process itself"):
        create("ks", "ab", "a").abandon("a")


# -- names ---------------------------------------------------------------------------------------------------------


def test_names_that_end_in_a_digit_are_parted_from_the_count() -> None:
    assert [name_of(name, 1) for name in ("a", "node1", "x:", "y#", "z²")] == ["a1", "node1:1", "x::1", "y#:1", "z²1"]
    assert str(Cause("node1", 1)) == "node1:1"
    assert str(Cause("node1", 7, pairwise=True)) == "node1#7"
    one, two = create("ks", ["node", "node1"], "node"), create("ks", ["node", "node1"], "node1")
    first, second = sent(one, "node1")[0], sent(one, "node1")[0]
    two.receive(second)
    assert two.pending()[0].message == "node2"
    assert [str(cause) for cause in two.pending()[0].waits_for] == ["node1"]
    third, fourth = sent(two, "node")[0], sent(two, "node")[0]
    one.receive(fourth)
    assert [str(cause) for cause in one.pending()[0].waits_for] == ["node1:1"]
    assert [type(effect) for effect in one.receive(third)] == [Deliver, Deliver]
    assert [type(effect) for effect in two.receive(first)] == [Deliver, Deliver]


def test_no_two_messages_share_a_name() -> None:
    processes = ("a", "a1", "a:", "a#", "a1:", "1", ":", "#")
    names = [name_of(process, count) for process in processes for count in range(1, 130)]
    pairs = [str(Cause(process, count, pairwise=True)) for process in processes for count in range(1, 130)]
    assert len({*names, *pairs}) == len(names) + len(pairs)


def test_an_unknown_roster_costs_no_more_than_its_bytes() -> None:
    """Hashes of all earlier rosters are worked out once, in one pass."""
    roster = Roster.of(3000)
    assert roster.earlier(Roster(roster.names[:1234]).hash) == 1234
    assert roster.earlier(b"none") == 0


@pytest.mark.parametrize("count", [7, 107])
def test_a_count_beyond_twice_the_bound_is_refused(count: int) -> None:
    """Counts of `bounded` travel modulo 2B: a larger one would be read as another message's."""
    here, there = (create("bounded", Roster("abc"), place, bound=3) for place in range(2))
    sent = here.send(0b010)
    assert isinstance(sent, Sent)
    stamp = bytearray(here.encode(sent.copies[0]))
    assert there.decode(bytes(stamp), source=0).count == 1
    place = next(at for at in range(len(stamp)) if stamp[at] == 1 and _count_of(stamp, at, there))
    stamp[place] = count
    with pytest.raises(PeerError, match=f"count {count}; with a bound of 3 1 to 6 occur"):
        there.decode(bytes(stamp), source=0)


def _count_of(stamp: bytearray, at: int, member: Member) -> bool:
    """Return whether a byte of a stamp is the count of its message: with 2 in its place the count is 2."""
    changed = bytearray(stamp)
    changed[at] = 2
    try:
        return member.decode(bytes(changed), source=0).count == 2
    except PeerError:
        return False


def test_a_snapshot_with_a_message_that_no_process_can_lack_is_refused() -> None:
    """A member forgets such a message before it writes, so it would write other bytes. Found by changing bytes."""
    data = bytes.fromhex(
        "7468656e63652d6d0108612d63617573616c0201610162000001000200070001050200010601000102000006010400000000"
        "0108010001020000080105000000030001010401010100030004000404020200020000020000020000000200000401070001"
        "02cebb07000105000300010104010101001200040005030202000200000200000200000200000002000004010700"
    )
    with pytest.raises(PeerError, match="keeps a message which no process can lack"):
        REGISTRY["a-causal"].protocol.restore(data)
