"""Real stamps of every protocol, and unkind things done to them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from support.walk import walk
from thence.core.model.roster import Roster
from thence.core.protocols.wire import decode, encode
from thence.errors import PeerError
from thence.protocols import REGISTRY

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
    """Decode; tell whether it was a stamp. A stamp encodes back to the same bytes; all else is a `PeerError`."""
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
