"""What modules in Cython's pure Python mode answer to random and hostile inputs, line by line.

Run by itself with the names of makers of answers below: each line is one answer, so that two runs can be compared.
The first argument says whether the modules must be the compiled ones.

    python tests/unit/compiled_answers.py compiled|plain SEED logs stamps
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator
from itertools import accumulate
from random import Random

from support.hostile import PROTOCOLS, inputs

from thence.core.protocols import stamps_cy
from thence.core.protocols.wire import decode
from thence.core.wire import dependency_log_cy as log_cy
from thence.core.wire import dependency_log_reader_cy as log_reader_cy
from thence.core.wire import reader_cy, words_cy
from thence.core.wire.dependency_log_cy import Log
from thence.core.wire.dependency_log_reader_cy import read_log
from thence.core.wire.reader_cy import Reader
from thence.errors import PeerError
from thence.protocols import REGISTRY

SIZES = (1, 3, 14, 15, 32, 55, 56, 57, 64, 112, 113, 128, 130, 300)
HUGE = (0, 1, 127, 128, (1 << 62) - 1, (1 << 63) - 2)


def a_set(rng: Random, size: int) -> int:
    few = sum({1 << rng.randrange(size) for _ in range(rng.randint(0, 4))})
    return rng.choice([few, few, ((1 << size) - 1) ^ few, rng.getrandbits(size)])


def a_log(rng: Random, size: int) -> Log:
    groups = {}
    for sender in rng.sample(range(size), rng.randint(0, min(size, 6))):
        counts = list(accumulate(rng.choice((1, 2, 3, 128, 20_000)) for _ in range(rng.randint(1, 5))))
        groups[sender] = [(count, a_set(rng, size)) for count in counts]
    return Log(groups)


def written(log: Log, size: int) -> bytes:
    out = bytearray()
    log.write(out, size)
    return bytes(out)


def mutated(rng: Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(found) + 1)
        found[at : at + rng.randrange(3)] = rng.choice(
            [b"", bytes([rng.randrange(256)]), bytes([rng.randrange(8)]), bytes([255] * rng.randrange(11)), found[:at]]
        )
    return bytes(found)


def outcome(read: Callable[[], object]) -> str:
    try:
        return repr(read())
    except PeerError as error:
        return f"refused: {error}"


def logs(rng: Random) -> Iterator[object]:
    """Operations on logs, and logs read from right and wrong bytes."""
    for _ in range(1500):
        size = rng.choice(SIZES)
        one, other = a_log(rng, size), a_log(rng, rng.choice((size, 3)))
        mask = a_set(rng, size)
        yield one.without(mask), one.merged(other, mask), one.merged(one) == one, hash(one) == hash(Log(one))
        yield one.needs(rng.randrange(size)), one.union(), one.facts(), one.entries, len(one), one.newest(0)
        yield one.appended(0, rng.choice(HUGE[-2:]), mask), one.frozen(rng.sample(range(size), size))
        data = written(one, size)
        yield size, data.hex()
        wrong = mutated(rng, data)
        reader = Reader(wrong, size)
        yield outcome(lambda reader=reader: (read_log(reader), reader.at))
        yield outcome(lambda wrong=wrong, size=size: Reader(wrong, size).masks(3))
        yield outcome(lambda wrong=wrong, size=size: Reader(wrong, size).pairs())


def stamps(rng: Random) -> Iterator[object]:
    """Stamps of every protocol, whole and damaged, decoded and read as columns."""
    for name in PROTOCOLS:
        protocol = REGISTRY[name].protocol
        source = inputs(name, rng, 1)
        for _ in range(60):
            roster, data = next(source)
            yield name, outcome(lambda p=protocol, d=data, r=roster: decode(p, d, r, destination=0, source=0))
            if protocol.code in stamps_cy.FORMS:
                offsets = array("q", [0, len(data), len(data)])
                yield stamps_cy.read_stamps(data, offsets, roster.hash, len(roster), array("i", [0, 0]))


def main() -> None:
    """Print the answers of the makers that are named."""
    kind, seed, *makers = sys.argv[1:]
    for module in (words_cy, reader_cy, log_cy, log_reader_cy, stamps_cy):
        assert (not str(module.__file__).endswith(".py")) == (kind == "compiled"), module.__file__
    for maker in makers:
        for answer in globals()[maker](Random(f"{maker} {seed}")):
            print(maker, answer)


if __name__ == "__main__":
    main()
