"""The scenario of the benchmark written for SimPy, in the two ways its users write such things.

Both have one generator per sender and drive the same members of the same protocol as our simulation does.

- `store`: as SimPy's own example of latency does it: each copy is a process that waits and then puts the copy into the
  store of its destination, and each destination is a process that gets from its store.
- `callback`: the leanest we could write: a timeout with a callback for each copy, no process and no store.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from random import Random
from typing import Any

import simpy

from thence.core.model.message import Copy
from thence.core.model.roster import Roster
from thence.core.protocols.effects import Deliver, Sent
from thence.core.protocols.registry import create
from thence.lab.simulator.fanout import destination_chooser, parse_fanout


class Twin:
    """n Poisson senders, one fan-out, exponential delays."""

    def __init__(self, protocol: str, processes: int, messages: int, rate: float, delay: float, fanout: str) -> None:
        roster = Roster.of(processes)
        self.members = [create(protocol, roster, position) for position in range(processes)]
        self.left, self.rate, self.delay, self.random = messages, rate, delay, Random(1).random
        self.choose = destination_chooser(parse_fanout(fanout, processes), processes, Random(2))
        self.env = simpy.Environment()
        self.deliveries = 0
        self.stores: list[Any] = []

    def exponential(self, mean: float) -> float:
        return -mean * math.log(1.0 - self.random())

    def sender(self, me: int, hand: Any) -> Generator[Any, Any, None]:
        while True:
            yield self.env.timeout(self.exponential(1.0 / self.rate))
            if self.left <= 0:
                return
            self.left -= 1
            sent = self.members[me].send(self.choose(me))
            assert isinstance(sent, Sent)
            for copy in sent.copies:
                hand(copy)

    def receive(self, copy: Copy) -> None:
        for effect in self.members[copy.destination].receive(copy):
            if type(effect) is Deliver:
                self.deliveries += 1

    def travel(self, copy: Copy) -> Generator[Any, Any, None]:
        yield self.env.timeout(self.exponential(self.delay))
        yield self.stores[copy.destination].put(copy)

    def receiver(self, store: Any) -> Generator[Any, Any, None]:
        while True:
            self.receive((yield store.get()))

    def run(self, style: str) -> int:
        if style == "store":
            self.stores = [simpy.Store(self.env) for _ in self.members]
            for store in self.stores:
                self.env.process(self.receiver(store))

        def as_process(copy: Copy) -> None:
            self.env.process(self.travel(copy))

        def as_callback(copy: Copy) -> None:
            event = self.env.timeout(self.exponential(self.delay), copy)
            event.callbacks.append(lambda event: self.receive(event.value))

        for me in range(len(self.members)):
            self.env.process(self.sender(me, as_process if style == "store" else as_callback))
        self.env.run()
        return self.deliveries
