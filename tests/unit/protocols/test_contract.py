"""The contract around the protocols: sends, names, joining and leaving, contexts, snapshots, the registry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from thence.core.model.events import Event, EventKind
from thence.core.model.message import Copy
from thence.core.model.order import judge
from thence.core.model.roster import Roster
from thence.core.protocols.ack_member import AckMember
from thence.core.protocols.base import Member
from thence.errors import MisuseError, PeerError
from thence.protocols import REGISTRY, Deliver, Effect, Sent, create, lookup, require

OPEN = [
    name
    for name, entry in REGISTRY.items()
    if not {"fixed membership", "coordinator", "failure detector", "groups", "serialized sends"} & set(entry.needs)
    and entry.guarantee == "causal"
]
CLOSED = [name for name, entry in REGISTRY.items() if "fixed membership" in entry.needs]


def test_a_send_to_nobody_to_strangers_or_outside_is_refused() -> None:
    member = create("ks", "abc", "a")
    with pytest.raises(MisuseError, match="sends to no process"):
        member.send([])
    with pytest.raises(MisuseError, match="no process 'z'"):
        member.send(["z"])
    with pytest.raises(MisuseError, match="outside a roster of 3"):
        member.send(0b1000)


def test_the_registry_names_what_there_is() -> None:
    with pytest.raises(MisuseError, match=r"no protocol 'sk'; there are .*ks"):
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


class Crowd:
    """Members that come and go, their rows, and the copies under way."""

    def __init__(self, name: str, processes: str) -> None:
        self.name, self.roster = name, Roster(processes)
        self.members: dict[str, Member] = {p: create(name, self.roster, p) for p in self.roster}
        self.events: list[Event] = []
        self.rows: Counter[str] = Counter()
        self.net: list[Copy] = []

    def joins(self, process: str) -> None:
        """Everyone is told at once, with copies under way."""
        self.roster = self.roster.joined(process)
        for member in self.members.values():
            member.join(process)
        self.members[process] = create(self.name, self.roster, process)

    def leaves(self, process: str) -> None:
        """What was sent to it is dropped."""
        del self.members[process]
        for other, member in self.members.items():
            self.take(other, member.leave(process))
        gone = self.roster.position(process)
        self.net = [copy for copy in self.net if copy.destination != gone]

    def take(self, process: str, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Sent):
                names = self.roster.members(effect.destinations)
                self.row(process, "send", f"{process}{effect.message.count}", names)
            if isinstance(effect, Deliver):
                self.row(process, "deliver", f"{self.roster.name(effect.copy.sender)}{effect.copy.count}")
            self.net.extend(getattr(effect, "copies", ()))

    def row(self, process: str, kind: EventKind, message: str, destinations: tuple[str, ...] | None = None) -> None:
        self.rows[process] += 1
        place = len(self.events)
        self.events.append(Event("run", process, self.rows[process], kind, message, destinations, order=place))

    def arrival(self, rng: Random) -> None:
        """Let one copy arrive at a member that was just restored from its snapshot."""
        copy = self.net.pop(rng.randrange(len(self.net)))
        here = self.roster.name(copy.destination)
        if here in self.members:
            self.members[here] = type(self.members[here]).restore(self.members[here].snapshot())
            self.take(here, self.members[here].receive(copy))


@pytest.mark.parametrize("name", OPEN)
def test_processes_join_and_leave(name: str) -> None:
    """KS98 section 4.5: a process joins in mid-run, another leaves; order holds for everyone who is there."""
    unicast = "unicast only" in REGISTRY[name].needs
    for seed in range(8):
        rng = Random(f"{name} {seed}")
        crowd = Crowd(name, "abcd")
        for step in range(120):
            if step == 40:
                crowd.joins("e")
            if step == 80:
                crowd.leaves("b")
            if rng.random() < 0.4:
                process = rng.choice(sorted(crowd.members))
                others = sorted(set(crowd.members) - {process})
                result = crowd.members[process].send(rng.sample(others, 1 if unicast else rng.randint(1, len(others))))
                if isinstance(result, Sent):
                    crowd.take(process, [result])
            elif crowd.net:
                crowd.arrival(rng)
        while crowd.net:
            crowd.arrival(rng)
        result = judge(crowd.events)
        assert not result.violations, f"seed {seed}: {result.violations}"
        assert {c.destination for c in result.undelivered} <= {"b"}, f"seed {seed}: {result.undelivered}"
        with pytest.raises(MisuseError, match="b left"):
            crowd.members["a"].send(["b"])


@pytest.mark.parametrize("name", ["ks", "ks-hardware", "ech"])
def test_a_send_hands_out_its_own_context(name: str) -> None:
    """Who passes it on makes what follows wait for the message, whoever sends that."""
    a, b, c = (create(name, "abc", p, explicit=True) for p in "abc")
    first = a.send(["c"])
    assert isinstance(first, Sent)
    assert first.context == a.context()
    second = b.send(["c"], context=first.context)
    assert isinstance(second, Sent)
    assert [type(e).__name__ for e in c.receive(second.copies[0])] == ["Hold"]
    assert [e.copy.id for e in c.receive(first.copies[0])] == [first.message, second.message]


@pytest.mark.parametrize("name", ["ks", "ks-hardware", "ech"])
def test_explicit_contexts_limit_what_a_message_depends_on(name: str) -> None:
    """Chapter 6 of the separators paper: the application says what a message follows from."""
    a, b, c = (create(name, "abc", p, explicit=True) for p in "abc")
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


@pytest.mark.parametrize(("name", "options"), [("ks", {}), ("ks-hardware", {}), ("ech", {}), ("ech", {"carbon": True})])
def test_contexts_merge_and_pass_by_definition(name: str, options: dict) -> None:
    """Random applications that hold, merge and pass contexts; the relation is computed here from its definition."""
    for seed in range(40):
        rng = Random(f"{name} contexts {seed}")
        roster = Roster.of(4)
        members = [create(name, roster, p, explicit=True, **options) for p in range(4)]
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


@pytest.mark.parametrize("name", ["ks", "ks-hardware", "ech"])
@pytest.mark.parametrize("links", ["ab ac", "ab bc cd", "ab ac bd cd", "aa ac"])
def test_contexts_do_not_grow_with_the_run(name: str, links: str) -> None:
    """Each process merges whatever it delivers: neither what it holds nor what it sends is more after more turns."""
    most: dict[int, int] = {}
    for turns in (10, 60):
        members = {each: create(name, "abcd", each, explicit=True) for each in "abcd"}
        held: dict = {each: {} for each in "abcd"}
        sizes = [0]
        for here, there in links.split() * turns:
            (copy,) = members[here].send([there], context=held[here]).copies
            members[there].receive(copy)
            held[there] = members[there].merge(held[there], members[there].context_of(copy))
            sizes += [members[here].entries(copy), sum(map(len, held[there].values()))]
        most[turns] = max(sizes)
    assert most[60] == most[10]


@pytest.mark.parametrize("name", ["ks", "ks-hardware", "ech"])
@pytest.mark.parametrize("used", [1, 3, None])
def test_contexts_hold_at_most_one_of_each_sender_for_each_process(name: str, used: int | None) -> None:
    """Random traffic, self-addressed too; applications use the last message they got, the last few, or all of them."""
    for seed in range(3):
        rng, size = Random(f"{name} {used} {seed}"), 4
        members = [create(name, Roster.of(size), p, explicit=True) for p in range(size)]
        got: list[list] = [[] for _ in range(size)]
        net: list[Copy] = []
        for _ in range(1200):
            if net and rng.random() < 0.6:
                copy = net.pop(rng.randrange(len(net)))
                here = copy.destination
                delivered = [e.copy for e in members[here].receive(copy) if isinstance(e, Deliver)]
                got[here] += [members[here].context_of(each) for each in delivered]
                got[here] = got[here][-used:] if used else [members[here].merge(*got[here])]
                continue
            p = rng.randrange(size)
            sent = members[p].send(rng.randrange(1, 1 << size), context=members[p].merge(*got[p]))
            assert isinstance(sent, Sent)
            net += sent.copies
            most = size * size + (0 if name == "ech" else size)  # and the newest of each sender, if it is empty
            assert max(members[p].log_size(), *(members[p].entries(copy) for copy in sent.copies)) <= most


@pytest.mark.parametrize("name", ["ks", "ks-hardware", "ech"])
def test_a_context_that_nobody_made_is_refused_and_nothing_is_left_of_it(name: str) -> None:
    other = {"ks": "ech", "ks-hardware": "ech", "ech": "ks"}[name]
    a, b, d = (create(name, "abc", p, explicit=True) for p in "abc")
    first = d.send(["b"])
    assert isinstance(first, Sent)
    b.receive(first.copies[0])
    foreign = create(other, "abc", "b", explicit=True)
    foreign.send(["a"])
    larger = create(name, "abcd", "d", explicit=True)
    larger.send(["a"])
    odd: list[object] = [
        foreign.context(),
        larger.context(),
        {0: "junk"},
        {1: ((3, 2), (1, 2))},
        {-1: ((1, 1),)},
        [1],
        "x",
    ]
    before = a.snapshot()
    for context in odd:
        with pytest.raises(MisuseError, match=r"context\(\), context_of\(\) or merge\(\) returned is accepted"):
            a.send(["b"], context=context)
        with pytest.raises(MisuseError, match="is accepted"):
            a.merge(context)
    twin = create(name, "abc", "a", explicit=True)
    twin.send(["c"])
    with pytest.raises(MisuseError, match="the context names message 1 of a, who has sent 0"):
        a.send(["b"], context=twin.context())
    assert a.snapshot() == before


def test_contexts_elsewhere_are_refused_by_name() -> None:
    with pytest.raises(MisuseError, match="explicit=True"):
        create("ks", "ab", "a").send(["b"], context={})
    with pytest.raises(MisuseError, match="rst takes no context; ks, ks-hardware and ech do"):
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


@pytest.mark.parametrize("name", [name for name, entry in REGISTRY.items() if entry.grows])
def test_joins_in_another_order_are_told_and_a_late_one_is_caught_up(name: str) -> None:
    a, b = create(name, "ab", "a"), create(name, "ab", "b")
    early = a.send(["b"])
    a.join("c")
    a.join("d")
    late = a.send(["b", "d"])
    assert isinstance(early, Sent)
    assert isinstance(late, Sent)
    (copy,) = (each for each in late.copies if each.destination == 1)
    b.join("c")
    other = b.fork()
    other.join("e")
    other.join("d")
    for behind in (b, other):
        before = behind.state()
        with pytest.raises(PeerError, match=r"roster .* unknown here"):
            behind.decode(a.encode(copy), source="a")
        assert behind.state() == before
    b.join("d")
    first, second = (b.decode(a.encode(each), source="a") for each in (early.copies[0], copy))
    assert [type(e).__name__ for each in (first, second) for e in b.receive(each)] == ["Deliver", "Deliver"]
    b.leave("c")
    with pytest.raises(MisuseError, match="in the roster already; a process that left keeps its name"):
        b.join("c")


def test_a_stamp_under_an_unknown_roster_says_so() -> None:
    a, other = create("ks", "abc", "a"), create("ks", "xyz", "x")
    sent = a.send(["b"])
    assert isinstance(sent, Sent)
    with pytest.raises(PeerError, match=r"roster .* unknown here"):
        other.decode(a.encode(sent.copies[0]), source="x")


@pytest.mark.parametrize("protocol", ["a-causal", "ks-ft"])
def test_what_a_fork_oks_is_not_okayed_by_another(protocol: str) -> None:
    member = create(protocol, Roster.of(3), "a")
    sent = member.send("ab")
    assert isinstance(sent, Sent)
    one, other = member.fork(), member.fork()
    one.receive(next(copy for copy in sent.copies if copy.destination == 0))
    other.trusted("abc")
    assert isinstance(one, AckMember)
    assert isinstance(other, AckMember)
    assert (one.own, other.own) == ({1: (0b11, 0b01)}, {1: (0b11, 0)})
