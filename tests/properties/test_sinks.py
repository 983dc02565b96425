"""A sink beside a naive model of a shop: random transactions, topics shuffled, crashes at every statement.

A crash is the disk as it is at that moment: the database file and SQLite's journal are copied while the statement runs,
and a new process begins with the copy. At every crash the target must be the shop after some number of commits.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import sqlalchemy as sa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import shop as shops

from thence import Orderer
from thence.sinks import sql
from thence.sources import Record, WholeTransaction, WholeTransactions, from_change, from_changes, whole_transactions
from thence.tables.sinks.micro_batches import MicroBatchSink


class Crash(BaseException):
    """The process is gone."""


def engine_of(file: Path) -> sa.Engine:
    engine = sa.create_engine(f"sqlite:///{file}", poolclass=sa.NullPool)
    # power does not fail in these tests, so nothing need reach the disk
    sa.event.listen(engine, "connect", lambda connection, _: connection.execute("pragma synchronous = off"))
    return engine


def state_of(file: Path) -> shops.State:
    with engine_of(file).connect() as connection:
        assert connection.exec_driver_sql("pragma foreign_key_check").all() == []
        return {
            table: {row["id"]: dict(row) for row in connection.exec_driver_sql(f"select * from {table}").mappings()}
            for table in shops.TABLES
        }


@contextmanager
def target() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "0.db"
        with engine_of(file).begin() as connection:
            for each in shops.sqlite_ddl():
                connection.exec_driver_sql(each)
        yield file


def interleaved(records: list[Record], random: Random) -> list[Record]:
    """Return the records in any order; every other time each topic keeps its own, as a consumer sees it."""
    if random.random() < 0.5:
        return random.sample(records, len(records))
    topics: dict[str, list[Record]] = {}
    for each in records:
        topics.setdefault(str(each.topic), []).append(each)
    picks = random.sample([str(each.topic) for each in records], len(records))
    return [topics[topic].pop(0) for topic in picks]


def crash_at(engine: sa.Engine, file: Path, crash: Callable[[], bool]) -> None:
    """Ask before and after each statement, and at each commit, whether the process ends there; copy the disk then."""

    def maybe(*_: Any) -> None:
        if crash():
            copy = file.with_name(f"{int(file.stem) + 1}.db")
            for suffix in ("", "-journal"):
                if file.with_name(file.name + suffix).exists():
                    shutil.copy(file.with_name(file.name + suffix), copy.with_name(copy.name + suffix))
            raise Crash(copy)

    for event in ("before_cursor_execute", "after_cursor_execute", "commit"):
        sa.event.listen(engine, event, maybe)


def after(statements: int | None) -> Callable[[], bool]:
    """Return what says to crash after this many of them; None: never."""
    left = [statements]

    def crash() -> bool:
        if left[0] is None:
            return False
        left[0] -= 1
        return left[0] < 0

    return crash


def apply_all(file: Path, records: list[Record], crash: Callable[[], bool]) -> Path:
    """Apply everything that is whole; raise Crash with the copy of the disk where `crash` says so."""
    engine = engine_of(file)

    try:
        with sql(engine, shops.TABLES) as sink:
            crash_at(engine, file, crash)
            transactions = WholeTransactions(snapshot=True)
            for record in records:
                sink.write(transactions.push(record))
            sink.write(transactions.end_snapshot())
            assert transactions.waiting() == []
    except Crash as error:
        return apply_all_again(Path(str(error)))
    return file


def apply_all_again(file: Path) -> Path:
    """Open the copy, as the next process does: SQLite rolls back what was not committed."""
    state_of(file)
    return file


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**9), commits=st.integers(1, 12), crashes=st.lists(st.integers(0, 400), max_size=4))
def test_after_every_crash_the_target_is_a_prefix_of_the_commits(seed: int, commits: int, crashes: list[int]) -> None:
    shop, random = shops.random_shop(seed, commits), Random(seed)
    with target() as file:
        reached = -1
        for limit in [*crashes, None]:
            file = apply_all(file, interleaved(shop.records, random), after(limit))
            found = state_of(file)
            prefixes = [n for n, state in enumerate([shops.empty(), *shop.states]) if state == found]
            assert prefixes, f"seed {seed}: the target is no prefix of the commits"
            assert max(prefixes) >= reached, f"seed {seed}: a committed transaction was lost"
            reached = min(n for n in prefixes if n >= reached)
        assert state_of(file) == shop.states[-1]


def test_a_crash_at_every_single_statement() -> None:
    shop = shops.random_shop(19, 3)
    states = [shops.empty(), *shop.states]
    with target() as file:
        runs, place = 0, 0
        while True:
            runs += 1
            fresh = file.with_name(f"{1000 * runs}.db")
            shutil.copy(file, fresh)
            count = [0]

            def crash(count: list[int] = count, place: int = place) -> bool:
                count[0] += 1
                return count[0] == place + 1

            left = apply_all(fresh, shop.records, crash)
            assert state_of(left) in states, place
            assert state_of(apply_all(left, shop.records, lambda: False)) == states[-1], place
            if left == fresh:  # no statement was left to crash at
                break
            place += 1
    assert place > 30


KEYS = {f"{child}.{column}": f"{parent}.id" for child, column, parent in shops.REFERS}


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**9), lost=st.integers(0, 200))
@example(seed=135, lost=0)  # a row names another parent, and its old parent is deleted
def test_by_keys_the_target_holds_whole_transactions_behind_their_causes(seed: int, lost: int) -> None:
    """With one record missing, what is applied is closed under causes: else the target would refuse it."""
    # Keys know no unique values that move from row to row, and no reference that dangles within a transaction.
    shops_made = (shops.random_shop(seed + n, 8, emails=10**9, immediate=True) for n in range(100))
    shop = next(made for made in shops_made if not _truncates(made))
    streamed = [each for each in shop.records if '"op": "r"' not in str(each.value)]
    records = [each for each in shop.records if each is not streamed[lost % len(streamed)]]
    with target() as file, sql(engine_of(file), shops.TABLES) as sink:
        for given_records in (records, shop.records):
            rows = from_changes(given_records, order="keys", foreign_keys=KEYS, whole=True)
            arrivals = [{**row, **record._asdict()} for row, record in zip(rows, given_records, strict=True)]
            Random(seed).shuffle(arrivals)
            ordered = Orderer("depends_on", key=["destination"]).deliver(arrivals)
            sink.write(whole_transactions(ordered, order="keys"))
        assert state_of(file) == shop.states[-1]


def replayed(shop: shops.Shop, applied: set[str]) -> shops.State:
    """Return the shop after these transactions and no others, by a plain loop over the log."""
    state = shops.empty()
    for record in shop.records:
        body = json.loads(record.value) if isinstance(record.value, str) else {}
        within = body.get("transaction")
        name = "snapshot" if within is None else f"transaction {within['id'].partition(':')[0]}"
        if "op" in body and name in applied:
            rows = state[body["source"]["table"]]
            if body["op"] == "d":
                del rows[body["before"]["id"]]
            else:
                rows[body["after"]["id"]] = body["after"]
    return state


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**9), crashes=st.lists(st.integers(0, 150), min_size=1, max_size=4))
def test_by_keys_every_crash_leaves_whole_transactions_closed_under_causes(seed: int, crashes: list[int]) -> None:
    """The rows are those of the noted transactions, each whole, and no foreign key dangles."""
    shops_made = (shops.random_shop(seed + n, 8, emails=10**9, immediate=True) for n in range(100))
    shop, random = next(made for made in shops_made if not _truncates(made)), Random(seed)

    def units() -> Iterator[WholeTransaction]:
        rows = from_changes(shop.records, order="keys", foreign_keys=KEYS, whole=True)
        arrivals = [{**row, **record._asdict()} for row, record in zip(rows, shop.records, strict=True)]
        random.shuffle(arrivals)
        ordered = Orderer("depends_on", key=["destination"]).deliver(arrivals)
        return whole_transactions(ordered, order="keys")

    with target() as file:
        for limit in [*crashes, None]:
            file = crashing(file, units(), after(limit))
            with engine_of(file).connect() as connection:
                noted = connection.exec_driver_sql("select log from thence_positions").scalars()
                applied = {each.partition(":")[0] for each in noted}
            assert state_of(file) == replayed(shop, applied), f"seed {seed}: not the rows of {sorted(applied)}"
        assert state_of(file) == shop.states[-1]


def crashing(file: Path, units: Iterator[WholeTransaction], crash: Callable[[], bool]) -> Path:
    """Apply transactions; return the disk at the end, or where it crashes."""
    engine = engine_of(file)
    try:
        with sql(engine, shops.TABLES) as sink:
            crash_at(engine, file, crash)
            sink.write(units)
    except Crash as error:
        return apply_all_again(Path(str(error)))
    return file


def _truncates(shop: shops.Shop) -> bool:
    return any('"op": "t"' in str(each.value) for each in shop.records)


# -- micro-batches of a stream


def micro_batches(records: list[Record], random: Random) -> list[list[dict[str, Any]]]:
    """Return what a stream delivers for records that arrive in this order, cut anywhere."""
    orderer, batches = Orderer("depends_on", key=["destination"]), list[list[dict[str, Any]]]()
    for record in records:
        row = dict(from_change(record, order="commit"))
        row |= {"value": record.value, "key": record.key, "topic": record.topic, "partition": record.partition}
        made = orderer.push(row | {"offset": record.offset})
        if not batches or random.random() < 0.2:
            batches.append([])
        batches[-1] += [dict(each) for each in made]
    return batches


def write_all(file: Path, batches: list[list[dict[str, Any]]], crash: Callable[[], bool]) -> tuple[Path, int]:
    """Write micro-batches; return the disk and how many of them Spark would know as written."""
    engine, written = engine_of(file), 0

    sink = MicroBatchSink(engine, shops.TABLES)
    try:
        crash_at(engine, file, crash)
        for each in batches:
            sink.write(each)
            written += 1
    except Crash as error:
        return apply_all_again(Path(str(error))), written
    finally:
        sink.close()
    return file, written


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**9), commits=st.integers(1, 12), crashes=st.lists(st.integers(0, 300), max_size=4))
def test_micro_batches_leave_a_prefix_of_the_commits_at_every_crash(
    seed: int, commits: int, crashes: list[int]
) -> None:
    shop, random = shops.random_shop(seed, commits, snapshot=False), Random(seed)
    batches = micro_batches(interleaved(shop.records, random), random)
    with target() as file:
        at = reached = 0
        for limit in [*crashes, None]:
            again = max(0, at - (random.random() < 0.3))  # Spark may not have noted the last one
            file, written = write_all(file, batches[again:], after(limit))
            at = again + written
            prefixes = [n for n, state in enumerate(shop.states) if state == state_of(file)]
            assert prefixes, f"seed {seed}: the target is no prefix of the commits"
            assert max(prefixes) >= reached, f"seed {seed}: a committed transaction was lost"
            reached = min(n for n in prefixes if n >= reached)
        assert state_of(file) == shop.states[-1]
        with engine_of(file).connect() as connection:
            assert connection.exec_driver_sql("select * from thence_open_changes").all() == []
