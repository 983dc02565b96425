"""The differential encoding gives every stamp back, is smaller, and keeps what KS98 3.5 loses (erratum 4)."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from papers.differential import DIFFERENCE, ReceivingEnd, SendingEnd

from thence.core.model.message import Copy
from thence.core.model.roster import Roster
from thence.core.protocols.effects import Deliver, Sent
from thence.core.protocols.ks import KS
from thence.core.protocols.ks import KS as Member
from thence.core.wire.dependency_log_cy import Log
from thence.errors import PeerError


def conversation(seed: int, n: int = 6, messages: int = 150) -> tuple[int, int]:
    """Let members of `ks` talk over FIFO channels, every stamp by way of a difference; return bytes of both forms."""
    rng, roster = Random(seed), Roster.of(n)
    members = [Member(roster, place) for place in range(n)]
    sending = {(p, q): SendingEnd(n) for p in range(n) for q in range(n)}
    receiving = {(p, q): ReceivingEnd(n) for p in range(n) for q in range(n)}
    channels: dict[tuple[int, int], deque[tuple[Copy, bytes]]] = {pair: deque() for pair in sending}
    whole = part = delivered = due = 0
    while messages or any(channels.values()):
        busy = [pair for pair, waiting in channels.items() if waiting]
        if messages and (not busy or rng.random() < 0.3):
            messages -= 1
            here = rng.randrange(n)
            to = rng.randrange(1, 1 << n) & ~(1 << here) or 1 << (here + 1) % n
            sent = members[here].send(to)
            assert isinstance(sent, Sent)
            for copy in sent.copies:
                data = sending[here, copy.destination].encode(copy.stamp)
                empty = bytearray()
                KS.kinds["message"].write(copy.stamp, empty, n)
                whole, part, due = whole + len(empty), part + len(data), due + 1
                channels[here, copy.destination].append((copy, data))
        else:
            pair = rng.choice(busy)
            copy, data = channels[pair].popleft()
            stamp = receiving[pair].decode(data)
            assert stamp == copy.stamp
            effects = members[pair[1]].receive(replace(copy, stamp=stamp))
            delivered += sum(isinstance(effect, Deliver) for effect in effects)
    assert delivered == due
    return whole, part


@pytest.mark.parametrize("seed", range(4))
def test_every_stamp_comes_back_and_less_travels(seed: int) -> None:
    whole, part = conversation(seed)
    print(f"seed {seed}: {whole} bytes of stamps, {part} of differences")
    assert part < whole


def test_where_every_group_changes_nothing_is_saved() -> None:
    """Two processes: each stamp has news of both, and the difference has its number and the senders gone besides."""
    whole, part = conversation(0, n=2)
    assert whole < part < 1.2 * whole


def test_a_sender_that_is_gone_is_taken_away() -> None:
    out, into = SendingEnd(3), ReceivingEnd(3)
    for stamp in ({0: ((1, 0b10),), 1: ((2, 0b100),)}, {1: ((2, 0b100),)}):
        assert into.decode(out.encode(Log(stamp))) == stamp


def test_a_sender_is_not_taken_away_and_told_of_at_once() -> None:
    into = ReceivingEnd(3)
    into.decode(SendingEnd(3).encode(Log({0: ((1, 0b10),)})))
    for gone, changed in ((0b1, Log({0: ((2, 0b10),)})), (0b10, Log())):
        data = bytearray([2])
        DIFFERENCE.write((gone, changed), data, 3)
        with pytest.raises(PeerError, match="that are not there, or brings them"):
            into.decode(bytes(data))
    assert into.position == 1


def test_what_section_35_loses_is_kept() -> None:
    """Erratum 4: a!1>b a!2>c a!3>c; a3 says nothing of a1 in 3.5, and c forgets it. Here c gets it back and tells b."""
    a, b, c = (Member(Roster("abc"), name) for name in "abc")
    out, into = SendingEnd(3), ReceivingEnd(3)
    late = a.send(["b"]).copies[0]
    for _ in range(2):
        copy = a.send(["c"]).copies[0]
        data = out.encode(copy.stamp)
        stamp = into.decode(data)
        assert stamp == copy.stamp
        c.receive(Copy(copy.sender, copy.count, copy.destinations, copy.source, copy.destination, stamp))
    held = b.receive(c.send(["b"]).copies[0])
    assert [type(effect).__name__ for effect in held] == ["Hold"]
    assert [type(effect).__name__ for effect in b.receive(late)] == ["Deliver", "Deliver"]


def test_a_gap_is_an_error() -> None:
    out, into = SendingEnd(3), ReceivingEnd(3)
    first, second = out.encode(Log({0: ((1, 0b10),)})), out.encode(Log())
    with pytest.raises(PeerError, match="it is not FIFO"):
        into.decode(second)
    assert into.decode(first) == {0: ((1, 0b10),)}
    assert into.decode(second) == {}


@given(st.binary(max_size=40))
def test_any_other_bytes_are_refused_and_change_nothing(data: bytes) -> None:
    into = ReceivingEnd(4)
    into.decode(SendingEnd(4).encode(Log({0: ((1, 0b10),), 2: ((3, 0b1000),)})))
    before = into.last, into.position
    try:
        into.decode(data)
    except PeerError:
        assert (into.last, into.position) == before
    else:
        assert into.position == before[1] + 1
