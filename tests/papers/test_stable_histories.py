"""Section 4.5 of the separators' paper: what is delivered everywhere can be forgotten, by stamps and by time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from papers.stable_histories import StableHistories

from thence.core.model.events import Event, EventKind
from thence.core.model.message import Copy, MessageId
from thence.core.model.order import judge
from thence.core.model.roster import Roster
from thence.core.protocols.ech import ECH, Elements
from thence.core.protocols.effects import Deliver, Sent

SLOWEST = 12
"""steps within which everything arrives; as causes left before, within which everything is delivered, too"""


class Kept(ECH):
    """Without R8: nothing is forgotten for being told."""

    def _forget_in(self, history: Elements) -> None:
        pass


class KeptStable(StableHistories):
    """Without R8, but by incoming stamps."""

    def _forget_in(self, history: Elements) -> None:
        pass


KINDS: dict[str, Callable[[Roster, int], ECH]] = {
    "ech": ECH, "stamps": StableHistories, "time": partial(StableHistories, by_stamps=False), "no R8": Kept,
    "stamps, no R8": KeptStable,
}  # fmt: skip


def talk(seed: int, kind: str, *, n: int = 5, messages: int = 120) -> tuple[list[Event], int]:
    """Let members talk at random, to themselves too; return the events and the elements that travelled."""
    rng, roster = Random(f"{seed}"), Roster.of(n)
    members = [KINDS[kind](roster, place) for place in range(n)]
    flight: list[tuple[int, Copy]] = []
    sent_at: list[tuple[int, MessageId]] = []
    events, index, elements, step = list[Event](), dict.fromkeys(roster.names, 0), 0, 0

    def note(place: int, what: EventKind, message: str, to: tuple[str, ...] | None = None) -> None:
        index[roster.name(place)] += 1
        events.append(Event("run", roster.name(place), index[roster.name(place)], what, message, to, order=len(events)))

    def arrive(item: tuple[int, Copy]) -> None:
        flight.remove(item)
        for effect in members[item[1].destination].receive(item[1]):
            if isinstance(effect, Deliver):
                note(item[1].destination, "deliver", f"{roster.name(effect.copy.sender)}{effect.copy.count}")

    while messages or flight:
        step += 1
        due = [item for item in flight if step - item[0] >= SLOWEST]
        rng.shuffle(due)
        for item in due:
            arrive(item)
        if kind == "time":
            old = [message for at, message in sent_at if step - at >= SLOWEST]
            for member in members:
                assert isinstance(member, StableHistories)
                member.fully_delivered(old)
            sent_at = [(at, message) for at, message in sent_at if step - at < SLOWEST]
        if messages and (not flight or rng.random() < 0.3):
            messages -= 1
            here, to = rng.randrange(n), rng.randrange(1, 1 << n)
            sent = members[here].send(to)
            assert isinstance(sent, Sent)
            elements += sum(map(ECH.entries, sent.copies))
            flight += [(step, copy) for copy in sent.copies]
            sent_at.append((step, sent.message))
            note(here, "send", f"{roster.name(here)}{sent.message.count}", roster.members(to))
        elif flight:
            arrive(rng.choice(flight))
    return events, elements


@pytest.mark.parametrize("kind", ["stamps", "time", "stamps, no R8"])
@pytest.mark.parametrize("seed", range(6))
def test_order_is_kept_and_nothing_is_left(seed: int, kind: str) -> None:
    events, _ = talk(seed, kind)
    verdict = judge(events)
    assert not verdict.violations
    assert not verdict.undelivered


def test_less_travels() -> None:
    """By time. By stamps only where R8 is not there: whoever names a message counts as told of it, too (R6.3)."""
    totals = {kind: sum(talk(seed, kind)[1] for seed in range(6)) for kind in KINDS}
    print(totals)
    assert totals["time"] < totals["ech"] == totals["stamps"]
    assert totals["stamps, no R8"] < totals["no R8"]


def test_the_sender_of_a_message_to_itself_does_not_confirm_it() -> None:
    """Its copy may still be on its way, whatever the sender's later stamps name."""
    roster = Roster("abc")
    a, b, c = (StableHistories(roster, name) for name in "abc")
    late, to_c = a.send(["a", "c"]).copies
    c.receive(to_c)
    b.receive(c.send(["b"]).copies[0])
    b.receive(a.send(["b"]).copies[0])
    assert [type(effect).__name__ for effect in a.receive(b.send(["a"]).copies[0])] == ["Hold"]
    assert [type(effect).__name__ for effect in a.receive(late)] == ["Deliver", "Deliver"]


def test_what_is_not_fully_delivered_may_not_be_forgotten() -> None:
    """A driver whose Δ is too short breaks the order: the check above can fail."""
    roster = Roster("abc")
    a, b, c = (StableHistories(roster, name) for name in "abc")
    first = a.send(["c"])
    assert isinstance(first, Sent)
    a.fully_delivered([first.message])
    b.receive(a.send(["b"]).copies[0])
    assert [type(effect).__name__ for effect in c.receive(b.send(["c"]).copies[0])] == ["Deliver"], "too early"


def test_messages_of_a_label_are_forgotten_in_its_order() -> None:
    a = StableHistories(Roster("abc"), "a")
    sent = a.send(["b"], label="x")
    assert isinstance(sent, Sent)
    a.fully_delivered([sent.message])
    assert [order.log_size() for order in a.orders()] == [0, 1]
    a.fully_delivered([sent.message], label="x")
    assert [order.log_size() for order in a.orders()] == [0, 0]


def test_forks_and_snapshots_keep_what_is_confirmed() -> None:
    roster = Roster("abc")
    a, b = (StableHistories(roster, name) for name in "ab")
    b.receive(a.send(["b", "c"]).copies[0])
    fork, again = b.fork(), StableHistories.restore(b.snapshot())
    assert fork.state() == again.state() == b.state()
    fork.fully_delivered([MessageId(0, 1)])
    assert fork.log_size() == 0
    assert b.state() == again.state()
