"""Communication graphs, causal separators and routes; see docs/laboratory/topology.md.

from thence.lab.topology import Routed, drive, from_toml

office = from_toml(text)                                        # nodes, departments, organisations
routed = Routed(office.routes, separators=office.at(["west"]))  # hops stamped by ech-r9
drive(routed, {"GC": ("pa", "pf")}, seed=1, messages=100)
routed.events                                                   # the run, and `<run>/hops`
"""

from thence.lab.topology.extended import Extended, described, from_toml
from thence.lab.topology.graph import Graph, broadcast, graph_of
from thence.lab.topology.joins import JoinResult, TopologyMembership, with_witnesses
from thence.lab.topology.routed import Routed
from thence.lab.topology.routed_driver import drive
from thence.lab.topology.routes import Routes
from thence.lab.topology.separators import (
    Separator,
    articulations,
    between,
    both_ways,
    check_separator,
    even_separators,
    given,
    minimum_cuts,
    option_text,
)

__all__ = [
    "Extended",
    "Graph",
    "JoinResult",
    "Routed",
    "Routes",
    "Separator",
    "TopologyMembership",
    "articulations",
    "between",
    "both_ways",
    "broadcast",
    "check_separator",
    "described",
    "drive",
    "even_separators",
    "from_toml",
    "given",
    "graph_of",
    "minimum_cuts",
    "option_text",
    "with_witnesses",
]
