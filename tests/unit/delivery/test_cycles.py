"""The search for cycles with looks ahead, judged by walks from every row: the same outcomes and states to the letter.

The twin walks through all that is held whenever a row has to be held: it is told to look ahead never.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from support.naive_orderer import Naive
from support.some import some
from unit.delivery.one_key import OneKey

from thence.errors import TraceError
from thence.tables.delivery import Columns, Orderer, Policy
from thence.tables.delivery import possible_cycles as outlook_module
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.possible_cycles import Outlook

Row = dict[str, Any]
Named = list[list[str]]
KEY = ("r", "d")
SCHEMA = pa.schema(
    [("run", pa.string()), ("destination", pa.string()), ("arrival", pa.int64()), ("message", pa.string()),
     ("time", pa.float64()), ("depends_on", pa.list_(pa.string()))]
)  # fmt: skip
NEVER = 1 << 40
"""Steps of walks for each row before a look: the twin's."""


def ring(random: Random, size: int) -> Named:
    """One cycle through all, closed by one row, with ways past some of its rows."""
    named = [[f"m{n - back}" for back in random.sample([1, 2], random.randint(1, 2)) if n >= back] for n in range(size)]
    named[0] = [f"m{size - 1}"]
    return named


def twins(random: Random, size: int) -> Named:
    """A chain of cycles of two rows each."""
    return [[f"m{n ^ 1}", *([f"m{n - 2}"] if n > 1 else [])] for n in range(size)]


def knot(random: Random, size: int) -> Named:
    """Any row may name any other."""
    return [[f"m{random.randrange(size)}" for _ in range(random.choice([0, 1, 2, 2, 3]))] for _ in range(size)]


def near(random: Random, size: int) -> Named:
    """Rows name those shortly before them, a few of them also one shortly behind."""
    odd = random.choice([0.02, 0.1, 0.4])
    before = [[f"m{max(0, n - random.randint(1, 4))}" for _ in range(random.randint(1, 2)) if n] for n in range(size)]
    return [[*each, f"m{n + random.randint(1, 3)}"] if random.random() < odd else each for n, each in enumerate(before)]


def tree(random: Random, size: int) -> Named:
    """No cycle at all."""
    return [[f"m{random.randrange(n)}" for _ in range(random.randint(1, 3)) if n] for n in range(size)]


KINDS = [ring, twins, knot, near, tree]
POLICIES = [
    Policy(),
    Policy(),
    Policy("release", after_rows=2),
    Policy("release", after_rows=40),
    Policy("release", after_seconds=30.0, max_jump=5.0),
    Policy(held_limit=20, when_full="release"),
    Policy("fail", after_rows=60),
    Policy(remember=3),
    Policy("release", after_rows=30, remember=2),
]


def rows_of(kind: Callable[[Random, int], Named], random: Random, size: int) -> list[Row]:
    """Rows in any order: some lost, some twice (with other causes, too), some that can not be used."""
    rows: list[Row] = [
        {"message": f"m{n}", "depends_on": named}
        for n, named in enumerate(kind(random, size))
        if random.random() > 0.01
    ]
    odd = random.choice([0.0, 0.0, 0.05, 0.2])
    for row in [row for row in rows if random.random() < odd]:
        rows.append({"message": row["message"], "depends_on": list(random.choice(rows)["depends_on"] or ())})
    for row in [row for row in rows if random.random() < odd / 4]:
        row |= random.choice([{"depends_on": None}, {"message": None}, {"depends_on": [row["message"]]}])
    for row in [row for row in rows if random.random() < odd]:
        row["depends_on"] = [*(row["depends_on"] or ()), random.choice([None, "lost", row["message"], "m0"])]
    random.shuffle(rows)
    told = {"run": "r", "destination": "d"}
    late = random.choice([0.0, 9.0])
    return [row | told | {"arrival": n, "time": n + late * random.random()} for n, row in enumerate(rows)]


def driven(rows: list[Row], policy: Policy, random: Random) -> list[object]:
    """Push rows through a key in batches, with words of an operator and restarts between them; return all it says."""
    terms = DeliveryTerms("depends_on", (), Columns("depends_on"), policy)
    state, said, at = OneKey(terms, KEY, SCHEMA), list[object](), 0
    try:
        while at < len(rows):
            size = random.choice([3, 30, 100, 200])
            said += state.take(pa.RecordBatch.from_pylist(rows[at : at + size], schema=SCHEMA))
            at += size
            what = random.choice(["go on", "go on", "restart", "give up", "flush"])
            if what == "restart":
                said.append(state.rule.tickets())
                state.again()
            elif what == "give up":
                said.append(state.give_up(random.choice(["lost", "m0", "m3", "m5"]), "by hand"))
            elif what == "flush" and random.random() < 0.1:
                said.append(state.flush("drained"))
        said.append(state.end())
    except TraceError as error:
        said.append(str(error))
    return said


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """Count looks, by whether they found a cycle."""
    counted: Counter[bool] = Counter()
    looked = Outlook.looked

    def count(self: Outlook, seen: int, found: bool) -> None:
        counted[found] += 1
        looked(self, seen, found)

    monkeypatch.setattr(Outlook, "looked", count)
    return counted


def test_looks_change_nothing(monkeypatch: pytest.MonkeyPatch, looks: Counter[bool]) -> None:
    """Whatever the policy and the batches: looks at every chance, looks when they are due, no looks."""
    on_a_cycle = 0
    for seed in range(100):
        random = Random(f"cycles {seed}")
        kind, policy = KINDS[seed % len(KINDS)], random.choice(POLICIES)
        rows, said = rows_of(kind, random, random.choice([8, 40, 150, 150])), dict[int, list[object]]()
        for patience in (NEVER, 1, 0):
            monkeypatch.setattr(outlook_module, "LOOK_AFTER", patience)
            said[patience] = driven(rows, policy, Random(seed))
            assert said[patience] == said[NEVER], f"seed {seed}: {kind.__name__}, {policy}, patience {patience}"
        on_a_cycle += sum("on a cycle" in str(row) for row in said[NEVER])
    assert on_a_cycle > 500
    assert min(looks.values()) > 100


@pytest.mark.parametrize("patience", [0, 1])
def test_looks_keep_to_the_page(patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside an orderer written from docs/explanation/delivery-rule.md alone, and the Orderer."""
    monkeypatch.setattr(outlook_module, "LOOK_AFTER", patience)
    for seed in range(60):
        random = Random(f"page {seed}")
        rows = rows_of(KINDS[seed % len(KINDS)], random, random.choice([5, 12, 40]))
        naive, terms = Naive("depends_on"), DeliveryTerms("depends_on", (), Columns("depends_on"), Policy())
        for row in rows:
            naive.push(row)
        wanted = [(said["row"]["arrival"], said["outcome"], said.get("position")) for said in naive.finish()]
        every = [list(Orderer("depends_on").deliver(rows))]
        state = OneKey(terms, KEY)
        taken = state.take(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
        rest = state.end()
        every.append(taken if rest is None else taken + rest.to_pylist())
        for said in some(every):
            assert [(row["arrival"], row["outcome"], row["position"]) for row in said] == wanted, f"seed {seed}"
