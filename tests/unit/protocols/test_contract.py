"""The contract around the protocols: sends, names, joining and leaving, contexts, snapshots, the registry."""

from __future__ import annotations

from random import Random

import pytest
from whence.errors import MisuseError, PeerError
from whence.model.events import Event
from whence.model.order import judge
from whence.model.roster import Roster
from whence.protocols import REGISTRY, Deliver, Sent, create, lookup, require
from whence.protocols.base import Member

OPEN = [
    name
    for name, entry in REGISTRY.items()
    if not {"fixed membership", "coordinator", "failure detector", "groups", "serialized sends"} & set(entry.needs)
    and entry.guarantee == "causal"
]
CLOSED = [name for name, entry in REGISTRY.items() if "fixed membership" in entry.needs]


def test_a_send_to_nobody_to_strangers_or_outside_is_refused() -> None:
    member = create("ks", "abc", "a")
    with pytest.raises(MisuseError, match="sends to nobody"):
        member.send([])
    with pytest.raises(MisuseError, match="no process 'z'"):
        member.send(["z"])
    with pytest.raises(MisuseError, match="outside a roster of 3"):
        member.send(0b1000)


def test_the_registry_names_what_there_is() -> None:
    with pytest.raises(MisuseError, match="no protocol 'sk'; there are .*ks"):
        lookup("sk")
    with pytest.raises(MisuseError, match="protocol bss needs broadcast only, fixed membership, which my driver"):
        require("bss", [], driver="my driver")
    with pytest.raises(MisuseError, match="protocol ks has no option 'bound'; its options: explicit"):
        create("ks", "ab", "a", bound=3)
    codes = [entry.protocol.code for entry in REGISTRY.values()]
    assert len(set(codes)) == len(codes)
    for name, entry in REGISTRY.items():
        assert entry.name == name
        assert entry.row()["protocol"] == name


@pytest.mark.parametrize("name", CLOSED)
def test_fixed_membership_says_so(name: str) -> None:
    with pytest.raises(MisuseError, match="fixed membership"):
        create(name, "abc", "a").join("d")


@pytest.mark.parametrize("name", OPEN)
def test_processes_join_and_leave(name: str) -> None:
    """KS98 section 4.5: a process joins in mid-run, another leaves; order holds for everyone who is there."""
    unicast = "unicast only" in REGISTRY[name].needs
    for seed in range(8):
        rng = Random(f"{name} {seed}")
        roster = Roster("abcd")
        members: dict[str, Member] = {p: create(name, roster, p) for p in roster}
        events: list[Event] = []
        rows: dict[str, int] = {}
        net: list = []

        def row(process: str, kind: str, message: str, destinations: tuple[str, ...] | None = None) -> None:
            rows[process] = rows.get(process, 0) + 1
            events.append(Event("run", process, rows[process], kind, message, destinations, order=len(events)))

        def take(process: str, effects) -> None:
            for effect in effects:
                if isinstance(effect, Sent):
                    message = f"{process}{effect.message.count}"
                    row(process, "send", message, members[process].roster.members(effect.destinations))
                if isinstance(effect, Deliver):
                    row(process, "deliver", f"{roster.name(effect.copy.sender)}{effect.copy.count}")
                net.extend(getattr(effect, "copies", ()))

        for step in range(120):
            if step == 40:  # e joins: everyone is told at once, copies are under way
                roster = roster.joined("e")
                for member in members.values():
                    member.join("e")
                members["e"] = create(name, roster, "e")
            if step == 80:  # b leaves: what was sent to it is dropped
                gone = roster.position("b")
                for process, member in members.items():
                    if process != "b":
                        take(process, member.leave("b"))
                members.pop("b")
                net = [copy for copy in net if copy.destination != gone]
            if rng.random() < 0.4:
                process = rng.choice(sorted(members))
                others = sorted(set(members) - {process})
                count = 1 if unicast else rng.randint(1, len(others))
                result = members[process].send(rng.sample(others, count))
                if isinstance(result, Sent):
                    take(process, [result])
            elif net:
                copy = net.pop(rng.randrange(len(net)))
                here = roster.name(copy.destination)
                data = members[here].snapshot()
                members[here] = type(members[here]).restore(data)
                take(here, members[here].receive(copy))
        for _ in range(100_000):
            if not net:
                break
            copy = net.pop(rng.randrange(len(net)))
            here = roster.name(copy.destination)
            if here in members:
                take(here, members[here].receive(copy))
        result = judge(events)
        assert not result.violations, f"seed {seed}: {result.violations}"
        assert {c.destination for c in result.undelivered} <= {"b"}, f"seed {seed}: {result.undelivered}"
        with pytest.raises(MisuseError, match="b left"):
            members["a"].send(["b"])


def test_explicit_contexts_limit_what_a_message_depends_on() -> None:
    """Chapter 6 of the separators paper: the application says what a message follows from."""
    a, b, c = (create("ks", "abc", p, explicit=True) for p in "abc")
    first = a.send(["b", "c"])
    assert isinstance(first, Sent)
    to_b, to_c = first.copies
    b.receive(to_b)
    free = b.send(["c"])
    bound = b.send(["c"], context=b.context_of(to_b))
    assert isinstance(free, Sent)
    assert isinstance(bound, Sent)
    assert [type(e).__name__ for e in c.receive(free.copies[0])] == ["Deliver"]
    assert [type(e).__name__ for e in c.receive(bound.copies[0])] == ["Hold"]
    assert [e.copy.id for e in c.receive(to_c)] == [first.message, bound.message]


@pytest.mark.parametrize("name", ["ks", "ks-hardware"])
def test_contexts_merge_and_pass_by_definition(name: str) -> None:
    """Random applications that hold, merge and pass contexts; the relation is computed here from its definition."""
    for seed in range(40):
        rng = Random(f"{name} contexts {seed}")
        roster = Roster.of(4)
        members = [create(name, roster, p, explicit=True) for p in range(4)]
        held: list[list[tuple[object, frozenset]]] = [[] for _ in range(4)]  # contexts with the messages they stand for
        past: dict = {}
        last: list[frozenset] = [frozenset()] * 4
        delivered: list[list] = [[] for _ in range(4)]
        to: dict = {}
        net: list = []
        for _ in range(60):
            if net and rng.random() < 0.6:
                copy = net.pop(rng.randrange(len(net)))
                d = copy.destination
                for effect in members[d].receive(copy):
                    if isinstance(effect, Deliver):
                        got = effect.copy
                        delivered[d].append(got.id)
                        held[d].append((members[d].context_of(got), past[got.id] | {got.id}))
                continue
            p = rng.randrange(4)
            chosen = rng.sample(held[p], min(len(held[p]), rng.randint(0, 2)))
            context = members[p].merge(*(c for c, _ in chosen))
            mask = sum(1 << q for q in rng.sample([q for q in range(4) if q != p], rng.randint(1, 3)))
            sent = members[p].send(mask, context=context)
            assert isinstance(sent, Sent)
            past[sent.message] = last[p].union(*(m for _, m in chosen))
            last[p] = past[sent.message] | {sent.message}
            to[sent.message] = mask
            net += sent.copies
        while net:
            copy = net.pop(rng.randrange(len(net)))
            for effect in members[copy.destination].receive(copy):
                if isinstance(effect, Deliver):
                    delivered[copy.destination].append(effect.copy.id)
        for d in range(4):
            for place, message in enumerate(delivered[d]):
                due = {m for m in past[message] if to[m] >> d & 1}
                assert due <= set(delivered[d][:place]), f"seed {seed}: {message} before {due}"
            assert set(delivered[d]) == {m for m, mask in to.items() if mask >> d & 1}, f"seed {seed}"


def test_contexts_elsewhere_are_refused_by_name() -> None:
    with pytest.raises(MisuseError, match="explicit=True"):
        create("ks", "ab", "a").send(["b"], context={})
    with pytest.raises(MisuseError, match="rst takes no context; ks and ks-hardware do"):
        create("rst", "ab", "a").send(["b"], context={})
    with pytest.raises(MisuseError, match="no explicit contexts"):
        create("rst", "ab", "a").context()


def test_snapshots_say_what_is_wrong() -> None:
    member = create("ks", "abc", "a")
    data = member.snapshot()
    kind = type(member)
    with pytest.raises(PeerError, match="not a snapshot"):
        kind.restore(b"nonsense")
    with pytest.raises(PeerError, match="snapshot version 9; this release reads version 1"):
        kind.restore(data[:8] + b"\x09" + data[9:])
    with pytest.raises(PeerError, match="snapshot of protocol 'ks', expected 'rst'"):
        lookup("rst").protocol.restore(data)
    for cut in range(9, len(data)):
        with pytest.raises(PeerError):
            kind.restore(data[:cut])


def test_a_stamp_under_an_unknown_roster_says_so() -> None:
    a, other = create("ks", "abc", "a"), create("ks", "xyz", "x")
    sent = a.send(["b"])
    assert isinstance(sent, Sent)
    with pytest.raises(PeerError, match="roster .* unknown here"):
        other.decode(a.encode(sent.copies[0]))
