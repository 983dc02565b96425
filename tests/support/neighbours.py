"""Random walks of `ech-r9` on random graphs, neighbours only, and random changes of membership.

The networks of `support.walk` seldom catch R9 without its condition. Here copies are either quick or stuck until the
end, and whoever got something is likely to speak next, so that long quick chains run round one slow copy.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random

import networkx as nx

from support.walk import Walk, start
from thence.core.model.events import Event
from thence.core.model.message import Copy
from thence.core.model.order import Judgement, judge
from thence.core.model.roster import letters
from thence.core.protocols.ech_r9 import ECHR9
from thence.lab.topology.graph import Graph, components
from thence.lab.topology.joins import JoinResult, TopologyMembership
from thence.lab.topology.separators import Separator, both_ways, option_text
from thence.protocols import Deliver, Sent


def random_graph(rng: Random) -> Graph:
    """Return a connected graph that has separators: cycles, bipartite graphs, grids, trees with a few links more."""
    kind = rng.randrange(5)
    if kind == 0:
        graph = nx.cycle_graph(rng.randint(4, 7))
    elif kind == 1:
        graph = nx.complete_bipartite_graph(rng.randint(2, 3), rng.randint(2, 4))
    elif kind == 2:
        graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(2, rng.randint(2, 4)))
    elif kind == 3:
        graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 3))
    else:
        size = rng.randint(4, 8)
        graph = nx.from_prufer_sequence([rng.randrange(size) for _ in range(size - 2)])
        graph.add_edges_from(rng.sample(range(size), 2) for _ in range(rng.randint(1, 4)))
    names = [letters(place) for place in range(len(graph))]
    rng.shuffle(names)
    named = nx.relabel_nodes(graph, dict(enumerate(names)))
    ordered = Graph()
    ordered.add_nodes_from(sorted(named))
    ordered.add_edges_from(named.edges)
    return ordered


def random_separators(graph: Graph, rng: Random, most: int) -> list[Separator]:
    """Return separators of one to four processes with their parts on random sides, one way or both."""
    sets = [set(s) for size in range(1, 5) for s in combinations(sorted(graph), size)]
    rng.shuffle(sets)
    found: list[Separator] = []
    for members in sets:
        parts = components(graph, members)
        if len(parts) < 2:
            continue
        rng.shuffle(parts)
        ahead = [parts[0], *(part for part in parts[1:] if rng.random() < 0.3)]
        forward = {name for part in ahead for name in part}
        backward = set(graph) - members - forward
        if backward:
            one = Separator(frozenset(members), frozenset(forward), frozenset(backward))
            found += [one, one.reversed] if rng.random() < 0.7 else [one]
        if len(found) >= most:
            break
    return found


def hop_walk(seed: int, protocol: type[ECHR9] = ECHR9, *, self_addressed: bool = False) -> Walk:
    """Let neighbours on a random graph send at random under random separators, then drain."""
    rng = Random(f"hops {seed}")
    graph = random_graph(rng)
    separators = random_separators(graph, rng, rng.choice((1, 2, 6, 40)))
    options = {"separators": option_text(separators), "carbon": rng.random() < 0.4}
    about = f"hop_walk({seed}, {protocol.__name__}, self_addressed={self_addressed}): {sorted(graph.edges)} {options}"
    run = start(protocol, list(graph), rng, options=options, about=about)
    left, crowd = rng.randint(10, 60), rng.choice((0.0, 0.2, 0.5))
    slow, hot = rng.choice((0.1, 0.25, 0.4)), rng.choice((0.3, 0.6, 0.9))
    quick: list[Copy] = []
    stuck: list[Copy] = []
    last = rng.choice(run.roster.names)
    while left or quick or stuck:
        if left and (not quick or rng.random() < 0.5):
            left -= 1
            here = last if rng.random() < hot else rng.choice(run.roster.names)
            near = sorted(graph[here]) + ([here] if self_addressed and rng.random() < 0.3 else [])
            count = rng.randint(1, len(near)) if rng.random() < crowd else 1
            run.send(run.roster.position(here), run.roster.mask(rng.sample(near, count)))
            while run.network:
                (stuck if rng.random() < slow else quick).append(run.network.take())
            continue
        lane = quick or stuck
        copy = lane.pop(-1 if rng.random() < 0.5 else rng.randrange(len(lane)))
        run.arrive(copy)
        last = run.roster.name(copy.destination)
    run.finish()
    return run


class Changing:
    """A membership under random traffic, recorded."""

    def __init__(self, membership: TopologyMembership, rng: Random | None = None, *, slow: float = 0.0) -> None:
        self.membership, self.rng, self.slow = membership, rng or Random(0), slow
        self.quick: list[Copy] = []
        self.stuck: list[Copy] = []
        self.events: list[Event] = []
        self.joins: list[JoinResult] = []
        self.last: str | None = None
        self._index: dict[str, int] = {}

    @property
    def under_way(self) -> list[Copy]:
        return self.quick + self.stuck

    def row(self, process: str, kind: str, message: str, destinations: tuple[str, ...] | None = None) -> None:
        self._index[process] = index = self._index.get(process, 0) + 1
        self.events.append(Event("run", process, index, kind, message, destinations, order=len(self.events)))

    def send(self, process: str, *destinations: str) -> list[Copy]:
        """Send; the copies are under way, and returned in the order of the destinations."""
        sent = self.membership.members[process].send(destinations)
        assert isinstance(sent, Sent)
        self.row(process, "send", f"{process}{sent.message.count}", tuple(destinations))
        for copy in sent.copies:
            (self.stuck if self.rng.random() < self.slow else self.quick).append(copy)
        to = self.membership.roster.position
        return sorted(sent.copies, key=lambda copy: [to(d) for d in destinations].index(copy.destination))

    def arrive(self, copy: Copy) -> None:
        """Let a copy arrive, if its destination is alive."""
        for lane in (self.quick, self.stuck):
            if copy in lane:
                lane.remove(copy)
        name = self.membership.roster.name
        here = name(copy.destination)
        if here in self.membership.members:
            self.last = here
            for effect in self.membership.members[here].receive(copy):
                if isinstance(effect, Deliver):
                    self.row(here, "deliver", f"{name(effect.copy.sender)}{effect.copy.count}")

    def step(self) -> None:
        """Send something, or let something quick arrive."""
        living = sorted(self.membership.members)
        if self.quick and self.rng.random() < 0.5:
            self.arrive(self.quick[-1 if self.rng.random() < 0.5 else self.rng.randrange(len(self.quick))])
            return
        here = self.last if self.last in living and self.rng.random() < 0.6 else self.rng.choice(living)
        near = sorted(set(self.membership.graph[here]) & set(living))
        if near:
            self.send(here, *self.rng.sample(near, 1 if self.rng.random() < 0.8 else self.rng.randint(1, len(near))))

    def tour(self, *path: str) -> None:
        """Let a chain of messages run along a path at once, as far as the living go."""
        for here, there in pairwise(path):
            if {here, there} <= set(self.membership.members):
                self.arrive(self.send(here, there)[0])

    def round(self, separator: Separator) -> list[str]:
        """Let something get stuck behind a separator and a chain run ahead of it; return where the chain can go on."""
        living = self.membership.graph.subgraph(self.membership.members)
        behind = [(b, c) for b in living for c in living[b] if c in separator.backward]
        ahead = sorted(separator.forward & set(living))
        if not behind or not ahead:
            return []
        (slow, stuck), goal = self.rng.choice(behind), self.rng.choice(ahead)
        self.stuck += self.send(slow, stuck)
        self.quick = [copy for copy in self.quick if copy not in self.stuck]
        if nx.has_path(living, slow, goal):
            self.tour(*nx.shortest_path(living, slow, goal))
        return [goal, stuck]

    def fail(self, process: str) -> None:
        self.membership.fail(process, self.under_way)

    def join(self, process: str, *links: str) -> JoinResult:
        self.joins.append(self.membership.join(process, links))
        self.last = process
        return self.joins[-1]

    def drain(self) -> Judgement:
        """Let everything arrive and judge the run; what was addressed to the failed may be missing."""
        while self.under_way:
            self.arrive(self.rng.choice(self.quick or self.stuck))
        result = judge(self.events)
        result.undelivered = [u for u in result.undelivered if u.destination in self.membership.members]
        return result


def changing(
    seed: int, kind: type[TopologyMembership] = TopologyMembership, *, wait: bool = True, stable: bool | None = None
) -> Changing:
    """Let members of separators fail and others join, amid traffic; `wait` delivers what a join is owed first."""
    rng = Random(f"joins {seed}")
    separators: list[Separator] = []
    while not separators:  # a complete graph has none
        graph = random_graph(rng)
        chosen = {separator.members for separator in random_separators(graph, rng, rng.randint(1, 2))}
        separators = [s for members in sorted(chosen, key=sorted) for s in both_ways(graph, members)]
    membership = kind(graph, separators, stable=rng.random() < 0.5 if stable is None else stable)
    run = Changing(membership, rng, slow=rng.choice((0.1, 0.3, 0.5)))
    for change in range(rng.randint(1, 3)):
        for _ in range(rng.randint(3, 15)):
            run.step()
        separator, name = rng.choice(membership.separators), f"n{letters(change)}"
        ends = run.round(separator)
        _fail_some(run, separator)
        links = _links(run, separator, ends)
        while wait and membership.owed(membership.plan(name, links)) and run.under_way:
            run.arrive(rng.choice(run.stuck or run.quick))
        run.join(name, *links)
        if ends and set(ends) <= set(links):
            run.tour(ends[0], name, ends[1])
    for _ in range(10):
        run.step()
    return run


def _fail_some(run: Changing, separator: Separator) -> None:
    living = sorted(separator.members & set(run.membership.members))
    if living and run.rng.random() < 0.6 and len(run.membership.members) - len(living) > 2:
        for name in run.rng.sample(living, run.rng.choice((1, len(living)))):
            run.fail(name)


def _links(run: Changing, separator: Separator, ends: list[str]) -> list[str]:
    rng, living = run.rng, sorted(run.membership.members)
    wanted = [name for name in ends if name in living] if rng.random() < 0.8 else []
    return sorted({*wanted, *rng.sample(living, rng.randint(0, 2))} or {rng.choice(living)})


def unkind(rng: Random) -> float:
    """Draw a delay: mostly very short, at times so long that whole chains overtake."""
    return rng.random() * rng.choice((0.001, 0.001, 0.05, 1.0))
