"""A polling reader of an outbox table in PostgreSQL that skips no event: a hole is given up only on proof.

    reader = OutboxReader(psycopg.connect(..., autocommit=True), "outbox", sequence="position")
    while True:
        for row in reader.poll():
            handle(row)              # in the order of the numbers, each committed row once
        save(reader.position)        # where the next reader begins: OutboxReader(..., after=position)

*Invariant.* A number m is visible and n < m is not. Then n was drawn before m (the sequence has no cache), by a
statement that held a write lock on the table before it drew n, and locks are held until the transaction ends. So the
transaction of n is among those that hold such a lock now, or has ended. When all of these have ended, n is visible to
a later statement, or was rolled back. Locks are released after a commit becomes visible, so the order of a poll's
statements matters: rows, locks, and only then the holes once more. `docs/how-to/outbox.md` has the assumptions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, Protocol

from thence.core.model.plain import Row
from thence.errors import MisuseError, TraceError
from thence.tables.delivery import Orderer
from thence.tables.sources.outbox import OUTBOX_PRESETS, from_outbox

Numbers = Literal["insert", "transaction", "client"]
NUMBERS = ("insert", "transaction", "client")
WRITING = "'RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'"
PREPARED = "-1/"
"""how the virtual id of a prepared transaction begins in old servers and after a restart: not that of its writer"""
SEQUENCE = """
select s.seqcache, s.seqincrement, s.seqcycle, s.seqstart, c.relkind in ('r', 'p')
from pg_attribute a
join pg_class c on c.oid = a.attrelid
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
left join pg_depend p on
    (p.classid = 'pg_attrdef'::regclass and p.objid = d.oid and p.refclassid = 'pg_class'::regclass)
    or (p.refclassid = 'pg_class'::regclass and p.refobjid = a.attrelid and p.refobjsubid = a.attnum
        and p.classid = 'pg_class'::regclass and p.deptype = 'i' and a.attidentity <> '')
left join pg_sequence s on s.seqrelid in (p.refobjid, p.objid)
where a.attrelid = %s::regclass and a.attname = %s and not a.attisdropped
order by s.seqrelid nulls last limit 1
"""
HOLES = 200
"""holes that one statement asks for"""
# A writer of a partitioned table draws the number before it locks the partition: ancestors count as well.
FAMILY = """
with recursive family(id) as (
    select %s::regclass::oid union
    select case inhparent when id then inhrelid else inhparent end
    from pg_inherits join family on id in (inhparent, inhrelid))
"""
LOCKS = f"""{FAMILY}
select virtualtransaction, coalesce(bool_or(granted and mode in ({WRITING}) and relation in (
    select id from family)), false)
from pg_locks where pid is distinct from pg_backend_pid() group by virtualtransaction
"""
SUBSCRIBED = f"{FAMILY} select exists (select from pg_subscription_rel where srrelid in (select id from family))"


class Connection(Protocol):
    """The methods of a DB-API 2.0 connection that are used, as psycopg has them."""

    autocommit: Any

    def cursor(self) -> Any:
        """Return a cursor, as PEP 249 has it."""


class Hole(NamedTuple):
    """Numbers that are not there, and of the transactions that were open when that was seen those that still are."""

    first: int
    last: int
    blockers: frozenset[str]


class OutboxReader:
    """Reads the rows of a table in the order of their numbers, none before an earlier one that may still come."""

    def __init__(
        self,
        connection: Connection,
        table: str | None = None,
        *,
        sequence: str | None = None,
        preset: str | None = None,
        numbers: Numbers | None = None,
        after: int | None = None,
        columns: Iterable[str] | None = None,
        transaction: str | None = None,
        batch: int = 1000,
        held_limit: int = 10_000,
    ) -> None:
        """Look the column's sequence up in the catalogue.

        Args:
            connection: of psycopg or another driver with `%s` parameters, in autocommit, to the primary server.
            table: the table, with its schema if it is not on the search path.
            sequence: the column of the number, `position` if not given.
            preset: `marten` or `axon`: the table and column of a framework.
            numbers: where numbers are drawn: `insert` (by the column's default), `transaction` (in the transaction
                that inserts, but before its statement) or `client` (elsewhere, or from a cache): then no hole is given
                up by itself. Not needed where the catalogue shows a default with a sequence without a cache.
            after: the number up to which everything was handled before; without it reading begins at the start of the
                sequence, or at 1.
            columns: the columns to read; all if not given.
            transaction: the column that says which transaction wrote the row.
            batch: rows read at once.
            held_limit: rows that may wait behind a hole before reading stops.
        """
        if not connection.autocommit:
            raise MisuseError(
                "the connection is not in autocommit; each statement must see what was committed before it"
            )
        chosen = None if preset is None else OUTBOX_PRESETS.get(preset)
        if preset is not None and chosen is None:
            raise MisuseError(f"preset {preset!r}; one of {', '.join(OUTBOX_PRESETS)} is accepted")
        self._connection = connection
        self.table = table or (chosen.table if chosen else "")
        self.sequence = sequence or (chosen.sequence if chosen else "position")
        if not self.table:
            raise MisuseError("no table; name one, or a preset")
        self._transaction = transaction
        self._columns = None if columns is None else [*dict.fromkeys([*columns, self.sequence])]
        self._batch, self._held_limit = batch, held_limit
        self._held: dict[int, Row] = {}
        self._holes: list[Hole] = []  # in the order of their numbers
        self.numbers, self.step, start = self._look_up(numbers)
        if after is not None:  # 0 before a sequence of 1, 11, 21 stands for -9
            after -= (after - start) % self.step if after < start else 0
        self._top = self.position = start - self.step if after is None else after
        if after is None and (early := self._fetch(f"<= {self._top}", 1)):
            first = early[0][self.sequence]
            raise MisuseError(
                f"{self.table} has {self.sequence} {first}, and its numbers are expected from {start} on; pass "
                f"after={first - self.step} to read from there"
            )

    def poll(self) -> list[Row]:
        """Read what was committed; return the rows that may be handled now, in the order of their numbers."""
        found = self._fetch(f"> {self._top}", self._batch) if len(self._held) < self._held_limit else []
        top, gaps = self._top, list[tuple[int, int]]()
        for row in found:
            number = row[self.sequence]
            if number > top + self.step:
                gaps.append((top + self.step, number - self.step))
            top = number
        holes, filled = self._prove(gaps) if gaps or self._holes else ([], {})
        # Nothing changes before all statements have ended: one that fails must not make a hole forgotten.
        self._held |= {row[self.sequence]: row for row in found} | filled
        self._holes = holes
        self._top = top
        return self._deliver()

    def waiting(self) -> list[dict[str, Any]]:
        """List the holes: first number (`missing`), `last`, `blockers` (virtual transaction ids), `rows` behind."""
        return [
            {
                "missing": f"{self.table}/{hole.first}",
                "last": f"{self.table}/{hole.last}",
                "blockers": sorted(hole.blockers),
                "rows": sum(number > hole.last for number in self._held),
                "reason": self._reason(hole),
            }
            for hole in self._holes
        ]

    def give_up(self, number: int) -> None:
        """Declare a number lost; the next poll goes on without it.

        Args:
            number: a number that the reader waits for.
        """
        for at, hole in enumerate(self._holes):
            if hole.first <= number <= hole.last and (number - hole.first) % self.step == 0:
                self._holes[at : at + 1] = self._rest(hole, [number])
                return
        waited = ", ".join(f"{hole.first} to {hole.last}" for hole in self._holes)
        raise MisuseError(f"{number} is not waited for; waited for: {waited or 'nothing'}")

    # -- the proof ---------------------------------------------------------------------------------------------------

    def _prove(self, gaps: list[tuple[int, int]]) -> tuple[list[Hole], dict[int, Row]]:
        """Return the holes that are neither filled nor proved to be lost, and the rows that fill the others."""
        locks = dict(self._run(LOCKS, [self.table]))
        prepared = {each for each, writes in locks.items() if each.startswith(PREPARED) and writes}
        holes = list[Hole]()
        for hole in self._holes:
            blockers = hole.blockers & locks.keys()
            if blockers != hole.blockers:  # one of those that are gone may have been prepared, under another id
                blockers |= prepared
            holes.append(hole._replace(blockers=blockers))
        holders = frozenset(each for each, writes in locks.items() if writes or self.numbers == "transaction")
        holes += [Hole(first, last, holders) for first, last in gaps]
        left, filled = list[Hole](), dict[int, Row]()
        for some in (holes[at : at + HOLES] for at in range(0, len(holes), HOLES)):
            # after the locks: what was committed by a transaction that is gone is visible to this statement
            name = _quoted(self.sequence)
            inside = " or ".join(f"{name} between {hole.first} and {hole.last}" for hole in some)
            filled |= {row[self.sequence]: row for row in self._fetch(f"is not null and ({inside})")}
            for hole in some:
                if hole.blockers or self.numbers == "client":
                    left += self._rest(hole, [n for n in filled if hole.first <= n <= hole.last])
        return left, filled

    def _rest(self, hole: Hole, found: list[int]) -> list[Hole]:
        """Return what is left of a hole when some of its numbers are known."""
        rest, first = list[Hole](), hole.first
        for number in [*sorted(found), hole.last + self.step]:
            if number > first:
                rest.append(Hole(first, number - self.step, hole.blockers))
            first = number + self.step
        return rest

    def _deliver(self) -> list[Row]:
        """Release the rows that do not follow a hole."""
        horizon = self._holes[0].first - self.step if self._holes else self._top
        free = [row for number, row in self._held.items() if number <= horizon]
        if not free:
            return []
        arrivals = from_outbox(
            free, sequence=self.sequence, transaction=self._transaction, name=self.table, after=self.position,
            step=self.step, horizon=horizon,
        )  # fmt: skip
        orderer = Orderer("depends_on", key=["destination"])
        numbers = [row["number"] for arrival in arrivals for row in orderer.push(arrival)]
        self.position = numbers[-1]
        return [self._held.pop(number) for number in numbers]

    def _reason(self, hole: Hole) -> str:
        if self.numbers == "client":
            return "numbers are allocated outside of the insert, so nothing proves that these will not come"
        return f"{len(hole.blockers)} transactions that may have drawn them are open"

    # -- the server --------------------------------------------------------------------------------------------------

    def _look_up(self, numbers: Numbers | None) -> tuple[Numbers, int, int]:
        """Return where numbers are drawn, their distance, and the first that is expected."""
        if numbers is not None and numbers not in NUMBERS:
            raise MisuseError(f"numbers={numbers!r}; one of {', '.join(NUMBERS)} is accepted")
        if self._run("select pg_is_in_recovery()")[0][0]:
            raise MisuseError("the server is a replica, which does not know the locks of the primary; connect to that")
        found = self._run(SEQUENCE, [self.table, self.sequence])
        if not found:
            raise MisuseError(f"table {self.table} has no column {self.sequence!r}; pass sequence=")
        cache, step, cycle, start, is_table = found[0]
        if numbers != "client" and self._run(SUBSCRIBED, [self.table])[0][0]:
            raise MisuseError(
                f"{self.table} is filled by a subscription, whose numbers were drawn on another server; read the table "
                "there, or declare numbers='client'"
            )
        where = f"{self.table}.{self.sequence}"
        if not is_table and numbers != "client":
            raise MisuseError(
                f"{self.table} is a view or a foreign table, and its writers lock another one; name that, or declare "
                "numbers='client'"
            )
        if cache is None:
            if numbers is None or numbers == "insert":
                raise MisuseError(
                    f"{where} has no default that draws from a sequence, so its numbers come from elsewhere; declare "
                    "numbers='transaction' if each is drawn in the transaction that inserts it, else numbers='client'"
                )
            return numbers, 1, 1
        if step < 1 or cycle:
            raise TraceError(f"the sequence of {where} counts down or starts again, which says no order")
        if cache > 1 and numbers != "client":
            raise MisuseError(
                f"the sequence of {where} has CACHE {cache}: a session draws numbers before it uses them, so no "
                "hole can be proved lost. Declare numbers='client', or ALTER SEQUENCE ... CACHE 1 and restart sessions"
            )
        return numbers or "insert", step, start

    def _fetch(self, where: str, limit: int | None = None) -> list[Row]:
        columns = "*" if self._columns is None else ", ".join(map(_quoted, self._columns))
        name = _quoted(self.sequence)
        statement = f"select {columns} from {self.table} where {name} {where} order by {name}"
        cursor = self._connection.cursor()
        cursor.execute(statement + (f" limit {limit}" if limit is not None else ""))
        names = [each[0] for each in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _run(self, statement: str, parameters: list[Any] | None = None) -> list[Any]:
        cursor = self._connection.cursor()
        cursor.execute(statement, parameters or [])
        rows: list[Any] = cursor.fetchall()
        return rows


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
