"""Microseconds per send and per receive, and bytes per copy, for each protocol at n = 8, 32, 128.

Traffic: unicast, and multicast with mean fan-out n/2, over a network that keeps about n copies of each process under
way and hands them over in random order; broadcast-only protocols are measured on broadcast. CPU time of the thread,
so that preemption by neighbours does not count, and the least of three runs; still, read the ratios to `bss` broadcast
of the same run, not the microseconds. Receives include what they set free. Encoding and decoding are timed apart.

    python benchmarks/protocols/run.py [--work 0.1] [--repeat 3] [--out FILE] [--only ks,rst]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from random import Random
from time import thread_time_ns

from thence.model.message import MESSAGE, Copy
from thence.model.roster import Roster
from thence.protocols import REGISTRY, Deferred, Sent, Transmit, create

RESULTS = Path(__file__).parent / "results" / "protocols.json"
SIZES = (8, 32, 128)
SLOW = {"history", "gossip", "epochs", "bounded", "ses"}
"""n^2 work or more for each copy: fewer messages at n = 128"""


def overhead() -> float:
    """Nanoseconds that one pair of clock readings takes."""
    spans = []
    for _ in range(2000):
        start = thread_time_ns()
        spans.append(thread_time_ns() - start)
    return sorted(spans)[len(spans) // 2]


def traffic(name: str, fanout: str) -> bool:
    """Tell whether a protocol runs on that traffic."""
    needs = REGISTRY[name].needs
    if "failure detector" in needs or "topology" in needs:
        return False
    if "broadcast only" in needs:
        return fanout == "broadcast"
    if "unicast only" in needs:
        return fanout == "unicast"
    return fanout != "broadcast" or name in ("ks", "rst")


def measure(name: str, n: int, fanout: str, copies: int, seed: int) -> dict[str, object]:
    """Run until that many copies were received; time the second half."""
    rng = Random(f"{seed} {n} {fanout}")
    roster = Roster.of(n)
    options = {"bound": 1 << 20} if name == "bounded" else {}
    members = [create(name, roster, place, **options) for place in range(n)]
    network: list[Copy] = []
    token = None
    spent = {"send": 0, "receive": 0, "encode": 0, "decode": 0}
    done = {"send": 0, "receive": 0, "copies sent": 0}
    size = entries = 0
    idle = overhead()

    def put(effects: list[object]) -> None:
        for effect in effects:
            if isinstance(effect, (Sent, Transmit)):
                network.extend(effect.copies)

    while done["receive"] < copies:
        warm = done["receive"] * 2 >= copies
        if len(network) < n * n // 2 and (not network or rng.random() < 0.7):
            place = rng.randrange(n)
            others = [p for p in range(n) if p != place]
            count = {"unicast": 1, "broadcast": n - 1}.get(fanout) or rng.randint(1, n - 1)
            mask = sum(1 << p for p in rng.sample(others, count))
            start = thread_time_ns()
            sent = members[place].send(mask, token=token) if token_needed(name) else members[place].send(mask)
            took = thread_time_ns() - start - idle
            if isinstance(sent, Deferred):
                if not network:
                    break
            else:
                token = sent.token
                put([sent])
                if warm:
                    spent["send"] += took
                    done["send"] += 1
                    done["copies sent"] += count
                continue
        at = rng.randrange(len(network))
        network[at], network[-1] = network[-1], network[at]
        copy = network.pop()
        member = members[copy.destination]
        start = thread_time_ns()
        data = member.encode(copy)
        spent["encode"] += (thread_time_ns() - start - idle) if warm else 0
        start = thread_time_ns()
        copy = member.decode(data, source=copy.source)
        spent["decode"] += (thread_time_ns() - start - idle) if warm else 0
        start = thread_time_ns()
        effects = member.receive(copy)
        took = thread_time_ns() - start - idle
        put(effects)
        if copy.kind == MESSAGE:
            done["receive"] += 1
            if warm:
                spent["receive"] += took
                size += len(data)
                entries += type(member).entries(copy)
    received = max(1, copies - copies // 2)
    return {
        "protocol": name,
        "n": n,
        "traffic": fanout,
        "copies": received,
        "send_us": round(spent["send"] / max(1, done["send"]) / 1000, 2),
        "send_us_per_copy": round(spent["send"] / max(1, done["copies sent"]) / 1000, 2),
        "receive_us": round(spent["receive"] / received / 1000, 2),
        "encode_us": round(spent["encode"] / received / 1000, 2),
        "decode_us": round(spent["decode"] / received / 1000, 2),
        "bytes": round(size / received, 1),
        "entries": round(entries / received, 1),
    }


def best(rows: list[dict[str, object]]) -> dict[str, object]:
    """Return the same run measured several times as one row: the least of each time, since neighbours only add."""
    return {
        key: min(float(str(row[key])) for row in rows) if key.endswith("_us") or key == "send_us_per_copy" else value
        for key, value in rows[0].items()
    }


def token_needed(name: str) -> bool:
    """Tell whether sends are serialized by a token."""
    return "serialized sends" in REGISTRY[name].needs


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=float, default=1.0, help="part of the work to do; 0.1 is enough for a look")
    parser.add_argument("--only", default="", help="protocols, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3, help="times each is measured; the least counts")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(REGISTRY)
    rows: list[dict[str, object]] = []
    for n in SIZES:
        base = None
        for name in ["bss", *(name for name in names if name != "bss")]:
            for fanout in ("broadcast", "unicast", "n/2"):
                if not traffic(name, fanout):
                    continue
                most = {8: 20000, 32: 12000, 128: 1500 if name in SLOW else 4000}[n]
                copies = int(most * options.work)
                row = best([measure(name, n, fanout, copies, options.seed) for _ in range(options.repeat)])
                if name == "bss":
                    base = row
                assert base is not None
                for key in ("send_us_per_copy", "receive_us", "bytes"):
                    row[f"{key}_vs_bss"] = round(float(str(row[key])) / float(str(base[key])), 2)
                rows.append(row)
                print(
                    f"{name:16} n={n:<4} {fanout:9} send {row['send_us_per_copy']:>8} us/copy  "
                    f"receive {row['receive_us']:>8} us (x{row['receive_us_vs_bss']})  {row['bytes']:>8} bytes",
                    file=sys.stderr,
                )
    table = {
        "command": "python " + " ".join(["benchmarks/protocols/run.py", *sys.argv[1:]]),
        "seed": options.seed,
        "python": platform.python_version(),
        "rows": rows,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
