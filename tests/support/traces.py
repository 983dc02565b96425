"""Random traces for the audit: causal or broken, with everything in them that an audit has to notice.

`random_trace(seed)` is a pure function of its seed and knobs; rows come in an order in which causes come first unless
`spoil` is used on them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from thence.core.model.events import Event


@dataclass(frozen=True)
class Knobs:
    """What a random trace is like."""

    processes: int = 5
    steps: int = 60
    fanout: int = 3
    late: float = 0.1
    """Chance that a delivery does not wait for its causes."""
    lost: float = 0.05
    again: float = 0.02
    astray: float = 0.02
    toself: float = 0.3
    crash: float = 0.005
    internal: float = 0.1
    receive: float = 0.1
    labels: tuple[str | None, ...] = (None,)
    slow: float = 0.0
    """Chance that a copy stays in flight for long."""


def draw_knobs(seed: int) -> Knobs:
    """Draw knobs: every third trace is causal, every fourth has labels, sizes vary from 1 process to 40."""
    r = Random(f"knobs {seed}")
    causal = seed % 3 == 0
    return Knobs(
        processes=r.choice([1, 2, 3, 4, 5, 8, 12, 20, 40]),
        steps=r.choice([5, 15, 40, 80, 150]),
        fanout=r.choice([1, 2, 4, 8]),
        late=0.0 if causal else r.choice([0.02, 0.1, 0.5, 1.0]),
        lost=r.choice([0.0, 0.0, 0.05, 0.3]),
        again=0.0 if causal else r.choice([0.0, 0.05]),
        astray=0.0 if causal else r.choice([0.0, 0.05]),
        toself=r.choice([0.0, 0.3, 0.9]),
        crash=r.choice([0.0, 0.0, 0.02]),
        labels=(None,) if seed % 4 else r.choice([("red", None), ("red", "blue"), ("red", "blue", None)]),
        slow=r.choice([0.0, 0.2]),
    )


class _World:
    def __init__(self, random: Random, knobs: Knobs, run: str) -> None:
        self.random, self.knobs, self.run = random, knobs, run
        self.names = [f"p{i}" for i in range(knobs.processes)]
        self.events: list[Event] = []
        self.index = dict.fromkeys(self.names, 0)
        self.alive = list(self.names)
        self.flying: list[tuple[int, str]] = []
        self.sent: list[tuple[str, str | None, tuple[str, ...]]] = []
        self.past: list[int] = []
        self.knows: dict[tuple[str, str | None], int] = {}
        self.had: dict[str, int] = dict.fromkeys(self.names, 0)
        self.addressed: dict[str, int] = dict.fromkeys(self.names, 0)

    def add(self, process: str, kind: str, message: str | None = None, label: str | None = None,
            destinations: tuple[str, ...] | None = None) -> None:  # fmt: skip
        self.index[process] += 1
        self.events.append(
            Event(self.run, process, self.index[process], kind, message, destinations, label, len(self.events))  # type: ignore[arg-type]
        )

    def send(self) -> None:
        r, k = self.random, self.knobs
        process = r.choice(self.alive)
        label = r.choice(k.labels)
        others = [n for n in self.names if n != process or r.random() < k.toself]
        chosen = tuple(r.sample(others, min(len(others), r.randint(0 if r.random() < 0.1 else 1, k.fanout))))
        number = len(self.sent)
        name = f"m{number}"
        self.sent.append((name, label, chosen))
        mask = self.knows.get((process, label), 0)
        self.past.append(mask)
        self.knows[process, label] = mask | 1 << number
        for d in chosen:
            self.addressed[d] |= 1 << number
            if r.random() >= k.lost:
                self.flying.append((number, d))
        self.add(process, "send", name, label, chosen)

    def deliver(self) -> None:
        r, k = self.random, self.knobs
        if not self.flying:
            return
        window = len(self.flying) if r.random() < 0.5 else max(1, int(len(self.flying) * (1 - k.slow)))
        place = r.randrange(len(self.flying) - window, len(self.flying))
        number, d = self.flying[place]
        if d not in self.alive:
            self.flying.pop(place)
            return
        missing = self.past[number] & self.addressed[d] & ~self.had[d]
        if missing and r.random() >= k.late:
            return
        self.flying.pop(place)
        self.take(number, d)
        if r.random() < k.again:
            self.flying.append((number, d))
        if r.random() < k.astray:
            self.flying.append((number, r.choice(self.names)))

    def take(self, number: int, d: str) -> None:
        name, label, _ = self.sent[number]
        if self.random.random() < self.knobs.receive:
            self.add(d, "receive", name, label)
        self.add(d, "deliver", name, label)
        self.had[d] |= 1 << number
        self.knows[d, label] = self.knows.get((d, label), 0) | self.past[number] | 1 << number

    def step(self) -> None:
        r, k = self.random, self.knobs
        chance = r.random()
        if chance < k.crash and len(self.alive) > 1:
            gone = r.choice(self.alive)
            self.alive.remove(gone)
            self.add(gone, "crash")
        elif chance < k.crash + k.internal:
            self.add(r.choice(self.alive), "internal", label=r.choice(k.labels))
        elif chance < 0.5 and len(self.flying) < 4 * len(self.names) + 200 * k.slow:
            self.send()
        else:
            self.deliver()


def random_trace(seed: int, knobs: Knobs | None = None, run: str | None = None) -> list[Event]:
    """Return the trace of a seed; at least `knobs.steps` rows unless everyone stops."""
    knobs = draw_knobs(seed) if knobs is None else knobs
    world = _World(Random(f"trace {seed}"), knobs, run or f"run{seed}")
    for _ in range(knobs.steps * 6):
        if len(world.events) >= knobs.steps:
            break
        world.step()
    return world.events


def spoil(events: list[Event], seed: int) -> list[Event]:
    """Return the rows with some damage: gaps, repeated places and sends, strangers, other labels, swapped places."""
    r = Random(f"spoil {seed}")
    rows = list(events)
    for _ in range(r.randint(1, 4)):
        if len(rows) < 4:
            break
        i, j = r.randrange(len(rows)), r.randrange(len(rows))
        what = r.randrange(8)
        if what == 0:
            rows.pop(i)
        elif what == 1:
            rows.insert(j, rows[i])
        elif what == 2 and rows[i].message:
            rows[i] = replace(rows[i], message="stranger")
        elif what == 3:
            rows[i] = replace(rows[i], label="other")
        elif what == 4 and rows[i].process == rows[j].process:
            rows[i], rows[j] = replace(rows[i], index=rows[j].index), replace(rows[j], index=rows[i].index)
        elif what == 5:
            rows[i] = replace(rows[i], message=None)
        elif what == 6:
            rows[i] = replace(rows[i], destinations=None)
        elif what == 7:
            rows[i] = replace(rows[i], index=rows[i].index + 1)
    return [replace(row, order=place) for place, row in enumerate(rows)]


def changed(events: list[Event], seed: int) -> list[Event]:
    """Spoil every second run; of every three, leave one its order, take it from one, shuffle it in one."""
    rows = spoil(events, seed) if seed % 2 else events
    if seed % 3 == 1:
        return [replace(event, order=None) for event in rows]
    if seed % 3 == 2:
        places = Random(seed).sample(range(len(rows)), len(rows))
        return [replace(event, order=place) for event, place in zip(rows, places, strict=True)]
    return rows
