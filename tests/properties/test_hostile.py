"""No stamp, copy or snapshot can break a member: thousands of hostile cases over every protocol, and what they cost."""

from __future__ import annotations

import tracemalloc
from time import thread_time

import pytest
from support.hostile import Hostile, names
from support.some import some

from thence.core.model.roster import Roster
from thence.errors import PeerError
from thence.protocols import REGISTRY, create

SEED = 1
CASES = 250


@pytest.mark.parametrize("name", names())
def test_no_stamp_and_no_snapshot_breaks_a_member(name: str) -> None:
    hostile = Hostile(name, SEED, memory=25)
    for _ in range(CASES):
        hostile.case()
    worst = hostile.worst
    print(
        f"{name}: seed {SEED}, {dict(worst.cases)}, worst case {worst.microseconds:.0f} us, "
        f"{worst.microseconds_per_byte:.1f} us and {worst.memory_per_byte:.0f} bytes of memory for each byte"
    )
    assert worst.cases["refused"]
    assert worst.cases["not restored"]


def costs(work: object, *sizes: bytes) -> list[tuple[float, float]]:
    """Return microseconds and memory for each byte of growing inputs."""
    found = []
    for data in sizes:
        tracemalloc.start()
        with pytest.raises(PeerError):
            work(data)  # type: ignore[operator]
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        start = thread_time()
        with pytest.raises(PeerError):
            work(data)  # type: ignore[operator]
        found.append(((thread_time() - start) * 1e6 / len(data), memory / len(data)))
    return found


@pytest.mark.parametrize("name", ["history", "ks", "ech", "prs", "rst", "ses", "gossip"])
@pytest.mark.parametrize("byte", [0, 1, 2, 4, 6, 127, 255])
def test_reading_a_stamp_is_linear_in_its_bytes(name: str, byte: int) -> None:
    """A stamp of n times the bytes takes about n times as long; the bound is wide, only a power breaks it."""
    roster = Roster.of(1000)
    member = create(name, roster, 0)
    head = bytes((1, REGISTRY[name].protocol.code)) + roster.hash + bytes((0, 1, 1, 4, 0))
    inputs = [head + bytes((byte,)) * size for size in (2_100, 33_000)]
    (short, small), (long, large) = costs(lambda data: member.decode(data, source=1), *inputs)
    print(f"{name} {byte}: {short:.2f} and {long:.2f} us a byte, {small:.0f} and {large:.0f} bytes of memory a byte")
    assert long < 8 * short + 5
    assert large < 8 * small + 500


def test_a_snapshot_takes_no_memory_before_its_sizes_are_checked() -> None:
    """As many processes as are accepted, and nothing behind them: n bytes must not cost n^2 numbers."""
    for name in some(names()):
        data = create(name, "ab", 0).snapshot()
        at = data.index(b"\x02\x01a\x01b")
        roster = bytes((0x80, 0x20)) + b"".join(b"\x03" + f"{place:03x}".encode() for place in range(4096))
        tracemalloc.start()
        with pytest.raises(PeerError):
            REGISTRY[name].protocol.restore(data[:at] + roster + data[at + 5 :])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"{name}: {peak / (1 << 20):.1f} MB for a snapshot over 4096 processes that holds nothing else")
        assert peak < 32 << 20, name
