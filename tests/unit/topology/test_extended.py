"""Descriptions of nodes, departments and organisations, and the graphs and separators they stand for."""

from __future__ import annotations

import pytest

from thence.errors import MisuseError
from thence.lab.topology.extended import described, from_toml
from thence.lab.topology.graph import graph_of
from thence.lab.topology.separators import check_separator

OFFICE = """
[departments.east]
routers = ["da", "db"]
nodes.na = ["pa", "pb"]
nodes.nb = ["pc", "pd"]

[departments.west]
routers = ["dc"]
nodes.nc = ["pe", "pf"]
"""


def test_the_network_of_figure_5_2() -> None:
    office = from_toml(OFFICE)
    expected = graph_of("pa-na pb-na pc-nb pd-nb pe-nc pf-nc na-da na-db nb-da nb-db da-dc db-dc dc-nc")
    assert {frozenset(link) for link in office.graph.edges} == {frozenset(link) for link in expected.edges}
    assert office.processes == ("pa", "pb", "pc", "pd", "pe", "pf")
    assert office.witnesses == {"da": frozenset({"db"})}
    assert office.separators["east"] == frozenset({"da", "db"})
    assert office.routes.path("pa", "pf") == ["pa", "na", "da", "dc", "nc", "pf"]
    for separator in office.at(["east", "west", "na", "nb", "nc"]):
        check_separator(office.graph, separator)
    with pytest.raises(MisuseError, match="no separator 'north'; there are na, nb, east, nc, west"):
        office.at(["north"])


def test_three_levels_side_by_side() -> None:
    world = described(
        {
            "organisations": {
                name: {
                    "routers": [f"o{name}", f"q{name}"],
                    "departments": {f"dept{name}": {"routers": [f"d{name}"], "nodes": {f"n{name}": [f"p{name}"]}}},
                }
                for name in "abc"
            }
        }
    )
    assert world.routes.path("pa", "pc") == ["pa", "na", "da", "oa", "oc", "dc", "nc", "pc"]
    assert world.routes.addressed("oa", "oc") == {"oc", "qc"}
    for separator in world.at(world.separators):
        check_separator(world.graph, separator)
    assert world.separators["a"] == frozenset({"oa", "qa"})


def test_one_department_needs_no_organisation() -> None:
    assert described({"nodes": {"na": ["pa"], "nb": ["pb"]}}).routes.path("pa", "pb") == ["pa", "na", "nb", "pb"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "the description holds no organisations or departments or nodes"),
        ({"routers": ["a"]}, "the description has 'routers'; accepted are organisations, departments, nodes"),
        ({"nodes": {"na": []}}, "nodes.na is []; a list of one or more names is accepted"),
        ({"nodes": {"na": "pa"}}, "nodes.na is 'pa'; a list"),
        ({"nodes": {"na": ["pa"], "nb": ["pa"]}}, "nodes.nb names pa, which stands elsewhere already"),
        ({"departments": {"x": {"nodes": {"na": ["pa"]}}}}, "departments.x.routers is []; a list"),
        ({"departments": {"x": {"routers": ["d"]}}}, "departments.x holds no nodes"),
        ({"departments": {"x": ["d"]}}, "departments.x is ['d']; a table"),
        (
            {"departments": {"x": {"routers": ["d"], "organisations": {}}}},
            "departments.x has 'organisations'; accepted are nodes",
        ),
        ({"departments": {"na": {"routers": ["d"], "nodes": {"na": ["pa"]}}}}, "a unit named na stands elsewhere"),
    ],
)
def test_a_wrong_description_says_where(table: dict, message: str) -> None:
    with pytest.raises(MisuseError) as error:
        described(table)
    assert message in str(error.value)


def test_a_text_that_is_no_toml() -> None:
    with pytest.raises(MisuseError, match="the description is not TOML"):
        from_toml("nodes = [")
