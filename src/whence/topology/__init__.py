"""Communication graphs, causal separators and routes; see docs/topology.md.

from whence.topology import Routed, drive, from_toml

office = from_toml(text)                                        # nodes, departments, organisations
routed = Routed(office.routes, separators=office.at(["west"]))  # hops stamped by ech-r9
drive(routed, {"GC": ("pa", "pf")}, seed=1, messages=100)
routed.events                                                   # the run, and `<run>/hops`
"""

from whence.topology.chapter7 import StampSizes, stamp_sizes, table_7_1
from whence.topology.clock import drive
from whence.topology.extended import Extended, described, from_toml
from whence.topology.graph import Graph, broadcast, graph_of
from whence.topology.joins import Join, Membership, with_witnesses
from whence.topology.networks import PLACEMENTS, Network, broadcasts, gateway, office
from whence.topology.routed import Routed
from whence.topology.routes import Routes
from whence.topology.separators import (
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
    "PLACEMENTS",
    "Extended",
    "Graph",
    "Join",
    "Membership",
    "Network",
    "Routed",
    "Routes",
    "Separator",
    "StampSizes",
    "articulations",
    "between",
    "both_ways",
    "broadcast",
    "broadcasts",
    "check_separator",
    "choose",
    "described",
    "drive",
    "from_toml",
    "gateway",
    "given",
    "graph_of",
    "minimum_cuts",
    "office",
    "option_text",
    "stamp_sizes",
    "table_7_1",
    "with_witnesses",
]
