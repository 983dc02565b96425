"""Payments and orders through a Kafka broker, in causal order although they lie in two topics.

python examples/sources/kafka.py [localhost:9092]

Needs pip install 'thence[kafka]'. Without an address it starts the broker of the tests, which comes from Maven Central,
and ends it again. An order is placed, its payment is taken by a process that has seen the
order; the payment is read first, and handed on second.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

from thence import Orderer
from thence.sources.kafka import CausalConsumer, CausalProducer


def main(bootstrap: str) -> list[str]:
    from confluent_kafka.admin import AdminClient, NewTopic

    run = uuid.uuid4().hex[:8]
    payments, orders = f"payments-{run}", f"orders-{run}"
    config = {"bootstrap.servers": bootstrap}
    admin = AdminClient(config)
    for made in admin.create_topics([NewTopic(payments, 1, 1), NewTopic(orders, 1, 1)]).values():
        made.result()

    billing = CausalProducer(config, "billing")
    billing.observe({"message": "order-1"})  # it has seen the order, which the shop has yet to write down
    billing.produce(payments, b"paid", message="payment-1")
    billing.flush()
    shop = CausalProducer(config, "shop")
    shop.produce(orders, b"placed", message="order-1")
    shop.flush()

    consumer = CausalConsumer(config | {"group.id": run}, [payments, orders], lambda: Orderer("depends_on"))
    told: list[str] = []
    while len(told) < 2:
        told += [f"{row['message']} {row['outcome']}" for row in consumer.poll()]
    consumer.commit()
    consumer.close()
    print("\n".join(told))
    return told


def with_a_broker() -> None:
    """Run it on a broker of our own."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    from support.broker import broker

    with broker() as kafka:
        main(kafka.address)


if __name__ == "__main__":
    main(sys.argv[1]) if sys.argv[1:] else with_a_broker()
