"""Many keys that each fit into one batch: one rule serves them one after the other, and passes nothing on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from support.arrivals import PROTOCOLS, Row, arrivals
from support.soak import first
from unit.delivery.test_batches import CAUSES_POLICIES, SCHEMA, random_causes, random_clocks, told

from thence import Orderer
from thence.core.model.roster import Roster
from thence.errors import TraceError
from thence.tables.delivery import Columns, Policy, many_keys
from thence.tables.delivery.delivery_rule_cy import Rule
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.engines.local.deliver import deliver_table

KEYS = 12
SEEDS = first(1, [range(2), range(2, 20)])


def keyed(sets: Iterable[list[Row]]) -> list[Row]:
    """Give each set of rows a key of its own; the rows of one key have no destination."""
    return [row | {"run": f"k{n}"} for n, rows in enumerate(sets) for row in rows] + [
        row | {"run": "k3", "destination": None} for row in random_causes(0)
    ]


def by_key(rows: Iterable[Row]) -> dict[tuple[Any, Any], list[tuple[Any, ...]]]:
    """Return what became of the rows of each key, in order."""
    found = defaultdict(list)
    for row in rows:
        found[row["run"], row["destination"]].append(row)
    return {key: told(each) for key, each in found.items()}


def agree(by: Any, rows: list[Row], orderer: Orderer, about: str) -> None:
    """Assert that a table of many keys does what the Orderer does row by row."""
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    ours = deliver_table(table, DeliveryTerms(by, orderer.rosters, Columns(by), orderer.policy)).to_pylist()
    assert len(ours) == len(rows)
    theirs = by_key(orderer.deliver(rows))
    assert len(theirs) > KEYS
    assert by_key(ours) == theirs, about


@pytest.mark.parametrize("policy", CAUSES_POLICIES)
@pytest.mark.parametrize("seeds", SEEDS)
def test_causes_of_one_key_say_nothing_of_the_next(policy: dict[str, Any], seeds: range) -> None:
    for seed in seeds:
        rows = keyed(random_causes(100 * seed + n) for n in range(KEYS))
        agree("depends_on", rows, Orderer("depends_on", **policy), f"seed {seed}")


@pytest.mark.parametrize("policy", CAUSES_POLICIES[:6])
@pytest.mark.parametrize("seeds", SEEDS)
def test_clocks_of_one_key_say_nothing_of_the_next(policy: dict[str, Any], seeds: range) -> None:
    for seed in seeds:
        rows = keyed(random_clocks(100 * seed + n) for n in range(KEYS))
        agree("clock", rows, Orderer("clock", **policy), f"seed {seed}")


@pytest.mark.parametrize("policy", CAUSES_POLICIES[:2])
@pytest.mark.parametrize("seeds", SEEDS)
def test_protocols_of_one_key_say_nothing_of_the_next(policy: dict[str, Any], seeds: range) -> None:
    """Each key has stamps of a protocol of its own."""
    for seed in seeds:
        made = [arrivals(PROTOCOLS[n % len(PROTOCOLS)], seed + n, sinks=1, lost=0.03) for n in range(KEYS)]
        rosters = list({each.roster.hash: each.roster for each in made if isinstance(each.roster, Roster)}.values())
        rows = keyed([dict.fromkeys(SCHEMA.names) | row for row in each.rows] for each in made)
        agree("stamp", rows, Orderer("stamp", roster=rosters, **policy), f"seed {seed}")


def test_an_error_names_its_key() -> None:
    rows = [{"run": f"k{n}", "destination": "d", "message": "m", "depends_on": ["never"] * (n == 5)} for n in range(9)]
    terms = DeliveryTerms("depends_on", (), Columns("depends_on"), Policy("fail", after_rows=2))
    with pytest.raises(TraceError, match=r"^run k5, destination d: 1 row held at the end"):
        deliver_table(pa.Table.from_pylist(rows), terms)


def test_a_key_costs_no_rule_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Rule] = []

    def make(*given: Any) -> Rule:
        made.append(Rule(*given))
        return made[-1]

    monkeypatch.setattr(many_keys, "Rule", make)
    rows = [{"run": f"k{n}", "destination": "d", "message": "m", "depends_on": []} for n in range(500)]
    out = deliver_table(
        pa.Table.from_pylist(rows, schema=SCHEMA), DeliveryTerms("depends_on", (), Columns("depends_on"), Policy())
    )
    assert out.column("position").to_pylist() == [1] * 500
    assert len(made) == 1
