"""Real stamps, members in mid-run and hostile bytes for them: no stamp and no snapshot breaks a member.

A case takes a real stamp or snapshot, changes bytes or parts of what it says, and hands it to a member. Whatever
happens, only `PeerError` or `MisuseError` may come out. A member that refused is as a fork that was never asked: it
writes the same snapshot, sends the same copies and does the same with the next good copy. A member that took it can
still be written, read, asked to send and given the next copy.
"""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from time import thread_time
from typing import Any, NamedTuple

from support.walk import Walk, destinations_for, start, walk
from thence.core.model.message import Copy
from thence.core.model.roster import Roster
from thence.core.protocols.wire import decode, encode
from thence.core.wire.dependency_log_cy import Log
from thence.errors import MisuseError, PeerError, ThenceError
from thence.protocols import REGISTRY, Member, Sent

PROTOCOLS = [name for name, entry in REGISTRY.items() if "failure detector" not in entry.needs]


def versions(name: str, kind: str) -> tuple[int, ...]:
    """Return the wire versions that a kind of copy has: two if a dependency log is in it."""
    shape = REGISTRY[name].protocol.kinds[kind]
    return (1, 2) if shape.in_bits() is not shape else (1,)


def stamps(name: str, processes: int, seed: int, messages: int = 25) -> tuple[Roster, list[bytes]]:
    """Return the encoded stamps of a random run, in every wire version."""
    run = walk(name, processes, messages, seed, labels=(None,) if seed % 2 else (None, "λ"))
    return run.roster, [
        encode(REGISTRY[name].protocol, copy, run.roster, version)
        for copy in (*run.copies, *run.others)
        for version in versions(name, copy.kind)
    ]


def mutated(data: bytes, rng: Random) -> bytes:
    """Return the bytes with a few of them changed, cut, doubled or added."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(5):
            case 0 if out:
                out[at % len(out)] = rng.randrange(256)
            case 1 if out:
                out[at % len(out)] ^= 1 << rng.randrange(8)
            case 2:
                del out[at:]
            case 3:
                out[at:at] = rng.randbytes(rng.randint(1, 3))
            case _:
                out[at:at] = out[at : at + rng.randint(1, 8)]
    return bytes(out)


def inputs(name: str, rng: Random, seeds: int) -> Iterator[tuple[Roster, bytes]]:
    """Yield mutated and random stamps without end, cheaply, from a few runs over rosters of several sizes."""
    pools = [stamps(name, n, seed) for seed in range(seeds) for n in (3, 9, 20)]
    while True:
        roster, pool = rng.choice(pools)
        data = rng.choice(pool)
        if rng.random() < 0.1:
            yield roster, data[:7] + rng.randbytes(rng.randint(0, 40))
        else:
            yield roster, mutated(data, rng)


def survives(name: str, data: bytes, roster: Roster) -> bool:
    """Decode; return whether it was a stamp. A stamp encodes back to the same bytes; all else is a `PeerError`."""
    protocol = REGISTRY[name].protocol
    try:
        copy = decode(protocol, data, roster, destination=0, source=0)
    except PeerError:
        return False
    again = encode(protocol, copy, roster if data[2:6] == roster.hash else _earlier(roster, data[2:6]), data[0])
    assert again == data, f"{name}: {data.hex()} decodes to {copy}, which encodes to {again.hex()}"
    return True


def _earlier(roster: Roster, digest: bytes) -> Roster:
    return next(r for r in roster.lineage() if r.hash == digest)


HUGE = (0, 1, 2, 127, 128, 1 << 14, (1 << 62) - 1, 1 << 62, (1 << 62) + 1, (1 << 63) - 1, 1 << 63)
OPTIONS: dict[str, dict[str, Any]] = {"bounded": {"bound": 3}}


@dataclass
class Worst:
    """The most that a case took, and how cases ended."""

    cases: Counter[str] = field(default_factory=Counter)
    microseconds: float = 0.0
    microseconds_per_byte: float = 0.0
    memory_per_byte: float = 0.0
    slowest: str = ""

    def note(self, kind: str, data: bytes, seconds: float) -> None:
        """Count a case and keep the slowest."""
        self.cases[kind] += 1
        if seconds * 1e6 > self.microseconds:
            self.microseconds, self.slowest = seconds * 1e6, data.hex()[:400]
        self.microseconds_per_byte = max(self.microseconds_per_byte, seconds * 1e6 / (len(data) + 1))


class Scene:
    """A system in mid-run: its members, and the copies under way to each of them."""

    def __init__(self, name: str, processes: int, seed: int, steps: int = 60) -> None:
        """Send and deliver at random for a while."""
        self.name, self.rng = name, Random(f"scene {name} {processes} {seed}")
        fifo = "fifo" in REGISTRY[name].needs
        self.run = start(name, processes, self.rng, policy="random", fifo=fifo, options=OPTIONS.get(name))
        self.labels: tuple[str | None, ...] = (None, "λ") if seed % 2 else (None,)
        for _ in range(steps):
            self.step(self.run)
        self.flight = [copy for lane in self.run.network.lanes.values() for copy in lane]

    def step(self, run: Walk) -> None:
        needs = run.entry.needs
        fanout = "broadcast" if "broadcast only" in needs else "unicast" if "unicast only" in needs else "uniform"
        if run.network and self.rng.random() < 0.5:
            run.arrive(run.network.take())
            return
        process = self.rng.randrange(len(run.roster))
        mask = destinations_for(self.rng, fanout, len(run.roster), process, self_addressed=False)
        if mask:
            run.send(process, mask, label=self.rng.choice(self.labels))


class Twisted(NamedTuple):
    """A log that cannot be, written as one where that has bytes."""

    groups: dict[int, Any]

    def write(self, out: bytearray, size: int) -> None:
        """Write it."""
        Log(self.groups).write(out, size)


def twisted(value: Any, rng: Random) -> Any:
    """Return a value with one of its parts changed: a number, an entry left out, doubled or moved."""
    if isinstance(value, bool) or value is None:
        return rng.choice((None, (0, 1)))
    if isinstance(value, int):
        return rng.choice((value + 1, max(0, value - 1), value ^ 1 << rng.randrange(8), rng.choice(HUGE)))
    if isinstance(value, Log):
        return Twisted(twisted(value.groups(), rng))
    if isinstance(value, dict):
        items = list(value.items())
        if not items or rng.random() < 0.15:
            return {**value, rng.randrange(8): rng.choice([v for _, v in items] or [1, ((1, 1),), {}])}
        key, part = rng.choice(items)
        if rng.random() < 0.2:
            return {k: v for k, v in items if k != key}
        if rng.random() < 0.2:
            return {(twisted(k, rng) if k == key else k): v for k, v in items}
        return {**value, key: twisted(part, rng)}
    if isinstance(value, tuple) and value:
        place = rng.randrange(len(value))
        parts = list(value)
        if rng.random() < 0.15:
            del parts[place]
        elif rng.random() < 0.15:
            parts.insert(place, parts[place])
        else:
            parts[place] = twisted(parts[place], rng)
        return type(value)(*parts) if hasattr(value, "_fields") and len(parts) == len(value) else tuple(parts)
    return value


def lying(copy: Copy, member: Member, rng: Random) -> bytes | None:
    """Return the stamp of a copy that says something else; None if that has no bytes."""
    size = len(member.roster)
    match rng.randrange(8):
        case 0:
            copy = replace(copy, sender=rng.choice((member.me, rng.randrange(size))))
        case 1:
            copy = replace(copy, count=rng.choice((copy.count + 1, *HUGE)))
        case 2:
            copy = replace(copy, destinations=rng.randrange(1 << size))
        case 3:
            copy = replace(copy, kind=rng.choice(list(type(member).kinds)))
        case 4:
            copy = replace(copy, label=rng.choice((None, "new", "λ" * rng.choice((1, 200)))))
        case _:
            copy = replace(copy, stamp=twisted(copy.stamp, rng))
    try:
        return member.encode(copy)
    except Exception:  # what has no bytes cannot arrive
        return None


class Hostile:
    """Hostile cases for one protocol, without end."""

    def __init__(self, name: str, seed: int, *, memory: int = 0) -> None:
        """Take the protocol; with `memory`, every so many cases have their memory measured."""
        self.name, self.rng, self.memory, self.worst = name, Random(f"hostile {name} {seed}"), memory, Worst()
        self.scenes = [Scene(name, n, s) for s, n in enumerate((2, 4, 9, 17), seed)]
        self.scenes = [scene for scene in self.scenes if scene.flight]
        assert self.scenes, f"{name}: nothing is under way with seed {seed}"

    def case(self) -> None:
        """Try one."""
        scene = self.rng.choice(self.scenes)
        copy = self.rng.choice(scene.flight)
        victim = scene.run.members[copy.destination]
        if self.rng.random() < 0.25:
            self.restored(mutated(victim.snapshot(), self.rng), victim, copy)
            return
        good = victim.encode(copy)
        data = mutated(good, self.rng) if self.rng.random() < 0.4 else lying(copy, victim, self.rng)
        if data is not None:
            source = self.rng.choice((copy.source, copy.source, self.rng.randrange(len(victim.roster))))
            self.received(data, source, victim, copy)

    def measured(self, kind: str, data: bytes, work: Any) -> Any:
        """Do the work; note its time and, now and then, its memory."""
        traced = self.memory and sum(self.worst.cases.values()) % self.memory == 0
        if traced:
            tracemalloc.start()
        start_ = thread_time()
        try:
            return work()
        finally:
            if traced:
                self.worst.memory_per_byte = max(
                    self.worst.memory_per_byte, tracemalloc.get_traced_memory()[1] / (len(data) + 1)
                )
                tracemalloc.stop()
            else:
                self.worst.note(kind, data, thread_time() - start_)

    def received(self, data: bytes, source: int, victim: Member, good: Copy) -> None:
        """Hand over a stamp."""
        asked, untouched = victim.fork(), victim
        before = untouched.snapshot()

        def work() -> None:
            asked.receive(asked.decode(data, source=source))

        about = f"{self.name}: {data.hex()} from {source} at {victim.me} of {len(victim.roster)}"
        try:
            self.measured("stamp", data, work)
        except (PeerError, MisuseError):
            self.worst.cases["refused"] += 1
            assert asked.snapshot() == before, f"a refused copy left something behind, {about}"
            if self.worst.cases["refused"] % 8 == 0:
                assert self.goes_on(asked, good) == self.goes_on(untouched.fork(), good), about
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}, {about}") from error
        else:
            self.worst.cases["taken"] += 1
            self.lives(asked, good, about)

    def restored(self, data: bytes, victim: Member, good: Copy) -> None:
        """Restore a snapshot."""
        about = f"{self.name}: snapshot {data.hex()}"
        try:
            member = self.measured("snapshot", data, lambda: type(victim).restore(data))
        except (PeerError, MisuseError):
            self.worst.cases["not restored"] += 1
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}, {about}") from error
        else:
            self.worst.cases["restored"] += 1
            assert member.snapshot() == data, about
            self.lives(member, good, about)

    def lives(self, member: Member, good: Copy, about: str) -> None:
        """Insist that a member can be written, read, asked to send, given a copy and asked what it holds."""
        try:
            written = member.snapshot()
            assert type(member).restore(written).snapshot() == written, about
            self.goes_on(member, good)
            member.pending()
            written = member.snapshot()
            assert type(member).restore(written).snapshot() == written, about
        except ThenceError as error:
            raise AssertionError(f"{error}, after {about}") from error
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}, after {about}") from error

    def goes_on(self, member: Member, good: Copy) -> list[Any]:
        """Send, receive the next good copy, write; return what came of each."""
        outcomes: list[Any] = []
        everyone = member.roster.everyone & ~member.bit or member.bit
        for mask in (everyone, everyone & -everyone):
            try:
                sent = member.send(mask & ~member.gone or member.bit)
                outcomes.append(sent)
                if isinstance(sent, Sent):
                    outcomes += [member.encode(copy) for copy in sent.copies]
            except MisuseError as error:
                outcomes.append(str(error))
        try:
            outcomes.append(member.receive(good))
        except PeerError as error:
            outcomes.append(str(error))
        outcomes.append(member.snapshot())
        return outcomes


def names() -> list[str]:
    """Return every protocol."""
    return list(REGISTRY)
