"""The live part of `thence demo`: web, billing and ledger as three processes; billing is killed and started again.

python -m thence.cli.demo_live CONFIG ROLE ORDERS FOLDER      one of the three, until it is ended
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

from thence.core.model.plain import Row
from thence.runtime import Endpoint

PATIENCE = 60.0
"""Seconds within which the three must be through."""


async def web(endpoint: Endpoint, orders: int) -> None:
    """Send every order to billing and the ledger."""
    for number in range(1, orders + 1):
        await endpoint.send({"billing", "ledger"}, f"order-{number}".encode())
        await asyncio.sleep(0.002)


async def billing(endpoint: Endpoint) -> None:
    """Answer every order with a payment, in one transaction: done and answered, or neither."""
    async for message in endpoint.deliveries():
        number = message.payload.decode().partition("-")[2]
        async with message.transaction() as step:
            step.send({"ledger"}, f"payment-{number}".encode())


async def ledger(endpoint: Endpoint, heard: Path) -> None:
    """Write down what arrives, in the order of delivery."""
    with heard.open("a", encoding="utf-8") as file:
        async for message in endpoint.deliveries():
            file.write(message.payload.decode() + "\n")
            file.flush()
            await message.done()


async def play(config: Path, role: str, orders: int, folder: Path) -> None:
    """Run one of the three until it is ended."""
    async with Endpoint(config) as endpoint:
        if role == "web":
            await web(endpoint, orders)
            await asyncio.Event().wait()  # what is on its way still has to arrive
        elif role == "billing":
            await billing(endpoint)
        else:
            await ledger(endpoint, folder / "heard.txt")


def trio(folder: Path, orders: int) -> Row:
    """Run the three, kill billing in the middle, and return what the ledger received."""
    import thence
    from thence.live.init import initialise

    files = dict(
        zip(("web", "billing", "ledger"), initialise(folder, ["web", "billing", "ledger"], plain=True), strict=True)
    )
    heard = folder / "heard.txt"

    def start(role: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "thence.cli.demo_live", str(files[role]), role, str(orders), str(folder)]
        return subprocess.Popen(words)

    def lines() -> list[str]:
        return heard.read_text(encoding="utf-8").splitlines() if heard.exists() else []

    running = {role: start(role) for role in ("ledger", "billing", "web")}
    try:
        _until(lambda: sum(line.startswith("payment") for line in lines()) >= orders // 4)
        running["billing"].kill()
        running["billing"].wait()
        paid = sum(line.startswith("payment") for line in lines())
        running["billing"] = start("billing")
        _until(lambda: len(lines()) >= 2 * orders)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
    received = lines()
    place = {message: number for number, message in reversed(list(enumerate(received)))}
    pairs = ((f"order-{number}", f"payment-{number}") for number in range(1, orders + 1))
    early = sum(place.get(order, len(received)) > place.get(payment, len(received)) for order, payment in pairs)
    with thence.audit(str(folder)) as audited:
        verdict = audited.verdict
    return {
        "orders": orders, "killed after": paid, "received": len(received), "twice": len(received) - len(place),
        "early": early, "verdict": verdict,
    }  # fmt: skip


def _until(fact: Callable[[], bool]) -> None:
    end = monotonic() + PATIENCE
    while not fact() and monotonic() < end:
        sleep(0.05)


if __name__ == "__main__":
    _, given, part, count, where = sys.argv
    asyncio.run(play(Path(given), part, int(count), Path(where)))
