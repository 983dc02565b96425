"""Every protocol under every network it claims to support, judged by definition against the guarantee it declares."""

from __future__ import annotations

import pytest
from support.definition import needless
from support.some import some
from support.walk import NETWORKS, Walk, walk

from thence.core.model.minimum import Minimum
from thence.core.model.order import Execution, by_label
from thence.protocols import REGISTRY

PROTOCOLS = [name for name, entry in REGISTRY.items() if "failure detector" not in entry.needs]
ORDERED = [name for name in PROTOCOLS if REGISTRY[name].guarantee == "causal"]
MINIMAL = ("ks", "ci-dc")
SEEDS = 24


def may_address_itself(name: str) -> bool:
    return "broadcast only" not in REGISTRY[name].needs


def fifos(name: str) -> tuple[bool, ...]:
    return (True,) if "fifo" in REGISTRY[name].needs else (True, False)


def small(name: str, seed: int, network: str, fifo: bool, **more: object) -> Walk:
    return walk(
        name,
        2 + seed % 4,
        6 + seed % 25,
        seed,
        fifo=fifo,
        network=network,
        self_addressed=may_address_itself(name) and seed % 3 == 0,
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_keeps_its_promise(name: str, network: str) -> None:
    """Safe, live, nothing doubled; copies travel as bytes, members are replaced by forks and snapshots on the way."""
    for fifo in some(fifos(name)):
        for seed in range(SEEDS):
            run = small(name, seed, network, fifo, duplicates=seed % 4 == 0, twins=0.05, wire=seed % 2 == 0)
            run.check(deadlock=name == "bounded")
            if REGISTRY[name].waits == "causes only" and REGISTRY[name].guarantee == "causal":
                assert not needless(run.events), f"needless waiting in {run}"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_keeps_its_promise_in_long_runs(name: str) -> None:
    """Hundreds of messages among more processes."""
    for seed in range(2):
        run = walk(name, 6 + 3 * seed, 220, seed, self_addressed=may_address_itself(name))
        run.check(deadlock=name == "bounded")


@pytest.mark.parametrize("name", PROTOCOLS)
def test_labels_are_independent_orders(name: str) -> None:
    """Three orders side by side, each kept; happened-before of one label is no concern of another."""
    for seed in range(12):
        run = walk(name, 3, 20, seed, labels=(None, "red", "blue"))
        run.check(deadlock=name == "bounded")


@pytest.mark.parametrize("name", MINIMAL)
@pytest.mark.parametrize("network", NETWORKS)
def test_carries_and_keeps_the_minimum(name: str, network: str) -> None:
    """Facts on every copy and in every log equal the propagation constraints, FIFO or not, self-addressed or not."""
    for fifo in (True, False):
        for seed in range(SEEDS):
            assert_minimal(small(name, seed, network, fifo))
    assert_minimal(walk(name, 7, 90, 1, self_addressed=True))


def assert_minimal(run: Walk) -> None:
    minimum = Minimum(run.events)
    for copy in run.copies:
        facts = type(run.members[0]).dependencies(copy) or []
        carried = {
            (run.name_of_id(message), destination)
            for message, mask in facts
            for destination in run.roster.members(mask)
        }
        needed = minimum.on_copy(run.name(copy), run.roster.name(copy.destination))
        assert carried == needed, f"copy of {run.name(copy)} carries {carried}, needed is {needed} in {run}"
    for (process, index), held in run.logs.items():
        needed = minimum.in_log(process, index)
        assert held == needed, f"log of {process} after {index} holds {held}, needed is {needed} in {run}"


def test_hardware_multicast_keeps_minimal_logs() -> None:
    """One stamp for all: copies carry more, logs do not."""
    more = 0
    for seed in range(SEEDS):
        run = small("ks-hardware", seed, "random", False)
        minimum = Minimum(run.events)
        for (process, index), held in run.logs.items():
            assert held == minimum.in_log(process, index), f"in {run}"
        for copy in run.copies:
            facts = type(run.members[0]).facts(copy) or 0
            least = len(minimum.on_copy(run.name(copy), run.roster.name(copy.destination)))
            assert facts >= least, f"in {run}"
            more += facts - least
    assert more > 0


@pytest.mark.parametrize("liar", ["unordered", "fifo"])
@pytest.mark.parametrize("network", NETWORKS)
def test_liars_are_caught_within_the_first_seeds(liar: str, network: str) -> None:
    """A judge that does not catch these judges nothing."""
    caught = [
        seed for seed in range(5) if walk(liar, 4, 30, seed, network=network, fifo=False).judge("causal").violations
    ]
    assert caught, f"{liar} was not caught on network {network} with seeds 0 to 4"


@pytest.mark.parametrize("name", ORDERED)
def test_pending_names_undelivered_causes(name: str) -> None:
    """Whatever a copy is held for is on its way to that process and sent causally before it (or, for protocols that
    wait for more, at least on its way)."""
    waits = REGISTRY[name].waits
    holds = 0
    for seed in range(SEEDS):
        run = small(name, seed, "newest", "fifo" in REGISTRY[name].needs)
        if not run.holds:
            continue
        (rows,) = by_label(run.events).values()
        execution = Execution(rows)
        for hold in some(run.holds):
            holds += 1
            here = run.roster.name(hold.copy.destination)
            held = run.name(hold.copy)
            assert hold.waits_for, f"{held} is held at {here} for nothing in {run}"
            named = [run.cause_name(cause, here) for cause in hold.waits_for]
            order = execution.delivered(here)
            later = [m for m in named if m in order and order.index(m) < order.index(held)]
            if name == "ses":  # its vectors name more than what is addressed here
                assert later, f"{held} waits at {here} for {named} in {run}"
                continue
            assert later == named, f"{held} is held at {here} for {named}, delivered there are {order} in {run}"
            if waits == "causes only":
                assert all(execution.precedes(cause, held) for cause in named), f"{held} waits for {named} in {run}"
    if not {"unicast only", "overlay"} & set(REGISTRY[name].needs):  # these deliver on arrival
        assert holds, f"no copy of {name} was ever held: the network is too kind to tell"
