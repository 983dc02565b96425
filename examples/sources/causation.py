"""Events that name their cause, out of order, put in order in plain Python.

python examples/sources/causation.py
"""

from __future__ import annotations

from thence import Orderer
from thence.sources import from_event

EVENTS = [
    {"id": "3", "causation_id": "2", "correlation_id": "order-1", "source": "billing", "type": "PaymentTaken"},
    {"id": "2", "causation_id": "1", "correlation_id": "order-1", "source": "stock", "type": "ItemsReserved"},
    {"id": "1", "causation_id": "1", "correlation_id": "order-1", "source": "web", "type": "OrderPlaced"},
    {"id": "9", "causation_id": "8", "correlation_id": "order-2", "source": "billing", "type": "PaymentTaken"},
]


def main() -> list[str]:
    rows = [from_event(event) | {"type": event["type"]} for event in EVENTS]
    told = [
        f"{row['destination']} {row['type']} {row['outcome']}" + (f": {row['reason']}" if row["reason"] else "")
        for row in Orderer(by="depends_on").deliver(rows)
    ]
    print("\n".join(told))
    return told


if __name__ == "__main__":
    main()
