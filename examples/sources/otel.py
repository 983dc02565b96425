"""Spans of an OTLP JSON file in causal order, in plain Python, and what their clocks say.

python examples/sources/otel.py spans.jsonl
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from thence import Orderer
from thence.sources import from_spans, skews


def main(path: str) -> list[str]:
    rows = [row for line in Path(path).read_text().splitlines() for row in from_spans(json.loads(line))]
    told = [f"{row['name']} {row['outcome']}" for row in Orderer(by="depends_on").deliver(rows)]
    for skew in skews(rows):
        what = "violation" if skew.violation else f"clock skew of {skew.offset:.3f} s"
        told.append(f"{skew.parent} to {skew.child}: {len(skew.pairs)} early, {what}")
    print("\n".join(told))
    return told


if __name__ == "__main__":
    main(sys.argv[1])
