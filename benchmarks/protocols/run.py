"""Microseconds per send, receive, encode and decode, and bytes per copy, for each protocol in steady state.

Traffic: unicast, multicast to 3 and with mean fan-out n/2, over a network that keeps about n copies of each process
under way and hands them over in random order; broadcast-only protocols are measured on broadcast. Before the clock runs
the logs settle: copies are exchanged until the entries of a stamp, averaged over a round of copies, differ by less than
5 percent from the round before, and for at least four messages of each process; `settled` says whether they did within
the limit. Receives include what they set free. CPU time of the thread, so that preemption by neighbours does not
count, the garbage collector off while it is taken (as `timeit` does), and the least of several runs.

Stamps are kept as bytes and read in one go afterwards, so that what stands between them does not count. A reader may
remember what it has read (sets of processes, say), and must not profit from what it would not have read live: of the
first members each reads its own stamps, in order; the memory is emptied, the earlier half is read before the clock
starts and the later half once. That is done five times, and the least counts. Every process of a protocol with groups
is a group of its own.

With `--before FOLDER --package NAME` the same traffic runs, in turn, through an earlier version of the package, and
each row holds both times and their ratio. Read ratios, not microseconds.

    python benchmarks/protocols/run.py [--work 0.1] [--repeat 3] [--sizes 8,32] [--out FILE] [--only ks,rst]
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import json
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random
from time import thread_time, thread_time_ns
from types import ModuleType
from typing import Any

from thence.protocols import REGISTRY

RESULTS = Path(__file__).parent / "results" / "protocols.json"
TIMED = ("send_us", "receive_us", "encode_us", "decode_us")
MESSAGE = "message"
READERS = 8
"""members whose stamps are read"""
GOES = 5
"""times that they are read, each time with an empty memory"""


class Package:
    """One version of the package."""

    def __init__(self, name: str) -> None:
        """Import what drives a protocol."""
        self.name = name
        self.protocols: ModuleType = importlib.import_module(f"{name}.protocols")
        inside = importlib.util.find_spec(f"{name}.core")
        self.inside = f"{name}.core" if inside else name
        """where the model lies: release 0.1.0 has no layers"""
        self.roster: Any = importlib.import_module(f"{self.inside}.model.roster").Roster

    def forget(self) -> None:
        """Empty what readers remember."""
        for name, module in list(sys.modules.items()):
            if name.startswith((f"{self.inside}.model.", f"{self.inside}.wire.", f"{self.inside}.protocols.")):
                for value in list(vars(module).values()):
                    if hasattr(value, "cache_clear"):
                        value.cache_clear()
                getattr(module, "_known", {}).clear()


def overhead() -> float:
    """Nanoseconds that one pair of clock readings takes."""
    spans = []
    for _ in range(2000):
        start = thread_time_ns()
        spans.append(thread_time_ns() - start)
    return sorted(spans)[len(spans) // 2]


def traffic(name: str, fanout: str) -> bool:
    """Return whether a protocol runs on that traffic."""
    needs = REGISTRY[name].needs
    if "topology" in needs:
        return False
    if "broadcast only" in needs:
        return fanout == "broadcast"
    if "unicast only" in needs:
        return fanout == "unicast"
    return fanout != "broadcast" or name in ("ks", "rst")


class Run:
    """Members of one protocol and the copies under way."""

    def __init__(self, package: Package, name: str, n: int, fanout: str, seed: int) -> None:
        """Make the members."""
        self.rng = Random(f"{seed} {n} {fanout}")
        self.n, self.fanout, self.package, self.idle = n, fanout, package, overhead()
        roster = package.roster.of(n)
        options = {"bound": 1 << 20} if name == "bounded" else {}
        self.members = [package.protocols.create(name, roster, place, **options) for place in range(n)]
        self.serialized = "serialized sends" in REGISTRY[name].needs
        self.network: list[Any] = []
        self.token: Any = None
        self.reset()

    def reset(self) -> None:
        """Forget what was measured."""
        self.spent = dict.fromkeys(("send", "receive", "encode", "decode"), 0.0)
        self.sends = self.received = self.size = self.entries = 0
        self.stamps: list[list[tuple[int, bytes]]] = [[] for _ in self.members[:READERS]]

    def step(self, *, timed: bool) -> bool:
        """Send, or let a copy arrive; return whether a message arrived."""
        if len(self.network) < self.n * self.n // 2 and (not self.network or self.rng.random() < 0.7):
            if self._send():
                return False
            if not self.network:
                raise RuntimeError("every send is deferred and nothing is under way")
        at = self.rng.randrange(len(self.network))
        self.network[at], self.network[-1] = self.network[-1], self.network[at]
        return self._arrive(self.network.pop(), timed=timed)

    def _send(self) -> bool:
        place = self.rng.randrange(self.n)
        others = [p for p in range(self.n) if p != place]
        fixed = {"unicast": 1, "broadcast": self.n - 1, "3": 3}
        count = fixed.get(self.fanout) or self.rng.randint(1, self.n - 1)
        mask = sum(1 << p for p in self.rng.sample(others, count))
        extra = {"token": self.token} if self.serialized else {}
        start = thread_time_ns()
        sent = self.members[place].send(mask, **extra)
        took = thread_time_ns() - start - self.idle
        if isinstance(sent, self.package.protocols.Deferred):
            return False
        self.token = sent.token
        self.spent["send"] += took
        self.sends += 1
        self._put([sent])
        return True

    def _arrive(self, copy: Any, *, timed: bool) -> bool:
        member, source = self.members[copy.destination], copy.source
        if timed:
            start = thread_time_ns()
            data = member.encode(copy)
            self.spent["encode"] += thread_time_ns() - start - self.idle
            self.size += len(data)
            if copy.destination < READERS:
                self.stamps[copy.destination].append((source, data))
        start = thread_time_ns()
        effects = member.receive(copy)
        self.spent["receive"] += thread_time_ns() - start - self.idle
        self._put(effects)
        self.received += 1
        message = bool(copy.kind == MESSAGE)
        self.entries += type(member).entries(copy) if message else 0
        return message

    def _decode(self) -> float:
        """Let each reader read its stamps; nanoseconds for one."""
        pairs = list(zip(self.members, self.stamps, strict=False))
        least = sum(min(self._read(member, own) for _ in range(GOES)) for member, own in pairs)
        return least / sum(len(own) - len(own) // 2 for _, own in pairs)

    def _read(self, member: Any, stamps: list[tuple[int, bytes]]) -> int:
        """Read the stamps of a member with an empty memory, the earlier half before the clock starts; nanoseconds."""
        self.package.forget()
        half = len(stamps) // 2
        for source, data in stamps[:half]:
            member.decode(data, source=source)
        start = thread_time_ns()
        for source, data in stamps[half:]:
            member.decode(data, source=source)
        return thread_time_ns() - start

    def _put(self, effects: Iterable[Any]) -> None:
        for effect in effects:
            self.network.extend(getattr(effect, "copies", ()))

    def settle(self, seconds: float) -> bool:
        """Run until the entries of a stamp no longer change; return whether that came about within the time."""
        start, before, sends = thread_time(), -1.0, 0
        while thread_time() - start < seconds:
            self.reset()
            arrived = 0
            while arrived < max(8 * self.n, 200):
                arrived += self.step(timed=False)
            sends += self.sends
            mean = self.entries / self.received
            if sends >= 4 * self.n and abs(mean - before) <= 0.05 * mean:
                return True
            before = mean
        return False

    def measure(self, copies: int) -> dict[str, float]:
        """Time that many arrivals."""
        self.reset()
        arrived = 0
        gc.collect()
        gc.disable()
        while arrived < copies:
            arrived += self.step(timed=True)
        self.spent["decode"] = self._decode() * self.received
        gc.enable()
        per = dict.fromkeys(self.spent, self.received) | {"send": max(1, self.sends)}
        row = {f"{kind}_us": round(self.spent[kind] / per[kind] / 1000, 2) for kind in self.spent}
        return row | {"bytes": round(self.size / arrived, 1), "entries": round(self.entries / arrived, 1)}


def measured(packages: list[Package], name: str, n: int, fanout: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return a row: the least of each time, of every package in turn."""
    best: dict[str, dict[str, float]] = {}
    settled = True
    for _ in range(options.repeat):
        for package in packages:
            run = Run(package, name, n, fanout, options.seed)
            settled = run.settle(options.settle) and settled
            row = run.measure(max(1, int(options.copies * options.work)))
            kept = best.setdefault(package.name, row)
            best[package.name] = {key: min(value, row[key]) for key, value in kept.items()}
    row = {"protocol": name, "n": n, "traffic": fanout, "repeat": options.repeat, "settled": settled}
    row |= best["thence"]
    for package in packages[1:]:
        for key in TIMED:
            row[f"{key}_before"] = best[package.name][key]
            row[f"{key}_ratio"] = round(best[package.name][key] / max(best["thence"][key], 0.01), 2)
    return row


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=float, default=1.0, help="part of the work to do; 0.1 is enough for a look")
    parser.add_argument("--copies", type=int, default=2000, help="arrivals that are timed")
    parser.add_argument("--settle", type=float, default=20, help="seconds within which logs must settle")
    parser.add_argument("--sizes", default="8,32")
    parser.add_argument("--only", default="", help="protocols, separated by commas")
    parser.add_argument("--fanouts", default="broadcast,unicast,3,n/2")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3, help="times each is measured; the least counts")
    parser.add_argument("--before", type=Path, help="folder that holds an earlier package")
    parser.add_argument("--package", default="thence", help="what the earlier package is called")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def main() -> None:
    """Measure and write the table; rows of the same protocol, size and traffic are replaced, others stay."""
    options = arguments()
    packages = [Package("thence")]
    if options.before is not None:
        sys.path.insert(0, str(options.before))
        packages.append(Package(options.package))
    names = options.only.split(",") if options.only else list(REGISTRY)
    old = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    rows = {(row["protocol"], row["n"], row["traffic"]): row for row in old if "settled" in row}
    for n in map(int, options.sizes.split(",")):
        for name in names:
            for fanout in options.fanouts.split(","):
                if traffic(name, fanout):
                    row = measured(packages, name, n, fanout, options)
                    rows[name, n, fanout] = row
                    print("  ".join(f"{key} {value}" for key, value in row.items()), file=sys.stderr)
                    write(options, rows)


def write(options: argparse.Namespace, rows: dict[tuple[str, int, str], dict[str, Any]]) -> None:
    """Write what has been measured so far."""
    table = {
        "about": __doc__.splitlines()[0],
        "seed": options.seed,
        "python": platform.python_version(),
        "rows": [rows[key] for key in sorted(rows, key=str)],
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
