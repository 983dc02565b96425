"""Spans of an OTLP JSON file in causal order, in plain Python, and what their clocks say.

python examples/sources/otel.py [spans.jsonl]      without a file, data/spans.jsonl
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from thence import Orderer
from thence.sources import from_spans, orphans, skews

DATA = Path(__file__).parent / "data" / "spans.jsonl"


def main(path: str = str(DATA)) -> list[str]:
    rows = [row for line in Path(path).read_text().splitlines() for row in from_spans(json.loads(line))]
    kept, missing = orphans(rows)
    told = [f"{row['name']} {row['outcome']}" for row in Orderer(by="depends_on").deliver(kept)]
    told += [f"{parent} never came; {len(children)} named it" for parent, children in missing.items()]
    for skew in skews(rows):
        what = "violation" if skew.violation else f"clock skew of {skew.offset:.3f} s"
        told.append(f"{skew.parent} to {skew.child}: {len(skew.pairs)} early, {what}")
    print("\n".join(told))
    return told


if __name__ == "__main__":
    main(*sys.argv[1:])
