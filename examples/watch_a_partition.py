"""Watch a run: how many copies are held back while a partition stands, and after it has healed.

An observer is told what happens; it writes only the methods it wants.

    python examples/watch_a_partition.py
"""

from thence.core.model.message import Copy
from thence.lab.simulator import Observer, Scenario, Simulation

SCENARIO = Scenario(protocol="ks", processes=6, messages=600, fanout="uniform", partitions=("2-5:abc|def",))


class Held(Observer):
    """Counts the copies that have arrived and are not delivered, second by second."""

    def __init__(self) -> None:
        self.now_held = 0
        self.most: dict[int, int] = {}

    def arrived(self, now: float, copy: Copy) -> None:
        self.now_held += 1
        self.most[int(now)] = max(self.most.get(int(now), 0), self.now_held - 1)

    def delivered(self, now: float, copy: Copy) -> None:
        self.now_held -= 1


def main() -> None:
    held = Held()
    outcome = Simulation(SCENARIO, held).run()
    print(f"{outcome.deliveries} deliveries, {outcome.holds} copies had to wait; most at once, in each second:")
    for second, most in sorted(held.most.items()):
        print(f"{second:4} s  {most:4}  {'#' * (most // 4)}")


if __name__ == "__main__":
    main()
