"""An outbox on a real PostgreSQL: concurrent writers, rollbacks, long transactions; every event once, in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import psycopg
import pytest
from support.processes import Postgres, postgres
from support.soak import keep

from thence.errors import MisuseError
from thence.sources.postgres import OutboxReader

WRITERS = 50
PATIENCE = 0.2
"""seconds after which the usual reader takes a hole for a rollback"""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


def connect(server: Postgres, *, autocommit: bool = True) -> Any:
    return psycopg.connect(f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres", autocommit=autocommit)


def make(server: Postgres, name: str, column: str = "position bigserial primary key") -> None:
    server.psql(f"drop table if exists {name}; create table {name} ({column}, transaction text, payload text);")


class Writers:
    """Transactions of several events; some are rolled back, in whole or to a savepoint, and some stay open for long."""

    def __init__(self, server: Postgres, table: str, events: int, seed: int) -> None:
        self.server, self.table, self.left, self.seed = server, table, events, seed
        self.lock = threading.Lock()
        self.began: dict[str, float] = {}
        self.committed: dict[str, float] = {}
        self.events: dict[str, str] = {}  # committed payloads, and their transactions
        self.threads = [threading.Thread(target=self.write, args=(n,)) for n in range(WRITERS)]

    def write(self, writer: int) -> None:
        random, count = Random(self.seed * 1000 + writer), 0
        with connect(self.server, autocommit=False) as connection:
            while self.left > 0:
                count += 1
                name = f"{writer}-{count}"
                self.began[name] = time.monotonic()
                kept = self.insert(connection, random, name)
                if random.random() < 0.25:
                    connection.rollback()
                    continue
                connection.commit()
                self.committed[name] = time.monotonic()
                with self.lock:
                    self.events |= dict.fromkeys(kept, name)
                    self.left -= len(kept)

    def insert(self, connection: Any, random: Random, name: str) -> list[str]:
        kept, pause = list[str](), random.expovariate(40) if random.random() < 0.97 else random.uniform(0.5, 2)
        for number in range(random.randint(1, 8)):
            undone = random.random() < 0.1
            if undone:
                connection.execute("savepoint s")
            statement = f"insert into {self.table} (transaction, payload) values (%s, %s)"
            connection.execute(statement, [name, f"{name}/{number}"])
            if undone:
                connection.execute("rollback to savepoint s")
            else:
                kept.append(f"{name}/{number}")
            if number == 0:
                time.sleep(pause)
        return kept

    @property
    def writing(self) -> bool:
        return any(thread.is_alive() for thread in self.threads)


class TimeoutReader:
    """What is usually built: a hole that has not been filled within some time after it was seen is skipped."""

    def __init__(self, connection: Any, table: str) -> None:
        self.connection, self.table, self.position = connection, table, 0
        self.seen: dict[int, float] = {}  # when the row behind a hole was first read

    def poll(self) -> list[str]:
        found = self.connection.execute(
            f"select position, payload from {self.table} where position > %s order by position", [self.position]
        ).fetchall()
        now, before, out, open_ = time.monotonic(), self.position, list[str](), False
        for position, payload in found:
            if position > before + 1:
                open_ |= now - self.seen.setdefault(before + 1, now) < PATIENCE
            if not open_:
                self.position = position
                out.append(payload)
            before = position
        return out

    def ended(self) -> bool:
        return self.position == self.connection.execute(f"select max(position) from {self.table}").fetchone()[0]


def out_of_order(order: list[str], writers: Writers) -> int:
    """Count events that came before one of a transaction that had committed before theirs began."""
    found, earliest = 0, float("inf")
    for payload in reversed(order):
        transaction = writers.events[payload]
        found += writers.began[transaction] > earliest
        earliest = min(earliest, writers.committed[transaction])
    return found


@pytest.mark.parametrize("events", [10_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_every_committed_event_once_and_in_order(server: Postgres, events: int) -> None:
    seed = 5
    make(server, "outbox")
    writers = Writers(server, "outbox", events, seed)
    with connect(server) as one, connect(server) as two:
        reader, usual = OutboxReader(one, "outbox"), TimeoutReader(two, "outbox")
        order, skipping, most = list[str](), list[str](), 0
        for thread in writers.threads:
            thread.start()
        quiet = 0
        while quiet < 3:
            quiet = 0 if writers.writing else quiet + 1
            rows = reader.poll()
            order += [row["payload"] for row in rows]
            skipping += usual.poll()
            most = max([most, *(hole["rows"] for hole in reader.waiting())])
            if rows or len(order) < len(writers.events):
                quiet = min(quiet, 1)
            time.sleep(0.01)
        while not usual.ended():
            skipping += usual.poll()
    lost = len(writers.events.keys() - set(skipping))
    row = {
        "writers": WRITERS, "events": len(writers.events), "transactions": len(writers.committed),
        "rolled back": len(writers.began) - len(writers.committed), "missing": len(writers.events.keys() - set(order)),
        "twice": len(order) - len(set(order)), "out of order": out_of_order(order, writers),
        "most rows behind a hole": most, "lost by a reader with a time-out": lost,
    }  # fmt: skip
    if events >= 1_000_000:
        keep("outbox", f"{events} events", row)
    print(f"seed {seed}, time-out {PATIENCE} s: {row}")
    assert len(order) == len(set(order)) == len(writers.events)
    assert set(order) == set(writers.events)
    assert out_of_order(order, writers) == 0
    assert reader.waiting() == []
    assert lost > 0, "the long transactions are longer than the time-out, so it must lose events"


def poll(reader: OutboxReader) -> list[str]:
    return [row["payload"] for row in reader.poll()]


@pytest.mark.parametrize("column", ["position bigserial", "position bigint generated always as identity"])
def test_a_hole_waits_for_its_transaction_and_no_longer(server: Postgres, column: str) -> None:
    make(server, "slow", f"{column} primary key")
    with connect(server) as one, connect(server, autocommit=False) as slow, connect(server) as fast:
        reader = OutboxReader(one, "slow", transaction="transaction")
        slow.execute("insert into slow (payload) values ('a')")
        fast.execute("insert into slow (payload) values ('b')")
        assert poll(reader) == []
        (hole,) = reader.waiting()
        assert (hole["missing"], hole["rows"], len(hole["blockers"])) == ("slow/1", 1, 1)
        assert "1 transactions" in hole["reason"]
        slow.commit()
        assert poll(reader) == ["a", "b"]
        slow.execute("insert into slow (payload) values ('c'), ('d')")
        fast.execute("insert into slow (payload) values ('e')")
        assert poll(reader) == []
        slow.execute("insert into slow (payload) values ('f')")  # the same transaction
        assert poll(reader) == []
        slow.rollback()
        assert poll(reader) == ["e"]
        assert reader.position == 5
        fast.execute("insert into slow (payload) values ('g')")
        assert poll(OutboxReader(one, "slow", after=5)) == ["g"]


def test_a_writer_that_began_after_the_hole_was_seen_is_not_waited_for(server: Postgres) -> None:
    make(server, "later")
    with connect(server) as one, connect(server, autocommit=False) as slow, connect(server, autocommit=False) as other:
        reader = OutboxReader(one, "later")
        slow.execute("insert into later (payload) values ('a')")
        one.execute("insert into later (payload) values ('b')")
        assert poll(reader) == []
        other.execute("insert into later (payload) values ('c')")
        slow.rollback()
        assert poll(reader) == ["b"]
        other.rollback()


def test_a_prepared_transaction_is_waited_for(server: Postgres) -> None:
    make(server, "prepared")
    with connect(server) as one, connect(server) as slow, connect(server) as fast:
        reader = OutboxReader(one, "prepared")
        slow.execute("begin")
        slow.execute("insert into prepared (payload) values ('a')")
        fast.execute("insert into prepared (payload) values ('b')")
        assert poll(reader) == []
        slow.execute("prepare transaction 'p'")
        assert poll(reader) == []
        assert len(reader.waiting()[0]["blockers"]) == 1
        fast.execute("commit prepared 'p'")
        assert poll(reader) == ["a", "b"]


def test_numbers_with_a_step(server: Postgres) -> None:
    server.psql("create sequence by_ten increment by 10 start with 10;")
    make(server, "steps", "position bigint primary key default nextval('by_ten')")
    with connect(server) as one, connect(server, autocommit=False) as slow:
        reader = OutboxReader(one, "steps")
        slow.execute("insert into steps (payload) values ('a')")
        one.execute("insert into steps (payload) values ('b')")
        assert poll(reader) == []
        assert reader.waiting()[0]["missing"] == "steps/10"
        slow.rollback()
        assert poll(reader) == ["b"]


def test_numbers_drawn_outside_of_the_insert_must_be_declared_and_are_never_given_up(server: Postgres) -> None:
    make(server, "pooled", "position bigint primary key")
    make(server, "cached")
    server.psql("alter sequence cached_position_seq cache 50;")
    with connect(server) as one, connect(server) as two:
        with pytest.raises(MisuseError, match="no default that draws from a sequence"):
            OutboxReader(one, "pooled")
        with pytest.raises(MisuseError, match="no default that draws from a sequence"):
            OutboxReader(one, "pooled", numbers="insert")
        for numbers in (None, "insert", "transaction"):
            with pytest.raises(MisuseError, match="CACHE 50"):
                OutboxReader(one, "cached", numbers=numbers)  # type: ignore[arg-type]
        reader = OutboxReader(one, "pooled", numbers="client")
        two.execute("insert into pooled (position, payload) values (1, 'a'), (4, 'd')")
        for _ in range(3):
            order = poll(reader)
        assert order == []
        assert reader.position == 1
        assert [(hole["missing"], hole["last"]) for hole in reader.waiting()] == [("pooled/2", "pooled/3")]
        two.execute("insert into pooled (position, payload) values (3, 'c')")
        assert poll(reader) == []
        with pytest.raises(MisuseError, match="7 is not waited for; waited for: 2 to 2"):
            reader.give_up(7)
        reader.give_up(2)
        assert poll(reader) == ["c", "d"]


def test_marten_draws_in_the_transaction(server: Postgres) -> None:
    """The number is drawn before the statement that inserts: a lock on the table would come too late."""
    server.psql("create sequence mt_events_sequence;")
    make(server, "mt_events", "seq_id bigint primary key")
    with connect(server) as one, connect(server, autocommit=False) as slow:
        with pytest.raises(MisuseError, match="numbers='transaction'"):
            OutboxReader(one, preset="marten")
        reader = OutboxReader(one, preset="marten", numbers="transaction")
        number = slow.execute("select nextval('mt_events_sequence')").fetchone()[0]
        one.execute("insert into mt_events (seq_id, payload) select nextval('mt_events_sequence'), 'b'")
        assert poll(reader) == []
        slow.execute("insert into mt_events (seq_id, payload) values (%s, 'a')", [number])
        assert poll(reader) == []
        slow.commit()
        assert poll(reader) == ["a", "b"]


def test_axon_with_jdbc_is_found_in_the_catalogue(server: Postgres) -> None:
    make(server, "domainevententry", "globalindex bigserial not null primary key")
    with connect(server) as one:
        assert OutboxReader(one, preset="axon").numbers == "insert"


def test_what_is_missing_is_said(server: Postgres) -> None:
    with connect(server) as one, connect(server, autocommit=False) as two:
        make(server, "named")
        with pytest.raises(MisuseError, match="no column 'number'"):
            OutboxReader(one, "named", sequence="number")
        with pytest.raises(MisuseError, match="autocommit"):
            OutboxReader(two, "named")
        with pytest.raises(MisuseError, match="marten, axon"):
            OutboxReader(one, preset="other")
        with pytest.raises(MisuseError, match="no table"):
            OutboxReader(one)


def test_a_writer_of_an_inheriting_table_is_waited_for(server: Postgres) -> None:
    make(server, "parent")
    server.psql("drop table if exists child; create table child () inherits (parent);")
    reader = OutboxReader(connect(server), "parent")
    with connect(server, autocommit=False) as writer:
        writer.execute("insert into child (payload) values ('first')")
        server.psql("insert into parent (payload) values ('second')")
        assert [reader.poll() for _ in range(3)] == [[], [], []]
        writer.commit()
    assert [row["payload"] for row in reader.poll()] == ["first", "second"]


def test_a_view_is_refused_because_its_writers_lock_another_table(server: Postgres) -> None:
    make(server, "base")
    server.psql(
        "drop view if exists seen; create view seen as select * from base;"
        "alter view seen alter position set default nextval('base_position_seq');"
    )
    with pytest.raises(MisuseError, match="seen is a view or a foreign table"):
        OutboxReader(connect(server), "seen")
    server.psql("insert into base (payload) values ('first')")
    assert [row["payload"] for row in OutboxReader(connect(server), "seen", numbers="client").poll()] == ["first"]


def test_numbers_with_a_step_begin_at_the_start_of_the_sequence(server: Postgres) -> None:
    make(server, "stepped", "position bigint generated always as identity (start 1 increment 10) primary key")
    with connect(server) as one, connect(server, autocommit=False) as slow:
        reader = OutboxReader(one, "stepped")
        slow.execute("insert into stepped (payload) values ('a')")
        server.psql("insert into stepped (payload) values ('b')")
        assert poll(reader) == []
        slow.commit()
        assert poll(reader) == ["a", "b"]
        assert reader.position == 11


class Interrupted:
    """A connection whose statements fail at chosen places, counted from 1."""

    autocommit = True

    def __init__(self, connection: Any) -> None:
        self.connection, self.left = connection, 0

    def cursor(self) -> Any:
        return self

    def execute(self, statement: str, parameters: Any = None) -> None:
        self.left -= 1
        if self.left == 0:
            raise TimeoutError("canceling statement due to statement timeout")
        self.found = self.connection.execute(statement, parameters)
        self.description = self.found.description

    def fetchall(self) -> Any:
        return self.found.fetchall()


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_poll_that_fails_in_the_middle_forgets_no_hole(server: Postgres, failing: int) -> None:
    make(server, "interrupted")
    with connect(server) as one, connect(server, autocommit=False) as slow, connect(server) as fast:
        connection = Interrupted(one)
        reader = OutboxReader(connection, "interrupted")
        slow.execute("insert into interrupted (payload) values ('a')")
        fast.execute("insert into interrupted (payload) values ('b')")
        for _ in range(2):  # when the hole is found, and when it is looked at again
            connection.left = failing
            with pytest.raises(TimeoutError):
                reader.poll()
            assert poll(reader) == []
        slow.commit()
        assert poll(reader) == ["a", "b"]


def test_a_writer_of_the_whole_is_waited_for_by_a_reader_of_a_partition(server: Postgres) -> None:
    """The other writer holds the lock of the whole alone while the hole is seen."""
    server.psql(
        "create function wait() returns text language plpgsql as "
        "$$ begin perform pg_advisory_xact_lock(7); return 'a'; end $$;"
        "create table wide (position bigserial, payload text default wait()) partition by range (position);"
        "create table narrow partition of wide for values from (1) to (100);"
    )
    with connect(server) as one, connect(server) as slow, connect(server, autocommit=False) as lock:
        reader = OutboxReader(one, "narrow")
        lock.execute("select pg_advisory_xact_lock(7)")
        writer = threading.Thread(target=slow.execute, args=["insert into wide default values"])
        writer.start()
        while not one.execute("select count(*) from pg_locks where locktype = 'advisory' and not granted").fetchone()[
            0
        ]:
            time.sleep(0.01)
        one.execute("insert into wide (payload) values ('b')")
        assert poll(reader) == []
        assert poll(reader) == []
        lock.rollback()
        writer.join()
        assert poll(reader) == ["a", "b"]


@pytest.mark.parametrize("start", [0, -100, 1000])
def test_reading_begins_at_the_start_of_the_sequence(server: Postgres, start: int) -> None:
    make(server, "begun", f"position bigint generated always as identity (minvalue {min(start, 1)} start {start})")
    with connect(server) as one:
        one.execute("insert into begun (payload) values ('a'), ('b')")
        reader = OutboxReader(one, "begun")
        assert poll(reader) == ["a", "b"]
        assert reader.position == start + 1
        assert poll(OutboxReader(one, "begun", after=start)) == ["b"]


def test_rows_before_the_first_number_need_an_after(server: Postgres) -> None:
    make(server, "early", "position bigint primary key")
    server.psql("insert into early (position, payload) values (0, 'a'), (1, 'b');")
    with connect(server) as one:
        with pytest.raises(MisuseError, match="position 0, and its numbers are expected from 1 on; pass after=-1 "):
            OutboxReader(one, "early", numbers="client")
        assert poll(OutboxReader(one, "early", numbers="client", after=-1)) == ["a", "b"]
        assert poll(OutboxReader(one, "early", numbers="client", after=0)) == ["b"]


def test_a_number_between_two_steps_cannot_be_given_up(server: Postgres) -> None:
    server.psql("create sequence apart increment by 10 start with 10;")
    make(server, "between", "position bigint primary key default nextval('apart')")
    with connect(server) as one, connect(server, autocommit=False) as slow:
        reader = OutboxReader(one, "between")
        slow.execute("insert into between (payload) values ('a'), ('b')")
        one.execute("insert into between (payload) values ('c')")
        assert poll(reader) == []
        with pytest.raises(MisuseError, match="15 is not waited for; waited for: 10 to 20"):
            reader.give_up(15)
        slow.commit()
        assert poll(reader) == ["a", "b", "c"]


def test_a_table_that_a_subscription_fills_is_refused(server: Postgres) -> None:
    """The other server's commits arrive in their own order, and no lock here says which numbers are still open."""
    table = "replicated (position bigserial primary key, payload text)"
    server.psql("create database other;")
    with psycopg.connect(f"host=127.0.0.1 port={server.port} user=postgres dbname=other", autocommit=True) as other:
        other.execute(f"create table {table}; create publication p for table replicated;")
        other.execute("select pg_create_logical_replication_slot('s', 'pgoutput')")
        server.psql(
            f"create table {table}; create subscription s connection "
            f"'host=127.0.0.1 port={server.port} user=postgres dbname=other' publication p "
            "with (create_slot = false, slot_name = 's', copy_data = false);"
        )
        try:
            with connect(server) as one:
                for numbers in (None, "transaction"):
                    with pytest.raises(
                        MisuseError, match="filled by a subscription, whose numbers were drawn on another"
                    ):
                        OutboxReader(one, "replicated", numbers=numbers)  # type: ignore[arg-type]
                assert OutboxReader(one, "replicated", numbers="client").poll() == []
        finally:
            server.psql("alter subscription s disable; alter subscription s set (slot_name = none);")
            server.psql("drop subscription s;")
            time.sleep(0.1)
