"""Stamps of `ks` in wire versions 1 and 2, beside what others would use on the same dependency logs.

    pip install zstandard protobuf pyroaring     (for this benchmark alone; the package needs none of them)
    python benchmarks/wire/run.py [--quick] [--aims] [--out FILE]

Simulated traffic: exponential intervals of 0.1 s between sends of a process, exponential delays of 50 ms; stamps of the
second half of a run. Bytes are means over whole stamps and the same on any machine. CPU is that of encoding and
decoding a stamp, both versions in turns, the best of several rounds; on a loaded machine read the ratio.

- *zstd*: each stamp of version 1 compressed by itself, with a dictionary trained on 1,000 stamps of another run.
- *protobuf*: packed repeated fields, counts and positions as differences, empty sets left out.
- *roaring*: counts as in version 1, each set a serialized roaring bitmap.
- *adaptive model*: not a codec. The same fields, each binary decision charged at the logarithm of what an adaptive
  model (Krichevsky-Trofimov, contexts by field and place, begun anew with each stamp) gives it; sets at log2 of the
  number of sets of that size. This is what adaptive range coding would come near.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import pairwise
from math import comb, log2
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import zstandard
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pyroaring import BitMap

from thence.core.model.message import Copy
from thence.core.model.roster import Roster, positions
from thence.core.protocols.effects import Sent
from thence.core.protocols.ks import KS
from thence.core.wire.words_cy import put_varint

RESULTS = Path(__file__).parent / "results" / "wire.json"
AIMS = {(30, "unicast"): (235, 110), (30, "n/2"): (143, 67), (100, "n/2"): (710, 407)}
"""bytes of version 1 on other logs of this kind, which are not kept, and of the entropy of their facts: the aim is at
most 1.15 times the latter"""
LENGTHS = (0.5, 1, 4, 16)
"""runs of so many times the messages: counts grow with a run, and bytes with them"""
MOST_COPIES = 700_000
CASES = ((8, "unicast"), (8, "n/2"), (30, "unicast"), (30, "n/2"), (30, "broadcast"), (100, "unicast"), (100, "n/2"))
Stamp = tuple[Copy, KS]


def messages(n: int, fanout: str) -> int:
    """Return how many messages a run has: unicast logs take several n² messages to fill."""
    return max(600, 3 * n * n if fanout == "unicast" else 20 * n)


def stamps(n: int, fanout: str, seed: int, wanted: int, times: float = 1) -> list[Stamp]:
    """Return copies of the second half of a run, each with its sender."""
    rng, roster = Random(f"{n} {fanout} {seed}"), Roster.of(n)
    members = [KS(roster, place) for place in range(n)]
    queue: list[tuple[float, int, int, Copy | None]] = []
    for place in range(n):
        heappush(queue, (rng.expovariate(10.0), place, place, None))
    sent, number, total, found = 0, n, int(times * messages(n, fanout)), []
    while sent < total:
        now, _, place, copy = heappop(queue)
        if copy is not None:
            members[place].receive(copy)
            continue
        others = [other for other in range(n) if other != place]
        reach = {"unicast": 1, "n/2": rng.randint(1, n - 1), "broadcast": n - 1}[fanout]
        made = members[place].send(sum(1 << other for other in rng.sample(others, reach)))
        assert isinstance(made, Sent)
        sent += 1
        if sent > total // 2 and rng.random() < 1.2 * wanted / (total // 2):
            found.append((rng.choice(made.copies), members[place]))
        for each in made.copies:
            heappush(queue, (now + rng.expovariate(20.0), number, each.destination, each))
            number += 1
        heappush(queue, (now + rng.expovariate(10.0), number, place, None))
        number += 1
    return found


# -- what others would use ------------------------------------------------------------------------------------------


def protobuf_types() -> tuple[Any, Any]:
    """Return the classes Stamp and Group of a schema made here."""
    file = descriptor_pb2.FileDescriptorProto(name="stamp.proto", syntax="proto3")
    for name, fields in (
        ("Group", (("sender", 13, 1), ("counts", 4, 3), ("sizes", 13, 3), ("places", 13, 3))),
        ("Stamp", (("sender", 13, 1), ("count", 4, 1), ("destinations", 13, 3), ("roster", 7, 1), ("groups", 11, 3))),
    ):
        message = file.message_type.add(name=name)
        for number, (field, kind, label) in enumerate(fields, 1):
            made = message.field.add(name=field, number=number, type=kind, label=label)
            if kind == 11:
                made.type_name = ".Group"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return tuple(message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in ("Stamp", "Group"))


STAMP, GROUP = protobuf_types()


def gaps(places: list[int]) -> list[int]:
    return [after - before - 1 for before, after in zip([-1, *places], places, strict=False)]


def falling(group: tuple[tuple[int, int], ...]) -> list[int]:
    """Return the newest count and the differences down from it."""
    counts = [count for count, _ in reversed(group)]
    return [counts[0], *(before - after - 1 for before, after in pairwise(counts))]


def protobuf(copy: Copy) -> bytes:
    stamp = STAMP(
        sender=copy.sender, count=copy.count, roster=1 << 31, destinations=gaps(list(positions(copy.destinations)))
    )
    for sender, group in copy.stamp.items():
        sets = [list(positions(mask)) for _, mask in group]
        places = [gap for each in sets for gap in gaps(each)]
        stamp.groups.append(GROUP(sender=sender, counts=falling(group), sizes=map(len, sets), places=places))
    return bytes(stamp.SerializeToString())


def roaring(copy: Copy) -> bytes:
    out = bytearray(7)
    for number in (copy.sender, copy.count, len(copy.stamp)):
        put_varint(out, number)
    sets = [copy.destinations]
    for sender, group in copy.stamp.items():
        for number in (sender, len(group), *falling(group)):
            put_varint(out, number)
        sets += [mask for _, mask in group if mask]
    for mask in sets:
        bitmap = BitMap(positions(mask))
        bitmap.run_optimize()
        out += bitmap.serialize()
    return bytes(out)


def adaptive(copy: Copy, n: int) -> float:
    """Return the bytes that an adaptive model charges."""
    seen: dict[tuple[str, int], list[float]] = defaultdict(lambda: [0.5, 0.5])
    bits = 8.0 * (7 + 3) + log2(comb(n, copy.destinations.bit_count()))

    def decide(context: tuple[str, int], bit: int) -> float:
        counts = seen[context]
        cost = -log2(counts[bit] / sum(counts))
        counts[bit] += 1
        return cost

    def number(field: str, value: int) -> float:
        """Charge the number of bits in unary, the highest bit but one by a context, the others as they are."""
        length = (value + 1).bit_length() - 1
        cost = sum(decide((field, place), 1) for place in range(length)) + decide((field, length), 0)
        if length:
            cost += decide((f"{field} high", length), (value + 1) >> (length - 1) & 1) + length - 1
        return cost

    bits += log2(n + 1) + log2(comb(n, len(copy.stamp)))
    before = 0
    for group in copy.stamp.values():
        newest, *steps = falling(group)
        empty = group[-1][1] == 0
        bits += number("entries", 2 * (len(group) - empty) + empty - 1)
        change = newest - before
        bits += number("newest", abs(change)) + (1 if change and before else 0)
        before = newest
        bits += sum(number("gap", step) for step in steps)
        for mask in (mask for _, mask in group if mask):
            bits += number("size", mask.bit_count() - 1) + log2(comb(n, mask.bit_count()))
    return bits / 8


# -- measuring ------------------------------------------------------------------------------------------------------


def cpu(found: list[Stamp], rounds: int) -> dict[int, float]:
    """Return the microseconds of encoding and decoding a stamp in either version, in turns."""
    best: dict[int, float] = {}
    for _ in range(rounds):
        for version in (1, 2):
            begun = process_time()
            for copy, member in found:
                member.decode(member.encode(copy, version), source=copy.source)
            taken = 1e6 * (process_time() - begun) / len(found)
            best[version] = min(best.get(version, taken), taken)
    return best


def case(n: int, fanout: str, wanted: int, rounds: int) -> dict[str, Any]:
    found, other = stamps(n, fanout, 1, wanted), stamps(n, fanout, 2, 1000)
    samples = [member.encode(copy) for copy, member in other]
    dictionary = zstandard.train_dictionary(16 << 10, samples)
    compressor = zstandard.ZstdCompressor(level=19, dict_data=dictionary, write_content_size=False, write_dict_id=False)
    codecs: dict[str, Callable[[Copy, KS], float]] = {
        "version 1": lambda copy, member: len(member.encode(copy)),
        "version 2": lambda copy, member: len(member.encode(copy, 2)),
        "adaptive model": lambda copy, member: adaptive(copy, n),
        "zstd": lambda copy, member: len(compressor.compress(member.encode(copy))),
        "protobuf": lambda copy, member: len(protobuf(copy)),
        "roaring": lambda copy, member: len(roaring(copy)),
    }
    sizes: Counter[str] = Counter()
    for copy, member in found:
        for name, size in codecs.items():
            sizes[name] += size(copy, member)  # type: ignore[assignment]
    times = cpu(found, rounds)
    return {
        "n": n, "fanout": fanout, "stamps": len(found),
        "entries": round(sum(copy.stamp.entries for copy, _ in found) / len(found), 1),
        "facts": round(sum(copy.stamp.facts() for copy, _ in found) / len(found), 1),
        "bytes": {name: round(size / len(found), 1) for name, size in sizes.items()},
        "cpu_us": {f"version {version}": round(taken, 2) for version, taken in times.items()},
        "cpu_ratio": round(times[2] / times[1], 2),
    }  # fmt: skip


def aimed(n: int, fanout: str, times: float) -> dict[str, Any]:
    """Return the sizes of a case of the aim in a run of that length."""
    found = stamps(n, fanout, 1, 300, times)
    sizes = {
        "version 1": sum(len(member.encode(copy)) for copy, member in found),
        "version 2": sum(len(member.encode(copy, 2)) for copy, member in found),
        "adaptive model": sum(adaptive(copy, n) for copy, _ in found),
    }
    before, entropy = AIMS[n, fanout]
    row = {"n": n, "fanout": fanout, "messages": int(times * messages(n, fanout)), "stamps": len(found)}
    row["bytes"] = {name: round(size / len(found), 1) for name, size in sizes.items()}
    return row | {"aim": {"version 1": before, "entropy": entropy}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two small cases")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--aims", action="store_true", help="only the sizes of the cases of the aim")
    chosen = parser.parse_args()
    rows = json.loads(chosen.out.read_text(encoding="utf-8"))["rows"] if chosen.aims else []
    for n, fanout in [] if chosen.aims else CASES[:2] if chosen.quick else CASES:
        rows.append(case(n, fanout, *((50, 3) if chosen.quick else (300, 15))))
        print(json.dumps(rows[-1]), flush=True)
    aims = []
    for n, fanout in [] if chosen.quick else AIMS:
        copies = messages(n, fanout) * (n // 2 if fanout == "n/2" else 1)
        for times in (times for times in LENGTHS if times * copies < MOST_COPIES):
            aims.append(aimed(n, fanout, times))
            print(json.dumps(aims[-1]), flush=True)
    chosen.out.parent.mkdir(exist_ok=True)
    chosen.out.write_text(json.dumps({"rows": rows, "aims": aims}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
