"""What one writes who needs an answer today: a plain loop with vector clocks; pyarrow reads the files.

    python benchmarks/audit/by_hand.py FILES...

It takes the rows as they lie, gives every send the clock of its process, and at every delivery looks for messages to
the same process that were sent before this one and are not there yet. Tuned: clocks are lists under small numbers,
copies that are missing are looked for only among those still open, and a clock is compared in one component. It needs
files that lie in `order`, has no word for bad rows, gaps, labels, duplicates or several runs, and proves nothing.
"""

from __future__ import annotations

import json
import sys

import pyarrow.parquet as pq


# begin
def violations(paths: list[str]) -> set[tuple[str, str]]:
    """Return (destination, missing message) of every violation."""
    numbers: dict[str, int] = {}
    clocks: list[list[int]] = []
    carried: dict[str, tuple[int, int, list[int], int]] = {}
    still_open: dict[str, dict[str, tuple[int, int]]] = {}
    found: set[tuple[str, str]] = set()

    def number(name: str) -> int:
        if name not in numbers:
            numbers[name] = len(numbers)
            for clock in clocks:
                clock.append(0)
            clocks.append([0] * len(numbers))
        return numbers[name]

    for path in sorted(paths):
        file = pq.ParquetFile(path)
        for batch in file.iter_batches(columns=["process", "index", "kind", "message", "destinations"]):
            rows = (batch.column(name).to_pylist() for name in batch.schema.names)
            for process, index, kind, message, destinations in zip(*rows, strict=True):
                p = number(process)
                if kind == "send":
                    clock = clocks[p].copy()
                    clock[p] = index
                    carried[message] = p, index, clock, len(destinations)
                    for each in destinations:
                        still_open.setdefault(each, {})[message] = p, index
                elif kind == "deliver":
                    sender, sent, clock, left = carried[message]
                    mine = still_open[process]
                    mine.pop(message, None)
                    for other, (s, at) in mine.items():
                        if s < len(clock) and clock[s] >= at and other != message:
                            found.add((process, other))
                    own = clocks[p]
                    clocks[p] = [a if a > b else b for a, b in zip(own, clock, strict=False)] + own[len(clock) :]
                    if left == 1:
                        del carried[message]
                    else:
                        carried[message] = sender, sent, clock, left - 1
    return found


# end


if __name__ == "__main__":
    print(json.dumps(len(violations(sys.argv[1:]))))
