"""The shop of `thence demo`: a recorded day in which payments overtake their orders, and pictures of what was held."""

from __future__ import annotations

import heapq
from pathlib import Path
from random import Random

from thence.core.model.events import Event, Kind

KEY = "store"
STORES = 64
CAUSE = {"payment": "order", "shipment": "payment"}
BINS = ((0.1, "under 0.1 s"), (0.5, "0.1 to 0.5 s"), (1.0, "0.5 to 1 s"), (2.0, "1 to 2 s"), (float("inf"), "over 2 s"))


class Shop:
    """A discrete simulation: every copy takes an exponential time of one second in the mean."""

    def __init__(self, orders: int, seed: int) -> None:
        """Start a day; the ledger's copy of one order in the middle is lost."""
        self.chance, self.orders = Random(seed), orders
        self.lost = f"order-{orders // 2}"
        self.events: list[Event] = []
        self.arrivals: list[dict[str, object]] = []
        self.counted: dict[str, int] = {}
        self.under_way: list[tuple[float, int, str, str]] = []

    def record(self, time: float, process: str, kind: Kind, message: str, to: tuple[str, ...] | None = None) -> None:
        """Write one event down; each order is a causal order of its own, by its label."""
        index = self.counted[process] = self.counted.get(process, 0) + 1
        label = message.partition("-")[2]
        self.events.append(Event("shop", process, index, kind, message, to, label, len(self.events), round(time, 3)))

    def send(self, time: float, process: str, message: str, to: tuple[str, ...]) -> None:
        """Send a message; its copies overtake each other."""
        self.record(time, process, "send", message, to)
        for destination in to:
            if (message, destination) != (self.lost, "ledger"):
                arrival = time + self.chance.expovariate(1)
                heapq.heappush(self.under_way, (arrival, len(self.events), message, destination))

    def deliver(self, time: float, process: str, message: str) -> None:
        """Deliver on arrival, which is what goes wrong, and act on it."""
        self.record(time, process, "deliver", message)
        what, _, number = message.partition("-")
        if process == "ledger":
            cause = f"{CAUSE[what]}-{number}" if what in CAUSE else None
            row = {"event": message, "parent": cause, KEY: int(number) % STORES}
            self.arrivals.append(row | {"arrival": len(self.arrivals), "time": round(time, 3)})
        elif what == "order":
            self.send(time, "billing", f"payment-{number}", ("depot", "ledger"))
        elif what == "payment":
            self.send(time, "depot", f"shipment-{number}", ("ledger",))

    def run(self) -> None:
        """Let the whole day pass."""
        for number in range(1, self.orders + 1):
            heapq.heappush(self.under_way, (number / 50, 0, f"order-{number}", "web"))
        while self.under_way:
            time, _, message, process = heapq.heappop(self.under_way)
            if process == "web":
                self.send(time, "web", message, ("billing", "ledger"))
            else:
                self.deliver(time, process, message)


def record(folder: Path, orders: int, seed: int) -> tuple[int, int]:
    """Write the day's trace and the ledger's arrivals as Parquet; return how many rows each has."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from thence.tables.files.parquet import write_parquet

    shop = Shop(orders, seed)
    shop.run()
    write_parquet(shop.events, folder / "shop.parquet")
    pq.write_table(pa.Table.from_pylist(shop.arrivals), folder / "arrivals.parquet")
    return len(shop.events), len(shop.arrivals)


def cut(folder: Path, parts: int) -> str:
    """Cut the arrivals into files for a stream, in the order of arrival; return their schema for Spark."""
    import pyarrow.parquet as pq

    rows = pq.read_table(folder / "arrivals.parquet")
    (folder / "incoming").mkdir()
    size = -(-len(rows) // parts)
    for number in range(parts):
        pq.write_table(rows.slice(number * size, size), folder / "incoming" / f"{number}.parquet")
    return f"event string, parent string, {KEY} long, arrival long, time double"


def bars(seconds: list[float]) -> dict[str, int]:
    """Count waits by their length."""
    counts = dict.fromkeys((name for _, name in BINS), 0)
    for value in seconds:
        counts[next(name for limit, name in BINS if value < limit)] += 1
    return counts


def bars_picture(counts: dict[str, int]) -> bytes:
    """Draw the counts as an SVG that follows the colour scheme of the reader."""
    most, rows = max(1, *counts.values()), []
    for place, (name, count) in enumerate(counts.items()):
        y, width = 8 + 30 * place, 360 * count / most
        rows.append(
            f'<text x="110" y="{y + 16}" text-anchor="end">{name}</text>'
            f'<rect x="120" y="{y}" width="{width:.1f}" height="22" rx="3"/>'
            f'<text x="{128 + width:.1f}" y="{y + 16}">{count:,}</text>'
        )
    style = (
        "text{font:14px sans-serif;fill:#333}rect{fill:#3f51b5}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}rect{fill:#9fa8da}}"
    )
    height = 16 + 30 * len(counts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 {height}" width="560" height="{height}">'
        f"<style>{style}</style>{''.join(rows)}</svg>"
    ).encode()
