"""Where the fat was: `ks` against a line-by-line transcription of the paper's SND and RCV, same traffic, same run.

python benchmarks/protocols/literal.py [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from random import Random
from time import thread_time_ns

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from papers.literal_ks import LiteralKS

from thence.core.model.roster import Roster, positions
from thence.protocols import Deliver, create

RESULTS = Path(__file__).parent / "results" / "literal.json"


def measure(n: int, fanout: str, messages: int, seed: int) -> dict[str, object]:
    """Drive both with the same sends and arrivals; microseconds per send and per delivery of each."""
    rng = Random(seed)
    fast = [create("ks", Roster.of(n), place) for place in range(n)]
    slow = [LiteralKS(place, n) for place in range(n)]
    stamps: dict[object, object] = {}
    network: list = []
    spent = {"ks send": 0, "literal send": 0, "ks receive": 0, "literal receive": 0}
    sends = receives = 0

    def timed(key: str, call, *args):
        start = thread_time_ns()
        result = call(*args)
        spent[key] += thread_time_ns() - start
        return result

    for _ in range(messages):
        place = rng.randrange(n)
        count = 1 if fanout == "unicast" else rng.randint(1, n - 1)
        mask = sum(1 << p for p in rng.sample([p for p in range(n) if p != place], count))
        sent = timed("ks send", fast[place].send, mask)
        expected = timed("literal send", slow[place].snd, list(positions(mask)))
        sends += 1
        for copy in sent.copies:
            stamps[copy.id, copy.destination] = expected[copy.destination]
        network += sent.copies
        while len(network) > n * n // 2:
            at = rng.randrange(len(network))
            network[at], network[-1] = network[-1], network[at]
            copy = network.pop()
            here = copy.destination
            receives += 1
            for effect in timed("ks receive", fast[here].receive, copy):
                if isinstance(effect, Deliver):
                    got = effect.copy
                    stamp = stamps.pop((got.id, here))
                    timed("literal receive", slow[here].deliverable, stamp)
                    timed("literal receive", slow[here].rcv, got.sender, got.count, positions(got.destinations), stamp)
    per = {key: spent[key] / (sends if "send" in key else receives) / 1000 for key in spent}
    return {
        "n": n,
        "traffic": fanout,
        "messages": messages,
        "seed": seed,
        **{f"{key.replace(' ', '_')}_us": round(value, 1) for key, value in per.items()},
        "send_ratio": round(per["literal send"] / per["ks send"], 1),
        "receive_ratio": round(per["literal receive"] / per["ks receive"], 1),
    }


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = [measure(n, f, m, 1) for n, f, m in ((8, "unicast", 3000), (8, "n/2", 1500), (32, "n/2", 700))]
    for row in rows:
        print(row, file=sys.stderr)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(
        json.dumps({"command": "python benchmarks/protocols/literal.py", "rows": rows}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
