"""A FastStream service whose handlers run in causal order, killed again and again, with a real broker.

python examples/faststream/shop.py [localhost:9092]

Needs pip install 'thence[faststream]'. Without an address, in a clone, it starts the broker of the tests and ends it
again. Payments lie in another topic than their orders and are published first. The handler of orders is slow, the one
of payments fails now and then, the service is killed with SIGKILL, and the target is a database whose foreign key
refuses a payment without its order: no refusal is seen, and nothing is lost.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

try:
    from faststream import FastStream
except ModuleNotFoundError:
    sys.exit("shop.py: the package faststream is missing: pip install 'thence[faststream]'")

from thence import Gate
from thence.integrations.faststream import CausalMiddleware, causal_headers

SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS payments (id TEXT PRIMARY KEY, order_id TEXT NOT NULL REFERENCES orders);
CREATE TABLE IF NOT EXISTS attempts (id TEXT, outcome TEXT, process INTEGER);
"""


def database(path: str) -> sqlite3.Connection:
    target = sqlite3.connect(path, isolation_level=None, timeout=60)
    target.execute("PRAGMA foreign_keys = ON")
    target.execute("PRAGMA synchronous = OFF")
    return target


async def serve(bootstrap: str, run: str, path: str, client: str) -> None:
    """The service; it knows nothing of kills."""
    if client == "aiokafka":
        from faststream.kafka import KafkaBroker
    else:
        from faststream.confluent import KafkaBroker  # type: ignore[assignment]
    target = database(path)

    def known(ids: list[str]) -> list[str]:
        marks = ",".join("?" * len(ids))
        found = f"SELECT id FROM orders WHERE id IN ({marks}) UNION SELECT id FROM payments WHERE id IN ({marks})"
        return [id for (id,) in target.execute(found, ids + ids)]

    def attempted(id: str, outcome: str) -> None:
        target.execute("INSERT INTO attempts VALUES (?, ?, ?)", [id, outcome, os.getpid()])

    async def on_error(row: object, error: Exception, attempt: int) -> str:
        await asyncio.sleep(0.01 * attempt)
        return "retry"

    broker = KafkaBroker(bootstrap, logger=None)
    gate = Gate(concurrency=16, held_limit=1000, known=known, on_error=on_error)  # type: ignore[arg-type]
    causal = CausalMiddleware(gate, commit_seconds=0.2, ask_seconds=0.2)
    options = {"group_id": run, "session_timeout_ms": 2000, "heartbeat_interval_ms": 300}

    @causal.subscriber(broker, f"orders-{run}", **options)
    async def place(order: str) -> None:
        await asyncio.sleep(random.expovariate(50))  # slow
        target.execute("INSERT OR IGNORE INTO orders VALUES (?)", [order])
        attempted(order, "done")

    @causal.subscriber(broker, f"payments-{run}", **options)
    async def pay(payment: str) -> None:
        if random.random() < 0.2:
            attempted(payment, "failed")
            raise ConnectionError("the bank does not answer")
        try:
            order = payment.replace("payment", "order")
            target.execute("INSERT OR IGNORE INTO payments VALUES (?, ?)", [payment, order])
        except sqlite3.IntegrityError:
            attempted(payment, "refused")
            raise
        attempted(payment, "done")

    await FastStream(broker).run()


async def publish(bootstrap: str, run: str, numbers: range) -> None:
    from faststream.confluent import KafkaBroker

    async with KafkaBroker(bootstrap, logger=None) as broker:
        for topic, kind in (("payments", "payment"), ("orders", "order")):  # effects first
            for number in numbers:
                causes = [f"order-{number}"] if kind == "payment" else [f"order-{number - 10}"] if number >= 10 else []
                id = f"{kind}-{number}"
                await broker.publish(id, f"{topic}-{run}", headers=causal_headers(id, causes), no_confirm=True)


def main(
    bootstrap: str,
    client: str = "confluent",
    kills: int = 4,
    each: int = 60,
    services: int = 1,
    run: str | None = None,
) -> dict[str, int]:
    """Publish and kill; several services of one group share the partitions, and ask the database for each other's."""
    run, folder = run or uuid.uuid4().hex[:8], tempfile.mkdtemp()
    path = f"{folder}/target.db"
    target = database(path)
    target.executescript(SCHEMA)

    def count(what: str) -> int:
        return int(target.execute(f"SELECT count({what.split()[0]}) FROM {what.split(maxsplit=1)[1]}").fetchone()[0])

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, __file__, "serve", bootstrap, run, path, client])

    running = [start() for _ in range(services)]
    try:
        for number in range(kills):
            asyncio.run(publish(bootstrap, run, range(number * each, (number + 1) * each)))
            before, end = count("* attempts"), time.monotonic() + 60
            while count("* attempts") < before + each and time.monotonic() < end:
                time.sleep(0.02)
            service = running.pop(0)
            service.kill()
            service.wait()
            running.append(start())
        end = time.monotonic() + 60
        while count("* payments") < kills * each and time.monotonic() < end:
            time.sleep(0.05)
    finally:
        for service in running:
            service.kill()
            service.wait()
    elsewhere = "* attempts a JOIN attempts b ON replace(a.id, 'payment', 'order') = b.id AND a.process <> b.process"
    done = "id attempts WHERE outcome = 'done'"
    found = {
        "orders": count("* orders"),
        "payments": count("* payments"),
        "kills": kills,
        "failed attempts": count("* attempts WHERE outcome = 'failed'"),
        "handled again": count(done) - count("DISTINCT(id) attempts WHERE outcome = 'done'"),
        "handled in another process than the cause": count(f"{elsewhere} WHERE a.id LIKE 'payment%'"),
        "refused by the foreign key": count("* attempts WHERE outcome = 'refused'"),
    }
    print(", ".join(f"{name}: {number}" for name, number in found.items()))
    return found


def with_a_broker() -> None:
    """Run it on a broker of our own, which is in a clone."""
    sys.path.insert(0, str(Path(__file__).parent / "../../tests"))
    try:
        from support.broker import broker
    except ModuleNotFoundError:
        sys.exit("shop.py: only a clone brings a broker; name one of yours, as in: python shop.py localhost:9092")

    with broker() as kafka:
        main(kafka.address)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(*sys.argv[2:]))
    else:
        main(*sys.argv[1:3]) if sys.argv[1:] else with_a_broker()
