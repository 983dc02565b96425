"""The runs of the ci-dc paper's simulation, and the worst case that its section 6.1 describes.

As printed: exponential intervals of 0.1 s between two sends of a process; destinations evenly, their number evenly with
mean n/2, or one; n = 10 to 50; five runs in which every process receives 10,000 messages to settle and 50,000
measured. The full scale takes these counts. The default scale takes 20 messages a process for multicasts and 5 n²
messages for unicasts, half of them to settle: dependents of PRS need some n² messages until they stop growing.
"""

from __future__ import annotations

from collections.abc import Iterator

from thence.core.model.plain import Row
from thence.core.protocols.effects import Sent
from thence.core.protocols.registry import create
from thence.lab.papers.claims import DataRows
from thence.lab.papers.paper import Scale
from thence.lab.simulator.scenario import Scenario
from thence.lab.sweep.grid import Grid, grid_of

CI_DC_PROTOCOLS = ("ci-dc", "prs", "rst")
CI_DC_SIZES = ((8, 10, 12), (10, 15, 20, 25, 30, 40, 50), (10, 15, 20, 25, 30, 35, 40, 45, 50))
MODES = {"multicast": "uniform", "unicast": "unicast"}
DELAY = "exponential:0.05"
OTHER_NETWORKS: tuple[Row, ...] = (
    {"delay": "exponential:0.01"},
    {"delay": "exponential:0.2"},
    {"delay": DELAY, "fifo": True},
)
"""network policies beside the chosen one, which is DELAY without FIFO"""
RECEIVED = 60_000


def grid(scale: Scale) -> Grid:
    """Return the runs: both modes, three protocols; and other networks, for one seed and in short."""
    return grid_of(_scenarios(scale), warmup=scale.pick(0.5, 0.5, 1 / 6))


def _scenarios(scale: Scale) -> Iterator[Scenario]:
    for n in scale.sizes(CI_DC_SIZES):
        for fanout in MODES.values():
            short = _messages(scale, n, fanout)
            full = RECEIVED * n if fanout == "unicast" else 2 * RECEIVED
            for protocol in CI_DC_PROTOCOLS:
                fewer = min(short, max(200, 10 * n)) if protocol == "rst" else short  # its size does not change
                messages = scale.pick(fewer, fewer, full)
                base = Scenario(protocol, n, messages, fanout=fanout, rate=10.0, delay=DELAY)
                for seed in scale.seeds(2, 3, 5):
                    yield base.with_(seed=seed)
                if protocol != "rst" and n in scale.pick((8, 12), (10, 20, 30, 50), (10, 20, 30, 50)):
                    for other in OTHER_NETWORKS:
                        for seed in scale.seeds(2, 3, 3):
                            yield base.with_(messages=short, seed=seed, **other)


def _messages(scale: Scale, n: int, fanout: str) -> int:
    most = scale.pick(2, 5, 5) * n * n if fanout == "unicast" else 20 * n
    return max(scale.pick(60, 400, 400), most)


def measure(scale: Scale) -> dict[str, DataRows]:
    """Build the worst case that section 6.1 describes."""
    return {"worst case": [{"processes": n, "dependents": worst_case(n)} for n in scale.sizes(CI_DC_SIZES)]}


def worst_case(n: int, protocol: str = "ci-dc") -> int:
    """Let every process unicast to every other, all concurrent, then tell process 0; return the facts on what it sends.

    Nothing is delivered anywhere else, so that all of it still matters.
    """
    members = [create(protocol, [f"p{p}" for p in range(n)], p) for p in range(n)]
    handed_over = []
    for sender in range(1, n):
        first = members[sender].send(1)
        assert isinstance(first, Sent)
        for other in range(1, n):
            if other != sender:
                members[sender].send(1 << other)
        last = members[sender].send(1)
        assert isinstance(last, Sent)
        handed_over += [*first.copies, *last.copies]
    for copy in handed_over:
        members[0].receive(copy)
    sent = members[0].send(2)
    assert isinstance(sent, Sent)
    return members[0].facts(sent.copies[0]) or 0
