"""A recorded run of an agent whose log has a tool's result before its call: found, shown, put in order.

python examples/sources/agents.py [PAGE.html]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import thence
from thence import Orderer
from thence.sources import from_events, observed
from thence.testing import assert_causal

DATA = Path(__file__).with_name("data") / "agent.jsonl"


def main(page: str = "") -> None:
    items = [json.loads(line) for line in DATA.read_text().splitlines()]
    items[1], items[3] = items[3], items[1]  # a writer that was too slow: the result is logged before its call
    rows = [row for row in from_events(items, preset="openai-agents") if row["message"] is not None]
    try:
        assert_causal(observed(rows))
    except AssertionError as error:
        print(error)
    if page:
        thence.show(observed(rows), out=page)
    for row in Orderer("depends_on", key=["destination"]).deliver(rows):
        print(row["message"], row["outcome"])


if __name__ == "__main__":
    main(*sys.argv[1:])
