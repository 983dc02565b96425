"""A shop with foreign keys, as a naive model that writes Debezium's records: four tables, a self reference, a cycle.

`customer.favourite` refers to `orders`, whose `customer` refers back; `category.parent` refers to `category`.
Constraints are checked at the end of a transaction, unique ones at every change. The model knows nothing of thence.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from thence.sources import Record

TABLES = ("customer", "category", "orders", "line")
DDL = [
    "create table customer(id integer primary key, email varchar(40) unique, favourite integer {orders})",
    "create table category(id integer primary key, parent integer references category(id) {defer})",
    "create table orders(id integer primary key, customer integer not null references customer(id) {defer}, "
    "total integer)",
    "create table line(id integer primary key, orders integer not null references orders(id) {defer}, "
    "category integer not null references category(id) {defer}, amount integer)",
]
REFERS = [
    ("customer", "favourite", "orders"), ("category", "parent", "category"), ("orders", "customer", "customer"),
    ("line", "orders", "orders"), ("line", "category", "category"),
]  # fmt: skip
Row = dict[str, Any]
State = dict[str, dict[int, Row]]


def sqlite_ddl() -> list[str]:
    """Return the tables for SQLite, where a foreign key may name a table that does not exist yet."""
    return [each.format(orders="references orders(id)", defer="") for each in DDL]


def empty() -> State:
    """Return a shop without rows."""
    return {table: {} for table in TABLES}


def consistent(state: State) -> bool:
    """Return whether every reference finds its row."""
    return all(
        row[column] is None or row[column] in state[parent]
        for table, column, parent in REFERS
        for row in state[table].values()
    )


@dataclass
class Shop:
    """A database and its log."""

    state: State = field(default_factory=empty)
    states: list[State] = field(default_factory=list)
    """after the snapshot, and after each commit"""
    records: list[Record] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """of the transactions, in the order of their commits"""
    offsets: dict[str, int] = field(default_factory=dict)
    lsn: int = 1000
    immediate: bool = False
    """whether constraints are checked at every change"""
    last_commit: int | None = None

    def put(self, topic: str, body: Row | None, key: Row | None = None) -> None:
        """Append to a topic."""
        self.offsets[topic] = offsets = self.offsets.get(topic, -1) + 1
        value = None if body is None else json.dumps(body)
        self.records.append(Record(value, None if key is None else json.dumps(key), topic, 0, offsets))

    def source(self, table: str, snapshot: str = "false") -> Row:
        """Return what a change says of its origin."""
        self.lsn += 1
        before = None if self.last_commit is None else str(self.last_commit)
        place = {"lsn": self.lsn, "sequence": json.dumps([before, str(self.lsn)])}
        return {"name": "shop", "db": "d", "schema": "public", "table": table, "snapshot": snapshot, **place}

    def take_snapshot(self) -> None:
        """Write every row as a row of a snapshot, tables in an order that no foreign key likes."""
        rows = [(table, row) for table in reversed(TABLES) for row in self.state[table].values()]
        for place, (table, row) in enumerate(rows):
            mark = "last" if place == len(rows) - 1 else "true"
            body = {"op": "r", "before": None, "after": row, "source": self.source(table, mark), "transaction": None}
            self.put(f"shop.public.{table}", body, {"id": row["id"]})
        self.states.append(copy.deepcopy(self.state))

    def commit(self, changes: list[tuple[str, str, Row | None, Row | None]]) -> bool:
        """Apply (op, table, before, after) and write the log, unless that breaks a constraint."""
        after = copy.deepcopy(self.state)
        for op, table, old, new in changes:
            if op == "t":
                after[table].clear()
            if old is not None:
                if old["id"] not in after[table]:
                    return False
                del after[table][old["id"]]
            if new is not None:
                if new["id"] in after[table] or _taken(after, table, new):
                    return False
                after[table][new["id"]] = dict(new)
            if self.immediate and not consistent(after):
                return False
        if not consistent(after):
            return False
        self._write(changes)
        self.state = after
        self.states.append(copy.deepcopy(after))
        return True

    def _write(self, changes: list[tuple[str, str, Row | None, Row | None]]) -> None:
        number = 600 + len(self.names)
        self.names.append(f"tx{number}")
        written = [part for change in changes for part in _as_debezium(*change)]
        self.put("shop.transaction", {"status": "BEGIN", "id": f"{number}:{self.lsn + 1}", "event_count": None})
        for place, (op, table, old, new) in enumerate(written, 1):
            source = self.source(table)
            within = {"id": f"{number}:{self.lsn}", "total_order": place, "data_collection_order": place}
            body = {"op": op, "before": old, "after": new, "source": source, "transaction": within}
            row = new or old
            self.put(f"shop.public.{table}", body, None if row is None else {"id": row["id"]})
            if op == "d":
                self.put(f"shop.public.{table}", None, {"id": row["id"]} if row else None)  # a tombstone
        self.lsn += 1
        self.last_commit = self.lsn
        end = {"status": "END", "id": f"{number}:{self.lsn}", "event_count": len(written)}
        self.put("shop.transaction", end)


def _taken(state: State, table: str, new: Row) -> bool:
    return table == "customer" and any(row["email"] == new["email"] for row in state[table].values())


def _as_debezium(
    op: str, table: str, old: Row | None, new: Row | None
) -> list[tuple[str, str, Row | None, Row | None]]:
    """Return an update of a primary key as the two records that a connector writes."""
    if op == "u" and old is not None and new is not None and old["id"] != new["id"]:
        return [("d", table, {"id": old["id"]}, None), ("c", table, None, new)]
    return [(op, table, {"id": old["id"]} if op == "d" and old else None, new)]


def random_transaction(state: State, random: Random, emails: int = 60) -> list[tuple[str, str, Row | None, Row | None]]:
    """Return changes that may be refused by the shop."""
    draft, changes = copy.deepcopy(state), []
    for _ in range(random.randint(1, 6)):
        table = random.choice(TABLES)
        rows = list(draft[table].values())
        op = random.choice("ccccuuudk" if random.random() < 0.97 else "t")
        if op == "t":
            emptied = ["line"] if random.random() < 0.5 else list(TABLES)  # parents first, as TRUNCATE ... CASCADE may
            changes += [("t", each, None, None) for each in emptied]
            for each in emptied:
                draft[each].clear()
            continue
        old = random.choice(rows) if rows and op in "udk" else None
        if op != "c" and old is None:
            continue
        new = None if op == "d" else _random_row(draft, table, old, op == "k", random, emails)
        if old is not None:
            del draft[table][old["id"]]
        if new is not None:
            if new["id"] in draft[table]:
                return []
            draft[table][new["id"]] = new
        changes.append(("u" if op == "k" else op, table, old, new))
    return changes


def _random_row(state: State, table: str, old: Row | None, new_key: bool, random: Random, emails: int) -> Row:
    number = old["id"] if old is not None and not new_key else random.randint(1, 40)

    def of(parent: str, pick: Callable[[list[int]], int] = random.choice) -> int:
        known = list(state[parent])
        return pick(known) if known and random.random() < 0.9 else random.randint(1, 40)

    if table == "customer":
        favourite = of("orders") if random.random() < 0.4 else None
        return {"id": number, "email": f"e{random.randint(1, emails)}", "favourite": favourite}
    if table == "category":
        return {"id": number, "parent": of("category") if random.random() < 0.6 else None}
    if table == "orders":
        return {"id": number, "customer": of("customer"), "total": random.randint(0, 9)}
    return {"id": number, "orders": of("orders"), "category": of("category"), "amount": random.randint(0, 9)}


def random_shop(seed: int, commits: int, snapshot: bool = True, emails: int = 60, immediate: bool = False) -> Shop:
    """Return a shop after some commits, with a snapshot of those before."""
    random, shop = Random(seed), Shop(immediate=immediate)
    before = commits if snapshot else 0
    tries = 0
    while len(shop.states) < before and tries < 20 * commits:
        tries += 1
        changes = random_transaction(shop.state, random, emails)
        if changes:
            shop.commit(changes)
    shop.records, shop.names, shop.states, shop.offsets = [], [], [], {}
    if snapshot:
        shop.take_snapshot()
    else:
        shop.states.append(empty())
    tries = 0
    while len(shop.names) < commits and tries < 50 * commits:
        tries += 1
        changes = random_transaction(shop.state, random, emails)
        if changes:
            shop.commit(changes)
    return shop
