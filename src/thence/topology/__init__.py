"""Communication graphs, causal separators and routes; see docs/topology.md.

from thence.topology import Routed, drive, from_toml

office = from_toml(text)                                        # nodes, departments, organisations
routed = Routed(office.routes, separators=office.at(["west"]))  # hops stamped by ech-r9
drive(routed, {"GC": ("pa", "pf")}, seed=1, messages=100)
routed.events                                                   # the run, and `<run>/hops`
"""

from thence.topology.extended import Extended, described, from_toml
from thence.topology.graph import Graph, broadcast, graph_of
from thence.topology.joins import Join, Membership, with_witnesses
from thence.topology.routed import Routed
from thence.topology.routed_driver import drive
from thence.topology.routes import Routes
from thence.topology.separators import (
    Separator,
    articulations,
    between,
    both_ways,
    check_separator,
    choose,
    given,
    minimum_cuts,
    option_text,
)

__all__ = [
    "Extended",
    "Graph",
    "Join",
    "Membership",
    "Routed",
    "Routes",
    "Separator",
    "articulations",
    "between",
    "both_ways",
    "broadcast",
    "check_separator",
    "choose",
    "described",
    "drive",
    "from_toml",
    "given",
    "graph_of",
    "minimum_cuts",
    "option_text",
    "with_witnesses",
]
