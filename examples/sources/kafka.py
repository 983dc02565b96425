"""Payments and orders through a Kafka broker, in causal order although they lie in two topics.

python examples/sources/kafka.py [localhost:9092]

Needs pip install 'thence[kafka]'. Without an address, in a clone, it starts the broker of the tests, which comes from
Maven Central, and ends it again. An order is placed, its payment is taken by a process that has seen the
order; the payment is read first, and handed on second.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

from thence import Orderer
from thence.sources.kafka import CausalConsumer, CausalProducer


def main(bootstrap: str) -> list[str]:
    try:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic
    except ModuleNotFoundError as error:
        sys.exit(f"kafka.py: the package {error.name} is missing: pip install 'thence[kafka]'")

    run = uuid.uuid4().hex[:8]
    payments, orders = f"payments-{run}", f"orders-{run}"
    config = {"bootstrap.servers": bootstrap}
    admin = AdminClient(config | {"log_level": 0})
    try:
        admin.list_topics(timeout=10)
    except KafkaException:
        sys.exit(f"kafka.py: no broker answers at {bootstrap}")
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
    """Run it on a broker of our own, which is in a clone."""
    sys.path.insert(0, str(Path(__file__).parent / "../../tests"))
    try:
        from support.broker import broker
    except ModuleNotFoundError:
        sys.exit("kafka.py: only a clone brings a broker; name one of yours, as in: python kafka.py localhost:9092")

    with broker() as kafka:
        main(kafka.address)


if __name__ == "__main__":
    main(sys.argv[1]) if sys.argv[1:] else with_a_broker()
